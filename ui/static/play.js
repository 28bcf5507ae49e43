import { button, clear, layer, near, sign } from "./board.js";
import { bars, byId, count, el, fetchJson, latest, notice, offer, path, patiently, percent, signed, table, whileWanted } from "./common.js";

const ASK_AGAIN_MS = 2000; // after a lost connection, or a proxy's limit of time
const asked = new URLSearchParams(location.search);
const form = byId("begin"), beginning = latest(), previewing = latest(), watched = latest();
let games = [], runs = [], now = null, clicked = [], begun = {}, advised = [];
let listed = null; // table whose list of moves was opened or closed at its first turn
let left = null; // element that had the focus before a view took it away, and the board or list around it

function choose() {
  const run = runs.find(({ name }) => name === form.elements.run.value);
  form.elements.game.disabled = Boolean(run);
  if (run) form.elements.game.value = run.game;
  form.elements.opponent.value = run?.champion ? "champion" : "random";
  preview();
}

/** Show the position where play would begin, drawn as in the game, until a game begins; a board that is drawn on takes its place. */
async function preview() {
  previewing();
  if (now || !byId("drawing").hidden) {
    byId("start").hidden = true;
    return;
  }
  const { run, game, moves, position } = form.elements;
  const wish = Object.entries({ game: game.value, run: run.value, moves: moves.value.trim(), position: position.value });
  const query = new URLSearchParams(wish.filter(([, value]) => value));
  let hasWaited = false;
  notice("");
  try {
    const found = await previewing((isLatest) => patiently(() => fetchJson(`${path("start")}?${query}`), (passed, isCompiling) => { if (isLatest() && isCompiling) { hasWaited = true; notice(passed); } }));
    if (!found) return;
    if (hasWaited) notice(""); // any other is of later
    const hasDeal = games.some((one) => one.game === found.game && one.information === "hidden");
    byId("start").hidden = false;
    byId("start-frame").hidden = !found.has_picture;
    byId("start-about").textContent = hasDeal ? "Hands are dealt when the game begins." : "";
    if (!found.has_picture) return;
    byId("start-board").alt = `${found.game}: ${hasDeal ? "table before the deal" : found.moves.length ? `board after ${found.moves.length} moves, the last one ${found.moves.at(-1)}` : position.value ? "drawn position" : "starting board"}`;
    byId("start-board").src = `${path("start", "board")}?${query}`;
  } catch (error) {
    byId("start").hidden = true;
    notice(error.message, true);
  }
}

/** Show the table that `work` returns while `isWanted`, then the opponent's reply; `text` is shown with the time meanwhile. */
async function ask(work, isWanted, text = "") {
  try {
    notice(text);
    const view = await whileWanted(isWanted, () => patiently(work, (passed, isCompiling) => { if (isWanted() && (text || isCompiling)) notice(`${text} ${passed}`.trim()); }));
    if (!view) return;
    show(view);
    notice("");
  } catch (error) {
    notice(error.message, true);
    return;
  }
  if (now.is_thinking) await reply();
}

/** Show the opponent's reply, unless the player has resigned or begun another game meanwhile; where no answer came, ask again. */
async function reply() {
  const before = now, isSame = () => now === before;
  try {
    const view = await whileWanted(isSame, () => watching(() => fetchJson(`${path("tables", before.id)}?wait=1`), (passed, isCompiling) => { if (isSame()) notice(isCompiling ? passed : ""); }));
    if (!view) return;
    show(view);
    notice("");
  } catch (error) {
    notice(error.message, true);
    if (error.isRefusal) return;
    await new Promise((resolve) => { setTimeout(resolve, ASK_AGAIN_MS); });
    if (isSame()) await reply();
  }
}

function post(what, body = {}) {
  const { id } = now;
  return ask(() => fetchJson(`${path("tables", id)}/${what}`, body), () => now.id === id);
}
const play = (move) => post("moves", { move });

/** Return the cells that continue the clicks so far, and the move that they complete, if any. */
function reachable() {
  const going = now.legal.filter(({ path }) => clicked.every((id, i) => path[i] === id));
  return { next: new Set(going.map(({ path }) => path[clicked.length])), done: going.find(({ path }) => path.length === clicked.length && path.length) };
}

function click(id) {
  const { next } = reachable();
  clicked = next.has(id) ? [...clicked, id] : clicked[0] === id ? [] : [id].filter((one) => now.legal.some(({ path }) => path[0] === one));
  const { done, next: further } = reachable();
  if (done && ![...further].some(Boolean)) play(done.move);
  else cells();
}

