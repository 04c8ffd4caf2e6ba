// GPUs as strips of slices: the live ones of the node, and still ones of plans and changes.
import {
  attr,
  el,
  id,
  keyed,
  known,
  num,
  percent,
  plural,
  show,
  style,
  text,
  watts,
} from "./dom.js";
import { post } from "./feed.js";
import { COLOURS, PATTERNS, looksOf } from "./model.js";
import { makeWindow } from "./window.js";

const pointOf = (cell) => (cell.batch ? `b${cell.batch}×${cell.processes ?? 1}` : "");

export function sentenceOf(cell, gpu) {
  const what = cell.service ? `${cell.service}, ` : "no service, ";
  const point = cell.batch
    ? `, batch ${cell.batch}, ${plural(cell.processes ?? 1, "process", "processes")}`
    : "";
  const busy = known(cell.busy) ? `, ${percent(cell.busy)} busy` : "";
  const mark = cell.mark ? `${cell.mark}: ` : "";
  return `${mark}${what}${cell.profile} at ${cell.start} on GPU ${gpu.index}${point}${busy}`;
}

// A name that is told apart in a narrow slice: its begin, and the number at its end.
export function shortened(name, most) {
  if (name.length <= most) return name;
  const end = /\d+[a-z]?$/i.exec(name)?.[0] ?? "";
  return end.length >= most
    ? end.slice(-most)
    : name.slice(0, most - end.length).replace(/[-_.]+$/, "") + end;
}

const shortName = (profile) => profile.replace(/\..*/, "");

const looksSame = (a, b) =>
  a.service === b.service &&
  a.profile === b.profile &&
  a.start === b.start &&
  a.size === b.size &&
  a.batch === b.batch &&
  a.processes === b.processes &&
  a.mark === b.mark &&
  a.broken === b.broken;

// One slice. live: a button with a meter.
function makeCell(gpu, live, choose) {
  // The label of a button says all of it: what is seen in it, shortened, is drawn by page.css.
  const write = live ? (where, words) => attr(where, "data-text", words) : text;
  const name = el("span", { class: "name" }),
    point = el("span", { class: "point" }),
    busy = el("span", { class: "busy" });
  const fill = el("i"),
    meter = el("span", { class: "meter" }, fill);
  const node = live
    ? el("button", { type: "button", class: "cell", tabindex: "-1" }, name, point, busy, meter)
    : el("li", { class: "cell" }, name, point);
  const row = { node, cell: null, gpu };
  node.row = row;
  if (live) {
    node.addEventListener("click", () => choose(row));
    const tell = () => attr(node, "aria-label", sentenceOf(row.cell, row.gpu));
    node.addEventListener("focus", tell);
    node.addEventListener("pointerenter", tell);
  }
  let slices = 0,
    dense = false;
  row.update = (cell) => {
    const last = row.cell;
    row.cell = cell;
    if (!last || slices !== row.gpu.slices || dense !== row.gpu.dense || !looksSame(last, cell)) {
      slices = row.gpu.slices;
      if (dense !== row.gpu.dense) row.share = undefined;
      dense = row.gpu.dense;
      style(node, "--at", String(cell.start / row.gpu.slices));
      style(node, "--size", String(cell.size / row.gpu.slices));
      node.className = `cell ${looksOf(cell.service)}${cell.mark ? ` ${cell.mark}` : ""}${cell.broken ? " broken" : ""}${cell.size < 2 ? " thin" : ""}`;
      const word = cell.service || (cell.broken ? "broken" : "idle");
      write(
        name,
        cell.size < 2
          ? shortened(word, row.gpu.dense ? 4 : 6)
          : row.gpu.dense && cell.size < 4
            ? shortened(word, 8)
            : word,
      );
      write(point, `${cell.size < 4 ? shortName(cell.profile) : cell.profile} ${pointOf(cell)}`);
      attr(node, "aria-label", sentenceOf(cell, row.gpu));
    }
    if (!live) return;
    const share = known(cell.busy) ? Math.round(cell.busy * 100) : -1;
    if (share === row.share) return;
    row.share = share;
    if (!dense) write(busy, share < 0 ? "" : `${share}%`);
    fill.style.transform = `scaleX(${Math.max(0, share) / 100})`;
  };
  return row;
}

