// Puts the page together: takes states from the feed, draws the view that is shown, once a frame at most.
import { attained, attr, clock, el, id, keyed, known, num, percent, seconds, show, text, watts } from "./dom.js";
import { follow, hasToken, setToken } from "./feed.js";
import { VERDICTS, modelOf } from "./model.js";
import { makeParts, merged } from "./parts.js";
import { makeNode } from "./strip.js";
import { makeServices, remember } from "./services.js";
import { makeBanner, makeChange, STATES, stepsOf } from "./change.js";
import { makeBatch } from "./batch.js";
import { makeHistory } from "./history.js";
import { makeFleet } from "./fleet.js";

const VIEWS = ["now", "change", "batch", "history", "fleet"];
const views = Object.fromEntries(VIEWS.map((name) => [name, id(`view-${name}`)]));
let newest = null, // a state as text, not read yet
  state = null,
  fresh = false, // there is more than what is drawn
  waiting = false,
  model = null,
  updates = 0,
  view = "now";

// ---- words that are said once, and alarms
const say = (words) => text(id("said"), words);
let silence = 0;
function alarm(words) {
  text(id("alarm"), words);
  show(id("alarm"), true);
  clearTimeout(silence);
  silence = setTimeout(() => show(id("alarm"), false), 12000);
}

// ---- the first view
// "2 down, 3 more": the worst verdict that is there, and how many others do not serve.
function troubles(verdicts) {
  const [[key, [, word]], ...others] = Object.entries(VERDICTS).filter(
    ([one]) => one !== "serves" && verdicts[one] > 0,
  );
  const more = others.reduce((sum, [one]) => sum + verdicts[one], 0);
  return `${num(verdicts[key], 0)} ${word}${more ? `, ${num(more, 0)} more` : ""}`;
}

function makeTiles(parent) {
  const list = el("dl", { class: "tiles" });
  parent.append(list);
  const tile = (first) => {
    const value = el("dd"),
      more = el("dd", { class: "faint" });
    const node = el("div", {}, el("dt", {}, first.name), value, more);
    return {
      node,
      update: (one) => (
        text(value, one.value),
        text(more, one.more),
        attr(node, "class", one.bad ? "bad" : null)
      ),
    };
  };
  return ({ totals, state, services }) =>
    keyed(
      list,
      [
        {
          name: "Services",
          value: num(services.length, 0),
          more: !services.length
            ? "none wanted"
            : totals.verdicts.serves === services.length
              ? "all kept"
              : `▲ ${troubles(totals.verdicts)}`,
          bad: totals.verdicts.serves < services.length,
        },
        { name: "Requests", value: `${num(totals.rate, 0)} /s`, more: "arriving now" },
        {
          name: "Least in SLO",
          value: attained(totals.worst?.attainment),
          more: totals.worst?.name ?? "nothing measured",
        },
        {
          name: "GPUs",
          value: num(totals.gpus, 0),
          more: totals.out
            ? `▲ ${num(totals.out, 0)} out`
            : totals.gpus
              ? "all in"
              : "none here",
          bad: totals.out > 0,
        },
        {
          name: "Slices",
          value: num(totals.running, 0),
          more: !totals.instances
            ? "none made"
            : totals.running === totals.instances
              ? "all serve"
              : `of ${num(totals.instances, 0)} serve`,
        },
        { name: "Busy", value: percent(totals.busy), more: "mean of the slices" },
        {
          name: "Power",
          value: known(totals.power) ? watts(totals.power) : "–",
          more: known(totals.power) ? "of the boards" : "not measured",
        },
        {
          name: "Restarts",
          value: num(state.restarts, 0),
          more: state.given_up_workers
            ? `▲ ${num(state.given_up_workers, 0)} given up`
            : "of workers",
          bad: state.given_up_workers > 0,
        },
      ],
      (one) => one.name,
      tile,
    );
}

function makeNotices(parent) {
  const list = el("ul"),
    card = el(
      "section",
      { class: "card notices", "aria-label": "Notices" },
      el("h2", {}, "Notices"),
      list,
    );
  parent.append(card);
  return ({ notices }) => {
    show(card, notices.length > 0);
    keyed(
      list,
      notices,
      (one) => one,
      (one) => ({ node: el("li", {}, one), update() {} }),
    );
  };
}

const drawTiles = makeTiles(views.now);
const drawNode = makeNode(
  views.now.appendChild(el("section", { class: "card", "aria-label": "GPUs" })),
  say,
  alarm,
);
const drawServices = makeServices(
  views.now.appendChild(el("section", { class: "card", "aria-label": "Services" })),
);
const drawNotices = makeNotices(views.now),
  drawBanner = makeBanner(views.now);
