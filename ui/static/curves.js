import uPlot from "./vendor/uplot/uPlot.esm.js";
import { byId, compact, el, fetchJson, game, latest, notice, onward, path, run } from "./common.js";
import { chartFiles } from "./files.js";

const MOST_RUNS = 6;
const COLOURS = ["#2f7fb8", "#c8412f", "#4a9a5b", "#c0902a", "#7d5ba6", "#8a6f52"];
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 4], [1, 2]];
const CHART_HEIGHT = 230;
const PROMOTION_HEIGHT = 7; // of the tick at the upper edge that marks a promotion
const AXES = { step: "training steps", games: "games stored", hours: "hours since the start" };
const SMOOTHED_ROWS = 9;
const SPARSE_SHARE = 0.5;

const asked = new URLSearchParams(location.search);
const form = document.querySelector("form.toolbar"), going = latest();
let wanted = [...new Set([run, ...asked.getAll("with")])];
let found = [];
let games = { [run]: game }; // of every run, once the list is read
let charts = [];

const dark = matchMedia("(prefers-color-scheme: dark)");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function smoothed(values) {
  return values.map((value, i) => {
    if (value === null) return null;
    const near = values.slice(Math.max(0, i - SMOOTHED_ROWS + 1), i + 1).filter((one) => one !== null);
    return near.reduce((sum, one) => sum + one, 0) / near.length;
  });
}

/** Return the data of a series as [x, y], rows without a position left out, in ascending order. */
function points(series, axes, axis, isSmooth) {
  const values = isSmooth ? smoothed(series.values) : series.values;
  const x = [], y = [];
  let last = -Infinity;
  axes[series.group][axis].forEach((at, i) => {
    if (at === null || at < last) return;
    x.push(at); y.push(values[i]); last = at;
  });
  return [x, y];
}

/** Whether few rows have a value, which are then marked: a line between them would look measured, and a single one would be no line. */
const isSparse = ({ group, values }) => group === "accuracy" || group === "seats" || values.filter((value) => value !== null).length < SPARSE_SHARE * values.length;

/** Return the promotions to mark, by run: in the colour of the run where several are overlaid, a row each below the upper edge. */
function promotionsOf(axis) {
  if (!form.elements.promotions.checked) return [];
  return found.map(({ name, promotions }, place) => ({
    label: found.length > 1 ? `${name}: promotion` : "promotion",
    colour: found.length > 1 ? COLOURS[place] : style("--look"),
    row: place,
    at: promotions.map((promotion) => promotion[axis]).filter((at) => at !== null),
  })).filter(({ at }) => at.length);
}

function promotionLines(axis) {
  return (plot) => {
    const { ctx, bbox } = plot, height = PROMOTION_HEIGHT * devicePixelRatio;
    ctx.save();
    ctx.lineWidth = (found.length > 1 ? 2 : 1) * devicePixelRatio;
    for (const { colour, row, at } of promotionsOf(axis)) {
      const top = bbox.top + row * (height + devicePixelRatio);
      ctx.strokeStyle = colour;
      ctx.beginPath();
      for (const x of at.map((place) => Math.round(plot.valToPos(place, "x", true)))) {
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.moveTo(x, top); ctx.lineTo(x, top + height);
      }
      ctx.stroke();
    }
    ctx.restore();
  };
}

/** Return the range of values that a chart shows; around a constant its own size, as 0 to 100 would be 0 to 10,000 per cent. */
function range(low, high) {
  if (low === null) return [0, 1];
  return low === high ? [Math.min(0, 2 * low), low ? Math.max(0, 2 * low) : 1] : uPlot.rangeNum(low, high, 0.1, true);
}

