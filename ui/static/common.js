// Parts that all pages share. Text from outside becomes text nodes, never markup.
export const API = "/api/v1";
export const { run, game, uid } = document.body.dataset;
export const elsewhere = Boolean(document.body.dataset.elsewhere);
/** State of a run without a service that these pages see, and the sentence about it. */
export const away = elsewhere ? "from files" : "stopped";
export const awayText = elsewhere
  ? "The services are in other containers or on other machines, so these pages show the files of the run."
  : "The run is stopped: its services are away.";
/** What continues a run without files to show; nothing where its services are elsewhere. */
export const onward = elsewhere ? "" : " A stopped run goes on with zerofleet run --run-dir DIR.";
const SVG = "http://www.w3.org/2000/svg";

/** Return the path of the API for parts of a path, each escaped. */
export const path = (...parts) => [API, ...parts.map((part) => encodeURIComponent(part))].join("/");

async function asked(url, options) {
  try {
    return await fetch(url, options);
  } catch {
    throw new Error("zerofleet ui does not answer: it was stopped, or the connection is lost");
  }
}

const told = (answer) => answer.json().catch(() => ({ error: `${answer.status} ${answer.statusText}` }));

/** Fetch JSON until `signal` aborts; the message of a failure is that of the server, which has refused the request with `isRefusal`. */
export async function fetchJson(url, body, { headers = {}, signal } = {}) {
  const answer = await asked(url, body === undefined ? { signal } : { method: "POST", signal, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
  const content = await told(answer);
  signal?.throwIfAborted(); // then the content is incomplete
  if (!answer.ok) throw Object.assign(new Error(content.error ?? answer.statusText), { isRefusal: answer.status < 500 });
  return content;
}

/** Return the server's reason for refusing an address, which the end of a stream does not hold; empty where it is not refused. */
export const refusal = (url) => fetchJson(url).then(() => "", (error) => error.message);

/** Fetch a file with its name and the note about its content; the message of a failure is that of the server. */
export async function fetchFile(url) {
  const answer = await asked(url);
  if (!answer.ok) throw new Error((await told(answer)).error ?? answer.statusText);
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "download";
  return { name, note: answer.headers.get("X-Zerofleet-Note"), content: await answer.blob() };
}

/** Return what `work` returns; undefined, and no failure, when its answer comes after the end of `isWanted`. */
export async function whileWanted(isWanted, work) {
  try {
    const found = await work();
    return isWanted() ? found : undefined;
  } catch (error) {
    if (isWanted()) throw error;
    return undefined;
  }
}

/**
 * Return the function that asks questions of one kind: the answer, or the failure, of an earlier one can come later, and must not
 * replace what was asked for afterwards. It returns what `work` returns, undefined once a later question has begun. `work` receives
 * whether its question is still the latest, as a function; a question without `work` only ends the earlier ones.
 */
export function latest() {
  let begun = 0;
  return (work = () => undefined) => {
    const mine = (begun += 1), isLatest = () => mine === begun;
    return whileWanted(isLatest, () => work(isLatest));
  };
}

const FIRST_TOLD_MS = 1000, TOLD_EVERY_MS = 3000; // screen readers read each text
/**
 * Return what `work` returns. While it lasts, `say` receives every few seconds a text with the time that has passed and, while the
 * server compiles rules or search, the progress and the expected time; without a compilation its second argument is false.
 * `compilation` returns the compilation to show, by default that of the process of these pages.
 */
export async function patiently(work, say, compilation = () => fetchJson(path("compilation"))) {
  const began = performance.now();
  let isOver = false, timer = 0;
  const look = async () => {
    const now = await compilation().catch(() => ({ is_compiling: false }));
    if (isOver) return;
    timer = setTimeout(look, TOLD_EVERY_MS);
    say(now.is_compiling ? compiled(now) : `${Math.round((performance.now() - began) / 1000)} s`, now.is_compiling);
  };
  timer = setTimeout(look, FIRST_TOLD_MS);
  try {
    return await work();
  } finally {
    isOver = true;
    clearTimeout(timer);
  }
}

/** Show the wait for an event as `patiently` does; return the function that ends it. */
export function patientlyUntil(say, compilation) {
  let end;
  patiently(() => new Promise((resolve) => { end = resolve; }), say, compilation);
  return end;
}

const compiled = ({ functions, seconds, expected_s: expected }) =>
  `Rules and search compile for this machine, once: ${functions} function${functions === 1 ? "" : "s"} in ${Math.round(seconds)} ${seconds < expected ? `of about ${expected} s` : `s; an idle machine takes about ${expected} s`}.`;

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
};
export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
export const byId = (id) => document.getElementById(id);

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash of the address is the page's own: position, match or version
  byId("main").focus();
});

/** Hide a button that is of no use any more; another element receives its focus. */
export function retire(button, heir) {
  if (document.activeElement === button) heir.focus();
  button.hidden = true;
}

/** Show a button while it is of use; else hide it as `retire` does. */
export function showWhile(isUseful, button, heir) {
  if (isUseful) button.hidden = false;
  else retire(button, heir);
}

/** Scroll a panel into sight when its beginning is not, as below a list on a narrow page; its own content begins at the top. */
export function reveal(panel) {
  panel.scrollTop = 0;
  const { top } = panel.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) panel.scrollIntoView();
}

/** Put text and elements into a live region, unless it has their text already: screen readers read each text that is set. */
export function put(region, ...parts) {
  const made = el("span", {}, ...parts);
  if (region.textContent !== made.textContent) region.replaceChildren(...made.childNodes);
}

