// The batch as a Gantt chart, and who takes the watts.
import {
  attr,
  clock,
  el,
  joules,
  keyed,
  known,
  num,
  percent,
  show,
  style,
  text,
  watts,
} from "./dom.js";
import { get } from "./feed.js";
import { looksOf } from "./model.js";
import { timeTicks } from "./chart.js";

const BATCHES = "(batch)"; // where services have their names
const MOST_ASKED = 50, // services that have a row, and whose joules are read: those of the most watts
  OTHERS = "(others)";
const PAST_MS = 6 * 3600000; // tasks that were over before do not stretch the chart
const MOST_NAMED = 12; // tasks without a place that are named
const isOver = (task) => ['done', 'failed', 'skipped', 'cancelled'].includes(task.state);
const laneOf = (task) =>
  `${task.gpu_uuid ?? task.gpu ?? "?"} ${task.profile ?? ""} ${task.start ?? ""}`;

export function makeBatch(parent) {
  const counts = el("p", { class: "facts" });
  const axis = el("div", { class: "axis", "aria-hidden": "true" }),
    lanes = el("ul", { class: "lanes", "aria-label": "Tasks by slice" });
  const now = el("i", { class: "nowline", "aria-hidden": "true" });
  const gantt = el("div", { class: "gantt" }, axis, lanes, now);
  const none = el("p", { class: "faint" });
  const troubles = el("ul", { class: "troubles", "aria-label": "Tasks that failed, or wait again" });
  const placeless = el("p", { class: "faint" });
  parent.append(
    el("div", { class: "card" }, el("h2", {}, "Batch"), counts, gantt, placeless, troubles, none),
  );
  const power = makePower(parent);

  let from = 0,
    to = 1;
  const at = (ms) => (ms - from) / (to - from);
  function draw(model) {
    const batch = model.batch,
      told = batch.tasks ?? [];
    const open = told.some((one) => !isOver(one));
    const tasks = told.filter(
      (one) =>
        known(one.begin_ms) &&
        known(one.end_ms) &&
        (one.gpu_uuid ?? one.gpu) !== undefined &&
        !(open && isOver(one) && one.end_ms < model.time - PAST_MS),
    );
    const names = new Map(model.gpus.map((gpu) => [gpu.key, `GPU ${gpu.index}`]));
    const all = (batch.waiting ?? 0) + (batch.running ?? 0) + (batch.done ?? 0) +
        (batch.failed ?? 0) + (batch.cancelled ?? 0);
    const facts = [
      `${num(batch.running ?? 0, 0)} running`,
      `${num(batch.waiting ?? 0, 0)} waiting`,
      `${num(batch.done ?? 0, 0)} done`,
    ];
    if (batch.failed) facts.push(`${num(batch.failed, 0)} failed`);
    if (batch.cancelled) facts.push(`${num(batch.cancelled, 0)} cancelled`);
    if (batch.ends_ms) facts.push(`ends ${clock(batch.ends_ms, true)}`);
    if (batch.gpus?.length)
      facts.push(`on ${batch.gpus.map((one) => names.get(one) ?? one).join(", ")}`);
    text(counts, facts.join("  ·  "));
    const lost = told.filter((one) => !isOver(one) && !tasks.includes(one)).map((one) => one.name);
    show(placeless, lost.length > 0);
    text(
      placeless,
      `No place yet: ${lost.slice(0, MOST_NAMED).join(", ")}${lost.length > MOST_NAMED ? ` and ${lost.length - MOST_NAMED} more` : ""}`,
    );
    const bad = told.filter((one) => one.reason);
    show(troubles, bad.length > 0);
    keyed(
      troubles,
      bad.slice(-MOST_NAMED),
      (task) => `${task.batch ?? ""} ${task.name}`,
      () => {
        const node = el("li");
        return {
          node,
          update: (task) => text(node, `${task.name}: ${task.state ?? ""}, ${task.reason}`),
        };
      },
    );
    show(gantt, tasks.length > 0);
    show(none, tasks.length === 0);
    text(
      none,
      all
        ? "The agent has not said which task runs where."
        : "No batch has been handed in. POST /v1/batch/tasks does that.",
    );
    if (!tasks.length) return;
    from = Math.min(...tasks.map((one) => one.begin_ms));
    to = Math.max(from + 1000, ...tasks.map((one) => one.end_ms));
    drawAxis();
    style(now, "--at", String(Math.max(0, Math.min(1, at(model.time)))));
    show(now, model.time >= from && model.time <= to);
    const groups = new Map();
    for (const task of tasks) {
      const lane = laneOf(task);
      if (!groups.has(lane))
        groups.set(lane, {
          lane,
          name: `${names.get(task.gpu_uuid) ?? `GPU ${task.gpu ?? "?"}`} ${task.profile ?? ""}`,
          tasks: [],
        });
      groups.get(lane).tasks.push(task);
    }
    keyed(
      lanes,
      [...groups.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })),
      (one) => one.lane,
      makeLane,
    );
  }

  function makeLane() {
    const name = el("span", { class: "lane-name" }),
      row = el("ul", { class: "lane" });
    return {
      node: el("li", {}, name, row),
      update(one) {
        text(name, one.name);
        attr(row, "aria-label", one.name);
        keyed(
          row,
          one.tasks,
          (task) => `${task.batch ?? ""} ${task.name} ${task.attempts ?? ""}`,
          () => {
            const node = el("li"),
              label = el("span");
            node.append(label);
            return {
              node,
              update(task) {
                attr(node, "class", `task ${looksOf(task.name)} is-${task.state ?? "waiting"}`);
                style(node, "--from", String(at(task.begin_ms)));
                style(node, "--to", String(at(task.end_ms)));
                text(label, task.name);
                const more = task.attempts > 1 ? `, attempt ${task.attempts}` : "";
                const said = `${task.name}, ${task.state ?? ""}, ${clock(task.begin_ms)} to ${clock(task.end_ms)}${more}`;
                attr(node, "title", said);
                attr(node, "aria-label", said);
              },
            };
          },
        );
      },
    };
  }

  function drawAxis() {
    const { ticks, label } = timeTicks(from, to);
    keyed(
      axis,
      ticks,
      (tick) => `${tick}`,
      () => {
        const node = el("span");
        return {
          node,
          update: (tick) => (text(node, label(tick)), style(node, "--at", String(at(tick)))),
        };
      },
    );
  }
  return (model) => (draw(model), power(model));
}