function chart(title, unit, lines, axis) {
  const ink = style("--dim"), grid = { stroke: style("--line"), width: 1 };
  const home = el("div", {}), shownUnit = unit === "share" || unit === "bytes" ? "" : unit;
  const save = chartFiles(title, () => describe(plot, title, shownUnit, axis));
  const panel = el("section", { class: "panel chart" }, el("div", { class: "chart-head" }, el("h2", {}, el("span", {}, title), el("span", { class: "dim" }, shownUnit)), save), home);
  byId("charts").append(panel);
  const shared = lines.length === 1 ? [lines[0].points[0], lines[0].points[1]] : uPlot.join(lines.map((line) => line.points));
  const options = {
    width: home.clientWidth, height: CHART_HEIGHT,
    cursor: { y: false, sync: { key: axis } },
    legend: { live: true },
    scales: { x: { time: false }, y: { range: (_, low, high) => range(low, high) } },
    axes: [
      { stroke: ink, grid, ticks: grid, values: (_, marks) => marks.map((mark) => compact(mark)), space: 60 },
      { stroke: ink, grid, ticks: grid, size: 62, values: (_, marks) => marks.map((mark) => compact(mark, unit)) },
    ],
    series: [
      { label: AXES[axis], value: (_, value) => (value === null ? "–" : compact(value)) },
      ...lines.map((line) => ({
        label: line.label, stroke: line.colour, dash: line.dash, width: 1.6, spanGaps: true, points: { show: line.isSparse, size: 6, fill: line.colour },
        value: (_, value) => compact(value, unit),
      })),
    ],
    hooks: { drawAxes: [promotionLines(axis)] },
  };
  const plot = new uPlot(options, shared, home);
  charts.push({ plot, home });
}

/** Return a chart for its files: the PNG zoomed as it is seen, the CSV with every row; both smoothed, with the series that are shown. */
function describe(plot, title, unit, axis) {
  const places = [...plot.series.keys()].filter((i) => i && plot.series[i].show), shown = places.map((i) => plot.series[i]);
  const lines = shown.map(({ label, stroke, dash }) => ({ label, colour: stroke(plot), dash }));
  lines.push(...promotionsOf(axis).map(({ label, colour }) => ({ label, colour, isTick: true })));
  const [x, ...values] = [plot.data[0], ...places.map((i) => plot.data[i])];
  return {
    title, unit, lines, axis: AXES[axis], about: found.length > 1 ? [...new Set(found.flatMap(({ name }) => games[name] ?? []))].join(", ") : `${run}, ${game}`, file: `${run}-${title}-${axis}`, canvas: () => plot.ctx.canvas,
    table: { columns: [axis, ...shown.map(({ label }) => label)], rows: Array.from(x, (at, row) => [at, ...values.map((column) => column[row])]) },
  };
}

function draw() {
  charts.forEach(({ plot }) => plot.destroy());
  charts = [];
  byId("charts").replaceChildren();
  const axis = form.elements.axis.value, isSmooth = form.elements.smooth.checked;
  const titles = [...new Set(found.flatMap(({ series }) => series.map((one) => one.chart)))];
  for (const title of titles) {
    const names = [...new Set(found.flatMap(({ series }) => series.filter((one) => one.chart === title).map((one) => one.name)))];
    const lines = found.flatMap(({ name, series, axes }, place) =>
      series.filter((one) => one.chart === title).map((one) => ({
        label: found.length > 1 ? `${name}: ${one.label}` : one.label,
        colour: found.length > 1 ? COLOURS[place] : one.name.startsWith("elo") ? COLOURS[0] : COLOURS[names.indexOf(one.name) % COLOURS.length],
        dash: found.length > 1 || one.name.startsWith("elo") ? DASHES[names.indexOf(one.name) % DASHES.length] : [],
        points: points(one, axes, axis, isSmooth),
        isSparse: isSparse(one),
      }))).filter(({ points: [x] }) => x.length);
    const unit = found.flatMap(({ series }) => series).find((one) => one.chart === title).unit;
    if (lines.length) chart(title, unit, lines, axis);
  }
}

/** List the runs that can be shown beside this one. */
function offerOthers(runs) {
  const labels = runs.filter(({ name }) => name !== run).map(({ name, game: played }) =>
    el("label", {}, el("input", { type: "checkbox", name: "with", value: name, checked: wanted.slice(0, MOST_RUNS).includes(name), onchange: compare }), ` ${name} (${played})`));
  byId("others").replaceChildren(...(labels.length ? labels : [el("span", { class: "dim" }, "there is no other run here")]), el("span", { class: "dim full", hidden: true }, "six runs at most"));
  limit();
}