/** Show a line above the page, or hide it without text. */
export function notice(text = "", isError = false) {
  const line = byId("notice");
  line.hidden = !text;
  put(line, ...text.split(/(--[a-z-]+)/).map((part, i) => (i % 2 ? el("span", { class: "nowrap" }, part) : part))); // an option stays in one line
  line.classList.toggle("error", isError);
}

/**
 * Return the function that follows the states of the run or its cluster, `what`, from the beginning. It does while the page is
 * looked at: a browser has six connections to a server, which pages in the background would hold. `addresses` returns those of
 * the events of a `kind`, and of the state, which answers with the reason when the events are refused.
 */
export function following(kind, addresses, show, what) {
  let source = null, fault = "";
  function follow() {
    source?.close();
    source = null;
    if (document.hidden) return;
    const [events, state] = addresses(), mine = source = new EventSource(events);
    mine.addEventListener(kind, (event) => { fault = ""; show(JSON.parse(event.data)); });
    mine.addEventListener("fault", (event) => { fault = JSON.parse(event.data).error; });
    mine.addEventListener("error", async () => {
      const isOver = mine.readyState === EventSource.CLOSED; // refused: the run is gone, or the token is no longer valid
      put(byId("state"), isOver ? "not shown" : "reconnecting…");
      byId("state").classList.remove("good");
      const reason = isOver ? await refusal(state) : "";
      if (mine !== source) return; // begun again, or the page was left meanwhile
      notice(isOver ? reason || `The ${what} cannot be shown any more. Reload the page.` : fault || "zerofleet ui does not answer: it was stopped, or the connection is lost. This page reconnects by itself.", true);
    });
  }
  document.addEventListener("visibilitychange", follow);
  return follow;
}

export const count = (number) => (number ?? 0).toLocaleString("en");
export const several = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;
export const signed = (number, places = 2) => (number >= 0 ? "+" : "−") + Math.abs(number).toFixed(places);
export const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
export const moment = (text) => new Date(text).toISOString().slice(0, 19).replace("T", " ");
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}
export function compact(value, unit = "") {
  if (value === null || value === undefined) return "–";
  if (unit === "share") return percent(value);
  if (unit === "bytes") return value > 2 ** 30 ? `${(value / 2 ** 30).toFixed(2)} GiB` : value >= 2 ** 20 || !value ? `${Math.round(value / 2 ** 20)} MiB` : `${Math.ceil(value / 1024)} KiB`;
  const size = Math.abs(Number(value.toPrecision(3))); // 999,700 is 1.00 M, not 1.00e+3 k
  const scaled = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k", 1e3]].find(([least]) => size >= least);
  const text = scaled ? `${(value / (scaled[2] ?? scaled[0])).toPrecision(3)} ${scaled[1]}` : String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
  return text;
}
export const rating = (elo, low, high) =>
  elo === null || elo === undefined ? "not anchored" : `${Math.round(elo)} Elo (${Math.round(low)} to ${Math.round(high)})`;
export const result = (scores) => (new Set(scores).size === 1 ? "draw" : scores.map((score) => (score > 0 ? "+" : "") + Number(score.toFixed(3))).join("  "));

/** Return a table; columns are [title, cell(row), options], where options are `right` and `wide`. */
export function table(columns, rows, { caption, rowClass = () => "" } = {}) {
  const kind = (options) => Object.entries(options ?? {}).filter(([, is]) => is).map(([name]) => name).join(" ");
  const head = el("thead", {}, el("tr", {}, columns.map(([title, , options]) => el("th", { scope: "col", class: kind(options) }, title))));
  const body = el("tbody", {}, rows.map((row) => el("tr", { class: rowClass(row) }, columns.map(([, cell, options]) => el("td", { class: kind(options) }, cell(row) ?? "")))));
  return el("table", {}, caption ? el("caption", { class: "hidden" }, caption) : null, head, body);
}

/** Return a small line of values. */
export function sparkline(values, label) {
  const picture = svg("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": label });
  if (values.length > 1) {
    const low = Math.min(...values), spread = Math.max(...values) - low || 1;
    const points = values.map((value, i) => `${((100 * i) / (values.length - 1)).toFixed(2)} ${(28 - (26 * (value - low)) / spread).toFixed(2)}`);
    picture.append(svg("path", { d: `M${points.join("L")}` }));
  }
  return picture;
}

/** Return a bar of one or two shares in [0, 1]. */
export function bars(first, second) {
  const both = second !== undefined;
  const bar = (share, y, kind) => svg("rect", { x: 0, y, width: (100 * Math.max(0, Math.min(1, share))).toFixed(2), height: both ? 4 : 8, class: kind });
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(first, 0, "first"), both ? bar(second, 4, "second") : null);
}

/** Fill the choices of run and game of a form, as the address asks, and enable its submission; return every game and every run. */
export async function offer(form, asked) {
  const [{ games }, { runs }] = await Promise.all([fetchJson(path("games")), fetchJson(path("runs"))]);
  form.elements.run.append(...runs.map(({ name, game }) => el("option", { value: name }, `${name} (${game})`)));
  form.elements.game.append(...games.map(({ game }) => el("option", { value: game }, game)));
  form.elements.run.value = asked.get("run") ?? "";
  form.elements.game.value = asked.get("game") ?? (games.some(({ game }) => game === "connect_four") ? "connect_four" : games[0].game);
  form.querySelector("[type=submit]").disabled = false;
  return { games, runs };
}