/** Return what `work` returns, and show the search in progress meanwhile; undefined once another one is shown. `say` as for `patiently`. */
const watching = (work, say) => watched(async (isLatest) => {
  const { id } = now, isShown = () => isLatest() && now.id === id;
  const source = now.has_model ? new EventSource(path("tables", id, "thinking")) : null;
  source?.addEventListener("thinking", (event) => { if (isShown()) live(JSON.parse(event.data)); });
  try {
    return await patiently(work, say);
  } finally {
    source?.close();
    if (isShown()) byId("live").hidden = true;
  }
});

function live({ by, visits, simulations, elapsed_s: passed, limit_s: limit, value, line }) {
  byId("live").hidden = false;
  byId("live-title").textContent = by === "hint" ? "Searching a hint" : `${now.opponent} thinks`;
  byId("live-visits").max = limit ?? (simulations || 1);
  byId("live-visits").value = limit === null ? visits : Math.min(passed, limit);
  byId("live-text").replaceChildren(
    limit === null ? `${count(visits)} of ${count(simulations)} simulations` : `${count(visits)} simulations in ${passed.toFixed(1)} of ${limit} s`,
    ...(value === null ? [] : [" · you ", el("strong", {}, signed(value)), " ", bars((value + 1) / 2)]),
    line.length ? el("span", { class: "line-shown" }, `line: ${line.slice(0, 8).join(" ")}`) : "");
}

const holds = (one) => Boolean(one?.getClientRects().length) && one !== document.body && !one.disabled;

/** Remember the focus before a view takes away the element that has it. */
function remember() {
  const at = document.activeElement;
  if (holds(at)) left = { at, home: at.closest("#frame, #choices") };
}

/** Give a lost focus back once the opponent has moved: to Undo at the end of the game, to the board when Undo has nothing left; one that the person has moved stays. */
function restore() {
  if (holds(document.activeElement)) left = null;
  if (!left || now.is_thinking) return;
  const { at, home } = left;
  const heir = holds(at) ? at : now.is_over ? byId("undo") : near(home ?? byId("frame"), at.dataset.key ?? "");
  if (!heir) return; // a cell, which comes with the picture
  left = null;
  heir.focus({ preventScroll: true });
}

/** Lay a button over every cell that can be clicked. */
function cells() {
  remember();
  clear(byId("frame"));
  if (!now.cells.length || !now.is_turn) return;
  const made = layer(byId("frame"), byId("board"), "Cells");
  if (!made) return;
  const { next } = reachable();
  const all = advised.reduce((sum, { visits }) => sum + visits, 0) || 1;
  if (!clicked.length) {
    for (const { move, visits } of advised.slice(0, 3).filter(({ visits }) => visits).reverse()) {
      made.append(...sign(now.cells, now.legal.find((one) => one.move === move)?.path ?? [], visits / all));
    }
  }
  for (const cell of now.cells) {
    const isNext = next.has(cell.id), isFirst = now.legal.some(({ path }) => path[0] === cell.id), isPicked = clicked.includes(cell.id);
    if (!isNext && !isFirst && !isPicked) continue;
    const kind = isPicked ? "picked" : isNext ? (clicked.length ? "next further" : "next") : "";
    made.append(button(cell, () => click(cell.id), { kind, pressed: isPicked ? "true" : "false" }));
  }
  restore();
  const shown = [...next].filter(Boolean);
  byId("clicks").textContent = clicked.length ? `${clicked.join(", ")}: then ${shown.slice(0, 12).join(", ")}${shown.length > 12 ? ", …" : ""}. Escape begins again.` : "";
}

function outcome() {
  if (now.resigned) return "You resigned.";
  const best = Math.max(...now.scores);
  const winners = now.scores.flatMap((score, seat) => (score === best ? [seat + 1] : []));
  const points = now.players > 2 ? ` Scores: ${now.scores.map((score, seat) => `player ${seat + 1} ${signed(score)}`).join(", ")}.` : "";
  if (winners.length === now.players) return "A draw.";
  if (winners.length > 1) return `The first place is shared by players ${winners.join(" and ")}.${points}`;
  return winners[0] === now.seat ? `You win.${points}` : `Player ${winners[0]} (${now.opponent}) wins.${points}`;
}

