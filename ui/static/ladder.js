import { byId, count, el, fetchJson, game, moment, notice, onward, path, percent, reveal, run, svg, table } from "./common.js";
import { chartFiles, rasterised } from "./files.js";

const WIDTH = matchMedia("(max-width: 40rem)").matches ? 380 : 640, HEIGHT = 300, LEFT = 48, TOP = 12, BOTTOM = 28, NAME_HEIGHT = 13;
const LETTER = 7, CAP = 5; // width of a letter of a name, and half of that of the end of an error bar
let players = [];

const name = ({ name: own, version }) => (version === null ? own : `version ${version}`);
const interval = ({ elo, elo_low, elo_high }) => (elo === null || elo_low === elo_high ? "" : `${Math.round(elo_low)} to ${Math.round(elo_high)}`);

/** Return round numbers between two values. */
function ticks(low, high) {
  const rough = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => power * factor).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

/** Return the interval of a single champion, of which a band would have no width. */
const errorBar = (at, low, high) => svg("path", { class: "line interval", d: [low, high].map((end) => `M${at - CAP} ${end.toFixed(1)}h${2 * CAP}`).join("") + `M${at} ${low.toFixed(1)}V${high.toFixed(1)}` });

/** Return the curve of the champions' Elo with its band, and a line for each rung. */
function curve() {
  const models = players.filter(({ version, elo }) => version !== null && elo !== null).sort((one, other) => one.version - other.version);
  const rungs = players.filter(({ version, elo }) => version === null && elo !== null).sort((one, other) => one.elo - other.elo);
  const heights = [...models.flatMap(({ elo_low, elo_high }) => [elo_low, elo_high]), ...rungs.map(({ elo }) => elo)];
  const longest = Math.max(0, ...rungs.map((rung) => rung.name.length)), right = Math.min(WIDTH * 0.4, Math.max(92, 12 + LETTER * longest));
  const letters = Math.floor((right - 12) / LETTER), cut = (text) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
  const low = Math.min(...heights), high = Math.max(...heights), first = models[0].version, last = models.at(-1).version;
  const x = (version) => LEFT + (last === first ? 0.5 : (version - first) / (last - first)) * (WIDTH - LEFT - right);
  const y = (elo) => TOP + ((high - elo) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  const at = (version, elo) => `${x(version).toFixed(1)} ${y(elo).toFixed(1)}`;
  const label = (place, text, options) => svg("text", { ...options, y: place.toFixed(1) }, text);
  let below = HEIGHT;
  return svg("svg", { class: "rating-curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Elo of ${models.length} champions over versions ${first} to ${last}; the last has ${Math.round(models.at(-1).elo)}` },
    ticks(low, high).flatMap((elo) => [svg("line", { class: "grid", x1: LEFT, x2: WIDTH - right, y1: y(elo), y2: y(elo) }), label(y(elo) + 4, `${elo}`, { x: LEFT - 6, class: "end" })]),
    ticks(first, last).filter(Number.isInteger).map((version) => label(HEIGHT - 8, `${version}`, { x: x(version), class: "middle" })),
    rungs.flatMap((rung) => {
      below = Math.min(y(rung.elo) + 4, below - NAME_HEIGHT);
      return [svg("line", { class: "rung", x1: LEFT, x2: WIDTH - right, y1: y(rung.elo), y2: y(rung.elo) }), label(below, [cut(rung.name), svg("title", {}, rung.name)], { x: WIDTH - right + 6, class: "rung-name" })];
    }),
    models.length === 1 ? errorBar(x(first), y(models[0].elo_low), y(models[0].elo_high)) : svg("path", { class: "band", d: `M${[...models.map((one) => at(one.version, one.elo_high)), ...models.toReversed().map((one) => at(one.version, one.elo_low))].join("L")}Z` }),
    svg("path", { class: "line", d: `M${models.map((one) => at(one.version, one.elo)).join("L")}` }),
    models.map((one) => svg("circle", { class: "dot", cx: x(one.version), cy: y(one.elo), r: 3.5 }, svg("title", {}, `version ${one.version}: ${Math.round(one.elo)} (${interval(one)})`))));
}

function open(player) {
  const home = byId("detail");
  home.hidden = false;
  home.replaceChildren(
    el("h2", {}, `Games of ${name(player)}`),
    player.promoted_at === null ? "" : el("p", { class: "dim" }, `First promoted ${moment(player.promoted_at)} UTC.`),
    player.meetings.length ? table([
      ["against", (row) => (row.opponent.startsWith("model:") ? `version ${row.opponent.slice(6)}` : row.opponent)],
      ["games", (row) => count(row.games), { right: true }],
      ["points", (row) => (row.share === null ? "by places" : percent(row.share)), { right: true }],
    ], player.meetings, { caption: `Rated games of ${name(player)}` }) : el("p", { class: "dim" }, "no rated games"));
  reveal(home);
}

/** Return the curve of the ladder for its files; the CSV has every rated player. */
function describe(drawn) {
  const stroke = (kind) => getComputedStyle(drawn.querySelector(kind) ?? drawn).stroke;
  const rated = players.filter((one) => one.elo !== null);
  return {
    title: "Ladder", unit: "Elo", axis: "versions", about: `${run}, ${game}: Elo with random at 0`, file: `${run}-ladder`, canvas: () => rasterised(drawn),
    lines: [{ label: "champions, with their 95 % intervals", colour: stroke(".line") }, ...(rated.some(({ version }) => version === null) ? [{ label: "classical players", colour: stroke(".rung"), dash: [5, 3] }] : [])],
    table: { columns: ["player", "version", "elo", "elo_low", "elo_high", "games"], rows: rated.map((one) => [one.name, one.version, one.elo, one.elo_low, one.elo_high, one.games]) },
  };
}

try {
  const found = await fetchJson(path("runs", run, "ladder"));
  players = found.players;
  notice(players.length ? (found.is_anchored ? "" : "No version has played against a classical player yet: ratings of versions are not anchored.") : `No rated game has been played yet: the gatekeeper plays the first ones when there is a champion.${onward}`);
  const champion = players.find((one) => one.is_champion);
  byId("state").textContent = found.champion === null ? "no champion" : `champion ${found.champion}: ${champion === undefined || champion.elo === null ? "not anchored" : `${Math.round(champion.elo)} (${interval(champion)})`}`;
  byId("curve").hidden = !found.is_anchored;
  if (found.is_anchored) {
    const drawn = curve();
    byId("curve").replaceChildren(el("p", { class: "dim" }, "Elo of the champions by version ", chartFiles("Ladder", () => describe(drawn))), drawn);
  }
  byId("players").hidden = !players.length;
  byId("players").replaceChildren(table([
    ["player", (row) => el("button", { type: "button", class: "link", onclick: () => open(row) }, `${name(row)}${row.is_champion ? " ★" : ""}`)],
    ["Elo", (row) => (row.elo === null ? "not anchored" : Math.round(row.elo)), { right: true }],
    ["95 % interval", interval, { right: true }],
    ["games", (row) => count(row.games), { right: true }],
    ["promoted, UTC", (row) => (row.promoted_at === null ? "" : moment(row.promoted_at))],
  ], players, { caption: "Ladder, strongest first", rowClass: (row) => (row.is_champion ? "champion" : "") }));
} catch (error) {
  notice(error.message, true);
}
