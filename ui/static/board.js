// Layers over the picture of a board: buttons on its cells, arrows and marks.
import { svg } from "./common.js";

const FAINTEST = 0.12, STRONGEST = 0.75; // opacity of the discs of a heat map
const FEWEST_LABELLED = 0.01; // share of visits from which a disc has a number

const WIDE = 1.5; // width of a picture, in its heights, from which it scrolls on a narrow window

for (const scroller of document.querySelectorAll(".board-scroll")) {
  const board = scroller.querySelector(".board"), scrolls = { tabindex: 0, role: "group", "aria-label": "Board" };
  board.addEventListener("load", () => scroller.firstElementChild.classList.toggle("wide", board.naturalWidth > WIDE * board.naturalHeight));
  const watch = new ResizeObserver(() => { // a control of the keyboard only while there is something to scroll
    for (const [name, value] of Object.entries(scrolls)) {
      if (scroller.scrollWidth > scroller.clientWidth) scroller.setAttribute(name, value); else scroller.removeAttribute(name);
    }
  });
  watch.observe(scroller);
  watch.observe(board);
}

/** Remove the layer of a board. */
export const clear = (frame) => frame.querySelector("svg")?.remove();

/** Lay an empty layer over the picture, in its coordinates; null while the picture is not there. */
export function layer(frame, board, label) {
  clear(frame);
  if (!board.naturalWidth) return null;
  const made = svg("svg", { class: "cells", viewBox: `0 0 ${board.naturalWidth} ${board.naturalHeight}`, role: "group", "aria-label": label });
  frame.append(made);
  return made;
}

/** Return a button on a cell. */
export function button({ id, x, y, radius }, act, { kind = "", pressed = null, label = id } = {}) {
  return svg("circle", {
    cx: x, cy: y, r: radius, tabindex: 0, role: "button", "aria-label": label, "aria-pressed": pressed, "data-key": id, class: `cell ${kind}`,
    onclick: act, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } },
  }, svg("title", {}, label));
}

/** Return the control of a cell, else one of the same column, else the first one in `home`. */
export function near(home, id) {
  const all = [...home.querySelectorAll("[data-key]")], column = (key) => key.replace(/\d+$/, "");
  return all.find(({ dataset }) => dataset.key === id) ?? all.find(({ dataset }) => column(dataset.key) === column(id)) ?? all[0];
}

/** Return the parts of a move's sign: an arrow over its cells, or a ring on a single one; `share` in [0, 1] sets its weight. */
export function sign(cells, path, share, text = `${Math.round(100 * share)}%`) {
  const found = path.map((id) => cells.find((cell) => cell.id === id));
  if (!found.length || found.some((cell) => !cell)) return [];
  const [first, last] = [found[0], found.at(-1)], width = 1.5 + 7 * share;
  if (found.length === 1) {
    return [svg("circle", { class: "ring", cx: last.x, cy: last.y, r: last.radius - width / 2, "stroke-width": width }), label(last, text)];
  }
  const [dx, dy] = [last.x - first.x, last.y - first.y], length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length], head = 7 + width, tip = length - 2;
  const at = (along, aside) => `${(first.x + along * ux - aside * uy).toFixed(1)},${(first.y + along * uy + aside * ux).toFixed(1)}`;
  const [w, h] = [width / 2, head / 2 + 1];
  const points = [at(0, -w), at(tip - head, -w), at(tip - head, -h), at(tip, 0), at(tip - head, h), at(tip - head, w), at(0, w)];
  return [svg("polygon", { class: "arrow", points: points.join(" ") }), label(last, text)];
}

/** Return the parts of a heat map: a disc on each cell, the more opaque the larger its share of the visits, with the share as text. */
export function heat(cells) {
  const most = Math.max(...cells.map(({ share }) => share));
  return cells.flatMap((cell) => [
    svg("circle", { class: "heat", cx: cell.x, cy: cell.y, r: cell.radius, "fill-opacity": (FAINTEST + (STRONGEST - FAINTEST) * (cell.share / most)).toFixed(3), "data-key": cell.id }),
    ...(cell.share >= FEWEST_LABELLED ? [label(cell, `${Math.round(100 * cell.share)}%`)] : []),
  ]);
}

/** Return text on a cell. */
export const label = ({ x, y, radius }, text, kind = "") =>
  svg("text", { class: `mark ${kind}`, x, y: y + radius * 0.22, "font-size": Math.max(9, radius * 0.62).toFixed(1), "text-anchor": "middle" }, text);
