// The fleet that the node is one of: who leads, every node and every service of it, who may draw how much power, what
// leaders and people did. Asked of this node's agent while it is looked at; what the agent cannot hear of is drawn as
// unknown.
import { attr, clock, el, keyed, num, percent, show, text, watts } from "./dom.js";
import { get } from "./feed.js";
import { VERDICTS, looksOf } from "./model.js";
import { makeWindow } from "./window.js";

const EVERY_MS = 2000,
  ROW_PX = 40, // as page.css has it
  MOST_EVENTS = 100;

// States of nodes: sign and class.
const STATES = {
  ready: ["✓", "fine"],
  drained: ["–", "fine"],
  drains: ["▶", "risk"],
  "becomes so": ["▶", "risk"],
  waits: ["▶", "risk"],
  trouble: ["✕", "bad"],
  lost: ["✕", "bad"],
  unknown: ["?", "risk"],
};
const stateOf = (one) => (one.state in STATES ? one.state : "unknown");
const whyOf = (one) =>
  one.trouble ??
  (one.waits_for ? `for ${one.waits_for}`
    : one.state === "drains" ? "others have no room yet for what it carries"
      : one.drained ? "it shall carry nothing" : "");

// What a node carries, or where a service is: names with a number each, the rest counted.
const MOST_NAMED = 4;
function listed(all, of) {
  const more = all.length - MOST_NAMED;
  return all.slice(0, MOST_NAMED).map(of).join(", ") + (more > 0 ? ` and ${num(more, 0)} more` : "");
}

// A table of which only the rows in view are elements. columns: name, and what a row says there; the first is its head.
function makeRows(parent, name, columns, verdictOf) {
  const body = el("tbody", { role: "rowgroup" });
  const heads = [...columns.map(([head]) => head), "State"];
  const table = el(
    "table",
    { class: "fleet", role: "table", "aria-label": name },
    el(
      "thead",
      { role: "rowgroup" },
      el(
        "tr",
        { role: "row", "aria-rowindex": "1" },
        ...heads.map((one) => el("th", { scope: "col", role: "columnheader" }, one)),
      ),
    ),
    body,
  );
  const padded = el("div", { class: "windowed" }, table);
  const scroller = el(
    "div",
    { class: "scroll rows", tabindex: "0", role: "region", "aria-label": `Table of the fleet's ${name.toLowerCase()}` },
    padded,
  );
  parent.append(scroller);
  let shown = [];
  function makeRow() {
    const cells = columns.map((_, i) =>
      i ? el("td", { role: "cell" }) : el("th", { scope: "row", role: "rowheader" }),
    );
    const word = el("b"),
      why = el("span", { class: "since" }),
      state = el("span", { class: "verdict" }, word, " ", why);
    const node = el("tr", { role: "row" }, ...cells, el("td", { role: "cell" }, state));
    return {
      node,
      update({ one, at }) {
        attr(node, "aria-rowindex", String(at + 2)); // behind the row of headings
        columns.forEach(([, say], i) => {
          const said = String(say(one));
          text(cells[i], said);
          attr(cells[i], "title", said);
        });
        const [sign, said, how, more] = verdictOf(one);
        text(word, `${sign} ${said}`);
        text(why, more);
        attr(state, "class", `verdict ${how}`);
      },
    };
  }
  const rows = makeWindow({
    scroller,
    padded,
    rows: () => shown.length,
    height: () => ROW_PX,
    draw: (from, to) =>
      keyed(
        body,
        shown.slice(from, to).map((one, i) => ({ one, at: from + i })),
        ({ one }) => one.node ?? one.service ?? one.name,
        makeRow,
      ),
  });
  return (now, anew) => {
    shown = now;
    attr(table, "aria-rowcount", String(shown.length + 1));
    show(scroller, shown.length > 0);
    if (anew) rows.begin();
    else rows.update();
  };
}

// "0-3", "4 5"
const runs = (gpus) =>
  gpus.length > 2 && gpus.at(-1) - gpus[0] + 1 === gpus.length ? `${gpus[0]}-${gpus.at(-1)}` : gpus.join(" ");
