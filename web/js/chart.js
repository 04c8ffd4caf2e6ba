// Lines over time as SVG: bands, steps, marks, a cursor that keys and pointer move, and a table of the same for
// those who do not see it.
import { clock, el, known, num, text } from "./dom.js";

const LEFT = 56,
  RIGHT = 12,
  TOP = 10,
  BOTTOM = 24;

export function niceStep(span, ticks) {
  const raw = span / ticks,
    base = 10 ** Math.floor(Math.log10(raw));
  return base * ([1, 2, 5, 10].find((factor) => factor * base >= raw) ?? 10);
}
const TIMES = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800,
];

export function timeTicks(from, to) {
  const span = (to - from) / 1000;
  const step = (TIMES.find((one) => span / one <= 8) ?? 604800) * 1000;
  const shift = new Date(from).getTimezoneOffset() * 60000;
  const ticks = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step)
    ticks.push(at);
  const [begin, end] = step >= 86400000 ? [5, 10] : [11, step < 60000 ? 19 : 16];
  return { ticks, label: (at) => clock(at, true).slice(begin, end) };
}

function line(points, x, y) {
  let path = "",
    open = false;
  for (const [at, value] of points) {
    if (!known(value)) {
      open = false;
      continue;
    }
    path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  }
  return path;
}

function area(points, x, y) {
  if (points.length < 2) return "";
  const up = points.map(([at, , high]) => `${x(at).toFixed(1)} ${y(high).toFixed(1)}`);
  const down = points.map(([at, low]) => `${x(at).toFixed(1)} ${y(low).toFixed(1)}`).reverse();
  return `M${up.join("L")}L${down.join("L")}Z`;
}

// what: {title, unit, from, to, height, lines: [{name, class, points: [[ms, value]]}],
//        bands: [{name, points: [[ms, low, high]]}], marks: [{at, label, class}], level: {value, label}}
export function makeChart() {
  const picture = el("svg", { class: "chart", role: "img" });
  const reading = el("span", { class: "reading", "aria-hidden": "true" }),
    title = el("span");
  const caption = el("figcaption", {}, title, reading);
  const body = el("tbody"),
    headRow = el("tr");
  const table = el(
    "details",
    { class: "numbers" },
    el("summary", {}, "The same as a table"),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers of the chart" },
      el("table", {}, el("thead", {}, headRow), body),
    ),
  );
  const node = el("figure", {}, caption, picture, table);
  let shown = null,
    x = null,
    cursor = null,
    width = 960;
  new ResizeObserver(
    () =>
      shown &&
      Math.abs(picture.clientWidth - width) > 1 &&
      picture.clientWidth > 0 &&
      update(shown),
  ).observe(picture);

  picture.addEventListener("pointermove", (event) => {
    if (!shown) return;
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    read(shown.from + ((at - LEFT) / (width - LEFT - RIGHT)) * (shown.to - shown.from));
  });
  picture.addEventListener("pointerleave", () => read(null));

  function read(at) {
    if (cursor) cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at === null) return text(reading, "\u00a0");
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    const values = shown.lines
      .map((one) => {
        const near = nearest(one.points, at);
        return near ? `${one.name} ${num(near[1])}` : "";
      })
      .filter(Boolean);
    text(reading, `${clock(at, true)}  ${values.join("  ·  ")}`);
  }

  function update(what) {
    shown = what;
    width = picture.clientWidth || width;
    const height = what.height ?? 200;
    let top = what.level?.value ?? 0,
      count = 0;
    for (const one of what.lines)
      for (const [, value] of one.points) if (known(value)) ((top = Math.max(top, value)), ++count);
    for (const one of what.bands ?? [])
      for (const [, , high] of one.points) top = Math.max(top, high);
    const bottom = what.least ?? 0;
    if (top <= bottom) top = bottom + 1;
    const step = niceStep(top - bottom, 4);
    top = what.most ?? Math.ceil(top / step - 1e-9) * step;
    const scale = (width - LEFT - RIGHT) / Math.max(1, what.to - what.from);
    x = (at) => LEFT + (Math.min(what.to, Math.max(what.from, at)) - what.from) * scale;
    const y = (value) =>
      TOP + (1 - (Math.min(top, value) - bottom) / (top - bottom)) * (height - TOP - BOTTOM);
    picture.setAttribute("height", height);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(...frame(what, x, y, { width, height, bottom, top, step }));
    for (const one of what.bands ?? [])
      picture.append(el("path", { class: `band ${one.class ?? ""}`, d: area(one.points, x, y) }));
    for (const one of what.lines)
      picture.append(el("path", { class: `line ${one.class ?? ""}`, d: line(one.points, x, y) }));
    for (const one of what.marks ?? []) {
      if (one.at < what.from || one.at > what.to) continue;
      picture.append(
        el(
          "line",
          {
            class: `at ${one.class ?? ""}`,
            x1: x(one.at),
            x2: x(one.at),
            y1: TOP,
            y2: height - BOTTOM,
          },
          el("title", {}, one.label),
        ),
      );
    }
    cursor = el("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    picture.append(cursor);
    picture.setAttribute(
      "aria-label",
      `${what.title}, from ${clock(what.from, true)} to ${clock(what.to, true)}, 0 to ${num(top)} ${what.unit}. ${count ? "" : "Nothing was measured."}`,
    );
    text(title, what.title);
    if (!count)
      picture.append(
        el(
          "text",
          { class: "none", x: width / 2, y: height / 2, "text-anchor": "middle" },
          "nothing was measured in this time",
        ),
      );
    fillTable(what, headRow, body);
    read(null);
  }
  return { node, update, cursor: (at) => shown && read(at) };
}

