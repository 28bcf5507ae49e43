// Image of a chart that is legible by itself: title and unit above, the canvas, the name of the axis and the legend below.
const PAD = 14, TITLE = 15, TEXT = 12, LINE = 20, SWATCH = 26, GAP = 18; // CSS pixels

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Return the rows of the legend for a width; each entry is a line with its place in CSS pixels. */
function rows(pen, lines, width) {
  const found = [[]];
  let x = 0;
  for (const line of lines) {
    const size = SWATCH + pen.measureText(line.label).width + GAP;
    if (x && x + size - GAP > width) { found.push([]); x = 0; }
    found.at(-1).push({ ...line, x });
    x += size;
  }
  return found.filter((row) => row.length);
}

function swatch(pen, { colour, dash, isTick }, x, y) {
  pen.save();
  pen.strokeStyle = colour;
  pen.lineWidth = isTick ? 1 : 2;
  pen.setLineDash(dash ?? []);
  pen.beginPath();
  if (isTick) { pen.moveTo(x + 10, y - 5); pen.lineTo(x + 10, y + 4); } else { pen.moveTo(x, y); pen.lineTo(x + 20, y); }
  pen.stroke();
  pen.restore();
}

/** Write a text, with an ellipsis where it is wider than the place. */
function write(pen, text, x, y, width) {
  let shown = text;
  while (shown && pen.measureText(shown === text ? text : `${shown}…`).width > width) shown = shown.slice(0, -1);
  pen.fillText(shown === text ? text : `${shown}…`, x, y);
}

/**
 * Return a PNG of a chart in the colours of the theme.
 *
 * `plot` is the canvas of the chart; `lines` have label and colour each, and the dashes of the line, or `isTick`.
 */
export async function asPng(plot, { title, unit, about, axis, lines }) {
  const scale = devicePixelRatio, family = getComputedStyle(document.body).fontFamily;
  const inner = plot.width / scale, width = inner + 2 * PAD;
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  const use = (size, weight = 400) => { pen.font = `${weight} ${size}px ${family}`; };
  use(TEXT);
  const legend = rows(pen, lines, inner), head = PAD + 2 * LINE, top = head + plot.height / scale;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round((top + LINE * (1 + legend.length) + PAD) * scale);
  pen.scale(scale, scale);
  pen.fillStyle = style("--card");
  pen.fillRect(0, 0, width, canvas.height / scale);
  pen.textBaseline = "middle";

  use(TEXT);
  const unitWidth = pen.measureText(unit).width;
  pen.fillStyle = style("--dim");
  pen.fillText(unit, width - PAD - unitWidth, PAD + LINE / 2);
  write(pen, about, PAD, PAD + 1.4 * LINE, inner);
  pen.fillStyle = style("--ink");
  use(TITLE, 650);
  write(pen, title, PAD, PAD + LINE / 2, inner - unitWidth - GAP);
  pen.drawImage(plot, PAD, head, inner, plot.height / scale);

  use(TEXT);
  pen.fillStyle = style("--dim");
  pen.textAlign = "center";
  pen.fillText(axis, width / 2, top + LINE / 2);
  pen.textAlign = "left";
  pen.fillStyle = style("--ink");
  legend.forEach((row, i) => row.forEach((line) => {
    const y = top + LINE * (i + 1.5);
    swatch(pen, line, PAD + line.x, y);
    write(pen, line.label, PAD + line.x + SWATCH, y, width - 2 * PAD - line.x - SWATCH);
  }));
  const content = await new Promise((keep) => { canvas.toBlob(keep, "image/png"); });
  if (content === null) throw new Error("this browser cannot draw an image of this size: make the window smaller");
  return content;
}