const NODES = [
  ["Node", (one) => one.node],
  ["Rack, zone, feed", (one) => [one.rack, one.zone, one.feed].filter(Boolean).join(", ") || "–"],
  ["GPUs", (one) => `${num(one.usable_gpus, 0)} of ${num(one.gpus, 0)}${one.nvlink ? `, NVLink ${one.nvlink.map((it) => runs(it.gpus)).join(", ")}` : ""}`],
  ["Part, ready", (one) => `${num(one.revision, 0)}, ${num(one.ready, 0)}`],
  ["Carries", (one) => listed(one.carries, (it) => `${it.service} ${num(it.rate_rps, 0)}`) || "nothing"],
];
const SERVICES = [
  ["Service", (one) => one.service],
  ["Arrives", (one) => `${num(one.arrived_rps, 0)} /s`],
  ["Wanted", (one) => `${num(one.wanted_rps, 0)} /s`],
  ["Planned", (one) => `${num(one.planned_rps, 0)} /s`],
  ["Carried", (one) => `${num(one.carried_rps, 0)} /s`],
  ["On", (one) => listed(one.on, (it) => `${it.node} ${percent(it.share)}`) || "no node"],
];
// Feeds with all below them, each behind the point that it hangs on, as deep as it hangs.
function asTree(points) {
  const names = new Set(points.map((one) => one.name)),
    below = new Map();
  for (const one of points) {
    const above = names.has(one.under) ? one.under : undefined;
    below.set(above, [...(below.get(above) ?? []), one]);
  }
  const rows = [];
  const walk = (above, depth) => {
    for (const one of below.get(above) ?? []) (rows.push({ ...one, depth }), walk(one.name, depth + 1));
  };
  walk(undefined, 0);
  return rows;
}
const INDENT = "\u00a0\u00a0\u00a0";
const POINTS = [
  ["Feed, PDU or rack", (one) => INDENT.repeat(one.depth) + one.name],
  ["Under", (one) => one.under ?? "– (a feed)"],
  ["Carries for ever", (one) => watts(one.rating_w)],
  ["Budgets below it", (one) => watts(one.budget_w)],
  ["Of that", (one) => (one.rating_w > 0 ? percent(one.budget_w / one.rating_w) : "–")],
];
const UNKNOWN = ["?", "unknown", "risk", ""];
const pointVerdict = (one) =>
  one.stale ? UNKNOWN : one.failed ? ["✕", "dead", "bad", ""] : one.unsafe ? ["▲", "live", "risk", "without it the rest would be too much"] : ["✓", "live", "fine", ""];
const toldW = (value) => (value === undefined ? "not known" : watts(value));
const BUDGETS = [
  ["Node", (one) => one.node],
  ["May draw", (one) => watts(one.budget_w)],
  ["Cap of its GPUs", (one) => toldW(one.gpu_budget_w)],
  ["GPUs draw", (one) => toldW(one.gpu_draw_w)],
  ["Kept from more by", (one) => one.limited_by ?? "nothing"],
];
function budgetVerdict(one) {
  if (one.stale) return UNKNOWN;
  if (!one.there) return ["?", "not there", "risk", "it counts with all that it may still draw"];
  if (one.holds_budget === false) return ["▶", "not yet", "risk", "it has not said that it holds to it"];
  return one.gpu_draw_w > one.gpu_budget_w ? ["✕", "above its cap", "bad", ""] : ["✓", "holds", "fine", ""];
}
const nodeVerdict = (one) => [STATES[stateOf(one)][0], stateOf(one), STATES[stateOf(one)][1], whyOf(one)];
const serviceVerdict = (one) => [...(VERDICTS[one.verdict] ?? VERDICTS.unknown), one.why ?? ""];

const count = (all, of) => {
  const by = new Map();
  for (const one of all) by.set(of(one), (by.get(of(one)) ?? 0) + 1);
  return [...by].map(([word, n]) => `${num(n, 0)} ${word}`).join(", ");
};

