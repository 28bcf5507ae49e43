import { clear, heat, layer } from "./board.js";
import { bars, byId, compact, count, el, fetchJson, game, moment, notice, path, patiently, patientlyUntil, percent, result, run, signed, svg, table, uid } from "./common.js";
import { chartFiles, exports, rasterised } from "./files.js";

const MARKS = { "fast search": "f", "reduced search": "r", "without a search": "–" }; // beside a move in the list; none for a full search
const MEANINGS = { "fast search": "fast search, no policy target", "reduced search": "reduced search after a resignation", "without a search": "no search" };
const ROWS = 12, HEAT_NAMED = 3, LEAST_PRIOR = 0.01, MOST_OTHERS = 3;
const priors = new Map(); // by ply: source, and prior by move
let replay, ply = 0, isOpen = false;

/** Return the ply of the address, the last one without a number there. */
function at() {
  const named = new URLSearchParams(location.hash.slice(1)).get("ply") ?? "", last = replay.moves.length;
  return /^\d+$/.test(named) ? Math.min(Number(named), last) : last;
}
const board = (number) => path("runs", run, "games", replay.uid, "boards", number);

/** Return the value of the position before each move for the first player: with more than two players, for the player who moves. */
const curve = () => replay.moves.map(({ value, player }) => (value === null ? null : replay.scores.length === 2 && player === 2 ? -value : value));

function valuePicture() {
  const values = curve(), last = Math.max(1, replay.moves.length);
  const picture = svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": `Values by ply, from ${compact(values[0])} to ${compact(values.at(-1))}` });
  picture.append(svg("line", { class: "zero", x1: 0, x2: 100, y1: 20, y2: 20, "stroke-width": 0.4 }));
  const known = values.flatMap((value, i) => (value === null ? [] : [`${((100 * i) / last).toFixed(2)} ${(20 - 18 * value).toFixed(2)}`]));
  if (known.length) picture.append(svg("path", { class: known.length > 1 ? "line" : "line single", d: `M${known.join("L")}h0.01` })); // a single value is a dot
  picture.append(svg("line", { class: "now", id: "now", x1: 0, x2: 0, y1: 0, y2: 40 }));
  picture.addEventListener("click", (event) => go(Math.round(((event.clientX - picture.getBoundingClientRect().left) / picture.clientWidth) * last)));
  return picture;
}

/** Return the curve of values for its files. */
const describeValues = (drawn) => ({
  title: "Values", unit: "", axis: "ply", about: `${run}, ${game}: game ${replay.uid.slice(0, 12)}`, file: `${run}-values-${replay.uid.slice(0, 12)}`,
  canvas: () => rasterised(drawn),
  lines: [{ label: byId("values-title").textContent, colour: getComputedStyle(drawn.querySelector(".line")).stroke }],
  table: { columns: ["ply", "move", "player", "value_of_player", "value_shown"], rows: curve().map((value, i) => [i, replay.moves[i].move, replay.moves[i].player, replay.moves[i].value, value]) },
});

function search() {
  const move = replay.moves[ply];
  const rows = (move?.actions ?? []).slice(0, ROWS), known = priors.get(ply);
  byId("priors-line").hidden = !rows.length;
  byId("priors-about").textContent = known ? aboutPriors(known, rows) : "";
  byId("priors-about").classList.remove("error-text");
  if (!move) {
    byId("search-about").textContent = "The game is over.";
    byId("search").replaceChildren();
    return;
  }
  const about = [`Move ${move.ply}: player ${move.player} plays ${move.move}`];
  if (move.value === null) about.push("without a search");
  else about.push(`value ${signed(move.value)} for this player`, `${count(move.visits)} visits`, `model ${move.model_version}`, ...move.notes);
  byId("search-about").textContent = `${about.join(" · ")}`;
  byId("search").replaceChildren(rows.length ? table([
    ["move", (row) => row.move],
    ["visits", (row) => count(row.visits), { right: true }],
    ["share", (row) => percent(row.share), { right: true }],
    ["target", (row) => percent(row.target), { right: true }],
    ...(known ? [["prior", (row) => percent(known.shares.get(row.move)), { right: true }]] : []),
    known ? ["visits above prior", (row) => bars(row.share, known.shares.get(row.move))] : ["visits above target", (row) => bars(row.share, row.target)],
  ], rows, { caption: "Search of the next move", rowClass: (row) => (row.move === move.move ? "played" : "") }) : "");
  if (move.actions.length > ROWS) byId("search").append(el("p", { class: "dim" }, `and ${move.actions.length - ROWS} more moves`));
}