function makeGpu(live, choose) {
  const title = el("h3"),
    model = el("span", { class: "faint" });
  const power = el("span", { class: "figure" }),
    heat = el("span", { class: "figure" });
  let now = null;
  const out = live
    ? el("button", {
        type: "button",
        class: "outwhy",
        onclick: () => choose({ cell: null, gpu: now }),
      })
    : el("p", { class: "outwhy" });
  const holders = el("p", { class: "outwhy held" });
  const strip = el(live ? "div" : "ul", { class: "strip", role: live ? "group" : null });
  const node = el(
    "article",
    { class: "gpu" },
    el("header", {}, title, model, el("span", { class: "grow" }), power, heat),
    strip,
    out,
    holders,
  );
  let of = 0,
    named = -1,
    wasOut = false;
  return {
    node,
    cells: () => strip.rowsByKey,
    update(gpu) {
      now = gpu;
      text(title, gpu.title ?? `GPU ${gpu.index}`);
      text(model, gpu.model);
      if (live) {
        text(
          power,
          known(gpu.power)
            ? watts(gpu.power) + (known(gpu.limit) ? ` / ${num(gpu.limit, 0)}` : "")
            : "",
        );
        text(heat, known(gpu.celsius) ? `${num(gpu.celsius, 0)} °C` : "");
        attr(heat, "class", gpu.throttle.length ? "figure hot" : "figure");
        attr(heat, "title", gpu.throttle.length ? `slowed down: ${gpu.throttle.join(", ")}` : null);
      }
      attr(node, "class", gpu.out ? "gpu out" : "gpu");
      show(out, gpu.out);
      if (gpu.out) text(out, `Out: ${gpu.why || "no reason was given"}`);
      show(holders, Boolean(gpu.foreign?.length));
      if (gpu.foreign?.length)
        text(
          holders,
          `Used outside any slice by ${gpu.foreign.map((one) => `${one.name || "?"} (${one.pid})`).join(", ")}`,
        );
      if (of !== gpu.slices) {
        of = gpu.slices;
        style(node, "--of", String(of));
      }
      for (const row of strip.rowsByKey?.values() ?? []) row.gpu = gpu;
      keyed(
        strip,
        gpu.cells,
        (cell) => cell.key,
        () => makeCell(gpu, live, choose),
      );
      if (named !== gpu.cells.length || gpu.out !== wasOut) {
        named = gpu.cells.length;
        wasOut = gpu.out;
        attr(
          strip,
          "aria-label",
          `GPU ${gpu.index}, ${gpu.model}, ${plural(named, "instance")}${gpu.out ? `, out: ${gpu.why}` : ""}`,
        );
      }
    },
  };
}

export const stillGpu = () => makeGpu(false);

