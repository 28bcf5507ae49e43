// Boards of self-play. Finished games: each board replays one, then takes the newest that no board has shown. Games in progress: each
// board follows one game of a worker after another; while no worker answers, the boards show finished games.
import { byId, count, el, fetchJson, latest, notice, onward, path, patiently, put, result, run, several, signed } from "./common.js";

const HOLD_S = 2, ASK_EVERY_MS = 2000, FALLBACK = { games: "finished", boards: "9", speed: "2", seat: "1" };
const LOST = "zerofleet ui does not answer: it was stopped, or the connection is lost. This page reconnects by itself.";
const form = byId("choices"), boards = [], looking = latest();
let waiting = [], newest = -1, isPaused = matchMedia("(prefers-reduced-motion: reduce)").matches, isAsking = false, askedAt = 0, about = null;
let stored = null, source = null, live = null, fault = "", reach = 0;
let isDrawn = false; // whether the first picture is there, whose rules may have to be compiled

const chosen = (name) => form.elements[name].value;
const wantsRunning = () => chosen("games") === "running";
const showsRunning = () => wantsRunning() && Boolean(live?.games.length);
const followed = () => `?seat=${about ? chosen("seat") : asked.get("seat") ?? FALLBACK.seat}`;
const seen = () => (about?.is_hidden ? `?seat=${chosen("seat")}` : "");
const picture = (game, ply) => `${path("runs", run, game.index === undefined ? "running" : "watch", game.uid, ply)}${seen()}`;
const replay = (uid) => `/runs/${encodeURIComponent(run)}/games/${encodeURIComponent(uid)}`;
const models = (versions) => {
  const known = [...new Set(versions)].map((version) => version || "–");
  return `model${known.length > 1 ? "s" : ""} ${known.join(", ")}`;
};

/** Write the state of the page; a worker that is away has a notice, and the boards go on with finished games. */
function tell() {
  const inUse = boards.filter(({ item }) => !item.hidden).length;
  put(byId("state"), showsRunning()
    ? `${several(inUse, "game")} of ${live.worker}`
    : stored === null ? "reading…" : `${several(stored, "game")} stored`);
  byId("state").classList.toggle("good", showsRunning());
  byId("speeds").hidden = showsRunning();
  byId("of-running").hidden = !showsRunning();
  byId("of-finished").hidden = showsRunning() || !stored;
  const nothing = stored === 0 ? `No game is stored yet. The boards begin with the first one.${onward}` : "";
  if (showsRunning()) notice();
  else if (wantsRunning()) notice(live ? `${live.reason} ${nothing || "Finished games are shown meanwhile."}` : "Asking a worker for its games in progress…");
  else if (stored !== null) notice(nothing);
}

/** Note what is known about the game of the run; the first time, the seats become choices. */
function learn({ players, is_hidden }) {
  if (about) return;
  about = { is_hidden };
  form.elements.seat.append(...Array.from({ length: players }, (_, seat) => el("option", {}, seat + 1)));
  form.elements.seat.value = asked.get("seat") ?? FALLBACK.seat;
  if (!chosen("seat")) form.elements.seat.value = FALLBACK.seat;
  byId("seats").hidden = !is_hidden;
}

/**
 * Ask for games that are newer than all known ones, and for more boards than before for older ones too. A board that waits for a
 * game asks at most every two seconds.
 */
async function ask(limit, { isAtOnce = false } = {}) {
  if (isAsking || (!isAtOnce && Date.now() - askedAt < ASK_EVERY_MS)) return;
  isAsking = true;
  askedAt = Date.now();
  try {
    const wish = new URLSearchParams({ limit, ...(newest >= 0 && limit <= reach ? { after: newest } : {}) });
    const found = await patiently(() => fetchJson(`${path("runs", run, "watch")}?${wish}`), (passed) => { if (stored === null) notice(`Reading the newest games… ${passed}`); });
    if (found.total < stored) location.reload(); // another run of this name, whose games are counted anew
    const known = new Set([...waiting, ...boards.map(({ game }) => game)].map((game) => game?.uid));
    newest = Math.max(newest, ...found.games.map(({ index }) => index));
    reach = Math.max(reach, limit);
    waiting = [...found.games.filter(({ uid }) => !known.has(uid)), ...waiting].slice(0, limit);
    stored = found.total;
    learn(found);
    tell();
  } catch (error) {
    if (!showsRunning()) notice(error.message, true);
  } finally {
    isAsking = false;
  }
}