function go(number, { keep = false } = {}) {
  ply = Math.min(Math.max(0, number), replay.moves.length);
  byId("board").src = board(ply);
  const before = replay.moves[ply - 1];
  byId("board").alt = before ? `Board after move ${ply}, ${before.move} by player ${before.player}` : "Board at the start";
  byId("ply").value = ply;
  byId("to-tree").hidden = ply === replay.moves.length;
  const position = isOpen ? { moves: replay.moves.slice(0, ply).map(({ move }) => move).join(",") } : { uid: replay.uid, ply };
  byId("to-tree").href = `/tree?${new URLSearchParams({ run, game, ...position })}`;
  byId("position").textContent = `Position ${ply} of ${replay.moves.length}${before ? `, after ${before.move} by player ${before.player}` : ", the start"}`;
  byId("now").setAttribute("x1", (100 * ply) / Math.max(1, replay.moves.length));
  byId("now").setAttribute("x2", (100 * ply) / Math.max(1, replay.moves.length));
  byId("moves").querySelectorAll("button").forEach((button, i) => (i === ply - 1 ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current")));
  search();
  clear(byId("frame"));
  heatMap();
  if (!keep) history.replaceState(null, "", `#ply=${ply}`);
  if (ply < replay.moves.length) new Image().src = board(ply + 1);
}

/** Lay the share of the visits of each cell over the board, where the switch is on; otherwise, and without a search, nothing. */
async function heatMap() {
  const number = ply, said = byId("heat-about");
  clear(byId("frame"));
  if (!byId("heat").checked) { said.textContent = ""; return; }
  const isShown = () => number === ply && byId("heat").checked;
  let found;
  try {
    found = await patiently(() => heatOf(number), (passed) => { if (isShown()) said.textContent = `Reading the visits… ${passed}`; });
  } catch (error) {
    said.textContent = error.message;
    return;
  }
  if (!isShown()) return;
  const named = found.cells.slice(0, HEAT_NAMED).map(({ id, share }) => `${id} ${percent(share)}`), more = found.cells.length - named.length;
  const elsewhere = found.elsewhere ? [`moves without a cell ${percent(found.elsewhere)}`] : [];
  const about = [...named, ...(more ? [`${more} more ${more === 1 ? "cell" : "cells"}`] : []), ...elsewhere].join(", ");
  said.textContent = about ? `Visits by the cell where a move ends: ${about}` : "No visits are recorded for this position.";
  const made = found.cells.length ? layer(byId("frame"), byId("board"), `Heat map of visits: ${about}`) : null;
  if (!made) return; // the picture calls again when it is there
  made.setAttribute("role", "img");
  made.append(...heat(found.cells));
}

const heats = new Map();
function heatOf(number) {
  if (!heats.has(number)) {
    heats.set(number, fetchJson(path("runs", run, "games", replay.uid, "heat", number)));
    heats.get(number).catch(() => heats.delete(number));
  }
  return heats.get(number);
}

/** Mark the blunders of the moves by the exact solver, the last move first; the button then cancels. */
function mark() {
  const wish = new URLSearchParams({ run, moves: replay.moves.map(({ move }) => move).join(",") });
  const source = new EventSource(`${path("solver", "marks")}?${wish}`), button = byId("mark");
  const solved = new Set(); // a stream that was interrupted begins again
  const end = (text) => { endWait(); source.close(); button.textContent = "Mark blunders"; button.onclick = mark; byId("marked").textContent = text; };
  button.textContent = "Cancel the marks";
  button.onclick = () => end(`Cancelled after ${solved.size} of ${replay.moves.length} moves.`);
  source.addEventListener("mark", (event) => {
    endWait();
    const { ply: number, best, score, is_blunder: isBlunder } = JSON.parse(event.data), at = byId("moves").querySelectorAll("button")[number - 1];
    at.title = [...replay.moves[number - 1].notes, `solver: best ${best}, played ${score}`].join(", ");
    if (isBlunder) {
      at.classList.add("blunder");
      at.firstChild.textContent = `${number}. ${replay.moves[number - 1].move} ??`; // the mark of its search stays
    }
    byId("marked").textContent = `Solving… ${solved.add(number).size} of ${replay.moves.length} moves.`;
  });
  source.addEventListener("end", (event) => end(`${JSON.parse(event.data).blunders} of ${replay.moves.length} moves change a win, draw or loss for the worse (??).`));
  source.addEventListener("fault", (event) => end(JSON.parse(event.data).error));
  source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) end("zerofleet ui does not solve this game."); });
  byId("marked").textContent = "Solving…";
  const endWait = patientlyUntil((passed) => { byId("marked").textContent = `Solving… ${passed}`; });
}

