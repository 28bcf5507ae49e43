// Boards that replay the newest finished games; when a game has ended, its board takes the newest game that no board has shown.
import { byId, count, el, fetchJson, notice, path, result, run } from "./common.js";

const HOLD_S = 2, ASK_EVERY_MS = 2000, FALLBACK = { boards: "9", speed: "2", seat: "1" };
const form = byId("choices"), boards = [];
let waiting = [], newest = -1, isPaused = matchMedia("(prefers-reduced-motion: reduce)").matches, isAsking = false, askedAt = 0, about = null;

const chosen = (name) => form.elements[name].value;
const picture = (uid, ply) => `${path("runs", run, "watch", uid, ply)}${about.is_hidden ? `?seat=${chosen("seat")}` : ""}`;
const models = (versions) => {
  const known = [...new Set(versions)].map((version) => version || "–");
  return `model${known.length > 1 ? "s" : ""} ${known.join(", ")}`;
};

/** Ask for games that are newer than all known ones; a board that waits for one asks at most every two seconds. */
async function ask(limit) {
  if (isAsking || Date.now() - askedAt < ASK_EVERY_MS) return;
  isAsking = true;
  askedAt = Date.now();
  try {
    about = await fetchJson(`${path("runs", run, "watch")}?${new URLSearchParams({ limit, ...(newest >= 0 ? { after: newest } : {}) })}`);
    newest = Math.max(newest, ...about.games.map(({ index }) => index));
    waiting = [...about.games, ...waiting].slice(0, limit);
    byId("state").textContent = `${count(about.total)} games stored`;
    notice(about.total ? "" : "No game is stored yet. The boards begin with the first one.");
  } catch (error) {
    notice(error.message, true);
  } finally {
    isAsking = false;
  }
}

/** Show a position; resolves when its picture is there, so that a slow connection slows the replay and drops nothing. */
async function show(board, ply) {
  board.ply = ply;
  board.img.src = picture(board.game.uid, ply);
  board.img.alt = `Game ${count(board.game.index)}, position ${ply} of ${board.game.plies}`;
  board.position.textContent = `${ply} of ${board.game.plies}`;
  board.bar.value = ply;
  await board.img.decode().catch(() => undefined); // replaced by a later one, or refused
}

function begin(board, game) {
  board.game = game;
  board.bar.max = game.plies;
  board.bar.setAttribute("aria-label", `Moves of game ${count(game.index)}`);
  board.link.textContent = `Game ${count(game.index)}`;
  board.link.href = `/runs/${encodeURIComponent(run)}/games/${encodeURIComponent(game.uid)}`;
  board.about.textContent = `${result(game.scores)} · ${count(game.plies)} plies · ${models(game.versions)}`;
  board.item.hidden = false;
  return show(board, 0);
}

/** Advance one board by a position, a new game, or its own game again where none is newer. */
async function step(board) {
  if (board.game && board.ply < board.game.plies) return show(board, board.ply + 1);
  if (!waiting.length) await ask(boards.length);
  const next = waiting.shift() ?? board.game;
  return next ? begin(board, next) : undefined;
}

const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, 1000 * seconds); });

async function play(board) {
  while (boards.includes(board)) {
    if (!isPaused && !document.hidden) await step(board);
    const isAtEnd = !board.game || board.ply === board.game.plies;
    await pause((isAtEnd ? HOLD_S : 0) + 1 / Number(chosen("speed")));
  }
}

function addBoard() {
  const [img, link, aboutLine, position, bar] = [el("img", { class: "board", alt: "" }), el("a"), el("span", { class: "dim" }), el("span", { class: "dim" }), el("progress", { value: 0, max: 1 })];
  const item = el("li", { class: "panel", hidden: true },
    el("div", { class: "board-frame" }, img),
    el("p", { class: "card-head" }, link, position), bar, aboutLine);
  const board = { item, img, link, about: aboutLine, position, bar, game: null, ply: 0 };
  boards.push(board);
  byId("boards").append(item);
  play(board);
}

function resize() {
  const wanted = Number(chosen("boards"));
  byId("boards").dataset.boards = wanted;
  for (const { item } of boards.splice(wanted)) item.remove();
  while (boards.length < wanted) addBoard();
}

function keep() {
  const query = new URLSearchParams(location.search);
  for (const name of Object.keys(FALLBACK)) if (name !== "seat" || about?.is_hidden) query.set(name, chosen(name));
  history.replaceState(null, "", `?${query}`);
}

function toggle() {
  isPaused = !isPaused;
  byId("pause").textContent = isPaused ? "Play" : "Pause";
}

const asked = new URLSearchParams(location.search);
for (const name of ["boards", "speed"]) {
  form.elements[name].value = asked.get(name) ?? FALLBACK[name];
  if (!chosen(name)) form.elements[name].value = FALLBACK[name]; // an address with a value that is not offered
}
byId("pause").textContent = isPaused ? "Play" : "Pause";
byId("pause").addEventListener("click", toggle);
form.addEventListener("submit", (event) => event.preventDefault());
form.elements.boards.addEventListener("change", () => { resize(); keep(); });
form.elements.speed.addEventListener("change", keep);
form.elements.seat.addEventListener("change", () => {
  keep();
  for (const board of boards) if (board.game) show(board, board.ply);
});
for (let isFirst = true; !about; isFirst = false) { // a run that cannot be read now may be later
  if (isFirst || (!isPaused && !document.hidden)) await ask(Number(chosen("boards")));
  if (!about) await pause(ASK_EVERY_MS / 1000);
}
form.elements.seat.append(...Array.from({ length: about.players }, (_, seat) => el("option", {}, seat + 1)));
form.elements.seat.value = asked.get("seat") ?? FALLBACK.seat;
if (!chosen("seat")) form.elements.seat.value = FALLBACK.seat;
byId("seats").hidden = !about.is_hidden;
resize();
if (isPaused) for (const board of boards) await step(board);
