import { byId, count, el, fetchJson, game, latest, notice, onward, path, patiently, percent, run, showWhile, signed, svg, table } from "./common.js";
import { exports } from "./files.js";
import { testFigure } from "./llr_path.js";
import { isOfGroups, outcome, places, short } from "./points.js";

const KINDS = { gate: "gate match", measurement: "measurement" };
const STATES = { open: "in progress", ended: "no verdict" };
const PAGE = 100, MOST_AT_ONCE = 500; // versions of an answer
const form = byId("filter"), names = [...new FormData(form).keys()], opening = latest(), listing = latest();
let matches = [], total = null, before = null, opened = null; // total: null while the list is read; opened: key of the match that is shown
let listed = "", conditions = new URLSearchParams(); // listed: query of the address of which the list is
let fault = ""; // why the bounds of the test are unknown
let detail = null, ply = 0, shown = null, chosen = 0; // chosen: place of the game in the shown pair
let isOpen = false; // whether players hide nothing, so that moves alone name a position
let facts = null; // reading of `isOpen`, before a match opens

const verdict = (row) => (row.state === "decided" ? row.status : STATES[row.state]);
const score = ({ wins, draws, losses }) => `+${wins} =${draws} −${losses}`;
const key = (row) => row.id || `${row.version}:${row.opponent}`; // a report without games has no id
const query = (values) => new URLSearchParams(values).toString();

const word = (match) => (isOfGroups(match) || match.games?.some(({ games }) => games.length > 2) ? "group" : "pair");
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Return the histogram of pairs or groups by the version's points: no point at the left, all of them at the right. */
function histogram(match) {
  const pairs = match.pentanomial, points = places(match), most = Math.max(...pairs, 1);
  return svg("svg", { class: "histogram", viewBox: "0 0 96 36", role: "img", "aria-label": `${word(match)}s by points: ${pairs.map((number, i) => `${points[i]}: ${number}`).join(", ")}` },
    pairs.flatMap((number, i) => [
      svg("rect", { x: 19 * i, y: 24 - (22 * number) / most, width: 16, height: Math.max(0.6, (22 * number) / most) }),
      svg("text", { x: 19 * i + 8, y: 35, class: "middle" }, `${number}`)]));
}

const board = (pair, place, at) => `${path("runs", run, "match", "board")}?${query({ id: detail.id, pair: pair.number, game: pair.games[place].number, ply: at })}`;
const longest = (pair) => Math.max(...pair.games.map(({ moves }) => moves.length));

/** Write pair, game and ply into the address, which opens them again. */
const remember = () => history.replaceState(null, "", `#${query({ id: detail.id, pair: shown.number, game: shown.games[chosen].number, ply })}`);

/** Choose the game of the pair that the address names and the buttons export. */
function choose(place) {
  chosen = place;
  const moves = shown.games[place].moves;
  byId("pair").querySelectorAll("figure").forEach((figure, i) => figure.classList.toggle("chosen", i === place));
  byId("pair").querySelectorAll("input[name=game]").forEach((box, i) => { box.checked = i === place; });
  byId("to-tree").hidden = !isOpen || ply >= moves.length;
  byId("to-tree").href = `/tree?${query({ run, game, moves: moves.slice(0, ply).join(",") })}`;
  remember();
}

function step(pair, number) {
  const most = longest(pair);
  ply = Math.min(Math.max(0, number), most);
  pair.games.forEach(({ moves }, i) => {
    const at = Math.min(ply, moves.length);
    byId(`board-${i}`).src = board(pair, i, at);
    byId(`board-${i}`).alt = at ? `Board after move ${at}, ${moves[at - 1]}` : "Board at the start";
  });
  byId("ply").value = ply;
  byId("position").textContent = ply === pair.opening_plies ? `position ${ply}: the opening` : `position ${ply} of ${most}`;
  choose(chosen);
}

/** Return the part about the chosen game: its files, and why it has no curve of values. */
const files = () => [
  exports((kind) => `${path("runs", run, "match", "export")}?${query({ id: detail.id, pair: shown.number, game: shown.games[chosen].number, kind })}`),
  el("p", { class: "dim" }, "The journal keeps moves and scores of the games of a match, without their searches: there is no curve of values. ", el("a", { id: "to-tree" }, "Tree of this position")),
];