// Watts of every service where somebody knows them: the state, or the last that history measured.
function makePower(parent) {
  const about = el("p", { class: "facts" }),
    body = el("tbody"),
    none = el("p", { class: "faint" });
  const table = el(
    "table",
    { class: "plain energy" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...["Service", "Power", "Share", "Last 24 h"].map((one) => el("th", { scope: "col" }, one)),
      ),
    ),
    body,
  );
  parent.append(
    el("div", { class: "card" }, el("h2", {}, "Energy by service"), about, table, none),
  );
  let day = new Map(),
    shown = null; // service -> joules of the last 24 h, and when it was asked
  let asked = 0;
  async function ask(services, time) {
    asked = time;
    const newest = ((await get("/v1/latest").catch(() => null))?.values ?? []).filter(
      (one) => one.metric === "watts",
    );
    const read = new Map();
    const wanted = new Set([BATCHES, ...services.map((service) => service.name)]);
    newest.sort((a, b) => b.value - a.value);
    services = newest.filter((one) => wanted.has(one.subject)).slice(0, MOST_ASKED);
    for (const service of services) {
      const answer = await get(
        `/v1/series?metric=watts&subject=${encodeURIComponent(service.subject)}&from_ms=${time - 86400000}&to_ms=${time}&most=288`,
      ).catch(() => null);
      if (!answer) return;
      const buckets = answer.buckets ?? [];
      if (buckets.length)
        read.set(service.subject, {
          joules: buckets.reduce((sum, one) => sum + (one.mean * one.length_ms) / 1000, 0),
          now: buckets[buckets.length - 1].mean,
        });
    }
    day = read;
    if (shown && !parent.hidden) draw(shown);
  }
  function draw(model) {
    shown = model;
    const total = model.totals.power;
    text(
      about,
      known(total)
        ? `The boards draw ${watts(total)} together. Above idle it is told apart by how busy each instance is, idle power by compute slices.`
        : "No board says what it draws.",
    );
    if (!parent.hidden && model.time - asked > 60000) ask(model.services, model.time);
    const rows = [...model.services, { name: BATCHES, watts: model.batch.watts }]
      .map((one) => ({
        name: one.name,
        watts: one.watts ?? day.get(one.name)?.now,
        joules: day.get(one.name)?.joules,
      }))
      .filter((one) => known(one.watts))
      .sort((a, b) => b.watts - a.watts);
    show(table, rows.length > 0);
    show(none, rows.length === 0);
    text(
      none,
      "Nothing here says which service takes how much of it. `partita energy attribute` works it out from a recorded log.",
    );
    const sum = Math.max(
      total ?? 0,
      rows.reduce((all, one) => all + one.watts, 0),
      1,
    );
    if (rows.length > MOST_ASKED) {
      const others = rows.splice(MOST_ASKED);
      rows.push({
        name: OTHERS,
        text: `${num(others.length, 0)} others`,
        watts: others.reduce((all, one) => all + one.watts, 0),
      });
    }
    const rest = known(total) ? total - rows.reduce((all, one) => all + one.watts, 0) : 0;
    if (rows.length && rest > 0.005 * sum) rows.push({ name: "", watts: rest });
    keyed(
      body,
      rows,
      (one) => one.text ?? one.name,
      (first) => {
        const power = el("td"),
          fill = el("i", { class: "fill" }),
          share = el("span", { class: "figure" }),
          used = el("td");
        const node = el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            el("i", {
              class: `swatch ${looksOf(first.name === OTHERS ? "" : first.name)}`,
              "aria-hidden": "true",
            }),
            first.text ?? (first.name === BATCHES ? "batches" : first.name || "nobody: idle slices"),
          ),
          power,
          el("td", {}, el("span", { class: "bar", "aria-hidden": "true" }, fill), " ", share),
          used,
        );
        return {
          node,
          update(one) {
            text(power, watts(one.watts));
            text(share, percent(one.watts / sum));
            style(fill, "transform", `scaleX(${Math.round((one.watts / sum) * 1000) / 1000})`);
            text(used, known(one.joules) ? joules(one.joules) : "–");
          },
        };
      },
    );
    attr(table, "aria-label", "Power and energy by service");
  }
  return draw;
}
