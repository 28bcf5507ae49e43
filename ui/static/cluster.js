import { away, awayText, bars, byId, compact, el, following, moment, notice, path, percent, put, run, several, table } from "./common.js";

const form = byId("fleet"), asked = new URLSearchParams(location.search);
let wanted = [];

const share = (value) => (value === null ? "–" : percent(value));
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Return the sentence about the parts near their capacity, and its end with the share, which changes from event to event. */
function first({ plan, measured_first: measured, is_near: isNear, parts, is_live: isLive }) {
  const found = parts.find(({ name }) => name === measured);
  const now = isLive ? "now" : "in the newest figures";
  const planned = plan ? ["First part to saturate by the plan: ", el("strong", {}, plan.saturates_first), ". "] : [];
  if (!found) return [[...planned, "Nothing is measured yet."], ""];
  return isNear
    ? [[...planned, "Nearest to its capacity as measured: ", el("strong", {}, measured)], `, of which ${share(found.measured)} is used ${now}.`]
    : [[...planned, `Measured, no part is near its capacity ${now}; the largest share is that of `, el("strong", {}, measured)], `: ${share(found.measured)}.`];
}

function show(now) {
  put(byId("state"), now.is_live ? "alive" : away);
  byId("state").classList.toggle("good", now.is_live);
  const about = [];
  if (!now.is_live) about.push(now.at ? `${awayText} The measured figures are those of the newest row of its files, of ${moment(now.at)} UTC. Shares of processors, the stream and the trainer's steps are measured only from services on this machine.` : `${awayText} The files have no figures yet, so nothing is measured.`);
  if (now.fault) about.push(`There is no plan: ${now.fault}.`);
  notice(about.join(" "));
  byId("cluster").hidden = false;
  const [sentence, end] = first(now);
  put(byId("first"), ...sentence);
  byId("used").textContent = end;
  byId("parts").replaceChildren(table([
    ["part", ({ name }) => capital(name)],
    ["planned", ({ planned }) => share(planned), { right: true }],
    ["measured", ({ measured }) => share(measured), { right: true }],
    ["planned above measured", ({ planned, measured }) => bars(planned ?? 0, measured ?? 0)],
    ["measured from", ({ basis }) => basis],
  ], now.parts, { caption: "Parts of the fleet", rowClass: ({ name }) => (name === now.plan?.saturates_first ? "champion" : "") }));
  byId("figures").replaceChildren(table([
    ["figure", ({ name }) => capital(name)],
    ["planned", ({ planned }) => compact(planned), { right: true }],
    ["measured", ({ measured }) => compact(measured), { right: true }],
  ], now.figures, { caption: "Flows of the fleet" }));
  byId("about").textContent = now.plan ? `Plan for ${several(now.gpus, "device")} and ${several(now.workers, "worker")}, preset ${now.plan.preset}; costs measured on ${now.plan.costs}.${now.plan.preset === now.preset ? "" : ` The run has preset ${now.preset}, so its searches and network differ from those of the plan.`} The plan expects each worker on a core of its own and each server on a device of its own.` : "";
}

const follow = following("cluster", () => [["cluster", "events"], ["cluster"]].map((parts) => `${path("runs", run, ...parts)}?${new URLSearchParams(wanted)}`), show, "cluster");

/** Follow the services beside the plan of the fleet in the form. */
function plan() {
  wanted = [...new FormData(form)].filter(([, value]) => value);
  history.replaceState(null, "", wanted.length ? `?${new URLSearchParams(wanted)}` : location.pathname);
  follow();
}

for (const name of ["gpus", "workers"]) form.elements[name].value = asked.get(name) ?? "";
form.addEventListener("submit", (event) => { event.preventDefault(); plan(); });
plan();