const boxes = () => [...byId("others").querySelectorAll("input")];

/** Offer no further run beside the most that are shown. */
function limit() {
  const isFull = boxes().filter(({ checked }) => checked).length >= MOST_RUNS - 1;
  for (const box of boxes()) box.disabled = isFull && !box.checked;
  byId("others").querySelector(".full").hidden = !isFull;
}

/** Return the address of the page with the runs beside this one; of the display it has what is not the default. */
function address() {
  const { axis, smooth, promotions } = form.elements;
  const display = [["axis", axis.value, "step"], ["smooth", smooth.checked ? "yes" : "no", "no"], ["promotions", promotions.checked ? "yes" : "no", "yes"]];
  const changed = display.filter(([, value, usual]) => value !== usual).map(([name, value]) => [name, value]);
  const wish = new URLSearchParams([...wanted.slice(1).map((name) => ["with", name]), ...changed]);
  return wish.size ? `?${wish}` : location.pathname;
}

/** Show the runs that are chosen beside this one. */
async function compare() {
  wanted = [run, ...boxes().filter(({ checked }) => checked).map((box) => box.value)];
  limit();
  history.pushState(null, "", address());
  await show();
}

/** Set the display as the address asks. */
function fill() {
  const { axis, smooth, promotions } = form.elements;
  axis.value = Object.hasOwn(AXES, asked.get("axis")) ? asked.get("axis") : "step";
  smooth.checked = asked.get("smooth") === "yes";
  promotions.checked = asked.get("promotions") !== "no";
}

/** Return the curves of the runs, and what to say of those beside this one that are not shown. Raises the failure of this one. */
async function read() {
  const names = wanted.slice(0, MOST_RUNS), left = wanted.slice(MOST_RUNS);
  const answers = await Promise.allSettled(names.map((name) => fetchJson(path("runs", name, "curves"))));
  if (answers[0].status === "rejected") throw answers[0].reason;
  return {
    curves: answers.flatMap(({ value }, i) => (value ? [{ name: names[i], ...value }] : [])),
    missing: [
      ...answers.flatMap(({ reason }, i) => (reason ? [`${names[i]} is not shown: ${reason.message}.`] : [])),
      ...(left.length ? [`Six runs at most are shown; left out: ${left.join(", ")}.`] : []),
    ],
  };
}

/** Link the files of the runs that are shown. */
function links() {
  for (const group of ["trainer", "run", "seats", "accuracy"]) {
    const names = found.map(({ name }) => name).filter((name) => name !== run);
    byId(`csv-${group}`).href = `${path("runs", run, "curves.csv")}?${new URLSearchParams([["group", group], ...names.map((name) => ["with", name])])}`;
  }
}

/** Read and draw the runs that are wanted. */
async function show() {
  let answer;
  try {
    answer = await going(read);
  } catch (error) {
    notice(error.message, true);
  }
  if (!answer) return;
  const { curves, missing } = answer;
  found = curves;
  links();
  notice(missing.length ? missing.join(" ") : found.some(({ series }) => series.length) ? "" : `The run has not written metrics yet: the first rows come within a minute of its start.${onward}`, missing.length > 0);
  byId("legend").replaceChildren(...(found.length > 1 ? found : []).map(({ name }, i) => {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = COLOURS[i];
    return el("span", {}, swatch, name);
  }));
  byId("accuracy").hidden = !found.some(({ axes }) => axes.accuracy);
  byId("seats").hidden = !found.some(({ axes }) => axes.seats);
  draw();
}

new ResizeObserver(() => charts.forEach(({ plot, home }) => plot.setSize({ width: home.clientWidth, height: CHART_HEIGHT }))).observe(byId("charts"));
form.addEventListener("change", () => {
  history.replaceState(null, "", address());
  draw();
});
addEventListener("popstate", () => location.reload());
dark.addEventListener("change", draw);

fill();
links();
document.querySelector(".overlay").open = wanted.length > 1;
await show();
try {
  const { runs } = await fetchJson(path("runs"));
  games = Object.fromEntries(runs.map((one) => [one.name, one.game]));
  offerOthers(runs);
} catch (error) {
  notice(error.message, true);
}