// The details of one slice in a box that follows the state.
function makeDetail(say, alarm) {
  const box = id("detail"),
    title = id("detail-title"),
    body = el("dl");
  const why = el("input", { type: "text", id: "out-why", maxlength: "400", autocomplete: "off" });
  const label = el(
    "label",
    { for: "out-why" },
    "To take its GPU out, say why; it is kept in the history.",
  );
  const act = el("button", { type: "button", onclick: () => ask() });
  const acts = el("form", { class: "acts" }, label, why, el("div", { class: "row end" }, act));
  acts.addEventListener("submit", (event) => (event.preventDefault(), ask()));
  id("detail-body").append(body, acts);
  let shown = null;
  async function ask() {
    const { gpu } = shown,
      how = gpu.out ? "give-back" : "take-out";
    act.disabled = true;
    try {
      const body = gpu.out ? undefined : { why: why.value.trim() };
      const receipt = await post(`/v1/gpus/${encodeURIComponent(gpu.key)}/${how}`, body);
      say(receipt.sentence || `GPU ${gpu.index}: ${how}`);
      box.close();
    } catch (problem) {
      alarm(`The agent did not take it: ${problem.message}`);
    }
    act.disabled = false;
  }
  box.querySelector(".close").addEventListener("click", () => box.close());
  box.addEventListener("close", () => {
    shown = null;
  });
  const facts = (cell, gpu) => (cell ? sliceFacts(cell, gpu) : gpuFacts(gpu));
  const gpuFacts = (gpu) => [
    ["GPU", `${gpu.index}, ${gpu.model}`],
    ["Out", gpu.out ? gpu.why || "no reason was given" : "no"],
    ["Device", gpu.key],
  ];
  const sliceFacts = (cell, gpu) => [
    ["Service", cell.service || "none"],
    ["Slice", `${cell.profile} at ${cell.start} on GPU ${gpu.index} (${gpu.model})`],
    ["Batch × processes", cell.batch ? `${cell.batch} × ${cell.processes}` : "–"],
    ["Busy", percent(cell.busy)],
    ["Memory used", known(cell.memoryMib) ? `${num(cell.memoryMib / 1024, 1)} GiB` : "–"],
    ["Planned to carry", known(cell.throughput) ? `${num(cell.throughput)} req/s` : "–"],
    [
      "Processes on it",
      cell.holders.map((one) => `${one.name || "?"} (${one.pid})`).join(", ") ||
        (cell.broken ? "it has no compute instance" : "–"),
    ],
    ["Device", cell.uuid || "–"],
  ];
  const draw = () => {
    const { cell, gpu } = shown;
    text(title, cell ? cell.service || "A slice without a service" : `GPU ${gpu.index}`);
    text(act, gpu.out ? `Give GPU ${gpu.index} back` : `Take GPU ${gpu.index} out`);
    show(acts, true);
    show(why, !gpu.out);
    show(label, !gpu.out);
    keyed(
      body,
      facts(shown.cell, shown.gpu),
      (fact) => fact[0],
      (fact) => {
        const value = el("dd");
        return {
          node: el("div", {}, el("dt", {}, fact[0]), value),
          update: (now) => text(value, now[1]),
        };
      },
    );
  };
  return {
    open(row) {
      shown = row;
      why.value = "";
      draw();
      if (!box.open) box.showModal();
    },
    update: () => shown && draw(),
  };
}

const DENSE = 24, // GPUs above which a strip is low, and only those in view are drawn
  DENSE_PX = 70, // of a row of them with what lies between, as page.css has it
  DENSE_LEAST_PX = 236,
  GAP_PX = 8;

