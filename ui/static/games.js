import { byId, count, el, fetchJson, notice, path, patiently, result, run, table } from "./common.js";

const PAGE = 50, FIRST_MOVES = 8;
const shown = [];

const link = (uid) => `/runs/${encodeURIComponent(run)}/games/${encodeURIComponent(uid)}`;

async function more() {
  byId("more").disabled = true;
  try {
    const asked = new URLSearchParams({ limit: PAGE, ...(shown.length ? { before: shown.at(-1).index } : {}) });
    const { total, games } = await patiently(() => fetchJson(`${path("runs", run, "games")}?${asked}`), (passed) => notice(`Reading the games… ${passed}`));
    shown.push(...games);
    notice(shown.length ? "" : "No game is stored yet.");
    byId("count").textContent = `${count(total)} games stored`;
    byId("games").hidden = !shown.length;
    byId("games").replaceChildren(table([
      ["game", (row) => el("a", { href: link(row.uid) }, count(row.index)), { right: true }],
      ["uid", (row) => el("code", {}, row.uid.slice(0, 12))],
      ["plies", (row) => row.plies, { right: true }],
      ["result", (row) => result(row.scores)],
      ["ending", (row) => row.ending],
      ["models", (row) => row.versions.map((version) => version || "–").join(" ")],
      ["moves", (row) => row.moves.slice(0, FIRST_MOVES).join(" ") + (row.moves.length > FIRST_MOVES ? " …" : "")],
      ["worker", (row) => row.worker],
      ["finished", (row) => row.finished_at ?? "?"],
    ], shown, { caption: "Stored games, newest first" }));
    byId("more").hidden = games.length < PAGE;
  } catch (error) {
    notice(error.message, true);
  }
  byId("more").disabled = false;
}

byId("more").addEventListener("click", more);
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  location.href = link(event.target.elements.uid.value.trim().toLowerCase());
});
notice("Reading the games…");
await more();