function frame(what, x, y, { width, height, bottom, top, step }) {
  const parts = [];
  for (let value = bottom; value <= top + step / 1000; value += step) {
    parts.push(
      el("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    );
    parts.push(
      el(
        "text",
        { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" },
        num(value, step < 0.1 ? 2 : step < 1 ? 1 : 0),
      ),
    );
  }
  const { ticks, label } = timeTicks(what.from, what.to);
  for (const at of ticks)
    parts.push(
      el("text", { class: "tick", x: x(at), y: height - 6, "text-anchor": "middle" }, label(at)),
    );
  if (what.level) {
    parts.push(
      el("line", {
        class: "level",
        x1: LEFT,
        x2: width - RIGHT,
        y1: y(what.level.value),
        y2: y(what.level.value),
      }),
    );
    parts.push(
      el(
        "text",
        {
          class: "tick",
          x: width - RIGHT - 4,
          y: y(what.level.value) + (y(what.level.value) < TOP + 14 ? 13 : -4),
          "text-anchor": "end",
        },
        what.level.label,
      ),
    );
  }
  return parts;
}

function fillTable(what, headRow, body) {
  headRow.replaceChildren(
    el("th", { scope: "col" }, "time"),
    ...what.lines.map((one) => el("th", { scope: "col" }, `${one.name}, ${what.unit}`)),
  );
  const times = what.lines[0]?.points.map(([at]) => at) ?? [];
  const every = Math.max(1, Math.ceil(times.length / 60));
  body.replaceChildren(
    ...times
      .filter((_, i) => i % every === 0)
      .map((at) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, clock(at, true)),
          ...what.lines.map((one) => el("td", {}, num(nearest(one.points, at)?.[1]))),
        ),
      ),
  );
}

export function nearest(points, at) {
  let low = 0,
    high = points.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < at) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && at - points[low - 1][0] < points[low][0] - at) --low;
  return points[low];
}

// A small line without axes; width and height in pixels.
export function sparkPath(values, width, height, top) {
  let path = "";
  const step = width / Math.max(1, values.length - 1);
  for (let i = 0; i < values.length; ++i)
    path += `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(height - 1 - (Math.min(top, values[i]) / top) * (height - 3)).toFixed(1)}`;
  return path;
}
