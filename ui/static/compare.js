// Two versions beside each other; the address holds versions, sample and order, so that it can be kept and sent.
import { bars, byId, count, el, fetchJson, game, notice, onward, path, patiently, percent, retire, run, signed, table } from "./common.js";

const form = byId("begin"), asked = new URLSearchParams(location.search);
const MOST_OFFERED = 500; // versions in the choices; the address takes any other one
const DEFAULTS = { positions: "500", seed: "0", moves: "", limit: "12" };
const NOT_YET = "The first comparison starts an inference server where these networks need one.";
let versions = null, opinions = null, before = asked.get("before"), asking = null;

const query = (values) => new URLSearchParams(values).toString();
const value = (name) => form.elements[name].value;
const champion = (row) => (row.is_champion ? " ★" : "");

/** Return what the address and the requests hold of the form. */
function wish() {
  const found = { first: value("first"), second: value("second") };
  for (const [name, usual] of Object.entries(DEFAULTS)) if (value(name) !== usual) found[name] = value(name);
  if (value("order")) found.order = value("order");
  if (before && !found.moves) found.before = before;
  return found;
}

function manifests() {
  const { settings, first, second } = versions, differing = settings.filter((one) => one.differs);
  const shown = byId("differences").checked ? differing : settings;
  byId("differing").textContent = `${differing.length} of ${settings.length} entries differ`;
  byId("manifests").replaceChildren(table([
    ["differs", (one) => (one.differs ? el("span", { class: "differs" }, "≠", el("span", { class: "hidden" }, "yes")) : "")],
    ["entry", (one) => one.name],
    [`A: version ${first.version}`, (one) => one.first ?? "–", { wide: true }],
    [`B: version ${second.version}`, (one) => one.second ?? "–", { wide: true }],
  ], shown, { caption: "Manifests, entry by entry", rowClass: (one) => (one.differs ? "different" : "") }));
}

function matches() {
  const home = byId("match");
  if (!versions.matches.length) {
    home.replaceChildren(el("p", { class: "dim" }, "The gate played no match between these two versions."));
    return;
  }
  home.replaceChildren(...versions.matches.map((row) => el("p", {},
    row.id ? el("a", { href: `/runs/${encodeURIComponent(run)}/matches#${query({ id: row.id })}` }, `Version ${row.version} against ${row.opponent}`) : `Version ${row.version} against ${row.opponent}`,
    `: ${row.wins} won, ${row.draws} drawn, ${row.losses} lost in ${count(row.pairs)} pairs${row.is_begun ? `, ${percent(row.share)} of the points (95 % interval ${percent(row.share_low)} to ${percent(row.share_high)})` : ""}, log-likelihood ratio ${signed(row.log_likelihood_ratio)}${row.status ? `; ${row.status}` : ""}. `,
    row.id ? "The link leads to its pairs and the path of the test." : "Its games are gone; the report of the verdict remains.")));
}

const interval = ({ low, high }, write) => (low === null ? "–" : `${write(low)} to ${write(high)}`);

function figures() {
  const number = (found) => found.toFixed(4), difference = (found) => signed(found, 4), { first, second } = opinions;
  byId("figures").replaceChildren(table([
    ["mean of", ([name]) => name, { wide: true }],
    ["value", ([, figure, write]) => write(figure.mean), { right: true }],
    ["95 % interval", ([, figure, write]) => interval(figure, write), { right: true }],
  ], [
    ["distance of the policies", opinions.total_variation, number],
    [`divergence of ${first} from ${second}, nats`, opinions.divergence, number],
    [`divergence of ${second} from ${first}, nats`, opinions.reverse_divergence, number],
    ["same best move", opinions.same_best, percent],
    ["gap of the values", opinions.value_gap, number],
    [`value of ${second} minus value of ${first}`, opinions.value_shift, difference],
  ], { caption: "Means over the positions" }));
  const place = opinions.source === "moves" ? "a line of moves, which has no interval" : `${count(opinions.games)} of the newest stored games before number ${count(opinions.before)}, seed ${opinions.seed}`;
  byId("source").textContent = `${count(opinions.positions)} different positions of ${place}; evaluated in ${opinions.evaluated_in}.${opinions.has_policies ? "" : " Both policies are uniform: these networks have values alone."}`;
}

/** Return the links of a position: its replay and its tree. */
function links(row) {
  if (!row.uid) return [el("a", { href: `/tree?${query({ run, game, model: `model:${opinions.first}`, moves: row.moves.join(" ") })}` }, "Tree")];
  return [
    el("a", { href: `/runs/${encodeURIComponent(run)}/games/${row.uid}#ply=${row.ply}` }, "Replay"), " ",
    el("a", { href: `/tree?${query({ run, game, model: `model:${opinions.first}`, uid: row.uid, ply: row.ply })}` }, "Tree")];
}