/** Show the priors of the present champion beside the recorded visits. */
async function askPriors() {
  const number = ply, asking = "Asking the champion… A model may need a server, which takes some seconds.";
  const say = (text, isError = false) => {
    if (number !== ply) return; // the reader has gone on to another position
    byId("priors-about").textContent = text;
    byId("priors-about").classList.toggle("error-text", isError);
  };
  say(asking);
  byId("priors").setAttribute("aria-disabled", "true"); // keeps the focus, which `disabled` would drop
  try {
    const found = await patiently(() => fetchJson(path("runs", run, "games", replay.uid, "priors", number), {}), (passed) => say(`${asking} ${passed}`));
    priors.set(number, { source: found.source, shares: new Map(found.moves.map(({ move, prior }) => [move, prior])) });
    if (number === ply) search();
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("priors").removeAttribute("aria-disabled");
  }
}

/** Return the line beside the button: the model, and its most probable moves that the table does not show. */
function aboutPriors(known, rows) {
  const shown = new Set(rows.map(({ move }) => move));
  const others = [...known.shares].filter(([move, prior]) => !shown.has(move) && prior >= LEAST_PRIOR).slice(0, MOST_OTHERS);
  return `Priors of ${known.source}${others.length ? `; moves that are not in the table: ${others.map(([move, prior]) => `${move} ${percent(prior)}`).join(", ")}` : ""}`;
}

/** Return the kind of search of a move: that of its notes, or none. */
const searched = ({ notes }) => notes.find((note) => note.endsWith("search")) ?? "without a search";

/** List the moves with the marks of their searches, and what the marks that occur mean. */
function listMoves() {
  const kinds = replay.moves.map(searched), isSearched = kinds.some((kind) => kind !== "without a search");
  byId("moves").append(...replay.moves.map((move, i) => {
    const mark = isSearched ? MARKS[kinds[i]] : undefined;
    return el("li", {}, el("button", { type: "button", title: move.notes.join(", "), onclick: () => go(move.ply) }, `${move.ply}. ${move.move}`,
      ...(mark ? [el("sup", { "aria-hidden": "true" }, mark), el("span", { class: "hidden" }, `, ${kinds[i]}`)] : [])));
  }));
  const seen = Object.keys(MARKS).filter((kind) => kinds.includes(kind));
  byId("searches").hidden = !replay.moves.length;
  byId("searches").replaceChildren(...(!isSearched ? ["No move has a recorded search."]
    : !seen.length ? ["Every move has a full search."]
    : ["No mark: full search", ...seen.flatMap((kind) => [" · ", el("sup", {}, MARKS[kind]), `: ${MEANINGS[kind]}`])]));
}

try {
  let games;
  [replay, { games }] = await patiently(
    () => Promise.all([fetchJson(path("runs", run, "games", uid)), fetchJson(path("games"))]),
    (passed) => notice(`Replaying the game… ${passed}`));
  isOpen = games.some((one) => one.game === game && one.information === "perfect");
  notice("");
  byId("replay").hidden = false;
  byId("result").textContent = result(replay.scores);
  byId("about").textContent = `Game ${count(replay.index)}, ${replay.plies} plies, ${replay.ending}; models ${replay.versions.map((version) => version || "–").join(" ")}; ${replay.worker}; ${replay.finished_at ? `${moment(replay.finished_at)} UTC` : "time unknown"}`;
  byId("ply").max = replay.moves.length;
  const drawn = valuePicture();
  byId("values").append(drawn);
  if (replay.scores.length > 2) byId("values-title").textContent = "Value for the player who moves, by ply";
  if (curve().some((value) => value !== null)) byId("values-title").after(" ", chartFiles("Values", () => describeValues(drawn)));
  listMoves();
  byId("solver-line").hidden = game !== "connect_four";
  byId("mark").onclick = mark;
  byId("priors").addEventListener("click", () => { if (!byId("priors").hasAttribute("aria-disabled")) askPriors(); });
  byId("heat").addEventListener("change", heatMap);
  byId("board").addEventListener("load", heatMap);
  byId("export").replaceChildren(exports((kind) => `${path("runs", run, "games", replay.uid, "export")}?kind=${kind}`));
  go(at(), { keep: true });
  byId("ply").addEventListener("input", (event) => go(Number(event.target.value)));
  byId("first").addEventListener("click", () => go(0));
  byId("back").addEventListener("click", () => go(ply - 1));
  byId("forward").addEventListener("click", () => go(ply + 1));
  byId("last").addEventListener("click", () => go(replay.moves.length));
  addEventListener("hashchange", () => go(at(), { keep: true }));
  addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=range], .board-scroll, .scroll") || event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = { ArrowLeft: ply - 1, ArrowRight: ply + 1, Home: 0, End: replay.moves.length };
    if (event.key in moves) { event.preventDefault(); go(moves[event.key]); }
  });
  byId("heat-switch").hidden = !(await heatOf(0)).has_cells;
} catch (error) {
  notice(error.message, true);
}