// All GPUs of the node; arrow keys go from slice to slice.
export function makeNode(parent, say, alarm) {
  const detail = makeDetail(say, alarm);
  const list = el("div", {
    class: "gpus",
    role: "group",
    tabindex: "-1",
    "aria-label": "GPUs; arrow keys go from slice to slice, Enter shows one",
  });
  const legend = el("ul", { class: "legend", "aria-label": "Services by colour and pattern" });
  const more = el("span", { class: "faint more" });
  parent.append(el("div", { class: "head" }, el("h2", {}, "GPUs"), legend, more), list);
  let gpus = [],
    dense = false,
    columns = 1,
    current = null; // {gpu, cell}: keys of the slice that Tab goes to
  const rowOf = (place) =>
    list.rowsByKey?.get(place?.gpu)?.cells()?.get(place?.cell) ?? null;
  function enter(place) {
    const before = rowOf(current);
    if (before) before.node.tabIndex = -1;
    current = place;
    const now = rowOf(place);
    if (now) now.node.tabIndex = 0;
    return now;
  }
  function draw(from, to) {
    const held = list.contains(document.activeElement) && document.activeElement.row;
    keyed(
      list,
      gpus.slice(from, to),
      (gpu) => gpu.key,
      () => makeGpu(true, detail.open),
    );
    // One slice is where Tab goes: the last one that was, or the first in view.
    if (!rowOf(current)?.node.isConnected) {
      const first = gpus.slice(from, to).find((gpu) => gpu.cells.length);
      if (first && (!held || held.node.isConnected))
        enter({ gpu: first.key, cell: inOrder(first)[0].key });
    } else enter(current);
    if (held && !held.node.isConnected) list.focus({ preventScroll: true });
  }
  const view = makeWindow({
    scroller: list,
    padded: list,
    rows: () => (dense ? Math.ceil(gpus.length / columns) : 1),
    height: () => DENSE_PX,
    draw: (from, to) => (dense ? draw(from * columns, to * columns) : draw(0, gpus.length)),
  });
  const measure = () => {
    columns = Math.max(1, Math.floor((list.clientWidth - 6 + GAP_PX) / (DENSE_LEAST_PX + GAP_PX)));
    style(list, "--columns", String(columns));
  };
  new ResizeObserver(() => list.clientWidth && (measure(), view.update())).observe(list);
  list.addEventListener("focusin", ({ target }) => {
    if (target.row) enter({ gpu: target.row.gpu.key, cell: target.row.cell.key });
  });
  list.addEventListener("keydown", (event) => {
    if (event.target !== list && !event.target.row) return;
    const next = neighbour(gpus, current, event.key);
    if (!next) return;
    event.preventDefault();
    if (dense) view.reveal(Math.floor(gpus.indexOf(next.of) / columns));
    enter({ gpu: next.of.key, cell: next.cell.key })?.node.focus();
  });
  return (model) => {
    gpus = model.gpus;
    dense = gpus.length > DENSE;
    const size = dense ? " many" : gpus.length > 12 ? " some" : "";
    attr(list, "class", `gpus${size}${model.fault ? " old" : ""}`);
    for (const gpu of gpus) gpu.dense = dense;
    if (dense && !list.saidStyle?.["--columns"]) measure();
    view.update();
    // Looks repeat where there are more services than them: names tell then, not a legend.
    const told = model.services.length <= COLOURS * PATTERNS;
    const names = told ? model.services.slice(0, 24).map((service) => service.name) : [];
    show(more, model.services.length > 24);
    text(
      more,
      told ? `and ${model.services.length - 24} more` : "a slice says whose it is: click, or Enter",
    );
    show(legend, told);
    keyed(
      legend,
      names,
      (name) => name,
      (name) => ({
        node: el(
          "li",
          {},
          el("i", { class: `swatch ${looksOf(name)}`, "aria-hidden": "true" }),
          name,
        ),
        update() {},
      }),
    );
    detail.update();
  };
}

const inOrder = (gpu) => [...gpu.cells].sort((a, b) => a.start - b.start);

// Where a key leads from a slice, over all GPUs, drawn or not.
function neighbour(gpus, place, key) {
  const at = gpus.findIndex((gpu) => gpu.key === place?.gpu);
  const cell = gpus[at]?.cells.find((one) => one.key === place.cell);
  if (!cell) return null;
  const all = gpus.filter((gpu) => gpu.cells.length);
  const row = all.indexOf(gpus[at]);
  if (key === "ArrowDown" || key === "ArrowUp") {
    const of = all[row + (key === "ArrowDown" ? 1 : -1)];
    if (!of) return null;
    const near = (one) => Math.abs(one.start - cell.start);
    return { of, cell: of.cells.reduce((best, one) => (near(one) < near(best) ? one : best)) };
  }
  const last = (of) => ({ of, cell: inOrder(of).at(-1) });
  const first = (of) => ({ of, cell: inOrder(of)[0] });
  if (key === "Home") return first(all[0]);
  if (key === "End") return last(all.at(-1));
  if (key !== "ArrowRight" && key !== "ArrowLeft") return null;
  const mine = inOrder(gpus[at]),
    next = mine[mine.indexOf(cell) + (key === "ArrowRight" ? 1 : -1)];
  if (next) return { of: gpus[at], cell: next };
  const of = all[row + (key === "ArrowRight" ? 1 : -1)];
  return of ? (key === "ArrowRight" ? first(of) : last(of)) : null;
}