const change = makeChange(views.change, say, alarm);
const drawBatch = makeBatch(views.batch),
  drawHistory = makeHistory(views.history),
  fleet = makeFleet(views.fleet, (there) => show(document.querySelector("[data-view=fleet]"), there));

const DRAW = {
  now: (one) => (
    drawBanner(one),
    drawTiles(one),
    drawNotices(one),
    drawNode(one),
    drawServices(one)
  ),
  change: (one) => change.update(one),
  batch: drawBatch,
  history: drawHistory,
  fleet: fleet.update,
};

// ---- one update
const MODES = { automatic: "automatic", approve: "asks first", observe: "observes only" };
let spoken = "";
function drawTop(one) {
  text(id("node"), one.node);
  document.title = `${one.current?.state === "proposed" ? "(1) " : ""}Partita · ${one.node}`;
  text(id("doing"), one.doing);
  text(id("newest"), one.notices.length ? `▲ ${one.notices[0]}` : "");
  text(id("mode"), MODES[one.mode] ?? one.mode);
  const [sign, word, how] =
    one.stale
      ? ["?", "not known", "risk"]
      : one.current?.state === "proposed"
        ? ["?", "waits for a yes", "risk"]
        : one.current
          ? ["▶", "changing", "busy"]
          : one.converged
            ? ["✓", "as planned", "fine"]
            : ["▲", "not as planned", "risk"];
  text(id("converged"), `${sign} ${word}`);
  attr(id("converged"), "class", `chip is-${how}`);
  show(id("badge"), one.current?.state === "proposed");
  // Said aloud: only what became different.
  const now = one.current ?? one.last;
  const words = now
    ? `Change ${now.number} ${STATES[now.state] ?? now.state}${now.state === "applying" ? `, step ${now.steps_done ?? 0} of ${stepsOf(now)}` : ""}`
    : "";
  if (words && words !== spoken && spoken) say(words);
  spoken = words || " ";
}

const parts = makeParts(() => ((fresh = true), soon()));

// What came, in its order: states as text, and what changed behind one.
function read() {
  if (newest === null) return;
  try {
    state = JSON.parse(newest);
  } catch {
    alarm("The agent sent a state that is no JSON.");
  }
  newest = null;
}
function take(changes) {
  read();
  if (!state) return;
  try {
    state = merged(state, JSON.parse(changes));
  } catch {
    alarm("The agent sent changes that are no JSON.");
  }
}

function draw() {
  waiting = false;
  if (!fresh && !model) return;
  performance.mark("partita-begin");
  if (fresh) {
    fresh = false;
    read();
    if (!state) return;
    watchAge();
    model = { ...modelOf(state, parts.node(state), staleSince()), parts };
    remember(model.services, model.time ?? Date.now());
    drawTop(model);
  }
  const first = !id("waiting").hidden;
  if (first) {
    show(id("waiting"), false);
    attr(id("main"), "aria-busy", "false");
    turn();
  }
  DRAW[view](model);
  if (++updates % 2000 === 0) performance.clearMeasures("partita-update");
  performance.measure("partita-update", "partita-begin");
  performance.clearMarks("partita-begin");
}

function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(draw);
}

function turn() {
  const wanted = location.hash.slice(1);
  view = VIEWS.includes(wanted) ? wanted : "now";
  for (const name of VIEWS) {
    show(views[name], Boolean(model) && name === view);
    attr(
      document.querySelector(`[data-view=${name}]`),
      "aria-current",
      name === view ? "page" : null,
    );
  }
}
// Drawn at once: nobody sees, or presses a key in, a view that is as it was left.
addEventListener("hashchange", () => (turn(), scrollTo(0, 0), draw()));
turn();

// ---- the feed
const link = id("link");
let until = 0,
  countdown = 0;
function linkState(how, wait) {
  attr(link, "class", `link is-${how}`);
  show(id("retry"), how === "lost");
  show(id("forget"), hasToken());
  clearInterval(countdown);
  document.body.classList.toggle("stale", how !== "live");
  if (how === "live") return text(id("link-text"), "live");
  if (how === "token") {
    text(id("link-text"), "needs a token");
    if (!id("token").open) {
      id("token-text").value = "";
      id("token").showModal();
    }
    if (hasToken()) alarm("The agent does not know this token.");
    return;
  }
  until = Date.now() + wait;
  const count = () =>
    text(
      id("link-text"),
      `no answer, again in ${Math.max(0, Math.ceil((until - Date.now()) / 1000))} s`,
    );
  count();
  countdown = setInterval(count, 1000);
}
// ---- how old it is
// The agent says at least every 15 s when it looked last; what has not been looked at for as long is no news. Measured
// by the clock of this machine alone: that of the agent's may be another.
const STALE_MS = 45000,
  LOST_MS = 10000;
