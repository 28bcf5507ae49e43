import { clear, layer, sign } from "./board.js";
import { bars, byId, count, el, fetchJson, latest, notice, offer, path, patiently, percent, refusal, signed } from "./common.js";

const ARROWS = 5, LIMIT = 12, FEWEST = 3;
const asked = new URLSearchParams(location.search);
const form = byId("begin"), beginning = latest(), showing = latest();
let games = [], runs = [], study = null, source = null;
let valued = () => undefined; // ends the notice of a search without a value so far
let origin = null; // table, or uid and ply, where the moves alone do not name the position
let nodes = new Map(), open = new Set([""]), shown = []; // nodes by path, paths with shown replies, path of the board

const key = (moves) => moves.join(",");

function choose() {
  const run = runs.find(({ name }) => name === form.elements.run.value);
  form.elements.game.disabled = Boolean(run);
  if (run) form.elements.game.value = run.game;
  form.elements.model.value = run?.champion ? "champion" : "none";
  fields();
}

/** Show the fields that the position needs: moves or an origin, and the search where players hide something. */
function fields() {
  const isHidden = games.some(({ game, information }) => game === form.elements.game.value && information !== "perfect");
  byId("information-field").hidden = !isHidden;
  byId("moves-field").hidden = Boolean(origin);
  byId("origin").hidden = !origin;
  byId("origin").textContent = origin?.table ? "Position: your turn in the game on the page Play" : origin ? `Position: game ${origin.uid.slice(0, 12)} before move ${origin.ply + 1}` : "";
  byId("leave-origin").hidden = !origin;
  form.elements.run.disabled = Boolean(origin?.uid);
  form.elements.game.disabled = Boolean(origin || form.elements.run.value);
}

async function begin() {
  const { run, game, model, simulations, moves, information } = form.elements;
  const wish = { game: game.value, model: model.value.trim(), simulations: Number(simulations.value), ...(origin ?? { moves: moves.value.trim() }) };
  if (run.value) wish.run = run.value;
  if (!byId("information-field").hidden) wish.information = information.value;
  const text = model.value.trim() === "none" ? "Beginning…" : "Beginning… A model may need a server, which takes some seconds.";
  notice(text);
  source?.close();
  valued();
  let begun;
  try {
    begun = await beginning((isLatest) => patiently(() => fetchJson(path("studies"), wish), (passed) => { if (isLatest()) notice(`${text} ${passed}`); }));
  } catch (error) {
    notice(error.message, true);
  }
  if (!begun) return;
  study = begun;
  showing(); // no position of the study before is shown any more
  history.replaceState(null, "", `?${new URLSearchParams(wish)}`);
  nodes = new Map();
  open = new Set([""]);
  shown = [];
  const id = study.id;
  const own = source = new EventSource(path("studies", id, "events"));
  own.addEventListener("study", async (event) => {
    if (study.id !== id) return own.close();
    study = JSON.parse(event.data);
    if (study.is_done) own.close();
    if (study.is_done || study.value !== null) valued();
    await refresh();
  });
  own.addEventListener("fault", (event) => { own.close(); valued(); notice(JSON.parse(event.data).error, true); });
  own.addEventListener("error", async () => {
    if (own.readyState !== EventSource.CLOSED) return; // it connects again by itself
    const reason = await refusal(path("studies", id));
    if (own !== source) return;
    valued();
    byId("state").textContent = "not shown";
    byId("stop").hidden = true;
    notice(reason || "The search cannot be shown any more. Search the position again.", true);
  });
  notice("Searching…");
  await patiently(() => new Promise((resolve) => { valued = resolve; }), (passed) => notice(`Searching… ${passed}`));
}

/** Read the opened nodes again, the first one alone while the search goes on. */
async function refresh() {
  const { id } = study;
  about();
  if (study.value === null) {
    if (study.is_done) notice(study.fault || "the search found nothing", true);
    return;
  }
  try {
    for (const at of study.is_done && !study.root_alone ? [...open] : [""]) {
      await read(at);
      if (study.id !== id) return;
    }
    notice(study.fault, Boolean(study.fault));
    byId("study").hidden = false;
    await show(shown);
  } catch (error) {
    if (study.id === id) notice(error.message, true);
  }
}

