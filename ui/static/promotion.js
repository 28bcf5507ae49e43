// Champion of a run: an operator promotes a version or rolls back, each after a confirmation that names what will happen.
import { byId, el, fetchJson, moment, path, patiently, rating, run } from "./common.js";

const home = path("runs", run, "champion"), dialog = byId("crown"), form = dialog.querySelector("form"), about = byId("champion-about");
let session, now = null, order = null, isBusy = false, changed = async () => {};

const say = (text, isError = false) => { about.textContent = text; about.classList.toggle("error-text", isError); };
const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");
const refusal = () => now.refusal || session.refusal;

function show() {
  byId("champion").hidden = false;
  byId("champion-now").textContent = now.champion === null ? "No version was promoted yet."
    : `Version ${now.champion}${now.promoted_at === null ? "" : `, since ${moment(now.promoted_at)} UTC`}: ${now.reason || "no reason given"}.`;
  const back = byId("rollback");
  back.textContent = `Roll back to version ${now.rollback_to}…`;
  back.hidden = Boolean(refusal()) || now.rollback_to === null;
  document.querySelectorAll("#rollback, button.crowns").forEach((button) => { button.disabled = isBusy; });
}

/** Return the version of the present champion; null without one, and where it cannot be read. */
export const champion = () => now?.champion ?? null;

/** Return the button that promotes a version; nothing for the champion, and for people who may not. */
export function promotion(version) {
  if (now === null || refusal() || version.version === now.champion) return [];
  const button = el("button", { type: "button", class: "crowns", disabled: isBusy, onclick: () => ask({ version: version.version, from: version }) }, `Promote version ${version.version}…`);
  return [el("p", {}, button)];
}

function match({ match: report }) {
  return report ? `${report.wins} won, ${report.draws} drawn, ${report.losses} lost against version ${report.champion_version}` : "none";
}

/** Show the confirmation of a promotion, or of a rollback where no version is given. */
function ask(wish) {
  order = { ...wish, champion: now.champion, to: now.rollback_to };
  const { version, from } = order, is = version !== undefined, next = is ? version : order.to;
  byId("crown-question").textContent = is ? `Promote version ${version}?` : `Roll back to version ${next}?`;
  byId("crown-go").textContent = is ? "Promote" : "Roll back";
  const facts = [
    ["Champion now", now.champion === null ? "none" : `version ${now.champion}, ${now.reason}`],
    ["Champion afterwards", `version ${next}`],
    ...(is ? [["Its verdict", from.status || "never submitted"], ["Its match", match(from)], ["Its rating", from.elo === null ? "none" : rating(from.elo, from.elo_low, from.elo_high)]] : []),
  ];
  byId("crown-facts").replaceChildren(...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  const meaning = is ? "It becomes champion by the decision of the operator, whatever its match." : `Version ${now.champion} is passed over, as if it had never been promoted.`;
  const course = now.has_gatekeeper
    ? `The gatekeeper verifies version ${next} and has the inference server load it. Workers then play with it within seconds; a candidate in a match begins again against it.`
    : `The run is stopped: a gatekeeper and an inference server are started to verify and load version ${next}, and end afterwards. Workers play with it when the run continues.`;
  byId("crown-then").textContent = `${meaning} ${course}`;
  byId("crown-risk").hidden = !is || from.is_self_tested;
  byId("crown-untested").textContent = `Version ${next} was never champion with a passed self-test, so its output is not known to be right. It is promoted only if an inference server can load it and it passes the self-test. Without that, a champion that fails to load, or plays nonsense, stops the whole run.`;
  form.elements.untested.checked = false;
  form.elements.reason.value = "by hand";
  dialog.returnValue = "";
  dialog.showModal();
}

async function carryOut() {
  const { version, champion, to } = order, reason = form.elements.reason.value;
  const is = version !== undefined;
  isBusy = true;
  show();
  const text = `${is ? `Version ${version} is being promoted` : `The rollback to version ${to} has begun`}${now.has_gatekeeper ? "…" : "; the services that it needs are starting…"}`;
  const send = (url, wish) => patiently(() => fetchJson(url, wish, { headers: { "X-CSRF-Token": session.csrf_token } }), (passed) => say(`${text} ${passed}`));
  say(text);
  let told = "", isError = false;
  try {
    now = is ? await send(home, { version, champion, reason, without_self_test: form.elements.untested.checked })
      : await send(`${home}/rollback`, { champion, to, reason });
    told = `Version ${now.champion} is champion.`;
  } catch (error) {
    [told, isError] = [sentence(error.message), true];
    now = await fetchJson(home).catch(() => now); // as it is after the failure
  }
  isBusy = false;
  show();
  say(told, isError);
  await changed().catch((error) => say(error.message, true));
}

/** Show the champion; `read` reads the list of versions again after a change. */
export async function follow(read) {
  changed = read;
  try {
    [session, now] = await Promise.all([fetchJson(path("session")), fetchJson(home)]);
    show();
    say(sentence(refusal()));
  } catch (error) {
    byId("champion").hidden = false;
    say(error.message, true);
  }
}

byId("rollback").addEventListener("click", () => ask({}));
dialog.addEventListener("close", () => { if (dialog.returnValue === "go") carryOut(); });
