import { byId, compact, count, el, fetchJson, latest, moment, notice, onward, path, patiently, percent, rating, reveal, run, showWhile, signed, svg, table } from "./common.js";
import { testFigure } from "./llr_path.js";
import { isOfGroups, places } from "./points.js";
import { champion, follow, promotion } from "./promotion.js";

const PAGE = 100, MOST_AT_ONCE = 500; // rows of an answer
const opening = latest(), reading = latest();
let models = [], total = 0, before = null;
const IN_PROGRESS = /\b(playing|trial)$/; // status of a version whose match or measurement has no verdict yet
const score = ({ match }) => (match ? `+${match.wins} =${match.draws} −${match.losses}` : "");

function list() {
  byId("count").textContent = `${count(models.length)} of ${count(total)} ${byId("champions").checked ? "champions" : "versions"}`;
  byId("models").hidden = !models.length;
  showWhile(before !== null, byId("more"), byId("models"));
  byId("models").replaceChildren(table([
    ["version", (row) => el("button", { type: "button", class: "link", onclick: () => open(row.version) }, `${row.version}`), { right: true }],
    ["status", (row) => `${row.status}${row.is_champion ? " ★" : ""}`],
    ["Elo", (row) => (row.elo === null ? (row.rated_games ? "not anchored" : "") : `${Math.round(row.elo)} (${Math.round(row.elo_low)} to ${Math.round(row.elo_high)})`), { right: true }],
    ["match", score],
    ["llr", (row) => (row.match ? signed(row.match.log_likelihood_ratio) : ""), { right: true }],
    ["steps", (row) => count(row.train_steps), { right: true }],
    ["games", (row) => count(row.games_seen), { right: true }],
    ["parent", (row) => row.parent_version ?? "–", { right: true }],
  ], models, { caption: "Versions, newest first", rowClass: (row) => (row.is_champion ? "champion" : "") }));
  mark();
}

/** Mark the row of the version that is shown. */
const mark = () => byId("models").querySelectorAll("tbody tr").forEach((row, i) => row.classList.toggle("chosen", String(models[i].version) === location.hash.slice(2)));

/** Return the histogram of pairs or groups of games by the candidate's points. */
function histogram(match) {
  const pairs = match.pentanomial, most = Math.max(...pairs, 1), points = places(match), word = isOfGroups(match) ? "group" : "pair";
  const caption = `${word === "pair" ? "Pairs" : "Groups"} of games by points`;
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption }, table([
    [`points of a ${word}`, ([place]) => points[place], { right: true }],
    [`${word}s`, ([, number]) => count(number), { right: true }],
    [el("span", { class: "hidden" }, "share"), ([, number]) => svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { x: 0, y: 0, height: 8, width: (100 * number) / most }))],
  ], [...pairs.entries()], { caption }));
}

/** Return the link to the match of a version on the page of matches, which shows the path of the sequential test. */
const toMatch = (version, opponent) => el("p", {}, el("a", { href: `matches#${new URLSearchParams({ version, ...(opponent ? { opponent } : {}) })}` }, "Path of the test and games of this match"));

function matchOf({ version, status, match }) {
  if (!match) return IN_PROGRESS.test(status) ? [el("h2", {}, "Match"), el("div", { id: "test-path" }), toMatch(version)] : [];
  return [
    el("h2", {}, `Match against version ${match.champion_version}`),
    el("p", {}, `${match.wins} won, ${match.draws} drawn, ${match.losses} lost${match.wins + match.draws + match.losses ? `: ${percent(match.share)} of the points (95 % interval ${percent(match.share_low)} to ${percent(match.share_high)})` : ""}, log-likelihood ratio ${signed(match.log_likelihood_ratio)}.`),
    el("div", { id: "test-path" }),
    histogram(match),
    toMatch(version, match.champion_version),
  ];
}

/** Return the versions from which one was trained, the parent first, as far as they are stored. */
const lineage = ({ ancestors }) => (ancestors.length ? [el("p", {}, "Trained from ", ancestors.flatMap((at, i) => [i ? " ← " : "", el("button", { type: "button", class: "link", onclick: () => open(at) }, `${at}`)]))] : []);

/** Return the links to comparisons of a version: with its parent and with the champion. */
function comparisons({ version, ancestors }) {
  const crowned = champion(), others = [...new Set([ancestors[0], crowned])].filter((other) => other && other !== version);
  const link = (other) => el("a", { href: `compare?${new URLSearchParams({ first: other, second: version })}` }, `version ${other}${other === crowned ? " (champion)" : ""}`);
  return others.length ? [el("p", {}, "Compare with ", others.flatMap((other, i) => [i ? ", " : "", link(other)]))] : [];
}

