import { button, clear, label, layer, near } from "./board.js";
import { byId, count, el, fetchJson, latest, notice, path, patiently, patientlyUntil, retire, table } from "./common.js";

const asked = new URLSearchParams(location.search);
const form = byId("begin"), run = asked.get("run"), going = latest();
let moves = (asked.get("moves") ?? "").split(/[\s,]+/).filter(Boolean);
let left = null; // cell that had the focus when its layer was taken away, until the picture is there
let position = null, solution = null, marks = new Map(), line = []; // line: moves that are marked
let waiting = null, marking = null, endWait = () => undefined; // for the first mark

const words = (score) => (score > 0 ? "wins" : score < 0 ? "loses" : "draws");
const signedScore = (score) => (score > 0 ? "+" : score < 0 ? "−" : "") + Math.abs(score);

function query(listed = moves) {
  const wish = new URLSearchParams({ moves: listed.join(",") });
  if (run) wish.set("run", run);
  else for (const name of ["rows", "columns", "connect"]) wish.set(name, form.elements[name].value);
  return wish;
}

/** Show a position, then solve it; a search that is still going on is given up. */
async function go(listed) {
  waiting?.abort();
  let found;
  try {
    found = await going((isLatest) => patiently(() => fetchJson(`${path("solver", "position")}?${query(listed)}`), (passed) => { if (isLatest()) notice(`Drawing the board… ${passed}`); }));
  } catch (error) {
    notice(error.message, true);
  }
  if (!found) return;
  position = found;
  moves = [...position.after];
  if (line.some((move, i) => move !== moves[i])) forget(); // also while no mark has arrived yet
  solution = null;
  notice("");
  byId("solved").hidden = false;
  form.elements.moves.value = moves.join(" ");
  history.replaceState(null, "", `?${query()}`);
  byId("board").onload = cells;
  byId("board").src = `${path("solver", "board")}?${query()}`;
  byId("board").alt = `Board after ${moves.length} moves${moves.length ? `, the last one ${moves.at(-1)}` : ""}`;
  byId("text").textContent = position.text;
  byId("to-play").href = `/play?${new URLSearchParams({ game: "connect_four", moves: moves.join(","), ...(run ? { run } : {}) })}`;
  byId("to-play").hidden = !run && ["6", "7", "4"].some((usual, i) => form.elements[["rows", "columns", "connect"][i]].value !== usual);
  if (!moves.length && [byId("undo"), byId("mark")].includes(document.activeElement)) form.elements.moves.focus();
  byId("undo").disabled = byId("mark").disabled = !moves.length;
  list();
  await solve();
}

async function solve() {
  byId("scores").replaceChildren();
  byId("verdict").textContent = "";
  if (position.player === null) {
    byId("state").textContent = "over";
    byId("verdict").textContent = "The game is over.";
    if (byId("frame").contains(document.activeElement)) byId("undo").focus();
    clear(byId("frame"));
    return;
  }
  cells();
  waiting = new AbortController();
  const mine = waiting;
  byId("state").textContent = "solving…";
  byId("cancel").hidden = false;
  try {
    const found = await patiently(() => fetchJson(`${path("solver")}?${query()}`, undefined, { signal: mine.signal }), (passed) => { if (mine === waiting) byId("verdict").textContent = `Solving… ${passed}`; });
    if (mine !== waiting) return;
    solution = found;
    byId("state").textContent = "solved";
    show();
  } catch (error) {
    if (mine !== waiting) return;
    byId("verdict").textContent = "";
    byId("state").textContent = mine.signal.aborted ? "cancelled" : "";
    if (!mine.signal.aborted) notice(error.message, true);
  } finally {
    if (mine === waiting) retire(byId("cancel"), byId("mark").disabled ? form.elements.moves : byId("mark"));
  }
}

function show() {
  const { player, score, scores, best, nodes, seconds } = solution;
  const names = Object.fromEntries(position.cells.map(({ id }) => [id.replace(/\d+$/, ""), id]));
  byId("verdict").replaceChildren(`Player ${player} to move `, el("strong", {}, words(score)), ` (${signedScore(score)}); best: ${best.join(" ")}`);
  byId("scores").replaceChildren(
    table([
      ["move", ([column]) => names[column] ?? column],
      ["score", ([, value]) => (value === null ? "" : signedScore(value)), { right: true }],
      ["outcome", ([, value]) => (value === null ? "full" : words(value))],
      ["beside the best", ([column, value]) => (value === null ? "" : best.includes(names[column]) ? "best" : Math.sign(value) === Math.sign(score) ? "keeps the value" : "blunder")],
    ], Object.entries(scores), { caption: "Score of each column", rowClass: ([, value]) => (value !== null && Math.sign(value) === Math.sign(score) ? "played" : value === null ? "" : "lost") }),
    el("p", { class: "dim" }, `${count(nodes)} positions, ${seconds.toFixed(3)} s`));
  cells();
}

