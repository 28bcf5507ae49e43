import { away, byId, count, duration, el, fetchJson, moment, notice, path, rating, sparkline } from "./common.js";

const MOST_COMPARED = 6;
const marked = new Set();

/** Return the rating of a run, always with its interval; of another version than the champion where that one has none. */
const rated = (row) => `${row.rated_version === row.champion || row.elo === null ? "" : `not anchored; version ${row.rated_version}: `}${rating(row.elo, row.elo_low, row.elo_high)}`;

function card(row) {
  const home = `/runs/${encodeURIComponent(row.name)}/overview`;
  const mark = el("input", { type: "checkbox", "aria-label": `Compare ${row.name}`, onchange: (event) => remember(row.name, event.target.checked) });
  const parameters = Object.entries(row.parameters).map(([name, value]) => `${name}=${value}`).join(" ");
  const facts = [
    ["Game", [row.game, parameters].filter(Boolean).join(" ")],
    ["Preset", row.preset],
    ["Begun", el("time", { datetime: row.created_at }, `${moment(row.created_at)} UTC (${duration((Date.now() - new Date(row.created_at)) / 1000)} ago)`)],
    ["Champion", row.champion === null ? "none yet" : `version ${row.champion}, ${rated(row)}`],
    ["Games", count(row.games_stored)],
    ["Steps", count(row.step)],
  ];
  return el("li", { class: "card" },
    el("div", { class: "card-head" }, el("h2", {}, el("a", { href: home }, row.name)), el("span", { class: row.is_alive ? "tag good" : "tag" }, row.is_alive ? "alive" : away)),
    el("dl", { class: "facts" }, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("div", { class: "trends" },
      el("div", {}, "Loss", sparkline(row.loss_trend, `Loss over the run, last ${row.loss_trend.at(-1)?.toFixed(3) ?? "unknown"}`)),
      el("div", {}, "Elo", sparkline(row.elo_trend, `Rating over the run: ${rated(row)}`))),
    el("label", { class: "dim" }, mark, " compare"));
}

function remember(name, isMarked) {
  if (isMarked) marked.add(name); else marked.delete(name);
  byId("compare").querySelector("button").disabled = marked.size < 2 || marked.size > MOST_COMPARED;
}

byId("compare").addEventListener("submit", (event) => {
  event.preventDefault();
  const [first, ...others] = marked;
  location.href = `/runs/${encodeURIComponent(first)}/curves?${new URLSearchParams(others.map((name) => ["with", name]))}`;
});

try {
  const { runs, unreadable } = await fetchJson(path("runs"));
  notice(runs.length ? "" : "There is no run here yet: start one with zerofleet run connect_four.");
  byId("compare").hidden = runs.length < 2;
  byId("runs").replaceChildren(...runs.map(card));
  byId("faults").replaceChildren(...unreadable.map(({ name, fault }) => el("p", { class: "notice error" }, `${name}: ${fault}`)));
} catch (error) {
  notice(error.message, true);
}
