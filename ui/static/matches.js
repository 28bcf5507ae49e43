import { byId, count, el, fetchJson, notice, path, patiently, percent, run, signed, svg, table } from "./common.js";

const POINTS = ["0", "½", "1", "1½", "2"];
const KINDS = { gate: "gate match", measurement: "measurement" };
const STATES = { open: "in progress", ended: "no verdict" };
const WIDTH = matchMedia("(max-width: 40rem)").matches ? 360 : 640, RIGHT = 50; // of the path, and the labels of its bounds
let matches = [], detail = null, ply = 0;

const verdict = (row) => (row.state === "decided" ? row.status : STATES[row.state]);
const score = ({ wins, draws, losses }) => `+${wins} =${draws} −${losses}`;
const query = (values) => new URLSearchParams(values).toString();
const outcome = (points) => (points === null ? "incomplete" : `${POINTS[Math.round(4 * points)]} of 2`);

/** Return the histogram of pairs by the version's points: no point at the left, two wins at the right. */
function histogram(pairs) {
  const most = Math.max(...pairs, 1);
  return svg("svg", { class: "histogram", viewBox: "0 0 96 36", role: "img", "aria-label": `pairs by points: ${pairs.map((number, i) => `${POINTS[i]}: ${number}`).join(", ")}` },
    pairs.flatMap((number, i) => [
      svg("rect", { x: 19 * i, y: 24 - (22 * number) / most, width: 16, height: Math.max(0.6, (22 * number) / most) }),
      svg("text", { x: 19 * i + 8, y: 35, class: "middle" }, `${number}`)]));
}