let looked = 0, // time of the state, and when it was another here
  lookedAt = 0,
  lostAt = 0;
function watchAge() {
  if (state.time_ms === looked) return;
  looked = state.time_ms;
  lookedAt = performance.now();
}
const age = () => performance.now() - lookedAt;
// Of when the state is, where nothing newer is known for too long; else 0.
const staleSince = () =>
  state && (age() > STALE_MS || (lostAt && performance.now() - lostAt > LOST_MS)) ? looked || 1 : 0;
setInterval(() => {
  if (!model) return;
  const stale = staleSince();
  show(id("age"), stale > 0 || Boolean(model.fault));
  if (stale)
    text(
      id("age"),
      `▲ the state is of ${clock(stale)}, ${seconds(age() / 1000)} ago: what is now is not known`,
    );
  else if (model.fault)
    text(
      id("age"),
      `▲ the GPUs are shown as they were at ${clock(model.readAt)}, ${seconds((looked - model.readAt + age()) / 1000)} ago: ${model.fault}`,
    );
  document.body.classList.toggle("stale", stale > 0 || lately !== "live");
  if (Boolean(stale) === Boolean(model.stale)) return;
  fresh = true;
  soon();
}, 1000);

let lately = "";
const feed = follow({
  state: (data) => ((newest = data), (fresh = true), soon()),
  changes: (data) => (take(data), (fresh = true), soon()),
  link: (how, wait) => {
    if (how !== lately && how === "lost") say("The agent does not answer; trying again.");
    if (how !== lately && how === "live" && lately) say("The agent answers.");
    if (how === "live" && lately === "live") return;
    lately = how;
    lostAt = how === "live" ? 0 : lostAt || performance.now();
    if (how === "live") (parts.forget(), fleet.ask());
    linkState(how, wait);
  },
});
id("retry").addEventListener("click", feed.now);
id("token")
  .querySelector("form")
  .addEventListener("submit", () => (setToken(id("token-text").value.trim()), feed.again()));
id("token").addEventListener("cancel", (event) => event.preventDefault());
id("forget").addEventListener(
  "click",
  () => (setToken(null), show(id("forget"), false), feed.again()),
);

// ---- colours
const THEMES = [
  ["", "as the system", "◐"],
  ["light", "light", "☀"],
  ["dark", "dark", "☾"],
];
function paint() {
  const now = THEMES.find(([name]) => name === (document.documentElement.dataset.theme ?? ""));
  attr(id("theme"), "aria-label", `Colours: ${now[1]}`);
  attr(id("theme"), "title", `Colours: ${now[1]} (t)`);
  text(id("theme").firstChild, now[2]);
}
function nextTheme() {
  const at = THEMES.findIndex(([name]) => name === (document.documentElement.dataset.theme ?? ""));
  const [name, label] = THEMES[(at + 1) % THEMES.length];
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem("partita-theme", name);
  } catch {
    /* forgotten with the page */
  }
  paint();
  say(`Colours: ${label}`);
}
id("theme").addEventListener("click", nextTheme);
paint();

// ---- keys
const KEYS = [
  ["1 – 5", "the views"],
  ["← → ↑ ↓", "from slice to slice; Enter shows it"],
  ["a, r", "approve, reject (in Change)"],
  ["/", "find a service, or a node of the fleet"],
  ["t", "colours"],
  ["?", "these keys"],
  ["Esc", "close"],
];
function showKeys() {
  text(id("detail-title"), "Keys");
  show(document.querySelector("#detail .acts"), false);
  keyed(
    id("detail-body").firstChild,
    KEYS.map(([key, what]) => ({ key, what })),
    (one) => one.key,
    (one) => ({ node: el("div", {}, el("dt", {}, one.key), el("dd", {}, one.what)), update() {} }),
  );
  id("detail").showModal();
}
id("help").addEventListener("click", showKeys);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (
    document.querySelector("dialog[open]") ||
    event.target.matches("input:not([type=range]):not([type=checkbox]), textarea, select")
  )
    return;
  const does = {
    1: () => (location.hash = "now"),
    2: () => (location.hash = "change"),
    3: () => (location.hash = "batch"),
    4: () => (location.hash = "history"),
    5: () => (location.hash = "fleet"),
    a: change.approve,
    r: change.reject,
    t: nextTheme,
    "?": showKeys,
    "/": () => (view === "now" ? id("find").focus() : view === "fleet" && fleet.find()),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});
addEventListener("visibilitychange", soon);