/** Show the path of the test of a version's match, where the journal holds its games. */
async function showPath({ match_id: id, match }) {
  const home = byId("test-path");
  if (!home) return;
  if (!id) {
    home.replaceChildren(el("p", { class: "dim" }, match ? "The games and the path of the test are gone: the gatekeeper compacted its journal, and kept the report." : "The journal has no games of the match yet."));
    return;
  }
  home.replaceChildren(el("p", { class: "dim", role: "status" }, "Reading the games of the match…"));
  const line = home.firstChild, read = () => fetchJson(`${path("runs", run, "match")}?${new URLSearchParams({ id })}`);
  const content = await patiently(read, (passed) => { line.textContent = `Reading the games of the match… ${passed}`; }).then(
    (found) => (match && found.opponent !== match.champion_version ? [] : testFigure(found, { isNarrow: true })), (error) => [el("p", { class: "error-text" }, error.message)]);
  home.replaceChildren(...content); // of another version's detail it is no longer on the page
}

/** Show a version; without `isAsked` the page stays where it is, since nobody has chosen the version just now. */
async function open(version, { isAsked = true } = {}) {
  history.replaceState(null, "", `#v${version}`);
  mark();
  const detail = byId("detail");
  detail.hidden = false;
  detail.replaceChildren(el("p", { class: "dim" }, `Reading version ${version}…`));
  try {
    const about = await opening(() => fetchJson(path("runs", run, "models", version)));
    if (!about) return;
    const facts = [
      ["Status", about.status || "never submitted"], ["Reason", about.reason || "–"], ["Rating", about.elo === null ? (about.rated_games ? "not anchored" : "none") : rating(about.elo, about.elo_low, about.elo_high)], ["Exported", `${moment(about.created_at)} UTC`],
      ["Promoted", about.promoted_at.map((at) => `${moment(at)} UTC`).join(", ") || "never"], ["Steps", count(about.train_steps)], ["Games", count(about.games_seen)],
      ...Object.entries(about.parameters), ...Object.entries(about.network),
    ];
    detail.replaceChildren(
      el("h2", {}, `Version ${version}`), ...promotion(about),
      el("dl", { class: "facts" }, facts.flatMap(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, value === "" ? "none" : value)])),
      ...lineage(about), ...comparisons(about), ...matchOf(about),
      el("h2", {}, "Files"),
      el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Files" }, table([["file", (file) => file.name], ["size", (file) => compact(file.size_bytes, "bytes"), { right: true }], ["sha256", (file) => el("code", { title: file.sha256 }, file.sha256.slice(0, 16))]], about.files, { caption: "Files" })));
    if (isAsked) reveal(detail);
    await showPath(about);
  } catch (error) {
    detail.replaceChildren(el("p", { class: "error-text" }, error.message));
    if (isAsked) reveal(detail);
  }
}

/** Read the newest versions, with `isAnew` one page of them, or with `isMore` older ones after those that are shown. */
async function read({ isMore = false, isAnew = false } = {}) {
  const limit = isMore || isAnew ? PAGE : Math.min(Math.max(PAGE, models.length), MOST_AT_ONCE);
  const query = new URLSearchParams({ limit, ...(isMore ? { before } : {}), ...(byId("champions").checked ? { champions: 1 } : {}) });
  const found = await reading(() => fetchJson(`${path("runs", run, "models")}?${query}`));
  if (!found) return;
  models = isMore ? [...models, ...found.versions] : found.versions;
  [total, before] = [found.total, found.next_before];
  list();
}

const tried = (work) => work.catch((error) => notice(error.message, true));
const chosen = (options) => (/^#v\d+$/.test(location.hash) ? open(Number(location.hash.slice(2)), options) : null);

byId("champions").addEventListener("change", () => {
  byId("more").hidden = true; // it goes on with the list that is still shown
  tried(read({ isAnew: true }));
});
byId("more").addEventListener("click", () => tried(read({ isMore: true })));
addEventListener("hashchange", () => chosen()); // `replaceState` raises none
try {
  await follow(async () => { await read(); await chosen({ isAsked: false }); });
  await read();
  await chosen();
  notice(models.length ? "" : `No model is stored yet: the trainer exports the first one after its first steps.${onward}`);
  byId("filters").hidden = !models.length;
} catch (error) {
  notice(error.message, true);
}