function card(row, place) {
  const at = row.uid ? `Game ${row.uid.slice(0, 8)}, ply ${row.ply}` : row.moves.length ? `After ${row.moves.join(" ")}` : "The start";
  const position = row.uid ? { uid: row.uid, ply: row.ply } : { moves: row.moves.join(" ") };
  const best = row.first_best === row.second_best ? `both prefer ${row.first_best}` : `A prefers ${row.first_best}, B ${row.second_best}`;
  const percentage = (share) => `${(100 * share).toFixed(1)} %`;
  return el("li", { class: "panel" },
    el("h3", {}, `${place + 1}. ${at}`),
    el("div", { class: "board-frame" }, el("img", { class: "board", loading: "lazy", alt: `${at}, player ${row.player} to move: ${best}`, src: `${path("runs", run, "compare", "board")}?${query(position)}` })),
    el("p", {}, `Player ${row.player} to move: ${best}.`),
    el("dl", { class: "facts" },
      el("dt", {}, "distance"), el("dd", {}, `${row.total_variation.toFixed(3)}, divergence ${row.divergence.toFixed(3)} and ${row.reverse_divergence.toFixed(3)} nats`),
      el("dt", {}, "values"), el("dd", {}, `A ${signed(row.first_value, 3)}, B ${signed(row.second_value, 3)}`)),
    table([
      ["move", ({ move }) => move],
      ["prior A", ({ first }) => percentage(first), { right: true }],
      ["prior B", ({ second }) => percentage(second), { right: true }],
      ["A over B", ({ first, second }) => bars(first, second)],
    ], row.priors, { caption: `Best moves of both, ${row.legal} legal`, rowClass: ({ move }) => (move === row.first_best || move === row.second_best ? "played" : "") }),
    el("p", { class: "links" }, ...links(row)));
}

function show() {
  figures();
  byId("positions").hidden = false;
  form.elements.order.value = opinions.order;
  byId("boards").replaceChildren(...opinions.rows.map(card));
}

async function compare() {
  asking?.abort();
  const mine = asking = new AbortController();
  const found = wish();
  history.replaceState(null, "", `?${query(found)}`);
  byId("cancel").hidden = false;
  byId("state").textContent = "comparing…";
  notice();
  const read = (url) => patiently(() => fetchJson(url, undefined, { signal: mine.signal }), (passed) => { if (asking === mine) notice(`Comparing… ${passed}`); });
  try {
    versions = await read(`${path("runs", run, "compare")}?${query({ first: found.first, second: found.second })}`);
    byId("about").hidden = false;
    matches();
    manifests();
    if (!opinions) byId("source").textContent = NOT_YET;
    opinions = await read(`${path("runs", run, "compare", "positions")}?${query(found)}`);
    before = opinions.before === null ? null : String(opinions.before);
    show();
    notice();
    history.replaceState(null, "", `?${query(wish())}`);
  } catch (error) {
    if (asking !== mine) return;
    opinions = null;
    byId("positions").hidden = true;
    byId("figures").replaceChildren();
    byId("source").textContent = "Not compared.";
    notice(mine.signal.aborted ? "The comparison was cancelled." : error.message, !mine.signal.aborted);
  } finally {
    if (asking === mine) {
      retire(byId("cancel"), form.querySelector("[type=submit]"));
      byId("state").textContent = "";
    }
  }
}

/** Compare anew: in the newest games, where the sample is another one. */
function begin() {
  before = null;
  return compare();
}

form.addEventListener("submit", (event) => { event.preventDefault(); begin(); });
for (const name of ["order", "limit"]) for (const field of document.querySelectorAll(`[name=${name}]`)) field.addEventListener("change", compare);
byId("cancel").addEventListener("click", () => asking?.abort());
byId("differences").addEventListener("change", manifests);

try {
  const read = (wanted) => fetchJson(`${path("runs", run, "models")}?${new URLSearchParams(wanted)}`);
  const newest = await read({ limit: MOST_OFFERED });
  const champions = newest.champion === null ? [] : (await read({ champions: 1, limit: 2, before: newest.champion + 1 })).versions; // with the one before
  const known = new Map([...newest.versions, ...champions].filter((row) => row.status !== "corrupt").map((row) => [row.version, row]));
  const rows = [...known.values()].sort((one, other) => other.version - one.version);
  for (const name of ["first", "second"]) form.elements[name].append(...rows.map((row) => el("option", { value: row.version }, `${row.version}${champion(row)}`)));
  if (rows.length < 2) {
    notice(`A comparison needs two sound versions, and the run has fewer: the trainer exports further ones.${onward}`);
    form.hidden = true;
  } else {
    const crowned = rows.find((row) => row.is_champion) ?? rows[0];
    for (const name of ["first", "second"]) {
      const wanted = asked.get(name); // champion, or a version that is gone, which the server refuses with its reason
      if (wanted && !rows.some((row) => String(row.version) === wanted)) form.elements[name].append(el("option", { value: wanted }, wanted));
    }
    form.elements.first.value = asked.get("first") ?? String((rows.find((row) => row.version < crowned.version && row.was_champion) ?? rows.find((row) => row !== crowned)).version);
    form.elements.second.value = asked.get("second") ?? String(crowned.version);
    for (const name of ["positions", "seed", "moves", "order", "limit"]) if (asked.get(name)) form.elements[name].value = asked.get(name);
    if (asked.get("first") && asked.get("second")) await compare();
    else notice("Choose two versions.");
  }
} catch (error) {
  notice(error.message, true);
}
