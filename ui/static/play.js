import { bars, byId, count, el, fetchJson, notice, path, percent, signed, svg, table } from "./common.js";

const asked = new URLSearchParams(location.search);
const form = byId("begin");
let games = [], runs = [], now = null, clicked = [];

function choose() {
  const run = runs.find(({ name }) => name === form.elements.run.value);
  form.elements.game.disabled = Boolean(run);
  if (run) form.elements.game.value = run.game;
  form.elements.opponent.value = run?.champion ? "champion" : "random";
  form.elements.seat.max = games.find(({ game }) => game === form.elements.game.value)?.players ?? 2;
}

async function ask(work) {
  try {
    notice("");
    show(await work());
    if (now.is_thinking) show(await fetchJson(`${path("tables", now.id)}?wait=1`));
  } catch (error) {
    notice(error.message, true);
  }
}
const post = (what, body = {}) => ask(() => fetchJson(`${path("tables", now.id)}/${what}`, body));
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

/** Lay a button over every cell that can be clicked. */
function cells() {
  byId("frame").querySelector("svg")?.remove();
  const board = byId("board");
  if (!now.cells.length || !now.is_turn || !board.naturalWidth) return;
  const { next } = reachable();
  const layer = svg("svg", { class: "cells", viewBox: `0 0 ${board.naturalWidth} ${board.naturalHeight}`, role: "group", "aria-label": "Cells" });
  for (const { id, x, y, radius } of now.cells) {
    const isNext = next.has(id), isFirst = now.legal.some(({ path }) => path[0] === id);
    if (!isNext && !isFirst && !clicked.includes(id)) continue;
    const act = () => click(id);
    layer.append(svg("circle", {
      cx: x, cy: y, r: radius, tabindex: 0, role: "button", "aria-label": id, "aria-pressed": clicked.includes(id) ? "true" : "false",
      class: clicked.includes(id) ? "cell picked" : isNext ? "cell next" : "cell",
      onclick: act, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } },
    }, svg("title", {}, id)));
  }
  byId("frame").append(layer);
}

/** Return the number of the person's seat in the picture, where the drawing of the game counts players from 0. */
const pictured = () => (/\bplayer \d/.test(now.text) ? ` (${now.seat - 1} in the picture)` : "");

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
  const isNew = now === null || now.id !== view.id || now.number !== view.number;
  now = view;
  clicked = [];
  byId("table").hidden = false;
  byId("frame").querySelector("svg")?.remove();
  byId("board").onload = cells;
  byId("board").src = `${path("tables", now.id)}/board?number=${now.number}`;
  byId("board").alt = `Board after ${now.moves.length} moves${now.moves.length ? `, the last one ${now.moves.at(-1)}` : ""}`;
  byId("state").textContent = now.is_over ? "over" : now.is_thinking ? `${now.opponent} thinks…` : "your move";
  byId("turn").textContent = now.fault || (now.is_over ? outcome() : `You are player ${now.seat}${pictured()} against ${now.opponent}.`);
  byId("text").textContent = now.text;
  byId("undo").disabled = now.is_thinking || !now.moves.length;
  byId("hint").disabled = !now.is_turn;
  byId("resign").disabled = now.is_over;
  byId("type").hidden = !now.is_turn;
  byId("list").hidden = !now.is_turn;
  byId("list").open = !now.cells.length;
  byId("legal").replaceChildren(...now.legal.map(({ move }) => el("option", { value: move })));
  byId("choices").replaceChildren(...now.legal.map(({ move }) => el("li", {}, el("button", { type: "button", onclick: () => play(move) }, move))));
  byId("moves").replaceChildren(...now.moves.map((move, i) => el("li", {}, el("span", {}, `${i + 1}. ${move}`))));
  if (isNew) byId("opinion").replaceChildren(el("p", { class: "dim" }, "Ask for a hint."));
}

function opinion({ source, value, moves, line, outlook }) {
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
  const { run, game, opponent, seat, simulations } = form.elements;
  const wish = { game: game.value, opponent: opponent.value.trim(), seat: Number(seat.value) };
  if (run.value) wish.run = run.value;
  if (simulations.value) wish.simulations = Number(simulations.value);
  notice("Beginning… The first game compiles the rules, once, and a model needs a server: this takes some seconds.");
  ask(() => fetchJson(path("tables"), wish));
});
form.elements.run.addEventListener("change", choose);
form.elements.game.addEventListener("change", choose);
byId("undo").addEventListener("click", () => post("undo"));
byId("resign").addEventListener("click", () => { if (confirm("Resign this game?")) post("resign"); });
byId("hint").addEventListener("click", async () => {
  byId("opinion").replaceChildren(el("p", { class: "dim" }, "Searching. The first search of a game compiles it, once, which takes some seconds…"));
  try {
    opinion(await fetchJson(`${path("tables", now.id)}/hint`));
  } catch (error) {
    byId("opinion").replaceChildren(el("p", { class: "error-text" }, error.message));
  }
});
byId("type").addEventListener("submit", (event) => {
  event.preventDefault();
  play(event.target.elements.move.value);
  event.target.reset();
});

try {
  [{ games }, { runs }] = await Promise.all([fetchJson(path("games")), fetchJson(path("runs"))]);
  form.elements.run.append(...runs.map(({ name, game }) => el("option", { value: name }, `${name} (${game})`)));
  form.elements.game.append(...games.map(({ game }) => el("option", { value: game }, game)));
  form.elements.run.value = asked.get("run") ?? "";
  form.elements.game.value = asked.get("game") ?? (games.some(({ game }) => game === "connect_four") ? "connect_four" : games[0].game);
  choose();
  notice("");
} catch (error) {
  notice(error.message, true);
}