/** Lay a button with the score over every cell where a stone can land. */
function cells() {
  const at = document.activeElement, focused = at === document.body ? left : at.dataset.key ?? null;
  const made = layer(byId("frame"), byId("board"), "Columns");
  left = made ? null : focused;
  if (!made) return;
  for (const cell of position.cells) {
    const value = solution?.scores[cell.id.replace(/\d+$/, "")] ?? null;
    const isKept = value !== null && Math.sign(value) === Math.sign(solution.score);
    if (value !== null) made.append(label(cell, signedScore(value), isKept ? "kept" : "lost"));
    made.append(button(cell, () => go([...moves, cell.id]), { kind: solution?.best.includes(cell.id) ? "next further" : "next", label: value === null ? cell.id : `${cell.id}, score ${value}` }));
  }
  if (focused) near(made, focused)?.focus();
}

function list() {
  const focused = [...byId("moves").children].findIndex((item) => item.contains(document.activeElement));
  byId("moves").replaceChildren(...moves.map((move, i) => {
    const mark = marks.get(i + 1);
    const about = mark ? `best ${signedScore(mark.best)}, played ${signedScore(mark.score)}` : "";
    const sign = mark?.is_blunder ? " ??" : mark && mark.score < mark.best ? " ?" : "";
    return el("li", {}, el("button", { type: "button", class: mark?.is_blunder ? "blunder" : "", title: about, "aria-label": `${i + 1}. ${move}${mark?.is_blunder ? ", a blunder" : ""} ${about}`, onclick: () => go(moves.slice(0, i + 1)) }, `${i + 1}. ${move}${sign}`));
  }));
  if (focused >= 0) (byId("moves").children[Math.min(focused, moves.length - 1)]?.firstChild ?? form.elements.moves).focus();
}

function forget() {
  endWait();
  marking?.close();
  marking = null;
  [marks, line] = [new Map(), []];
  byId("marked").textContent = "";
  byId("mark").textContent = "Mark the moves";
}

/** Mark the moves, the last one first; the button then cancels. */
function mark() {
  if (marking) {
    endWait();
    marking.close();
    marking = null;
    byId("mark").textContent = "Mark the moves";
    byId("marked").textContent += " Cancelled.";
    return;
  }
  forget();
  line = [...moves];
  byId("mark").textContent = "Cancel the marks";
  byId("marked").textContent = "Solving the position before each move…";
  const own = marking = new EventSource(`${path("solver", "marks")}?${query()}`);
  endWait = patientlyUntil((passed) => { byId("marked").textContent = `Solving the position before each move… ${passed}`; });
  marking.addEventListener("mark", (event) => {
    endWait();
    const found = JSON.parse(event.data);
    marks.set(found.ply, found);
    byId("marked").textContent = `Solved ${marks.size} of ${line.length} moves…`;
    list();
  });
  const end = (text) => { endWait(); marking?.close(); marking = null; byId("mark").textContent = "Mark the moves"; byId("marked").textContent = text; };
  marking.addEventListener("end", (event) => {
    const { blunders, marked } = JSON.parse(event.data);
    end(`${blunders} of ${marked} moves change a win, draw or loss for the worse (??); ? marks a slower win or an earlier loss.`);
  });
  marking.addEventListener("fault", (event) => end(JSON.parse(event.data).error));
  marking.addEventListener("error", () => { if (own === marking && own.readyState === EventSource.CLOSED) end("zerofleet ui does not solve this game."); });
}

form.addEventListener("submit", (event) => { event.preventDefault(); forget(); go(form.elements.moves.value.split(/[\s,]+/).filter(Boolean)); });
byId("undo").addEventListener("click", () => go(moves.slice(0, -1)));
byId("cancel").addEventListener("click", () => waiting?.abort());
byId("mark").addEventListener("click", mark);
for (const name of ["rows", "columns", "connect"]) {
  if (asked.get(name)) form.elements[name].value = asked.get(name);
  form.elements[name].closest("label").hidden = Boolean(run);
}
form.elements.moves.value = moves.join(" "); // an illegal move stays there to be corrected
await go(moves);
if (asked.has("marks")) mark();