/** Read a node, and return what is known of it. */
async function read(at) {
  const wish = new URLSearchParams({ path: at, limit: LIMIT }), home = nodes; // those of this study
  const found = await fetchJson(`${path("studies", study.id, "node")}?${wish}`);
  if (found.visits >= (home.get(at)?.visits ?? 0)) home.set(at, found); // a search only adds visits: one with fewer is older
  return home.get(at);
}

function about() {
  byId("state").textContent = study.is_done ? (study.is_proven ? "proven" : "searched") : "searching…";
  byId("stop").hidden = study.is_done;
  const value = study.value === null ? [] : ["; player ", study.player, " ", el("strong", {}, signed(study.value)), study.is_proven ? " (proven)" : ""];
  byId("about").replaceChildren(`${study.source}; ${count(study.visits)} of ${count(study.simulations)} simulations`, ...value, study.line.length ? `; line ${study.line.slice(0, 10).join(" ")}` : "");
}

/** Show a position of the tree with the moves that were visited most. */
async function show(moves) {
  const isNew = key(moves) !== key(shown) || !byId("board").getAttribute("src")?.includes(study.id);
  shown = moves;
  const at = key(moves), board = byId("board");
  if (isNew) {
    board.onload = arrows;
    board.src = `${path("studies", study.id, "board")}?${new URLSearchParams({ path: at })}`;
    board.alt = `Board after ${[...study.moves, ...moves].length} moves${moves.length ? `, the last one ${moves.at(-1)}` : ""}`;
  }
  const node = await showing(() => nodes.get(at) ?? read(at));
  if (!node) return;
  const before = [...study.moves, ...moves].join(" ");
  byId("where").replaceChildren("Position: ", el("button", { type: "button", class: "link", onclick: () => show([]) }, study.moves.length ? `after ${study.moves.join(" ")}` : "start"),
    ...moves.flatMap((move, i) => [" › ", el("button", { type: "button", class: "link", onclick: () => show(moves.slice(0, i + 1)) }, move)]));
  byId("text").textContent = node.text;
  byId("deeper").hidden = !moves.length || study.is_drawn;
  byId("to-play").hidden = Boolean(study.root_alone) || study.is_drawn;
  byId("root-alone").hidden = !study.root_alone;
  byId("root-alone").textContent = study.root_alone;
  byId("opens").hidden = Boolean(study.root_alone);
  byId("about-worlds").hidden = !study.root_alone;
  byId("to-play").href = `/play?${new URLSearchParams({ game: study.game, moves: before, ...(form.elements.run.value ? { run: form.elements.run.value } : {}) })}`;
  draw();
  arrows();
}

function arrows() {
  clear(byId("frame"));
  const node = nodes.get(key(shown));
  if (!node?.cells.length) return;
  const made = layer(byId("frame"), byId("board"), "Most visited moves");
  if (!made) return;
  made.setAttribute("role", "img");
  const all = node.visits - 1 || 1;
  made.append(...node.children.slice(0, ARROWS).filter(({ visits }) => visits).reverse().flatMap(({ path: cells, visits }) => sign(node.cells, cells, visits / all)));
}

async function toggle(at) {
  const opened = open; // those of this study
  if (open.has(at)) open.delete(at);
  else if (study.root_alone) open.add(at);
  else {
    try {
      if (!nodes.has(at) || study.is_done) await read(at);
      opened.add(at);
    } catch (error) {
      if (opened === open) notice(error.message, true);
    }
  }
  draw();
}