function openPair(pair, { place = 0, at = pair.opening_plies } = {}) {
  const home = byId("pair"), most = longest(pair);
  [shown, chosen] = [pair, Math.min(Math.max(0, place), pair.games.length - 1)];
  home.hidden = false;
  home.replaceChildren(
    el("h2", {}, `${capital(word(detail))} ${pair.number}: ${outcome(pair)}${pair.is_counted ? "" : ", not counted"}`),
    el("p", { class: "dim" }, `Opening ${pair.games[0].moves.slice(0, pair.opening_plies).join(" ") || "none"}; its games begin there, each with other seats.`),
    el("div", { class: "stepper pair-stepper" },
      el("button", { type: "button", onclick: () => step(pair, ply - 1), "aria-label": "Previous position" }, "‹"),
      el("label", { class: "grow" }, el("span", { class: "hidden" }, "Ply"), el("input", { id: "ply", type: "range", min: 0, max: most, oninput: (event) => step(pair, Number(event.target.value)) })),
      el("button", { type: "button", onclick: () => step(pair, ply + 1), "aria-label": "Next position" }, "›"),
      el("span", { id: "position", class: "dim", "aria-live": "polite" })),
    el("div", { class: "games-of-pair" }, pair.games.map((played, i) => el("figure", {},
      el("figcaption", {}, el("label", {}, el("input", { type: "radio", name: "game", value: played.number, onchange: () => choose(i) }), ` Game ${played.number}`), `: version ${detail.version} on seat ${played.seats.join(", ")} ${played.points > 0.5 ? "won" : played.points < 0.5 ? "lost" : "drew"}, ${played.moves.length} plies`),
      el("div", { class: "board-frame" }, el("img", { id: `board-${i}`, class: "board" })),
      el("p", { class: "dim mono" }, played.moves.join(" "))))), ...files());
  step(pair, at);
  home.scrollIntoView({ block: "nearest" });
}

const summary = (row) => el("p", {}, !row.is_begun ? "No game that counts has ended." : `${row.wins} won, ${row.draws} drawn, ${row.losses} lost in ${count(row.pairs)} ${word(row)}s: ${percent(row.share)} of the points (95 % interval ${percent(row.share_low)} to ${percent(row.share_high)}).`);

/** Read whether players hide nothing; after a failure, once more. */
function learn() {
  return facts ??= fetchJson(path("games")).then(
    ({ games }) => { isOpen = games.some((one) => one.game === game && one.information === "perfect"); },
    (error) => { facts = null; throw error; },
  );
}

const page = (values) => fetchJson(`${path("runs", run, "matches")}?${query(values)}`);

/** Return the match that the address names: by id, or by version and opponent as the page of models does; null without one. */
async function named(asked) {
  if (asked.has("id")) return { id: asked.get("id") };
  const opponent = asked.has("opponent") ? { opponent: asked.get("opponent") } : {};
  const of = (await page({ version: asked.get("version"), ...opponent, limit: MOST_AT_ONCE })).matches;
  return of.find((row) => row.id && row.state !== "ended") ?? of.find((row) => row.id) ?? of[0] ?? null;
}

/** Return the pair, place of the game and ply that an address names, as far as the match has them. */
function place(asked) {
  const number = (name, usual) => (/^\d+$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : usual);
  const pair = detail.games.find((one) => one.number === number("pair", detail.games[0].number)) ?? detail.games[0];
  return [pair, { place: pair.games.findIndex((one) => one.number === number("game", 1)), at: number("ply", pair.opening_plies) }];
}

async function open(row, asked = new URLSearchParams()) {
  const home = byId("match");
  opened = key(row);
  mark();
  tell();
  home.hidden = false;
  byId("pair").hidden = true;
  if (!row.id) {
    opening();
    home.replaceChildren(
      el("h2", {}, `Version ${row.version} against ${row.opponent}: ${verdict(row)}`), summary(row),
      el("p", { class: "dim" }, `Log-likelihood ratio ${signed(row.log_likelihood_ratio)}. The games and the path of the test are gone: the gatekeeper compacted its journal, and kept the report.`));
    return;
  }
  const say = (passed) => home.replaceChildren(el("p", { class: "dim", role: "status" }, `Reading the games… ${passed}`.trim()));
  say("");
  try {
    const found = await opening((isLatest) => patiently(() => fetchJson(`${path("runs", run, "match")}?${query({ id: row.id })}`), (passed) => { if (isLatest()) say(passed); }));
    if (!found) return;
    detail = found;
    history.replaceState(null, "", `#${query({ id: row.id })}`);
    home.replaceChildren(
      el("h2", {}, `Version ${detail.version} against ${detail.opponent}: ${verdict(detail)}`),
      summary(detail),
      detail.reason ? el("p", { class: "dim" }, detail.reason) : "",
      detail.play ? el("p", { class: "dim" }, `Both versions: ${detail.play}.`) : "",
      ...testFigure(detail),
      el("h2", {}, capital(`${word(detail)}s`)),
      el("p", { class: "dim" }, `Number of the ${word(detail)}, and the version's points in it; a grey one does not count, as it ended after the decision or is incomplete.`),
      el("ul", { class: "choice-list" }, detail.games.map((pair) => el("li", {}, el("button", { type: "button", class: pair.is_counted ? "" : "dim", title: pair.is_counted ? "" : "not counted", onclick: () => openPair(pair) }, `${pair.number}: ${short(pair)}`)))));
    if (detail.games.length) openPair(...place(asked));
  } catch (error) {
    home.replaceChildren(el("p", { class: "error-text" }, error.message));
  }
}

