// What happened: a line over time, a slider through the events, the plan that was in force at each, and the list.
import { attr, clock, el, keyed, plural, show, text } from "./dom.js";
import { get } from "./feed.js";
import { planGpus } from "./model.js";
import { stillGpu } from "./strip.js";
import { makeChart } from "./chart.js";
import { makeDiff } from "./change.js";

const SIGNS = {
  started: "▶",
  stopped: "■",
  desired: "✎",
  proposed: "?",
  approved: "✓",
  rejected: "✕",
  applying: "…",
  step: "·",
  applied: "●",
  repair: "⚒",
  health: "✚",
  notice: "✉",
  hook: "↪",
  access: "⚿",
};
const HIDDEN_FIRST = new Set(["step", "access", "hook"]);
const SPANS = [
  ["1 h", 1],
  ["24 h", 24],
  ["7 d", 168],
  ["30 d", 720],
];
const METRICS = [
  ["gpus", "GPUs in use", "GPUs"],
  ["instances", "Instances", "instances"],
  ["watts", "Power of the boards", "W"],
];
const PAGE = 200;

const documentOf = (event, name) => {
  const found = event?.documents?.find((one) => one.name === name);
  if (!found) return null;
  try {
    return typeof found.text === "string"
      ? JSON.parse(found.text)
      : (found.text ?? found.document ?? null);
  } catch {
    return null;
  }
};