function draw() {
  const focused = document.activeElement?.dataset?.key;
  const body = el("tbody");
  rows(body, []);
  const sampled = study.root_alone ? [["±", "right"], ["worlds", "right"]] : [];
  const head = [["move"], ["N", "right"], ["Q", "right"], ["P", "right"], ["U", "right"], ...sampled, ["visits above prior"]];
  byId("nodes").replaceChildren(el("table", { class: "tree" }, el("caption", { class: "hidden" }, "Tree of the search"),
    el("thead", {}, el("tr", {}, head.map(([title, kind]) => el("th", { scope: "col", class: kind ?? "" }, title)))), body));
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function rows(body, moves) {
  const node = nodes.get(key(moves));
  if (!node) return;
  const all = node.visits - 1 || 1, level = moves.length;
  const visited = node.children.filter(({ visits }, i) => visits || i < FEWEST);
  for (const child of visited) {
    const place = [...moves, child.move], at = key(place), isOpen = open.has(at);
    const opener = child.is_open || child.outcomes.length
      ? el("button", { type: "button", class: "opener", "data-key": `open ${at}`, "aria-expanded": String(isOpen), "aria-label": `${child.is_open ? "Replies to" : "Outcomes of"} ${child.move}`, onclick: () => toggle(at) }, isOpen ? "▾" : "▸")
      : el("span", { class: "opener" });
    const name = child.is_open
      ? el("button", { type: "button", class: "link", "data-key": `show ${at}`, "aria-current": key(shown) === at ? "true" : null, onclick: () => show(place).catch((error) => notice(error.message, true)) }, child.move)
      : child.move;
    body.append(el("tr", { class: key(shown) === at ? "chosen" : "" },
      el("td", { class: `level-${Math.min(level, 9)}` }, opener, name),
      el("td", { class: "right" }, count(child.visits)),
      el("td", { class: "right" }, child.value === null ? "" : signed(child.value)),
      el("td", { class: "right" }, percent(child.prior)),
      el("td", { class: "right" }, child.exploration.toFixed(2)),
      ...(study.root_alone ? [cell(child.spread, (spread) => spread.toFixed(2)), cell(child.share, percent)] : []),
      el("td", {}, bars(child.visits / all, child.prior))));
    if (isOpen && child.is_open) rows(body, place);
    else if (isOpen) body.append(...child.outcomes.map((one) => outcome(one, child.visits)));
  }
  if (node.legal > visited.length) body.append(el("tr", { class: "dim" }, el("td", { class: `level-${Math.min(level, 9)}`, colspan: study.root_alone ? 8 : 6 }, `and ${node.legal - visited.length} more moves of player ${node.player}`)));
}

const cell = (value, text) => el("td", { class: "right" }, value === null ? "" : text(value));

/** Return the row of what everybody sees after a move. */
function outcome({ name, visits, value }, all) {
  return el("tr", { class: "dim" }, el("td", { class: "level-1" }, el("span", { class: "opener" }), name),
    el("td", { class: "right" }, count(visits)), el("td", { class: "right" }, signed(value)),
    el("td"), el("td"), el("td"), el("td"), el("td", {}, bars(visits / (all || 1))));
}

form.addEventListener("submit", (event) => { event.preventDefault(); begin(); });
form.elements.run.addEventListener("change", choose);
form.elements.game.addEventListener("change", fields);
byId("stop").addEventListener("click", () => fetchJson(`${path("studies", study.id)}/stop`, {}).catch((error) => notice(error.message, true)));
byId("leave-origin").addEventListener("click", () => {
  origin = null;
  fields();
  form.elements.moves.focus();
});
byId("deeper").addEventListener("click", () => {
  origin = null; // the moves name the position
  fields();
  form.elements.moves.value = [...study.moves, ...shown].join(" ");
  begin();
});

try {
  ({ games, runs } = await offer(form, asked));
  if (asked.get("table")) origin = { table: asked.get("table") };
  else if (asked.get("uid")) origin = { uid: asked.get("uid"), ply: Number(asked.get("ply") ?? 0) };
  choose();
  for (const name of ["model", "simulations", "moves", "information"]) if (asked.get(name)) form.elements[name].value = asked.get(name);
  notice("");
  if (asked.get("game")) await begin();
} catch (error) {
  notice(error.message, true);
}
