import { byId, count, el, fetchJson, latest, path, patiently, patientlyUntil, percent, run, table } from "./common.js";

const form = byId("climb"), about = byId("climb-about"), confirmation = byId("climb-confirm"), home = path("runs", run, "ladder", "games"), counting = latest();
const BEGINS = "The games begin, with an inference server where the models need one…";
let session, ladder, following = null, endWait = () => undefined; // for the first game

const say = (text, isError = false) => { about.textContent = text; about.classList.toggle("error-text", isError); };
const wish = () => ({ games: Number(form.elements.games.value), every: Number(form.elements.every.value) });
const order = (url, body) => fetchJson(url, body, { headers: { "X-CSRF-Token": session.csrf_token } });
const elo = (value) => (value === null ? "" : Math.round(value));

function show() {
  const found = ladder.table;
  byId("climb-terms").textContent = found === null ? "" : `, with ${count(found.simulations)} simulations a move`;
  const isBusy = ladder.job !== null && !ladder.job.is_done;
  const refusal = ladder.refusal || session.refusal;
  byId("climb-play").disabled = isBusy || Boolean(refusal);
  form.querySelectorAll("input").forEach((input) => { input.disabled = isBusy; });
  byId("climb-live").hidden = !isBusy;
  byId("climb-cancel").hidden = !session.is_operator;
  if (!isBusy) say(`${ladder.missing ? `${count(ladder.missing)} games are missing. ` : ""}${refusal ? `${refusal[0].toUpperCase()}${refusal.slice(1)}.` : ""}`);
  const rows = found === null ? [] : found.champions.toReversed();
  const hasGames = rows.some(({ games }) => games);
  byId("climb-older").textContent = hasGames && ladder.older ? `The newest ${count(rows.length)} of ${count(rows.length + ladder.older)} champions. A larger K spreads the rows over the run.` : "";
  byId("climb-table").replaceChildren(hasGames ? table([
    ["player", ({ version }) => `version ${version}`],
    ["Elo", (row) => elo(row.elo), { right: true }],
    ["95 % interval", (row) => (row.elo === null || row.elo_low === row.elo_high ? "" : `${elo(row.elo_low)} to ${elo(row.elo_high)}`), { right: true }],
    ["games", ({ games }) => count(games), { right: true }],
    ...found.rungs.map(({ name }) => [name, ({ against }) => { const one = against.find(({ rung }) => rung === name); return one?.share == null ? "" : percent(one.share); }, { right: true }]),
  ], rows, { caption: "Champions, newest first, with their share of the points against each classical player" }) : "");
}

/** Read the ladder for the numbers of the form. */
async function countMissing() {
  counting(); // an answer about other numbers is late
  if (!form.reportValidity()) return;
  byId("climb-play").disabled = true; // the confirmation names the number for these numbers of the form
  say("Counting the missing games…");
  try {
    const found = await counting((isLatest) => patiently(() => fetchJson(`${home}?${new URLSearchParams(wish())}`), (passed) => { if (isLatest()) say(`Counting the missing games… ${passed}`); }));
    if (!found) return;
    ladder = found;
    show();
    if (ladder.job !== null && !ladder.job.is_done) follow();
  } catch (error) {
    say(error.message, true);
  }
}

function progress(job) {
  ladder.job = job;
  const bar = byId("climb-progress");
  if (job.missing) { bar.max = job.missing; bar.value = job.played; } else bar.removeAttribute("value");
  if (!job.played) return;
  endWait();
  say(`${count(job.played)} of ${count(job.missing)} games played${job.at ? `, now those of ${job.at.replace("model:", "version ")}` : ""}.`);
}

function end(text, isError) {
  endWait();
  following?.close();
  following = null;
  byId("climb-cancel").disabled = false;
  countMissing().then(() => say(`${text} ${about.textContent}`, isError));
}

function follow() {
  if (following !== null) return;
  say(BEGINS);
  endWait = patientlyUntil((passed) => say(`${BEGINS} ${passed}`), async () => ladder.job?.compiling ?? { is_compiling: false });
  following = new EventSource(`${home}/events`);
  following.addEventListener("job", (event) => {
    const job = JSON.parse(event.data);
    progress(job);
    if (job.is_done) end(job.fault || (job.is_cancelled ? `Cancelled after ${count(job.played)} games.` : `${count(job.played)} games were played.`), Boolean(job.fault));
    else show();
  });
  following.addEventListener("fault", (event) => end(JSON.parse(event.data).error, true));
  following.addEventListener("error", () => { if (following?.readyState === EventSource.CLOSED) end("zerofleet ui does not answer.", true); });
}

form.addEventListener("change", countMissing);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  byId("climb-question").textContent = `Play ${count(ladder.missing)} missing games of ${run}?`;
  confirmation.returnValue = "";
  confirmation.showModal();
});
confirmation.addEventListener("close", async () => {
  if (confirmation.returnValue !== "play") return;
  try {
    const job = await order(home, { ...wish(), confirmed: ladder.missing });
    counting(); // a number that was asked for before has no job
    ladder.job = job;
    show();
    progress(job);
    follow();
  } catch (error) {
    say(error.message, true);
  }
});
byId("climb-cancel").addEventListener("click", async () => {
  byId("climb-cancel").disabled = true;
  endWait();
  say("The games end…");
  try {
    await order(`${home}/cancel`, {});
  } catch (error) {
    byId("climb-cancel").disabled = false;
    say(error.message, true);
  }
});

try {
  session = await fetchJson(path("session"));
  await countMissing();
} catch (error) {
  say(error.message, true);
}
