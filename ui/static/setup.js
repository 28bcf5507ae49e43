// Set-up of a position by drawing: stones on an empty board, which the form of play begins at, or the legal moves to them.
import { button, clear, label, layer } from "./board.js";
import { byId, el, fetchJson, latest, path, patiently, retire, svg } from "./common.js";

const form = byId("begin"), opening = latest();
let board = null, stones = new Map(), waiting = null; // players from 1 by cell
const actions = ["find-moves", "clear-stones", "start-stones"];

/** Return the query or the body for the chosen game or run. */
const chosen = () => (form.elements.run.value ? { game: form.elements.game.value, run: form.elements.run.value } : { game: form.elements.game.value });

async function open() {
  give();
  stones = new Map();
  board = null;
  clear(byId("drawing-frame"));
  byId("stones").textContent = byId("found").textContent = "";
  for (const id of actions) byId(id).disabled = true;
  byId("drawing-about").textContent = "";
  byId("mover-field").hidden = true;
  const query = new URLSearchParams(chosen());
  try {
    const found = await opening((isLatest) => patiently(() => fetchJson(`${path("setup")}?${query}`), (passed) => { if (isLatest()) tell(`Reading the board… ${passed}`); }));
    if (!found) return;
    board = found;
  } catch (error) {
    tell(error.message, true);
    return;
  }
  byId("drawing-frame").hidden = !board.cells.length;
  for (const id of actions) byId(id).disabled = !board.cells.length;
  tell(board.reason && `${board.reason[0].toUpperCase()}${board.reason.slice(1)}.`);
  if (!board.cells.length) return;
  const order = [...Array.from({ length: board.players }, (_, i) => `player ${i + 1}`), "empty"].join(", ");
  byId("drawing-about").textContent = `A click, Enter or Space on a cell changes it: ${order}. ${board.asks_mover ? "The rules of the game check the position." : "Then a search finds legal moves to the position."}`;
  byId("mover-field").hidden = !board.asks_mover;
  byId("mover").max = board.players;
  byId("mover").value = 1;
  byId("start-stones").hidden = !Object.keys(board.start).length;
  byId("drawing-board").onload = show;
  byId("drawing-board").src = `${path("setup", "board")}?${query}`;
}

function tell(text, isError = false) {
  byId("found").textContent = text;
  byId("found").classList.toggle("error-text", isError);
}

/** Give up the search in progress. */
function give() {
  waiting?.abort();
  waiting = null;
  retire(byId("cancel-moves"), byId("find-moves"));
}

/** Return whether text on a colour such as #2f2b26 is to be light. */
const isDark = (colour) => [1, 3, 5].reduce((sum, at, i) => sum + [0.3, 0.59, 0.11][i] * parseInt(colour.slice(at, at + 2), 16), 0) < 128;

/** Lay a button over every cell, above its stone. */
function show() {
  if (!board) return; // the picture came after its board was left
  const focused = document.activeElement?.dataset?.key;
  const made = layer(byId("drawing-frame"), byId("drawing-board"), "Cells to draw on");
  if (!made) return;
  for (const cell of board.cells) {
    const player = stones.get(cell.id);
    if (player) made.append(svg("circle", { cx: cell.x, cy: cell.y, r: cell.radius * 0.82, fill: board.colours[player - 1], class: "stone" }), label(cell, String(player), isDark(board.colours[player - 1]) ? "on-dark" : ""));
    made.append(button(cell, () => change(cell.id), { label: `${cell.id}: ${player ? `player ${player}` : "empty"}` }));
  }
  made.querySelector(`[data-key="${CSS.escape(focused ?? "")}"]`)?.focus();
  const owned = Array.from({ length: board.players }, (_, i) => [...stones.values()].filter((player) => player === i + 1).length);
  byId("stones").textContent = owned.map((number, i) => `player ${i + 1}: ${number} ${number === 1 ? "stone" : "stones"}`).join(", ");
}

function change(id) {
  const next = ((stones.get(id) ?? 0) + 1) % (board.players + 1);
  if (next) stones.set(id, next);
  else stones.delete(id);
  redraw();
}

/** Show other stones, which no answer is about yet. */
function redraw() {
  give();
  tell("");
  show();
}

/** Tell the page of play that the position where play begins, or the drawing board, has changed. */
const changed = () => form.dispatchEvent(new Event("setup"));

/** Let play begin at a position, or at the start of the game. */
function use(position) {
  form.elements.position.value = position ? JSON.stringify(position) : "";
  byId("from-drawing").hidden = !position;
  changed();
  byId("from-drawing-text").textContent = position ? `from the drawn position with ${Object.keys(position.stones).length} stones, player ${position.player} to move` : "";
}

async function find() {
  give();
  const mine = waiting = new AbortController();
  byId("cancel-moves").hidden = false;
  const text = board.asks_mover ? "Reading the position…" : "Searching the orders of the stones…";
  const drawing = { ...chosen(), stones: Object.fromEntries(stones), ...(board.asks_mover ? { player: Number(byId("mover").value) } : {}) };
  tell(text);
  try {
    const found = await patiently(() => fetchJson(path("setup", "moves"), drawing, { signal: mine.signal }), (passed) => { if (mine === waiting) tell(`${text} ${passed}`); });
    if (mine !== waiting) return;
    give();
    if (found.reason) return tell(`${found.reason[0].toUpperCase()}${found.reason.slice(1)}.`, true);
    use(found.position);
    form.elements.moves.value = found.position ? "" : found.moves.join(" ");
    tell("");
    const next = found.player === null ? "the game is over there" : `player ${found.player} is to move`;
    byId("found").replaceChildren(
      found.position ? `The game can begin at this position; ${next}. ` : `${found.moves.length} ${found.moves.length === 1 ? "move leads" : "moves lead"} to this position; ${next}. `,
      el("strong", {}, "Begin"), " starts there.");
  } catch (error) {
    if (mine !== waiting) return; // cancelled, or the drawing has changed
    give();
    tell(error.message, true);
  }
}

byId("draw").addEventListener("click", () => {
  const isOpen = byId("drawing").hidden;
  byId("drawing").hidden = !isOpen;
  changed();
  byId("draw").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) open();
  else give();
});
for (const name of ["run", "game"]) form.elements[name].addEventListener("change", () => { use(null); if (!byId("drawing").hidden) open(); });
form.addEventListener("submit", () => { byId("drawing").hidden = true; byId("draw").setAttribute("aria-expanded", "false"); give(); });
byId("find-moves").addEventListener("click", find);
byId("cancel-moves").addEventListener("click", () => { give(); tell("Cancelled."); });
byId("clear-stones").addEventListener("click", () => { stones = new Map(); redraw(); });
byId("start-stones").addEventListener("click", () => { stones = new Map(Object.entries(board.start)); redraw(); });
byId("mover").addEventListener("input", () => { give(); tell(""); });
byId("leave-drawing").addEventListener("click", () => { use(null); byId("draw").focus(); });
