// Files that the browser saves: exports of games, and CSV and PNG of every chart.
import { asPng } from "./chart_image.js";
import { el, fetchFile, notice, patiently } from "./common.js";

const KINDS = [["gif", "GIF", "Animation, at most 480 pixels wide"], ["png", "PNG strip", "Boards side by side, as pixels"], ["svg", "SVG strip", "Boards side by side, as vectors"], ["jsonl", "JSONL", "Moves with their searches, a line each"]];
const KEPT_MS = 60_000; // until the content of a begun download is dropped
const kib = (bytes) => Number((bytes / 1024).toPrecision(3));

/** Have the browser save a content under a name. */
export function keep(content, name) {
  const link = el("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

/** Return the buttons that export a game; `address(kind)` is that of the file when a button is pressed. */
export function exports(address) {
  const said = el("span", { id: "exported", class: "dim", role: "status" });
  const buttons = KINDS.map(([kind, text, title]) => el("button", { type: "button", title, onclick: () => save(kind) }, text));
  async function save(kind) {
    buttons.forEach((button) => { button.disabled = true; });
    said.textContent = "Drawing…";
    said.classList.remove("error-text");
    try {
      const { name, note, content } = await patiently(() => fetchFile(address(kind)), (passed) => { said.textContent = `Drawing… ${passed}`; });
      keep(content, name);
      said.textContent = `${name}, ${kib(content.size)} KiB${note ? `: ${note}` : ""}`;
    } catch (error) {
      said.textContent = error.message;
      said.classList.add("error-text");
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  }
  return el("div", { class: "export", role: "group", "aria-label": "Export of the game" }, el("span", {}, "Export"), buttons, said);
}

/** Return a cell of CSV; a text that a spreadsheet would execute as a formula, such as the name of a run, begins with an apostrophe. */
function cell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const asCsv = ({ columns, rows }) => [columns, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");

/**
 * Return the buttons that save a chart as CSV and as PNG.
 *
 * `describe()` returns the chart as it is when a button is pressed: `title`, `unit`, `about`, the name of the `axis`, the `lines` of
 * the legend as `asPng` takes them, `file` (name without ending), `table` (columns and rows), and `canvas()` with its pixels.
 */
export function chartFiles(title, describe) {
  const button = (kind, save) => el("button", { type: "button", class: "link", "aria-label": `${kind} of the chart ${title}`, onclick: async () => {
    try {
      const chart = describe();
      keep(await save(chart), `${chart.file}.${kind.toLowerCase()}`.replaceAll(/[^A-Za-z0-9._-]+/g, "_"));
    } catch (error) {
      notice(error.message, true);
    }
  } }, kind);
  return el("span", { class: "chart-files" },
    button("CSV", ({ table }) => new Blob([asCsv(table)], { type: "text/csv" })), " ",
    button("PNG", (chart) => asPng(chart.canvas(), chart)));
}

const OUTLINES = {
  line: (shape) => { const path = new Path2D(); path.moveTo(shape.x1.baseVal.value, shape.y1.baseVal.value); path.lineTo(shape.x2.baseVal.value, shape.y2.baseVal.value); return path; },
  circle: (shape) => { const path = new Path2D(); path.arc(shape.cx.baseVal.value, shape.cy.baseVal.value, shape.r.baseVal.value, 0, 2 * Math.PI); return path; },
  path: (shape) => new Path2D(shape.getAttribute("d")),
};

/** Return the pixels of a chart that is an SVG of lines, paths, circles and texts, in the colours of the page. */
export function rasterised(picture) {
  const { width, height } = picture.getBoundingClientRect(), box = picture.viewBox.baseVal, scale = devicePixelRatio;
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const across = canvas.width / box.width, down = canvas.height / box.height;
  for (const shape of picture.querySelectorAll("line, path, circle, text")) {
    const look = getComputedStyle(shape);
    pen.globalAlpha = Number(look.opacity);
    if (shape.tagName === "text") {
      pen.font = `${parseFloat(look.fontSize) * down}px ${look.fontFamily}`;
      pen.textAlign = { middle: "center", end: "right" }[look.textAnchor] ?? "left";
      pen.fillStyle = look.fill;
      pen.fillText(shape.textContent, shape.x.baseVal[0].value * across, shape.y.baseVal[0].value * down);
      continue;
    }
    const thick = look.vectorEffect === "non-scaling-stroke" ? scale : down, placed = new Path2D();
    placed.addPath(OUTLINES[shape.tagName](shape), new DOMMatrix([across, 0, 0, down, 0, 0]));
    if (look.fill !== "none") { pen.fillStyle = look.fill; pen.fill(placed); }
    if (look.stroke === "none") continue;
    pen.strokeStyle = look.stroke;
    pen.lineWidth = parseFloat(look.strokeWidth) * thick;
    pen.setLineDash(look.strokeDasharray === "none" ? [] : look.strokeDasharray.split(",").map((length) => parseFloat(length) * thick));
    pen.stroke(placed);
  }
  return canvas;
}
