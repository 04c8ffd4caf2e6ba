// The services, those in view: verdict, rate with forecast, latency against its objective, how much of it is kept; one of them over time.
import { attained, attr, clock, el, keyed, known, num, plural, show, style, text } from "./dom.js";
import { get } from "./feed.js";
import { VERDICTS, looksOf, verdictOf, whyOf } from "./model.js";
import { makeChart, sparkPath } from "./chart.js";
import { makeWindow } from "./window.js";

const KEPT = 90,
  SPARK_W = 104,
  SPARK_H = 26,
  SPARK_EVERY_MS = 1000;
const ROW_PX = 52,
  CARD_PX = 140; // as page.css has them
const LATENCY_CHARTS = 3; // TTFT, TPOT, whole answers
const seen = new Map(); // service -> rates of late, one a second

export function remember(services, time) {
  for (const service of services) {
    let past = seen.get(service.name);
    if (!past) seen.set(service.name, (past = { at: 0, rates: [] }));
    if (!known(service.rate_rps) || time - past.at < SPARK_EVERY_MS) continue;
    past.at = time;
    past.rates.push(service.rate_rps);
    if (past.rates.length > KEPT) past.rates.shift();
  }
}

// A bar with a band, ticks and a scale that only grows, so that nothing jumps.
function makeBar() {
  const band = el("i", { class: "band" }),
    fill = el("i", { class: "fill" });
  const tick = el("i", { class: "tick" }),
    wall = el("i", { class: "wall" });
  let scale = 0;
  return {
    node: el("span", { class: "bar", "aria-hidden": "true" }, band, fill, tick, wall),
    update({ value, low, high, mark, end }) {
      const most = Math.max(value ?? 0, high ?? 0, mark ?? 0, end ?? 0);
      if (most > scale) scale = most * 1.1;
      if (most > 0 && most < scale / 3) scale = most * 1.1;
      const at = (one) => (known(one) && scale > 0 ? Math.round((one / scale) * 1000) / 1000 : 0);
      style(fill, "transform", `scaleX(${at(value)})`);
      show(band, known(high));
      if (known(high)) {
        style(band, "left", `${at(low) * 100}%`);
        style(band, "width", `${Math.max(0.01, at(high) - at(low)) * 100}%`);
      }
      show(tick, known(mark) && mark > 0);
      style(tick, "left", `${at(mark) * 100}%`);
      show(wall, known(end) && end > 0);
      style(wall, "left", `${at(end) * 100}%`);
    },
  };
}

// Roles are said: a narrow page shows rows as cards, which are no table to the browser.
const cell = (name, ...children) => el("td", { "data-label": name, role: "cell" }, ...children);

// Of a set of models: requests whose model had to be loaded first, beside what is promised.
function coldText(cold) {
  if (!cold) return "";
  if (!cold.requests) return ` · none cold`;
  const share = (100 * cold.in_time) / cold.requests;
  return ` · ${plural(cold.requests, "cold start")}, ${num(share, 1)} % within ${num(cold.promised_ms, 0)} ms`;
}

// What is promised of a service: its latency, and of a language model TTFT and TPOT. Measured are
// the median and the 99th percentile; above a promise for fewer is the median that is, or, where it
// is the only one, what too few requests keep.
export function promisesOf(service) {
  const tokens = service.token_traffic ?? {},
    promised = service.percentile ?? 99;
  const all = [
    ["TTFT", service.tokens?.ttft_ms, tokens.ttft_p50_ms, tokens.ttft_p99_ms, "ttft_p99_ms"],
    ["TPOT", service.tokens?.tpot_ms, tokens.tpot_p50_ms, tokens.tpot_p99_ms, "tpot_p99_ms"],
    [service.tokens ? "answer" : "latency", service.slo_ms, null, service.p99_ms, "p99_ms"],
  ];
  const made = all.filter(([, limit]) => known(limit) && limit > 0);
  const missed = made.length === 1 && promised < 99 && service.attainment < promised / 100;
  return made.map(([name, limit, p50, p99, metric]) => {
    const seen = promised >= 99 ? p99 : p50;
    return { name, limit, p99, metric, late: missed || (known(seen) && seen > limit) };
  });
}

