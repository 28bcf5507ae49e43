import { away, awayText, byId, compact, count, duration, el, elsewhere, following, moment, notice, onward, path, percent, put, run, signed, svg, table } from "./common.js";

function panel({ title, figures }) {
  const rows = figures.flatMap(({ label, value, note, tone }) => [
    el("dt", {}, label), el("dd", {}, value), el("dd", { class: `note ${tone ? `tone-${tone}` : ""}` }, note)]);
  return el("section", { class: "panel" }, el("h2", {}, title[0].toUpperCase() + title.slice(1)), el("dl", { class: "figures" }, rows));
}

const interval = ({ share, share_low, share_high }) => `${percent(share)} of the points${share_low === null ? "" : ` (95 % interval ${percent(share_low)} to ${percent(share_high)})`}`;

/** Return the picture of the sequential test between its bounds; none without such a test. */
function test({ llr, llr_low, llr_high }) {
  if (llr_low === null || llr_high <= llr_low) return "";
  const at = (value) => 4 + (92 * (value - llr_low)) / (llr_high - llr_low);
  return svg("svg", { class: "llr", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": `log-likelihood ratio ${llr.toFixed(2)}, between ${llr_low.toFixed(2)} and ${llr_high.toFixed(2)}` },
    svg("rect", { class: "range", x: 4, y: 3, width: 92, height: 4 }),
    svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 1, y2: 9 }),
    svg("line", { class: "now", x1: Math.max(1, at(llr)), x2: Math.max(1, at(llr)), y1: 1, y2: 9 }));
}

function match({ version, wins, draws, losses, llr, llr_low, llr_high, ...points }) {
  return [el("p", {}, `Version ${version}: ${wins} won, ${draws} drawn, ${losses} lost${points.share === null ? "" : `: ${interval(points)}`}. Log-likelihood ratio `, el("strong", {}, signed(llr)), llr_high > llr_low ? `; the match ends at ${signed(llr_low)} or ${signed(llr_high)}.` : "."), test({ llr, llr_low, llr_high })];
}

/** Course of a candidate without a game. */
const WITHOUT_GAMES = { queued: "its match has not begun", playing: "its match begins", trial: "not measured yet", unproven: "never measured" };
const games = ({ wins, draws, losses }) => (wins ?? 0) + (draws ?? 0) + (losses ?? 0);

const candidates = (rows) => table([
  ["version", (row) => `${row.version}${row.is_champion ? " ★" : ""}`],
  ["verdict", (row) => row.status],
  ["age", (row) => (row.age_s === null ? "" : duration(row.age_s)), { right: true }],
  ["games", (row) => (games(row) ? `+${row.wins} =${row.draws} −${row.losses}` : el("span", { class: "dim", title: row.reason }, WITHOUT_GAMES[row.status] ?? "no match"))],
  ["points", (row) => (row.share !== null ? `${percent(row.share)}${row.share_low === null ? "" : ` (${Math.round(100 * row.share_low)} to ${percent(row.share_high)})`}` : "")],
  ["llr", (row) => (games(row) ? el("span", {}, test(row), signed(row.llr)) : ""), { right: true }],
], rows, { caption: "Candidates, newest first", rowClass: (row) => (row.is_champion ? "champion" : "") });

const player = (name) => (name.startsWith("model:") ? `version ${name.slice(6)}` : name);
const ladder = (rows) => table([
  ["player", (row) => `${player(row.name)}${row.is_champion ? " ★" : ""}`],
  ["Elo", (row) => (row.elo === null ? "not anchored" : Math.round(row.elo)), { right: true }],
  ["95 % interval", (row) => (row.elo === null || row.elo_low === row.elo_high ? "" : `${Math.round(row.elo_low)} to ${Math.round(row.elo_high)}`), { right: true }],
  ["games", (row) => (row.games ? count(row.games) : ""), { right: true }],
], rows, { caption: "Ladder, strongest first", rowClass: (row) => (row.is_champion ? "champion" : "") });

const services = (rows) => table([
  ["service", (row) => row.name.replaceAll("_", " ")],
  ["state", (row) => el("span", { class: row.state === "ready" && !row.compiling ? "good" : "tone-attention" }, row.compiling ? `compiles: ${row.compiling}` : row.state)],
  ...(rows.some((row) => row.device) ? [
    ["device", (row) => row.device],
    ["share of positions", (row) => (row.share === null ? "" : percent(row.share)), { right: true }],
  ] : []),
  ["for", (row) => duration(row.for_s), { right: true }],
  ["restarts", (row) => row.restarts, { right: true }],
  ["memory", (row) => (row.memory_bytes ? compact(row.memory_bytes, "bytes") : ""), { right: true }],
], rows, { caption: "Services" });

function empty(id, rows, draw, text) {
  byId(id).replaceChildren(rows.length ? draw(rows) : el("p", { class: "dim" }, text));
}

function show(now) {
  const state = byId("state");
  put(state, now.is_live ? "alive" : away);
  byId("elapsed").textContent = now.is_live ? `${duration(now.elapsed_s)} since the start` : "";
  state.classList.toggle("good", now.is_live);
  const about = [];
  if (!now.is_live) about.push(now.at ? `${awayText} These are the newest figures of its files, of ${moment(now.at)} UTC, after ${duration(now.elapsed_s)}.` : `${awayText} The files have no figures yet.${onward}`);
  if (now.phase) about.push(now.phase);
  if (now.warning) about.push(now.warning);
  notice(about.join(" "), Boolean(now.warning));
  byId("panels").replaceChildren(...now.panels.map(panel));
  byId("match").hidden = now.match === null;
  byId("match-title").textContent = now.is_live || elsewhere ? "Match in progress" : "Unfinished match";
  if (now.match) byId("match-body").replaceChildren(...match(now.match));
  empty("candidates", now.candidates, candidates, "waiting for the first network");
  empty("ladder", now.ladder, ladder, "no rated games yet");
  empty("services", now.services, services, "no service is running");
  byId("events").replaceChildren(...(now.events.length
    ? now.events.map(({ at, text }) => el("li", {}, el("time", { datetime: at }, moment(at)), el("span", {}, text)))
    : [el("li", { class: "dim" }, "no event yet")]));
}

following("overview", () => [path("runs", run, "events"), path("runs", run, "overview")], show, "run")();