/** Mark the row of the match that is shown. */
const mark = () => byId("matches").querySelectorAll("tbody tr").forEach((row, i) => row.classList.toggle("chosen", key(matches[i]) === opened));

function list() {
  byId("count").textContent = matches.length ? `${count(matches.length)} of ${count(total)} matches${conditions.size ? " that fit the filter" : ""}` : "";
  showWhile(before !== null, byId("more"), byId("matches"));
  byId("matches").hidden = !matches.length;
  byId("matches").replaceChildren(table([
    ["versions", (row) => (row.id ? el("button", { type: "button", class: "link", onclick: () => open(row) }, `${row.version} : ${row.opponent}`) : `${row.version} : ${row.opponent}`)],
    ["match", (row) => KINDS[row.kind] ?? ""],
    ["verdict", verdict],
    ["score", score],
    ["points", (row) => (row.is_begun ? percent(row.share) : "–"), { right: true }],
    ["95 % interval", (row) => (row.is_begun ? `${percent(row.share_low)} to ${percent(row.share_high)}` : "–"), { right: true }],
    ["llr", (row) => signed(row.log_likelihood_ratio), { right: true }],
    [matches.some(isOfGroups) ? "groups by points" : "pairs by points", (row) => histogram(row)],
  ], matches, { caption: "Matches, newest first" }));
  mark();
}

/** Show what holds for the whole list, in place of a line about one match. */
function tell() {
  if (total === null) return;
  notice(matches.length ? (fault && `The bounds of the test are unknown: ${fault}`) : conditions.size ? "No match fits the filter."
    : `No match has been played yet: the gatekeeper plays one when the trainer has exported a further version.${onward}`);
}

/** Add the matches of older versions. */
async function more() {
  const found = await listing(() => page({ ...Object.fromEntries(conditions), limit: PAGE, before }));
  if (!found) return;
  matches = [...matches, ...found.matches];
  [total, before] = [found.total, found.next_before];
  list();
}

/** Put the conditions of the address into the form, and return them; the server answers for one that no field can hold. */
function fill() {
  const given = new URLSearchParams(location.search);
  for (const name of names) form.elements[name].value = given.get(name) ?? "";
  return new URLSearchParams(names.filter((name) => given.has(name)).map((name) => [name, given.get(name)]));
}

/** List the newest matches that fit the conditions of the address. */
async function begin() {
  [listed, conditions] = [location.search.slice(1), fill()];
  [matches, total, before] = [[], null, null];
  list();
  notice("Reading the matches…");
  const answers = await listing(() => Promise.all([page({ ...Object.fromEntries(conditions), limit: PAGE }), learn()]));
  if (!answers) return;
  const [found] = answers;
  [matches, total, before, fault] = [found.matches, found.total, found.next_before, found.fault];
  byId("rule").textContent = found.rule ? `Rule: ${found.rule}. A match opens while the journal holds its games: until the gatekeeper compacts it.` : "";
  tell();
  list();
}

/** List the matches that fit a query, and keep it in the address, beside the match that is shown. */
function go(wish) {
  if (wish.toString() !== location.search.slice(1)) history.pushState(null, "", `${wish.size ? `?${wish}` : location.pathname}${location.hash}`);
  return begin();
}

/** Open the match that the address names. */
async function follow() {
  const wish = new URLSearchParams(location.hash.slice(1));
  if (!wish.has("id") && !wish.has("version")) return;
  opened = null;
  tell();
  byId("match").hidden = byId("pair").hidden = true;
  mark();
  const row = await opening(() => named(wish));
  if (row) await open(row, wish);
  else if (row === null) notice(`No match of version ${wish.get("version")} is recorded.`);
}

const telling = (work) => work().catch((error) => notice(error.message, true));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  telling(() => go(new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value))));
});
byId("clear").addEventListener("click", () => telling(() => go(new URLSearchParams())));
byId("more").addEventListener("click", () => telling(more));
addEventListener("hashchange", () => telling(follow));
addEventListener("popstate", () => { // also where only the match changes
  if (location.search.slice(1) !== listed) telling(begin);
});
await telling(async () => {
  await begin();
  await follow();
});