/** Show a position; resolves when its picture is there, so that a slow connection slows the replay and drops nothing. */
async function show(board, ply) {
  const { game } = board, name = board.link.textContent;
  board.ply = ply;
  board.img.src = picture(game, ply);
  board.img.alt = game.plies === undefined ? `${name}, position ${ply}` : `${name}, position ${ply} of ${game.plies}`;
  board.position.textContent = game.plies === undefined ? `ply ${ply}` : `${ply} of ${game.plies}`;
  board.bar.value = ply;
  const drawn = board.img.decode().catch(() => undefined); // replaced by a later one, or refused
  if (isDrawn) return drawn;
  await patiently(() => drawn, (passed, isCompiling) => { if (isCompiling && !isDrawn) notice(passed); });
  if (!isDrawn) tell();
  isDrawn = true;
  return undefined;
}

function begin(board, game) {
  board.game = game;
  board.bar.max = game.plies;
  board.bar.setAttribute("aria-label", `Moves of game ${count(game.index)}`);
  board.link.textContent = `Game ${count(game.index)}`;
  board.link.href = replay(game.uid);
  board.about.textContent = `${result(game.scores)} · ${count(game.plies)} plies · ${models(game.versions)}`;
  board.item.hidden = false;
  return show(board, 0);
}

/** Advance one board by a position, a new game, or its own game again where none is newer. */
async function step(board) {
  if (board.game && board.ply < board.game.plies) return show(board, board.ply + 1);
  if (!waiting.length) await ask(boards.length);
  if (!boards.includes(board)) return undefined;
  const next = waiting.shift() ?? board.game;
  return next ? begin(board, next) : undefined;
}

/** Show a game in progress, or the end of one, on a board. */
function follow(board, game) {
  const isSame = board.game?.uid === game.uid;
  const isOld = isSame && board.ply === game.ply && Boolean(board.game.scores) === Boolean(game.scores) && board.seat === seen();
  if (isOld) return;
  board.game = game;
  board.seat = seen();
  board.item.hidden = false;
  board.bar.hidden = true;
  board.link.textContent = `Game ${game.uid.slice(0, 8)}`;
  if (game.scores) board.link.href = replay(game.uid);
  else board.link.removeAttribute("href");
  const value = game.values ? `value ${signed(game.values[0])} for player 1` : "in progress";
  board.about.textContent = `${game.scores ? result(game.scores) : value} · ${models(game.versions)}`;
  board.heldUntil = game.scores ? Date.now() + 1000 * HOLD_S : 0;
  show(board, game.ply);
}

/** Take the worker's present games. A game that has ended stays on its board for two seconds, or until there is another. */
function take(now) {
  const before = showsRunning() ? live.worker : null;
  live = now;
  learn(now);
  if (!boards.length || before !== (showsRunning() ? now.worker : null)) rebuild();
  if (showsRunning()) boards.forEach((board, number) => {
    const games = now.games.filter((game) => game.board === number);
    const same = games.find(({ uid }) => uid === board.game?.uid), running = games.find(({ scores }) => !scores);
    if (same) follow(board, same);
    if (!same || (same.scores && Date.now() >= board.heldUntil)) {
      const next = running ?? (same ? null : games.at(-1));
      if (next) follow(board, next);
    }
  });
  tell();
}

/** Follow the worker while the page is looked at: one that is paused, in the background, or shows finished games has no stream. */
function listen() {
  source?.close();
  source = null;
  if (!wantsRunning() || isPaused || document.hidden) return;
  const opened = source = new EventSource(`${path("runs", run, "running", "events")}${followed()}`);
  const onlyNow = (handle) => (event) => { if (source === opened) handle(event); };
  opened.addEventListener("games", onlyNow((event) => { fault = ""; take(JSON.parse(event.data)); }));
  opened.addEventListener("fault", onlyNow((event) => { fault = JSON.parse(event.data).error; }));
  opened.addEventListener("error", onlyNow(() => notice(opened.readyState === EventSource.CLOSED ? "The games in progress cannot be shown. Reload the page for the reason." : fault || LOST, true)));
}