export function makeHistory(parent) {
  let events = [],
    chosen = null,
    model = null,
    hours = 24,
    metric = 0,
    loaded = 0,
    busy = false,
    more = true,
    series = [];
  const whole = new Map(); // change -> promise of its event "proposed" with the documents
  const off = new Set(HIDDEN_FIRST);

  const chart = makeChart();
  const spans = SPANS.map(([label, one]) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": String(one === hours),
        onclick: () => ((hours = one), press(), load()),
      },
      label,
    ),
  );
  const metrics = METRICS.map(([, label], i) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": String(i === metric),
        onclick: () => ((metric = i), press(), load()),
      },
      label,
    ),
  );
  const slider = el("input", {
    type: "range",
    min: "0",
    max: "0",
    step: "1",
    id: "scrub",
    "aria-label": "Event",
  });
  const back = el(
    "button",
    { type: "button", "aria-label": "Earlier event", onclick: () => go(-1) },
    "◀",
  );
  const forth = el(
    "button",
    { type: "button", "aria-label": "Later event", onclick: () => go(1) },
    "▶",
  );
  const when = el("output", { for: "scrub", class: "when" });
  const title = el("h3"),
    about = el("p", { class: "cause" }),
    facts = el("p", { class: "facts" }),
    planTitle = el("h3"),
    strips = el("div", { class: "gpus small" });
  const diff = makeDiff(),
    diffBox = el("details", {}, el("summary", {}, "What the change did"), diff.node);
  const kinds = el("div", { class: "kinds", role: "group", "aria-label": "Kinds of events" });
  const list = el("ol", { class: "events" }),
    older = el("button", { type: "button", onclick: () => load(true) }, "Older events");
  const problem = el("p", { class: "faint", role: "status" });
  parent.append(
    el(
      "div",
      { class: "card" },
      el(
        "div",
        { class: "row" },
        el("h2", {}, "History"),
        el("span", { class: "grow" }),
        el("div", { class: "spans", role: "group", "aria-label": "What to draw" }, ...metrics),
        el("div", { class: "spans", role: "group", "aria-label": "How far back" }, ...spans),
      ),
      chart.node,
      el("div", { class: "scrub" }, back, slider, forth),
      when,
      problem,
    ),
    el(
      "div",
      { class: "with-events" },
      el("div", { class: "card" }, title, about, facts, planTitle, strips, diffBox),
      el(
        "section",
        { class: "card", "aria-label": "Events" },
        el("h3", {}, "Events"),
        kinds,
        list,
        older,
      ),
    ),
  );
  slider.addEventListener("input", () => choose(shownEvents()[Number(slider.value)]));

  const press = () => {
    SPANS.forEach(([, one], i) => attr(spans[i], "aria-pressed", String(one === hours)));
    METRICS.forEach((_, i) => attr(metrics[i], "aria-pressed", String(i === metric)));
  };
  const shownEvents = () => events.filter((one) => !off.has(one.kind)).reverse(); // oldest first
  const go = (by) => {
    const all = shownEvents();
    choose(all[Math.max(0, Math.min(all.length - 1, all.indexOf(chosen) + by))]);
  };

  async function load(backwards = false) {
    if (busy || !model) return;
    busy = true;
    loaded = Date.now();
    try {
      const before = backwards && events.length ? `&before=${events[events.length - 1].id}` : "";
      const answer = (await get(`/v1/history?most=${PAGE}&documents=false${before}`)).events ?? [];
      const last = chosen && chosen === shownEvents().at(-1);
      const known = new Map([...events, ...answer].map((one) => [one.id, one]));
      if (!events.length || backwards) more = answer.length === PAGE;
      events = [...known.values()].sort((a, b) => b.id - a.id);
      const to = model.time,
        from = to - hours * 3600000;
      let silent = "";
      const numbers = await get(
        `/v1/series?metric=${METRICS[metric][0]}&from_ms=${from}&to_ms=${to}&most=400`,
      ).catch((error) => {
        silent = `Its numbers cannot be read: ${error.message}`;
      });
      series = numbers?.buckets ?? [];
      text(problem, silent);
      draw(from, to);
      if (!chosen || last || !known.has(chosen.id)) choose(shownEvents().at(-1));
      else choose(known.get(chosen.id));
    } catch (error) {
      text(problem, `The history cannot be read: ${error.message}`);
    } finally {
      busy = false;
    }
  }

  function draw(from, to) {
    const [, label, unit] = METRICS[metric];
    const marks = events
      .filter((one) => one.kind === "applied" || one.kind === "repair" || one.kind === "health")
      .map((one) => ({
        at: one.time_ms,
        class: one.outcome === "failed" ? "failed" : one.kind,
        label: `${clock(one.time_ms, true)}: ${one.detail || one.cause}`,
      }));
    chart.update({
      title: label,
      unit,
      from,
      to,
      height: 170,
      marks,
      bands: [
        { points: series.map((one) => [one.from_ms + one.length_ms / 2, one.least, one.greatest]) },
      ],
      lines: [
        { name: label, points: series.map((one) => [one.from_ms + one.length_ms / 2, one.mean]) },
      ],
    });
    const there = [...new Set(events.map((one) => one.kind))].sort();
    keyed(
      kinds,
      there,
      (kind) => kind,
      (kind) => {
        const input = el("input", {
          type: "checkbox",
          onchange: () => (
            input.checked ? off.delete(kind) : off.add(kind),
            listEvents(),
            choose(chosen)
          ),
        });
        input.checked = !off.has(kind);
        return { node: el("label", {}, input, `${SIGNS[kind] ?? ""} ${kind}`), update() {} };
      },
    );
    show(older, more);
    listEvents();
  }

  function listEvents() {
    const all = shownEvents();
    attr(slider, "max", String(Math.max(0, all.length - 1)));
    keyed(
      list,
      [...all].reverse(),
      (one) => `${one.id}`,
      (one) => {
        const button = el(
          "button",
          { type: "button", onclick: () => choose(one) },
          el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[one.kind] ?? "•"),
          el(
            "span",
            { class: "grow" },
            el(
              "b",
              {},
              one.kind,
              one.change ? ` ${one.change}` : "",
              one.outcome && one.outcome !== "none" ? ` ${one.outcome}` : "",
            ),
            el("span", { class: "faint" }, one.cause || one.detail || one.subject || ""),
          ),
          el(
            "time",
            { datetime: new Date(one.time_ms).toISOString(), class: "faint figure" },
            clock(one.time_ms, true).slice(5),
          ),
        );
        return {
          node: el(
            "li",
            { class: one.outcome === "failed" || one.outcome === "refused" ? "bad" : "" },
            button,
          ),
          button,
          update() {},
        };
      },
    );
  }

  async function choose(event) {
    chosen = event ?? null;
    const all = shownEvents(),
      at = all.indexOf(chosen);
    slider.value = String(Math.max(0, at));
    back.disabled = at <= 0;
    forth.disabled = at < 0 || at >= all.length - 1;
    const said = event
      ? `${clock(event.time_ms, true)}, ${event.kind}${event.change ? ` of change ${event.change}` : ""}`
      : "no event";
    text(when, said);
    attr(slider, "aria-valuetext", said);
    for (const [key, row] of list.rowsByKey ?? [])
      attr(row.button, "aria-current", event && key === `${event.id}` ? "true" : null);
    show(title.parentElement, Boolean(event));
    if (!event) return;
    text(
      title,
      `${SIGNS[event.kind] ?? ""} ${event.kind}${event.change ? `, change ${event.change}` : ""}`,
    );
    text(about, event.cause || event.detail || "");
    text(
      facts,
      [
        clock(event.time_ms, true),
        `by ${event.user}`,
        event.subject,
        event.outcome !== "none" ? event.outcome : "",
        event.cause ? event.detail : "",
      ]
        .filter(Boolean)
        .join("  ·  "),
    );
    chart.cursor(event.time_ms);
    await drawPlan(event);
  }

  // The plan in force after an event: that of the last change that had been carried out.
  async function drawPlan(event) {
    const own =
      event.change && ["proposed", "approved", "rejected"].includes(event.kind) ? event : null;
    const cause =
      own ??
      events.find(
        (one) =>
          one.id <= event.id && one.kind === "applied" && one.outcome === "succeeded" && one.change,
      );
    const found = cause ? await proposed(cause.change).catch(() => null) : null;
    if (chosen !== event) return;
    const plan = found?.plan,
      change = found?.change;
    text(
      planTitle,
      plan
        ? `${own ? "The plan that was proposed" : "The plan in force"}: change ${cause.change}, ${plural(plan.gpus?.length ?? 0, "GPU")}`
        : "No plan is kept for this moment.",
    );
    const count = plan?.gpus?.length ?? 0;
    attr(strips, "class", count > 24 ? "gpus many" : "gpus small");
    keyed(strips, planGpus(plan), (gpu) => gpu.key, stillGpu);
    show(diffBox, Boolean(change));
    if (change) diff.update(change, model.gpus, found.explanation ?? []);
  }

  // As the agent still knows it, else from the documents that its events keep.
  function proposed(change) {
    if (!whole.has(change)) {
      const asked = get(`/v1/changes/${change}`).catch(async () => {
        const kept = (await get(`/v1/history?change=${change}&most=100`)).events ?? [];
        const found = kept.find((one) => documentOf(one, "plan"));
        return found
          ? {
              plan: documentOf(found, "plan"),
              change: documentOf(found, "change"),
              explanation: documentOf(found, "explanation")?.lines,
            }
          : null;
      });
      asked.catch(() => whole.delete(change));
      whole.set(change, asked);
    }
    return whole.get(change);
  }

  let changes = -1;
  return (now) => {
    const before = model;
    model = now;
    const count = now.state.changes * 10 + (now.current?.state?.length ?? 0);
    const stale =
      !before || !events.length
        ? Date.now() - loaded > 5000
        : count !== changes || Date.now() - loaded > 30000;
    if (stale && !busy) {
      changes = count;
      load();
    }
  };
}
