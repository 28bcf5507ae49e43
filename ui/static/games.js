import { byId, count, el, fetchJson, latest, moment, notice, onward, path, patiently, result, retire, run, several, showWhile, table } from "./common.js";

const PAGE = 50, FIRST_MOVES = 8;
const form = byId("filter"), names = [...new FormData(form).keys()], searching = latest();
let shown = [], before = null, searched = 0, unreadable = 0, total = 0;

const link = (uid) => `/runs/${encodeURIComponent(run)}/games/${encodeURIComponent(uid)}`;
const wish = () => new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));

/** Put the conditions of the address into the form; one that no field can hold is sent as it is, for the server's message. */
function fill() {
  const asked = new URLSearchParams(location.search);
  for (const name of names) form.elements[name].value = asked.get(name) ?? "";
  return asked;
}

function show() {
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
    ["finished, UTC", (row) => (row.finished_at ? moment(row.finished_at) : "?")],
  ], shown, { caption: "Stored games, newest first" }));
}

function tell(isFiltered) {
  const left = unreadable ? `, ${count(unreadable)} not readable` : "";
  byId("count").textContent = isFiltered
    ? `${count(shown.length)} found, ${count(searched)} of ${count(total)} games searched${left}`
    : `${several(total, "game")} stored${left}`;
}

/** Search on until a page of games is found, none is left, or another search begins; each request is bounded by the server. */
async function more(asked) {
  const wanted = shown.length + PAGE, isFiltered = asked.size > 0;
  byId("stop").hidden = !isFiltered;
  if (isFiltered) retire(byId("more"), byId("stop"));
  try {
    do {
      const query = new URLSearchParams([...asked, ["limit", wanted - shown.length], ...(before === null ? [] : [["before", before]])]);
      const found = await searching((isLatest) => patiently(() => fetchJson(`${path("runs", run, "games")}?${query}`), (passed) => {
        if (isLatest()) notice(`Reading the games… ${passed}`);
      }));
      if (!found) return;
      shown.push(...found.games);
      searched += found.searched;
      unreadable += found.unreadable;
      total = found.total;
      before = found.next_before;
      tell(isFiltered);
      if (found.games.length) show();
    } while (isFiltered && before !== null && shown.length < wanted);
    rest(isFiltered);
  } catch (error) {
    rest(isFiltered);
    notice(error.message, true);
  }
}

/** Show the state between two searches. */
function rest(isFiltered, isStopped = false) {
  const hasMore = before !== null || isStopped;
  const heir = byId(hasMore ? "more" : shown.length ? "games" : "clear");
  showWhile(hasMore, byId("more"), heir);
  retire(byId("stop"), heir);
  byId("more").textContent = isFiltered ? "Search older games" : "Older games";
  notice(shown.length || isStopped ? "" : isFiltered && total ? "No stored game fits the filter." : `No game is stored yet: the trainer stores the first ones as soon as they end.${onward}`);
}

async function begin() {
  [shown, before, searched, unreadable] = [[], null, 0, 0];
  const asked = fill();
  byId("games").hidden = byId("more").hidden = true;
  byId("games").replaceChildren();
  byId("count").textContent = "";
  notice("Reading the games…");
  await more(asked);
}

function go(query) {
  if (query.toString() !== location.search.slice(1)) history.pushState(null, "", query.size ? `?${query}` : location.pathname);
  begin();
}

byId("more").addEventListener("click", () => more(new URLSearchParams(location.search)));
byId("stop").addEventListener("click", () => {
  searching(); // no answer counts any more
  rest(true, true);
});
byId("clear").addEventListener("click", () => go(new URLSearchParams()));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  go(wish());
});
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  location.href = link(event.target.elements.uid.value.trim().toLowerCase());
});
addEventListener("popstate", begin);
await begin();