const promisesText = (service) =>
  `${promisesOf(service)
    .map((one) => `${one.name} ${num(one.limit, one.limit < 100 ? 1 : 0)} ms`)
    .join(", ")} for ${num(service.percentile ?? 99)} % of the requests`;

function makeRow(open) {
  const swatch = el("i", { "aria-hidden": "true" }),
    name = el("button", { type: "button", class: "plain" });
  const model = el("span", { class: "faint" });
  const spark = el("path", { class: "line" });
  const picture = el(
    "svg",
    { class: "spark", viewBox: `0 0 ${SPARK_W} ${SPARK_H}`, "aria-hidden": "true" },
    spark,
  );
  const rate = el("b"),
    forecast = el("span", { class: "faint" }),
    load = makeBar(),
    capacity = el("span", { class: "faint" });
  const p99 = el("b"),
    slo = el("span", { class: "faint" }),
    latency = makeBar();
  const attainment = el("b"),
    workers = el("b"),
    segments = el("span", { class: "faint" }),
    word = el("b"),
    why = el("span", { class: "since" }),
    state = el("span", { class: "verdict" }, word, " ", why);
  const node = el(
    "tr",
    { role: "row" },
    el("th", { scope: "row", role: "rowheader" }, el("div", { class: "who" }, swatch, el("div", {}, name, model))),
    cell("Rate", el("div", { class: "pair" }, picture, el("div", {}, rate, forecast))),
    cell("Load", load.node, capacity),
    cell("Latency", el("div", { class: "two" }, p99, slo), latency.node),
    cell("In SLO", attainment),
    cell("Workers", workers, segments),
    cell("State", state),
  );
  let service = null,
    drawn = 0;
  name.addEventListener("click", () => open(service.name));
  return {
    node,
    update({ service: now, at, stale }) {
      service = now;
      attr(node, "aria-rowindex", String(at + 2)); // behind the row of headings
      attr(swatch, "class", `swatch ${looksOf(now.name)}`);
      text(name, now.name);
      text(model, now.model ?? "");
      text(rate, `${num(now.rate_rps, 0)} /s`);
      text(
        forecast,
        known(now.forecast_high_rps)
          ? `soon ${num(now.forecast_low_rps, 0)}–${num(now.forecast_high_rps, 0)}`
          : "no forecast",
      );
      load.update({
        value: now.rate_rps,
        low: now.forecast_low_rps,
        high: now.forecast_high_rps,
        mark: now.planned_rps,
        end: now.capacity_rps,
      });
      text(capacity, `planned ${num(now.planned_rps, 0)} · carries ${num(now.capacity_rps, 0)}`);
      const tokens = now.token_traffic;
      if (tokens) {
        const rates = `${num(tokens.in_per_s, 0)} in, ${num(tokens.out_per_s, 0)} out tokens/s`;
        text(capacity, `planned ${num(now.planned_rps, 1)} · ${rates}`);
        text(p99, `TTFT ${num(tokens.ttft_p99_ms, 0)} · TPOT ${num(tokens.tpot_p99_ms, 1)} ms`);
        const promised = promisesText(now);
        const kv = tokens.kv_cache_usage_perc;
        text(slo, known(kv) ? `${promised} · KV ${num(100 * kv, 0)} %` : promised);
      } else {
        text(p99, known(now.p99_ms) ? `${num(now.p99_ms, 1)} ms` : "–");
        text(slo, `of ${num(now.slo_ms, 0)} ms${coldText(now.cold_starts)}`);
      }
      const promises = promisesOf(now);
      const worst = promises.reduce(
        (one, other) => ((other.p99 ?? 0) / other.limit > (one?.p99 ?? 0) / one?.limit ? other : one),
        promises[0],
      );
      latency.update({ value: worst?.p99, mark: worst?.limit });
      attr(latency.node, "class", promises.some((one) => one.late) ? "bar late" : "bar");
      text(attainment, attained(now.attainment));
      attr(attainment, "class", now.attainment < (now.percentile ?? 99) / 100 ? "low" : null);
      text(workers, String(now.ready_workers ?? "–"));
      text(segments, ` on ${plural(now.segments ?? 0, "slice")}`);
      const [sign, said, how] = VERDICTS[verdictOf(now, stale)];
      text(word, `${sign} ${said}`);
      text(why, whyOf(now, stale));
      attr(state, "class", `verdict ${how}`);
      attr(state, "title", now.why || null);
      const past = seen.get(now.name);
      if (!past || past.at === drawn) return;
      drawn = past.at;
      const top = Math.max(1, now.capacity_rps ?? 0, ...past.rates);
      spark.setAttribute(
        "d",
        past.rates.length > 1 ? sparkPath(past.rates, SPARK_W, SPARK_H, top) : "",
      );
    },
  };
}

