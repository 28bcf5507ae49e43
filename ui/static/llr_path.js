// Path of the log-likelihood ratio of a match between the bounds of its test, with its files.
import { el, game, run, signed, svg } from "./common.js";
import { chartFiles, rasterised } from "./files.js";

const WIDE = matchMedia("(max-width: 40rem)").matches ? 360 : 640, NARROW = 360, RIGHT = 50; // of the path, and the labels of its bounds
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function picture({ path: values, llr_low: low, llr_high: high }, width) {
  const last = Math.max(1, values.length - 1), top = Math.max(high, ...values), bottom = Math.min(low, ...values);
  const end = width - RIGHT, x = (place) => 10 + ((end - 10) * place) / last, y = (value) => 8 + (144 * (top - value)) / (top - bottom);
  const level = (value, kind) => [svg("line", { class: kind, x1: 10, x2: end, y1: y(value), y2: y(value) }), svg("text", { x: end + 6, y: y(value) + 4 }, value ? signed(value) : "0")];
  return svg("svg", { class: "llr-path", viewBox: `0 0 ${width} 180`, role: "img", "aria-label": `log-likelihood ratio over ${values.length - 1} pairs, from 0 to ${signed(values.at(-1))}, between ${signed(low)} and ${signed(high)}` },
    level(low, "bound"), level(high, "bound"), level(0, "grid"),
    svg("path", { class: "line", d: `M${values.map((value, i) => `${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}` }),
    svg("circle", { class: "dot", cx: x(values.length - 1), cy: y(values.at(-1)), r: 3.5 }),
    svg("text", { x: 10, y: 174 }, "0"), svg("text", { x: end, y: 174, class: "end" }, `${values.length - 1} pairs`));
}

/** Return the figure of a match with its games; nothing where another rule than a sequential test decides. */
export function testFigure(match, { isNarrow = false } = {}) {
  if (!match.path.length) return [];
  const drawn = picture(match, isNarrow ? NARROW : WIDE), { version, opponent, llr_low: low, llr_high: high } = match;
  const describe = () => ({
    title: "Log-likelihood ratio", unit: "", axis: "pairs", canvas: () => rasterised(drawn),
    about: `${run}, ${game}: version ${version} against ${opponent}`, file: `${run}-llr-${version}-${opponent}`,
    lines: [{ label: "log-likelihood ratio", colour: colour("--accent") }, { label: `bounds ${signed(low)} and ${signed(high)}`, colour: colour("--look"), dash: [5, 3] }],
    table: { columns: ["pair", "log_likelihood_ratio", "lower_bound", "upper_bound"], rows: match.path.map((value, pair) => [pair, value, low, high]) },
  });
  const caption = el("figcaption", { class: "dim" }, `Log-likelihood ratio ${signed(match.log_likelihood_ratio)}, by pair `, chartFiles("Log-likelihood ratio", describe));
  return [el("figure", { class: "figure" }, caption, drawn)];
}