// is(there): whether the node is one of a fleet, once that is known.
export function makeFleet(parent, is) {
  const facts = el("p", { class: "facts" }),
    fault = el("p", { class: "age", role: "status" }),
    proposal = el("p"),
    changes = el("ul", { class: "troubles", "aria-label": "What the decision changes" });
  const filter = el("input", {
    type: "search",
    placeholder: "node, service, state  /",
    "aria-label": "Find in the fleet",
    id: "find-fleet",
    autocomplete: "off",
  });
  const nodes = el("section", { class: "card", "aria-label": "Nodes" }),
    services = el("section", { class: "card", "aria-label": "Services of the fleet" }),
    power = el("section", { class: "card", "aria-label": "Power of the fleet" }),
    past = el("section", { class: "card", "aria-label": "What leaders and people did" });
  const none = el("p", { class: "faint" });
  const howNodes = el("span", { class: "faint" }),
    howServices = el("span", { class: "faint" }),
    events = el("ul", { class: "troubles" });
  parent.append(
    el("section", { class: "card", "aria-label": "Who leads" }, el("h2", {}, "Fleet"), none, fault, facts, proposal, changes),
    nodes,
    services,
    power,
    past,
  );
  nodes.append(el("div", { class: "head" }, el("h2", {}, "Nodes"), howNodes, el("span", { class: "grow" }), filter));
  services.append(el("div", { class: "head" }, el("h2", {}, "Services"), howServices));
  const howPower = el("span", { class: "faint" }),
    overload = el("p", { class: "age", role: "status" });
  power.append(el("div", { class: "head" }, el("h2", {}, "Power"), howPower), overload);
  past.append(el("h2", {}, "What leaders and people did"), events);
  const drawNodes = makeRows(nodes, "Nodes", NODES, nodeVerdict);
  const drawServices = makeRows(services, "Services", SERVICES, serviceVerdict);
  const drawPoints = makeRows(power, "Points of power", POINTS, pointVerdict);
  const drawBudgets = makeRows(power, "Budgets", BUDGETS, budgetVerdict);
  filter.addEventListener("input", () => last && draw(true));

  for (const one of [nodes, services, power, past, fault, proposal, changes]) show(one, false);
  let last = null,
    drawn = null,
    told = [],
    asked = 0,
    asking = false,
    there = null,
    trouble = "";

  function draw(anew = false) {
    drawn = last;
    show(none, false);
    show(nodes, true);
    show(services, true);
    const words = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (...said) => words.every((word) => said.join(" ").toLowerCase().includes(word));
    show(fault, Boolean(trouble || last.fault));
    text(
      fault,
      trouble
        ? `▲ the agent does not tell of its fleet (${trouble}): this is as it was`
        : last.fault
          ? `▲ as it was ${last.as_of_ms ? `at ${clock(last.as_of_ms, true)}` : "never"}; what is now is not known: ${last.fault}`
          : "",
    );
    text(
      facts,
      [
        last.fleet,
        last.leader ? `${last.leader} leads` : "nobody leads",
        `revision ${num(last.revision, 0)}${last.converged ? ", carried out" : ""}`,
        last.survive === "none" ? "no loss of a node is planned for" : `survives the loss of a ${last.survive}`,
        last.approval === "approve" ? "decisions wait for a person" : "decisions are carried out",
      ].join("  ·  "),
    );
    show(proposal, Boolean(last.proposal));
    text(proposal, last.proposal ? `A decision waits: partita approve ${last.proposal} --fleet` : "");
    const sentences = [...(last.proposed ?? []), ...(last.notes ?? []), ...(last.damaged ?? []).map((one) => `cannot be read: ${one}`)];
    show(changes, sentences.length > 0);
    keyed(
      changes,
      sentences.slice(0, MOST_EVENTS).map((one, i) => ({ one, i })),
      ({ one, i }) => `${i} ${one}`,
      ({ one }) => ({ node: el("li", {}, one), update() {} }),
    );
    text(howNodes, count(last.nodes, stateOf) || "none has registered");
    text(howServices, count(last.services, (one) => serviceVerdict(one)[1]) || "none is wanted");
    drawNodes(
      last.nodes.filter((one) =>
        fits(one.node, one.rack ?? "", one.zone ?? "", one.feed ?? "", stateOf(one), ...one.carries.map((it) => it.service)),
      ),
      anew,
    );
    drawServices(
      last.services.filter((one) => fits(one.service, serviceVerdict(one)[1], ...one.on.map((it) => it.node))),
      anew,
    );
    drawPower(anew);
    for (const one of last.services) looksOf(one.service);
    show(past, told.length > 0);
    keyed(
      events,
      told,
      (one) => `${one.time_ms} ${one.revision} ${one.what}`,
      (one) => ({
        node: el("li", {}, el("span", { class: "faint" }, clock(one.time_ms, true)), ` ${one.by}: ${one.what}`),
        update() {},
      }),
    );
  }

  function drawPower(anew) {
    show(power, Boolean(last.power));
    if (!last.power) return;
    const { points, sharing, revision, over, unsafe = [] } = last.power;
    const stale = Boolean(trouble || last.fault);
    const dead = points.filter((one) => one.failed).map((one) => one.name);
    text(
      howPower,
      `divided by ${sharing}, revision ${num(revision, 0)}; ` +
        (dead.length ? `dead: ${dead.join(", ")}` : `${num(points.length, 0)} points, all live`),
    );
    show(overload, Boolean(over));
    text(overload, over ? `▲ it does not suffice: ${over}` : "");
    drawPoints(
      asTree(points.map((one) => ({ ...one, stale, unsafe: unsafe.includes(one.name) }))),
      anew,
    );
    drawBudgets(
      last.nodes.filter((one) => one.budget_w !== undefined).map((one) => ({ ...one, stale })),
      anew,
    );
  }

  async function ask() {
    if (asking || Date.now() - asked < EVERY_MS) return;
    asking = true;
    asked = Date.now();
    try {
      last = await get("/v1/fleet");
      told = ((await get("/v1/fleet/history")).events ?? []).slice(-MOST_EVENTS).reverse();
      trouble = "";
      if (there !== true) is((there = true));
    } catch (error) {
      trouble = error.message;
      if (error.status === 404 && !last) is((there = false));
      if (!last) text(none, there === false ? "This node is one of no fleet." : trouble);
    }
    asking = false;
    if (last && !parent.hidden) draw();
  }
  setInterval(() => !parent.hidden && !document.hidden && ask(), EVERY_MS);
  return {
    ask, // once it is known that an agent is there
    update: () => (last && last !== drawn && draw(), ask()),
    find: () => filter.focus(),
  };
}