// Buttons that show the services of one verdict, with how many there are.
function makeVerdicts(choose) {
  const words = { all: "all", ...Object.fromEntries(Object.entries(VERDICTS).map(([key, [, word]]) => [key, word])) };
  const buttons = Object.keys(words).map((key) =>
    el("button", { type: "button", onclick: () => choose(key) }),
  );
  return {
    node: el("div", { class: "spans verdicts", role: "group", "aria-label": "Services by verdict" }, ...buttons),
    update(totals, all, chosen) {
      Object.entries(words).forEach(([key, word], i) => {
        text(buttons[i], `${word} ${num(key === "all" ? all : totals.verdicts[key], 0)}`);
        attr(buttons[i], "aria-pressed", String(key === chosen));
      });
    },
  };
}

// Whether each word is in the service's name, its model or its verdict.
const fits = (service, verdict, wanted) => {
  const said = `${service.name} ${service.model ?? ""} ${VERDICTS[verdict][1]}`.toLowerCase();
  return wanted.every((word) => said.includes(word));
};

export function makeServices(parent) {
  const sheet = makeSheet();
  const body = el("tbody", { role: "rowgroup" });
  const filter = el("input", {
    type: "search",
    placeholder: "name, model, verdict  /",
    "aria-label": "Find a service",
    id: "find",
    autocomplete: "off",
  });
  const none = el(
    "p",
    { class: "faint pad" },
    "No service is wanted. `partita --server URL apply services.yaml` says which.",
  );
  const empty = el("p", { class: "faint pad", role: "status" });
  const heads = [
    "Service",
    "Rate",
    "Load: now, forecast, plan, capacity",
    "p99 against SLO",
    "In SLO",
    "Workers",
    "Verdict",
  ];
  const table = el(
    "table",
    { class: "services", role: "table", "aria-label": "Services" },
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
    { class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Table of services" },
    padded,
  );
  let last = null,
    shown = [],
    chosen = "all";
  const verdicts = makeVerdicts((one) => ((chosen = one), last && draw(true)));
  parent.append(
    el(
      "div",
      { class: "head" },
      el("h2", {}, "Services"),
      el("span", { class: "grow" }),
      filter,
      verdicts.node,
    ),
    scroller,
    empty,
    none,
  );
  const narrow = matchMedia("(max-width: 720px)");
  const rows = makeWindow({
    scroller,
    padded,
    rows: () => shown.length,
    height: () => (narrow.matches ? CARD_PX : ROW_PX),
    draw(from, to) {
      const held = body.contains(document.activeElement) ? document.activeElement : null;
      keyed(
        body,
        shown.slice(from, to).map((service, i) => ({ service, at: from + i, stale: last.stale })),
        (one) => one.service.name,
        () => makeRow(sheet.open),
      );
      if (held && !held.isConnected) scroller.focus({ preventScroll: true });
    },
  });
  const draw = (again) => {
    const wanted = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    shown = last.services.filter((one) => {
      const verdict = verdictOf(one, last.stale);
      return (chosen === "all" || chosen === verdict) && fits(one, verdict, wanted);
    });
    verdicts.update(last.totals, last.services.length, chosen);
    attr(table, "aria-rowcount", String(shown.length + 1));
    if (again) rows.begin();
    else rows.update();
    show(none, last.services.length === 0);
    show(scroller, shown.length > 0);
    show(empty, last.services.length > 0 && shown.length === 0);
    text(empty, shown.length ? "" : `None of ${plural(last.services.length, "service")} is so.`);
  };
  filter.addEventListener("input", () => last && draw(true));
  narrow.addEventListener("change", () => last && draw(true));
  return (model) => {
    last = model;
    draw(false);
    sheet.update(model);
  };
}

// One service over time.
const SPANS = [
  ["1 h", 1],
  ["6 h", 6],
  ["24 h", 24],
  ["7 d", 168],
];

function makeSheet() {
  const box = el("dialog", { class: "sheet", "aria-labelledby": "sheet-title" });
  const title = el("h2", { id: "sheet-title" }),
    about = el("p", { class: "faint" }),
    problem = el("p", { class: "faint", role: "status" });
  const charts = Array.from({ length: 2 + LATENCY_CHARTS }, makeChart);
  let name = "",
    hours = 1,
    time = 0,
    loaded = 0;
  const spans = SPANS.map(([label, one]) =>
    el(
      "button",
      { type: "button", "aria-pressed": String(one === hours), onclick: () => choose(one) },
      label,
    ),
  );
  box.append(
    el(
      "div",
      { class: "row" },
      title,
      el("span", { class: "grow" }),
      el("div", { class: "spans", role: "group", "aria-label": "How far back" }, ...spans),
      el(
        "button",
        { type: "button", class: "close", "aria-label": "Close", onclick: () => box.close() },
        "✕",
      ),
    ),
    about,
    problem,
    ...charts.map((one) => one.node),
  );
  document.body.append(box);

  function choose(one) {
    hours = one;
    SPANS.forEach(([, span], i) => attr(spans[i], "aria-pressed", String(span === hours)));
    load();
  }

  async function load() {
    loaded = time;
    const asked = `${name} ${hours}`;
    const to = time,
      from = to - hours * 3600000;
    const series = (metric) =>
      get(
        `/v1/series?metric=${metric}&subject=${encodeURIComponent(name)}&from_ms=${from}&to_ms=${to}&most=300`,
      ).then((answer) => answer.buckets ?? []);
    try {
      const promises = service ? promisesOf(service).slice(0, LATENCY_CHARTS) : [];
      const [rate, planned, attainment, ...late] = await Promise.all(
        ["rate_rps", "planned_rps", "attainment", ...promises.map((one) => one.metric)].map(series),
      );
      if (asked !== `${name} ${hours}`) return;
      text(problem, "");
      draw(from, to, rate, planned, attainment, promises, late);
    } catch (error) {
      text(problem, `The history cannot be read: ${error.message}`);
    }
  }

  const points = (buckets, factor = 1) =>
    buckets.map((one) => [one.from_ms + one.length_ms / 2, one.mean * factor]);
  let service = null;
  function draw(from, to, rate, planned, attainment, promises, late) {
    charts[0].update({
      title: "Requests per second: measured (with least and most) and planned for",
      unit: "req/s",
      from,
      to,
      height: 190,
      bands: [
        { points: rate.map((one) => [one.from_ms + one.length_ms / 2, one.least, one.greatest]) },
      ],
      lines: [
        { name: "rate", points: points(rate) },
        { name: "planned", class: "plan", points: points(planned) },
      ],
    });
    for (let i = 0; i < LATENCY_CHARTS; ++i) {
      const one = promises[i];
      show(charts[2 + i].node, one);
      if (!one) continue;
      charts[2 + i].update({
        title: `${one.name}, 99th percentile, ms`,
        unit: "ms",
        from,
        to,
        height: 150,
        lines: [{ name: "p99", points: points(late[i]) }],
        level: {
          value: one.limit,
          label: `${num(one.limit, 0)} ms for ${num(service.percentile ?? 99)} %`,
        },
      });
    }
    const least = Math.min(100, ...attainment.map((one) => one.least * 100));
    charts[1].update({
      title: "Requests in their SLO, %",
      unit: "%",
      from,
      to,
      height: 130,
      least: Math.max(0, Math.floor(least - 1)),
      most: 100,
      lines: [{ name: "in SLO", points: points(attainment, 100) }],
    });
  }

  let model = null;
  function find() {
    service = model.services.find((one) => one.name === name) ?? null;
    text(
      about,
      service
        ? `${service.model ?? ""} · ${promisesText(service)} · ${clock(time)}`
        : "It is not wanted any more.",
    );
  }
  return {
    open(one) {
      name = one;
      if (model) find();
      text(title, one);
      for (const chart of charts)
        chart.update({ title: "…", unit: "", from: time - 1, to: time, lines: [] });
      if (!box.open) box.showModal();
      load();
    },
    update(now) {
      model = now;
      time = model.time ?? Date.now();
      if (!box.open) return;
      find();
      if (time - loaded > 10000) load();
    },
  };
}