/** Fill the boards of a paused page, which moves nothing: with one look at the worker, or with the start of finished games. */
async function still() {
  if (!isPaused) return;
  try {
    const now = await looking(() => (wantsRunning() ? fetchJson(`${path("runs", run, "running")}${followed()}`) : null));
    if (now === undefined) return;
    if (now && isPaused && wantsRunning()) take(now);
  } catch (error) {
    notice(error.message, true);
  }
  const empty = showsRunning() ? [] : boards.filter(({ game }) => !game);
  if (waiting.length < empty.length) await ask(boards.length, { isAtOnce: true });
  for (const board of empty) if (isPaused && boards.includes(board)) await step(board);
}

const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, 1000 * seconds); });

async function play(board) {
  while (boards.includes(board)) {
    if (!isPaused && !document.hidden && about && !showsRunning()) await step(board);
    const isAtEnd = !board.game || board.ply === board.game.plies;
    await pause((isAtEnd ? HOLD_S : 0) + 1 / Number(chosen("speed")));
  }
}

function addBoard() {
  const [img, link, aboutLine, position, bar] = [el("img", { class: "board", alt: "" }), el("a"), el("span", { class: "dim" }), el("span", { class: "dim" }), el("progress", { value: 0, max: 1 })];
  const item = el("li", { class: "panel", hidden: true },
    el("div", { class: "board-frame" }, img),
    el("p", { class: "card-head" }, link, position), bar, aboutLine);
  const board = { item, img, link, about: aboutLine, position, bar, game: null, ply: 0, seat: "", heldUntil: 0 };
  boards.push(board);
  byId("boards").append(item);
  play(board);
}

/** Remove boards from a number on; the finished games that they show come again where there are no newer ones. */
function drop(from) {
  for (const { item, game } of boards.splice(from)) {
    if (game?.index !== undefined) waiting.push(game);
    item.remove();
  }
}

function resize() {
  const wanted = Number(chosen("boards"));
  byId("boards").dataset.boards = wanted;
  drop(wanted);
  while (boards.length < wanted) addBoard();
}

/** Begin with empty boards: games of the other kind, still on their way, have no place on them. */
function rebuild() {
  drop(0);
  resize();
}

function keep() {
  const query = new URLSearchParams(location.search);
  for (const name of Object.keys(FALLBACK)) if (name !== "seat" || about?.is_hidden) query.set(name, chosen(name));
  history.replaceState(null, "", `?${query}`);
}

function toggle() {
  isPaused = !isPaused;
  byId("pause").textContent = isPaused ? "Play" : "Pause";
  listen();
}

const asked = new URLSearchParams(location.search);
for (const name of ["games", "boards", "speed"]) {
  form.elements[name].value = asked.get(name) ?? FALLBACK[name];
  if (!chosen(name)) form.elements[name].value = FALLBACK[name]; // an address with a value that is not offered
}
byId("pause").textContent = isPaused ? "Play" : "Pause";
byId("pause").addEventListener("click", toggle);
document.addEventListener("visibilitychange", listen);
form.addEventListener("submit", (event) => event.preventDefault());
for (const choice of form.elements.games) {
  choice.addEventListener("change", () => {
    live = null;
    rebuild();
    tell();
    keep();
    listen();
    still();
  });
}
form.elements.boards.addEventListener("change", () => {
  resize();
  keep();
  if (live) take(live);
  still();
});
form.elements.speed.addEventListener("change", keep);
form.elements.seat.addEventListener("change", () => {
  keep();
  listen();
  if (!showsRunning()) for (const board of boards) if (board.game) show(board, board.ply);
  still();
});
listen();
for (let isFirst = true; !about; isFirst = false) { // a run that cannot be read now may be later
  if (isFirst || (!isPaused && !document.hidden)) await ask(Number(chosen("boards")));
  if (!about) await pause(ASK_EVERY_MS / 1000);
}
if (!boards.length) resize();
await still();