function show(view) {
  remember();
  const isNew = now === null || now.id !== view.id || now.number !== view.number;
  if (now?.id !== view.id) byId("live").hidden = true; // the search of another table
  now = view;
  clicked = [];
  byId("start").hidden = true;
  byId("table").hidden = false;
  clear(byId("frame"));
  byId("clicks").textContent = "";
  byId("board").onload = cells;
  byId("board").src = `${path("tables", now.id)}/board?number=${now.number}`;
  byId("board").alt = `Board after ${now.moves.length} moves${now.moves.length ? `, the last one ${now.moves.at(-1)}` : ""}`;
  byId("state").textContent = now.is_over ? "over" : now.is_thinking ? `${now.opponent} thinks…` : now.is_turn ? "your move" : "";
  byId("turn").textContent = now.fault || (now.is_over ? outcome() : `You are player ${now.seat} against ${now.opponent}.`);
  byId("text").textContent = now.text;
  byId("undo").disabled = now.is_thinking || !now.moves.length;
  byId("hint").disabled = !now.is_turn;
  byId("save").disabled = !now.keeps_moves;
  byId("save").title = now.keeps_moves ? "" : "the moves alone do not restore a game with hidden information";
  links();
  byId("lines-panel").hidden = !now.lines.length;
  byId("lines").replaceChildren(...now.lines.map((moves, i) => el("li", {}, el("button", { type: "button", disabled: now.is_thinking, onclick: () => post("line", { line: i + 1 }) }, lineName(moves)))));
  byId("resign").disabled = now.is_over;
  const { move: typed } = byId("type").elements;
  byId("type").hidden = !now.is_turn && !now.is_thinking; // while the opponent thinks it keeps the focus
  typed.readOnly = !now.is_turn;
  byId("type").querySelector("button").ariaDisabled = now.is_turn ? null : "true";
  byId("list").hidden = !now.is_turn;
  if (now.is_turn && listed !== now.id) {
    listed = now.id;
    byId("list").open = !now.cells.length;
  }
  byId("legal").replaceChildren(...now.legal.map(({ move }) => el("option", { value: move })));
  byId("choices").replaceChildren(...now.legal.map(({ move }) => el("li", {}, el("button", { type: "button", "data-key": move, onclick: () => play(move) }, move))));
  byId("moves").replaceChildren(...now.moves.map((move, i) => el("li", {}, el("span", {}, `${i + 1}. ${move}`))));
  if (isNew) advised = [];
  if (isNew) byId("opinion").replaceChildren(el("p", { class: "dim" }, "Ask for a hint."));
  restore();
}

/** Return another line from the move where it leaves the present one. */
function lineName(moves) {
  const same = moves.findIndex((move, i) => move !== now.moves[i]);
  const from = same < 0 ? moves.length : same;
  return `${from ? `after ${from}: ` : ""}${moves.slice(from).join(" ") || "the same moves"}`;
}

/** Offer the position to the pages of trees and of the solver. */
function links() {
  const isStandard = !Object.keys(now.parameters).length || Boolean(begun.run);
  const about = new URLSearchParams({ game: now.game, moves: now.moves.join(",") });
  if (begun.run) about.set("run", begun.run);
  const seen = new URLSearchParams({ game: now.game, table: now.id, ...(begun.run ? { run: begun.run } : {}) }); // moves name no deal, and no drawing
  const isNamed = now.keeps_moves && !now.position;
  byId("to-tree").hidden = isNamed ? !isStandard || now.is_over : !now.is_turn;
  byId("to-tree").href = `/tree?${isNamed ? about : seen}`;
  byId("to-solver").hidden = now.game !== "connect_four" || !isStandard;
  byId("to-solver").href = `/solver?${about}`;
}