/** Return the path of the log-likelihood ratio between its bounds. */
function testPath({ path: values, llr_low: low, llr_high: high }) {
  const last = Math.max(1, values.length - 1), top = Math.max(high, ...values), bottom = Math.min(low, ...values);
  const end = WIDTH - RIGHT, x = (place) => 10 + ((end - 10) * place) / last, y = (value) => 8 + (144 * (top - value)) / (top - bottom);
  const level = (value, kind) => [svg("line", { class: kind, x1: 10, x2: end, y1: y(value), y2: y(value) }), svg("text", { x: end + 6, y: y(value) + 4 }, value ? signed(value) : "0")];
  return svg("svg", { class: "llr-path", viewBox: `0 0 ${WIDTH} 180`, role: "img", "aria-label": `log-likelihood ratio over ${values.length - 1} pairs, from 0 to ${signed(values.at(-1))}, between ${signed(low)} and ${signed(high)}` },
    level(low, "bound"), level(high, "bound"), level(0, "grid"),
    svg("path", { class: "line", d: `M${values.map((value, i) => `${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}` }),
    svg("circle", { class: "dot", cx: x(values.length - 1), cy: y(values.at(-1)), r: 3.5 }),
    svg("text", { x: 10, y: 174 }, "0"), svg("text", { x: end, y: 174, class: "end" }, `${values.length - 1} pairs`));
}

const board = (pair, game, at) => `${path("runs", run, "match", "board")}?${query({ id: detail.id, pair: pair.number, game: game + 1, ply: at })}`;

function step(pair, number) {
  const most = Math.max(...pair.games.map(({ moves }) => moves.length));
  ply = Math.min(Math.max(0, number), most);
  pair.games.forEach(({ moves }, i) => {
    const at = Math.min(ply, moves.length);
    byId(`board-${i}`).src = board(pair, i, at);
    byId(`board-${i}`).alt = at ? `Board after move ${at}, ${moves[at - 1]}` : "Board at the start";
  });
  byId("ply").value = ply;
  byId("position").textContent = ply === pair.opening_plies ? `position ${ply}: the opening` : `position ${ply} of ${most}`;
}

function openPair(pair) {
  const home = byId("pair"), most = Math.max(...pair.games.map(({ moves }) => moves.length));
  home.hidden = false;
  home.replaceChildren(
    el("h2", {}, `Pair ${pair.number}: ${outcome(pair.points)}${pair.is_counted ? "" : ", not counted"}`),
    el("p", { class: "dim" }, `Opening ${pair.games[0].moves.slice(0, pair.opening_plies).join(" ") || "none"}; its games begin there, each with other seats.`),
    el("div", { class: "stepper pair-stepper" },
      el("button", { type: "button", onclick: () => step(pair, ply - 1), "aria-label": "Previous position" }, "‹"),
      el("label", { class: "grow" }, el("span", { class: "hidden" }, "Ply"), el("input", { id: "ply", type: "range", min: 0, max: most, oninput: (event) => step(pair, Number(event.target.value)) })),
      el("button", { type: "button", onclick: () => step(pair, ply + 1), "aria-label": "Next position" }, "›"),
      el("span", { id: "position", class: "dim", "aria-live": "polite" })),
    el("div", { class: "games-of-pair" }, pair.games.map((game, i) => el("figure", {},
      el("figcaption", {}, `Version ${detail.version} on seat ${game.seats.join(", ")}: ${game.points > 0.5 ? "won" : game.points < 0.5 ? "lost" : "drawn"}, ${game.moves.length} plies`),
      el("div", { class: "board-frame" }, el("img", { id: `board-${i}`, class: "board" })),
      el("p", { class: "dim mono" }, game.moves.join(" "))))));
  step(pair, pair.opening_plies);
  home.scrollIntoView({ block: "nearest" });
}

const summary = (row) => el("p", {}, `${row.wins} won, ${row.draws} drawn, ${row.losses} lost in ${count(row.pairs)} pairs: ${percent(row.share)} of the points (95 % interval ${percent(row.share_low)} to ${percent(row.share_high)}).`);

/** Return the match that the address names: by id, or by version and opponent as the page of models does. */
function named(asked) {
  if (asked.has("id")) return matches.find((row) => row.id && row.id === asked.get("id"));
  const of = matches.filter((row) => String(row.version) === asked.get("version") && [null, String(row.opponent)].includes(asked.get("opponent")));
  return of.find((row) => row.id && row.state !== "ended") ?? of.find((row) => row.id) ?? of[0];
}

async function open(row) {
  list(row);
  const home = byId("match");
  home.hidden = false;
  byId("pair").hidden = true;
  if (!row.id) {
    home.replaceChildren(
      el("h2", {}, `Version ${row.version} against ${row.opponent}: ${verdict(row)}`), summary(row),
      el("p", { class: "dim" }, `Log-likelihood ratio ${signed(row.log_likelihood_ratio)}. The games and the path of the test are gone: the gatekeeper was started again, and kept the report.`));
    return;
  }
  const say = (passed) => home.replaceChildren(el("p", { class: "dim", role: "status" }, `Reading the games… ${passed}`.trim()));
  say("");
  try {
    detail = await patiently(() => fetchJson(`${path("runs", run, "match")}?${query({ id: row.id })}`), say);
    history.replaceState(null, "", `#${query({ id: row.id })}`);
    home.replaceChildren(
      el("h2", {}, `Version ${detail.version} against ${detail.opponent}: ${verdict(detail)}`),
      summary(detail),
      detail.reason ? el("p", { class: "dim" }, detail.reason) : "",
      detail.path.length ? el("figure", { class: "figure" }, el("figcaption", { class: "dim" }, `Log-likelihood ratio ${signed(detail.log_likelihood_ratio)}, by pair`), testPath(detail)) : "",
      el("h2", {}, "Pairs"),
      el("p", { class: "dim" }, "Number of the pair, and the version's points in it; a grey one does not count, as it ended after the decision or is incomplete."),
      el("ul", { class: "choice-list" }, detail.games.map((pair) => el("li", {}, el("button", { type: "button", class: pair.is_counted ? "" : "dim", title: pair.is_counted ? "" : "not counted", onclick: () => openPair(pair) }, `${pair.number}: ${pair.points === null ? "…" : POINTS[Math.round(4 * pair.points)]}`)))));
    if (detail.games.length) openPair(detail.games[0]);
  } catch (error) {
    home.replaceChildren(el("p", { class: "error-text" }, error.message));
  }
}

function list(chosen) {
  byId("matches").replaceChildren(table([
    ["versions", (row) => (row.id ? el("button", { type: "button", class: "link", onclick: () => open(row) }, `${row.version} : ${row.opponent}`) : `${row.version} : ${row.opponent}`)],
    ["match", (row) => KINDS[row.kind] ?? ""],
    ["verdict", verdict],
    ["score", score],
    ["points", (row) => percent(row.share), { right: true }],
    ["95 % interval", (row) => `${percent(row.share_low)} to ${percent(row.share_high)}`, { right: true }],
    ["llr", (row) => signed(row.log_likelihood_ratio), { right: true }],
    ["pairs by points", (row) => histogram(row.pentanomial)],
  ], matches, { caption: "Matches, newest first", rowClass: (row) => (row === chosen ? "chosen" : "") }));
}

try {
  const found = await fetchJson(path("runs", run, "matches"));
  matches = found.matches;
  notice(matches.length ? (found.fault && `The bounds of the test are unknown: ${found.fault}`) : "No match has been played yet.");
  byId("rule").textContent = found.rule ? `Rule: ${found.rule}. A match opens while the journal holds its games: until the gatekeeper is started again.` : "";
  byId("matches").hidden = !matches.length;
  list(null);
  const asked = new URLSearchParams(location.hash.slice(1)), row = named(asked);
  if (row) await open(row);
  else if (asked.has("version")) notice(`No match of version ${asked.get("version")} is recorded.`);
} catch (error) {
  notice(error.message, true);
}
