// The services: rate with forecast, latency against its objective, how much of it is kept; one of them over time.
import { attained, attr, clock, el, keyed, known, num, plural, show, style, text } from "./dom.js";
import { get } from "./feed.js";
import { looksOf } from "./model.js";
import { makeChart, sparkPath } from "./chart.js";

const KEPT = 90,
  SPARK_W = 104,
  SPARK_H = 26,
  SPARK_EVERY_MS = 1000;
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

const cell = (name, ...children) => el("td", { "data-label": name }, ...children);

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
    state = el("span", { class: "verdict" });
  const node = el(
    "tr",
    {},
    el("th", { scope: "row" }, el("div", { class: "who" }, swatch, el("div", {}, name, model))),
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
    update(now) {
      service = now;
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
      text(p99, known(now.p99_ms) ? `${num(now.p99_ms, 1)} ms` : "–");
      text(slo, `of ${num(now.slo_ms, 0)} ms`);
      latency.update({ value: now.p99_ms, mark: now.slo_ms });
      attr(latency.node, "class", now.p99_ms > now.slo_ms ? "bar late" : "bar");
      text(attainment, attained(now.attainment));
      attr(attainment, "class", now.attainment < (now.percentile ?? 99) / 100 ? "low" : null);
      text(workers, String(now.ready_workers ?? "–"));
      text(segments, ` on ${plural(now.segments ?? 0, "slice")}`);
      text(state, now.at_risk ? `▲ at risk${now.why ? `: ${now.why}` : ""}` : "✓ kept");
      attr(state, "class", now.at_risk ? "verdict risk" : "verdict fine");
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

export function makeServices(parent) {
  const sheet = makeSheet();
  const body = el("tbody");
  const filter = el("input", {
    type: "search",
    placeholder: "find a service  /",
    "aria-label": "Find a service",
    id: "find",
    autocomplete: "off",
  });
  const none = el(
    "p",
    { class: "faint pad" },
    "No service is wanted. `partita --server URL apply services.yaml` says which.",
  );
  const heads = [
    "Service",
    "Rate",
    "Load: now, forecast, plan, capacity",
    "p99 against SLO",
    "In SLO",
    "Workers",
    "State",
  ];
  parent.append(
    el("div", { class: "head" }, el("h2", {}, "Services"), el("span", { class: "grow" }), filter),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of services" },
      el(
        "table",
        { class: "services" },
        el("thead", {}, el("tr", {}, ...heads.map((one) => el("th", { scope: "col" }, one)))),
        body,
      ),
    ),
    none,
  );
  let last = null;
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = last.services.filter(
      (one) =>
        !wanted ||
        one.name.toLowerCase().includes(wanted) ||
        (one.model ?? "").toLowerCase().includes(wanted),
    );
    keyed(
      body,
      rows,
      (one) => one.name,
      () => makeRow(sheet.open),
    );
    show(none, last.services.length === 0);
  };
  filter.addEventListener("input", () => last && draw());
  return (model) => {
    last = model;
    draw();
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
  const charts = [makeChart(), makeChart(), makeChart()];
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
      const [rate, planned, p99, attainment] = await Promise.all(
        ["rate_rps", "planned_rps", "p99_ms", "attainment"].map(series),
      );
      if (asked !== `${name} ${hours}`) return;
      text(problem, "");
      draw(from, to, rate, planned, p99, attainment);
    } catch (error) {
      text(problem, `The history cannot be read: ${error.message}`);
    }
  }

  const points = (buckets, factor = 1) =>
    buckets.map((one) => [one.from_ms + one.length_ms / 2, one.mean * factor]);
  let service = null;
  function draw(from, to, rate, planned, p99, attainment) {
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
    charts[1].update({
      title: "Latency, 99th percentile, ms",
      unit: "ms",
      from,
      to,
      height: 150,
      lines: [{ name: "p99", points: points(p99) }],
      level: known(service?.slo_ms)
        ? { value: service.slo_ms, label: `SLO ${num(service.slo_ms, 0)} ms` }
        : null,
    });
    const least = Math.min(100, ...attainment.map((one) => one.least * 100));
    charts[2].update({
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
        ? `${service.model ?? ""} · SLO ${num(service.slo_ms, 0)} ms for ${num(service.percentile)} % of the requests · ${clock(time)}`
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