function save() {
  const kept = { game: now.game, parameters: now.parameters, seat: now.seat, ...begun, position: now.position ?? undefined, moves: now.moves };
  const link = el("a", { href: URL.createObjectURL(new Blob([JSON.stringify(kept, null, 1)], { type: "application/json" })), download: `${now.game}-${now.moves.length}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Return what a file holds; nothing where it is no JSON. */
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/** Go on with a game that was saved here or by `save` of `zerofleet play`, which has no run: there the form names the model. */
async function load(file) {
  try {
    const kept = parsed(await file.text()), { game, parameters, seat, moves, position } = kept;
    if (typeof game !== "string" || !Array.isArray(moves)) throw new Error(`${file.name} is no saved game: it needs game and moves`);
    const isModel = /^(champion|model) \d+$/.test(kept.opponent ?? ""), { run, opponent } = form.elements;
    const players = isModel || !kept.opponent ? { run: run.value || undefined, opponent: opponent.value.trim() } : { run: kept.run, opponent: kept.opponent, ...(/^(champion$|model:)/.test(kept.opponent) ? { simulations: kept.simulations, seconds: kept.seconds } : {}) }; // an agent has no budget beside its name
    begin({ game, parameters, seat, ...players, position, moves: moves.join(" ") });
  } catch (error) {
    notice(error.message, true);
  }
}

function begin(wish) {
  previewing(); // the notice is about the game from here on
  beginning((isLatest) => ask(async () => {
    const made = await fetchJson(path("tables"), wish);
    if (isLatest()) begun = { run: wish.run, opponent: wish.opponent, simulations: wish.simulations, seconds: wish.seconds };
    return made;
  }, isLatest, wish.run ? "Beginning… A model may need a server, which takes some seconds." : "Beginning…"));
}

function opinion({ source, value, moves, line, outlook }) {
  advised = moves;
  cells();
  const parts = [el("p", { class: "dim" }, source)];
  if (value !== null) parts.push(el("p", {}, "You: ", el("strong", {}, signed(value)), " ", bars((value + 1) / 2)));
  if (line.length) parts.push(el("p", {}, "Expected line: ", line.join(" ")));
  for (const [kind, names] of Object.entries(outlook)) if (names.length) parts.push(el("p", {}, el("strong", {}, kind), `: ${names.join(" ")}`));
  if (moves.length) {
    const visits = moves.reduce((sum, move) => sum + move.visits, 0) || 1;
    parts.push(el("div", { class: "scroll" }, table([
      ["move", (row) => row.move],
      ["prior", (row) => percent(row.prior), { right: true }],
      ["visits", (row) => count(row.visits), { right: true }],
      ["value", (row) => (row.value === null ? "" : signed(row.value)), { right: true }],
      ["visits above prior", (row) => bars(row.visits / visits, row.prior)],
    ], moves.slice(0, 10), { caption: "Moves, best first" })));
  }
  byId("opinion").replaceChildren(...parts);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { run, game, opponent, seat, simulations, seconds, moves, position } = form.elements;
  const wish = { game: game.value, opponent: opponent.value.trim(), seat: Number(seat.value) };
  if (run.value) wish.run = run.value;
  if (simulations.value) wish.simulations = Number(simulations.value);
  if (seconds.value) wish.seconds = Number(seconds.value);
  if (moves.value.trim()) wish.moves = moves.value.trim();
  if (position.value) wish.position = JSON.parse(position.value);
  begin(wish);
});
form.elements.run.addEventListener("change", choose);
form.elements.game.addEventListener("change", choose);
form.elements.moves.addEventListener("change", preview);
form.addEventListener("setup", preview);
for (const [one, other] of [["simulations", "seconds"], ["seconds", "simulations"]]) { // a move has one budget
  form.elements[one].addEventListener("input", ({ target }) => { if (target.value) form.elements[other].value = ""; });
}
byId("undo").addEventListener("click", () => post("undo"));
byId("resign").addEventListener("click", () => { if (confirm("Resign this game?")) post("resign"); });
byId("hint").addEventListener("click", async () => {
  const { id, number } = now, isSame = () => now.id === id && now.number === number; // else it is about a position that was left
  const say = (passed) => isSame() && byId("opinion").replaceChildren(el("p", { class: "dim", role: "status" }, `Searching… ${passed}`.trim()));
  say("");
  try {
    const found = await whileWanted(isSame, () => watching(() => fetchJson(`${path("tables", id)}/hint`), say));
    if (found) opinion(found);
  } catch (error) {
    byId("opinion").replaceChildren(el("p", { class: "error-text" }, error.message));
  }
});
byId("stop").addEventListener("click", () => fetchJson(`${path("tables", now.id)}/stop`, {}).catch((error) => notice(error.message, true)));
byId("save").addEventListener("click", save);
byId("load-file").addEventListener("click", () => byId("load").click());
byId("load").addEventListener("change", ({ target }) => { if (target.files.length) load(target.files[0]); target.value = ""; });
addEventListener("keydown", (event) => { if (event.key === "Escape" && clicked.length) { clicked = []; cells(); } });
byId("type").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!now.is_turn) return;
  play(event.target.elements.move.value);
  event.target.reset();
});

try {
  ({ games, runs } = await offer(form, asked));
  form.elements.moves.value = asked.get("moves") ?? "";
  if (asked.get("moves")) form.querySelector("details").open = true;
  notice("");
  choose();
} catch (error) {
  notice(error.message, true);
}
