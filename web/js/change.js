// A change: what moves, who feels it, why; yes or no of a person; and how far it has come.
import { attr, clock, el, id, keyed, percent, plural, seconds, show, style, text } from "./dom.js";
import { post } from "./feed.js";
import { looksOf, sizeOf, slicesOf } from "./model.js";
import { stillGpu } from "./strip.js";
import { makeWindow } from "./window.js";

const placeOf = (one) => `${one.gpu_uuid ?? one.gpu} ${one.profile} ${one.start}`;
const LINE_PX = 29, // of a step and of a line of what moves, as page.css has them
  MOST_PAIRS = 12, // GPUs that are drawn before somebody asks for more
  MOST_ROWS = 50,
  SHORT = 12; // lines that need no scrolling

// A list whose lines are drawn where they are in view; make(line) as keyed's.
function makeLines(list, make) {
  let lines = [],
    keys = [];
  const view = makeWindow({
    scroller: list,
    padded: list,
    rows: () => lines.length,
    height: () => LINE_PX,
    draw: (from, to) =>
      keyed(
        list,
        lines.slice(from, to).map((line, i) => ({ line, key: keys[from + i], at: from + i })),
        (one) => one.key,
        (first) => {
          const row = make(first.line);
          return {
            node: row.node,
            update({ line, at }) {
              attr(row.node, "aria-posinset", String(at + 1));
              attr(row.node, "aria-setsize", String(lines.length));
              row.update(line);
            },
          };
        },
      ),
  });
  return {
    reveal: view.reveal,
    update(now, keyOf) {
      const other = now.length !== lines.length;
      lines = now;
      keys = now.map((line, at) => `${at} ${keyOf(line)}`);
      attr(list, "tabindex", lines.length > SHORT ? "0" : null);
      if (other) view.begin();
      else view.update();
    },
  };
}

const where = (one) => `GPU ${one.gpu}, ${one.profile} at ${one.start}`;

// A change of the agent's state says what is restarted and in the way as pairs; `partita apply` says it flat.
export function flat(change) {
  return {
    ...change,
    reassign: (change.reassign ?? []).map((one) =>
      one.from
        ? {
            gpu: one.from.gpu,
            gpu_uuid: one.from.gpu_uuid,
            profile: one.from.profile,
            start: one.from.start,
            ...one.to,
          }
        : one,
    ),
    blockers: (change.blockers ?? []).map((one) =>
      one.instance ? { ...one.instance, ...one.holder } : one,
    ),
  };
}

// Both sides of every GPU that the change touches.
export function sidesOf(change, gpus) {
  const byIndex = new Map(gpus.map((gpu) => [gpu.index, gpu]));
  const sides = new Map();
  const side = (one) => {
    let found = sides.get(one.gpu);
    if (!found) {
      const gpu = byIndex.get(one.gpu);
      sides.set(
        one.gpu,
        (found = {
          index: one.gpu,
          model: gpu?.model ?? "",
          memory: gpu?.memoryMib,
          slices: gpu?.slices ?? slicesOf(gpu?.model),
          before: [],
          after: [],
          touched: false,
        }),
      );
    }
    return found;
  };
  const cell = (one, gpu, mark, service = one.service) => ({
    key: `${placeOf(one)} ${mark ?? ""}`,
    start: one.start,
    size: sizeOf(one.profile, gpu.slices, gpu.memory),
    profile: one.profile,
    mark,
    service: service ?? "",
    batch: one.batch,
    processes: one.processes,
    holders: [],
  });
  const reassigned = new Map((change.reassign ?? []).map((one) => [placeOf(one), one]));
  const goes = new Set((change.move ?? []).map((one) => placeOf(one.from)));
  const comes = new Set((change.move ?? []).map(placeOf));
  for (const one of change.keep ?? []) {
    const gpu = side(one),
      other = reassigned.get(placeOf(one));
    gpu.before.push(cell(one, gpu, other ? "restarted" : undefined));
    gpu.after.push(cell(other ?? one, gpu, other ? "restarted" : undefined));
    if (other) gpu.touched = true;
  }
  for (const one of change.destroy ?? []) {
    const gpu = side(one);
    gpu.before.push(cell(one, gpu, goes.has(placeOf(one)) ? "moves" : "goes"));
    gpu.touched = true;
  }
  for (const one of change.create ?? []) {
    const gpu = side(one);
    gpu.after.push(cell(one, gpu, comes.has(placeOf(one)) ? "moved" : "comes"));
    gpu.touched = true;
  }
  return [...sides.values()].filter((one) => one.touched).sort((a, b) => a.index - b.index);
}

// What happens to whom, in words.
export function linesOf(change) {
  const lines = [];
  const goes = new Set((change.move ?? []).map((one) => placeOf(one.from)));
  const comes = new Set((change.move ?? []).map(placeOf));
  for (const one of change.move ?? [])
    lines.push({
      mark: "→",
      word: "moves",
      service: one.service,
      text: `${where(one.from)} → ${where(one)}`,
    });
  for (const one of change.create ?? [])
    if (!comes.has(placeOf(one)))
      lines.push({ mark: "+", word: "is new", service: one.service, text: where(one) });
  for (const one of change.destroy ?? [])
    if (!goes.has(placeOf(one)))
      lines.push({ mark: "−", word: "goes", service: one.service, text: where(one) });
  for (const one of change.reassign ?? [])
    lines.push({
      mark: "↻",
      word: "restarts",
      service: one.service,
      text: `${where(one)}, batch ${one.batch} × ${one.processes}`,
    });
  for (const one of change.temporary ?? [])
    lines.push({
      mark: "◌",
      word: "stands in for a while",
      service: one.service,
      text: where(one),
    });
  return lines;
}

const WORDS = {
  enable_mig: () => "turn MIG on",
  disable_mig: () => "turn MIG off",
  create_instance: (one) => `create ${one.profile} at ${one.start}`,
  create_compute: (one) => `create the compute instance of ${one.profile} at ${one.start}`,
  start: (one) => `start ${one.service}`,
  stop: (one) => `stop ${one.service}`,
  drain: (one) => `wait until nobody holds ${one.profile} at ${one.start}`,
  destroy_compute: (one) => `destroy the compute instance of ${one.profile} at ${one.start}`,
  destroy_instance: (one) => `destroy ${one.profile} at ${one.start}`,
};
export const stepText = (step) =>
  `${WORDS[step.op]?.(step) ?? step.op} on GPU ${step.gpu}${step.temporary ? " (stand-in)" : ""}`;

export const stepsOf = (one) => one?.change?.steps?.length ?? one?.steps ?? 0;

export const STATES = {
  proposed: "waits for a yes",
  approved: "approved",
  applying: "under way",
  succeeded: "done",
  failed: "failed",
  rejected: "rejected",
};

// The diff of one change; also used by the history.
export function makeDiff() {
  const pairs = el("div", { class: "pairs" }),
    still = el("p", { class: "faint" });
  const moves = el("ul", { class: "movelist lines", "aria-label": "What happens to the slices" });
  const drawMoves = makeLines(moves, (one) => ({
    node: el(
      "li",
      {},
      el("span", { class: "sign", "aria-hidden": "true" }, one.mark),
      el("i", { class: `swatch ${looksOf(one.service)}`, "aria-hidden": "true" }),
      el("b", {}, one.service || "idle slice"),
      ` ${one.word}: `,
      el("span", { class: "faint", title: one.text }, one.text),
    ),
    update() {},
  }));
  let sides = [],
    drawnPairs = MOST_PAIRS;
  const drawPairs = () => {
    keyed(pairs, sides.slice(0, drawnPairs), (one) => `${one.index}`, makePair);
    show(others, sides.length > drawnPairs);
    text(others, `Show ${plural(Math.max(0, sides.length - drawnPairs), "more GPU")} that it changes`);
  };
  const others = el(
    "button",
    { type: "button", hidden: true, onclick: () => ((drawnPairs = Infinity), drawPairs()) },
    "",
  );
  const rest = el("p", { class: "faint", hidden: true });
  const body = el("tbody");
  const affected = el(
    "table",
    { class: "plain" },
    el("caption", {}, "Services that the change touches"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...["Service", "Stays up", "Below its least", "Nothing running"].map((one) =>
          el("th", { scope: "col" }, one),
        ),
      ),
    ),
    body,
  );
  const why = el("ul", { class: "why" });
  const whyBox = el("details", { open: true }, el("summary", {}, "Why it is so"), why);
  const blockers = el("p", { class: "warn", hidden: true });
  const node = el(
    "div",
    { class: "diff" },
    blockers,
    pairs,
    others,
    still,
    el(
      "div",
      { class: "columns" },
      el("div", {}, el("h3", {}, "What moves"), moves),
      el("div", {}, affected, rest, whyBox),
    ),
  );
  return {
    node,
    update(given, gpus, explanation) {
      const change = flat(given);
      sides = sidesOf(change, gpus);
      drawnPairs = MOST_PAIRS;
      drawPairs();
      text(
        still,
        sides.length
          ? `${plural(Math.max(0, gpus.length - sides.length), "other GPU")} ${gpus.length - sides.length === 1 ? "stays" : "stay"} as ${gpus.length - sides.length === 1 ? "it is" : "they are"}.`
          : "No slice changes.",
      );
      drawMoves.update(linesOf(change), (one) => `${one.mark} ${one.service} ${one.text}`);
      // Those that go down furthest, where there are many.
      const touched = [...(change.affected_services ?? [])];
      if (touched.length > MOST_ROWS)
        touched.sort(
          (a, b) => b.unavailable_s - a.unavailable_s || a.least_available - b.least_available,
        );
      keyed(body, touched.slice(0, MOST_ROWS), (one) => one.name, makeAffected);
      show(rest, touched.length > MOST_ROWS);
      text(rest, `and ${plural(touched.length - MOST_ROWS, "other service")}, less than these`);
      show(affected, Boolean(change.affected_services?.length));
      const all = [...(explanation ?? []), ...(change.explanation ?? [])];
      const sentences = all.slice(0, MOST_ROWS);
      if (all.length > MOST_ROWS)
        sentences.push(`and ${plural(all.length - MOST_ROWS, "more sentence")}: partita explain`);
      keyed(
        why,
        sentences,
        (one) => one,
        (one) => ({ node: el("li", {}, one), update() {} }),
      );
      show(whyBox, sentences.length > 0);
      show(blockers, Boolean(change.blockers?.length));
      text(
        blockers,
        `In the way: ${(change.blockers ?? []).map((one) => `${one.name || "process"} (${one.pid}) on ${where(one)}`).join("; ")}`,
      );
    },
  };
}

function makePair(first) {
  const before = stillGpu(),
    after = stillGpu();
  const node = el(
    "section",
    { class: "pair-of", "aria-label": `GPU ${first.index} before and after` },
    el("h3", {}, `GPU ${first.index} `, el("span", { class: "faint" }, first.model)),
    el("span", { class: "side-name" }, "now"),
    before.node,
    el("span", { class: "side-name" }, "then"),
    after.node,
  );
  return {
    node,
    update(one) {
      const gpu = (cells, title) => ({
        index: one.index,
        model: one.model,
        slices: one.slices,
        cells,
        title,
        out: false,
        throttle: [],
      });
      before.update(gpu(one.before, "Now"));
      after.update(gpu(one.after, "Then"));
    },
  };
}

function makeStep() {
  const sign = el("span", { class: "sign", "aria-hidden": "true" }),
    words = el("span", { class: "grow" }),
    time = el("span", { class: "faint figure" }),
    how = el("span", { class: "unseen" });
  const node = el("li", {}, sign, words, how, time);
  return {
    node,
    update({ step, is }) {
      attr(node, "class", is);
      attr(node, "aria-current", is === "now" ? "step" : null);
      text(sign, is === "done" ? "✓" : is === "now" ? "▶" : is === "failed" ? "✕" : "○");
      text(how, is === "now" ? " (now)" : is === "later" ? "" : ` (${is})`);
      text(words, stepText(step));
      attr(words, "title", stepText(step));
      text(time, step.predicted_s > 0 ? seconds(step.predicted_s) : "");
    },
  };
}

function makeAffected(first) {
  const up = el("td"),
    below = el("td"),
    none = el("td");
  const node = el(
    "tr",
    {},
    el(
      "th",
      { scope: "row" },
      el("i", { class: `swatch ${looksOf(first.name)}`, "aria-hidden": "true" }),
      first.name,
    ),
    up,
    below,
    none,
  );
  return {
    node,
    update(one) {
      text(up, `${percent(one.least_available)}${one.least_available >= 1 - 1e-9 ? " ✓" : ""}`);
      text(below, one.below_s > 0 ? `▲ ${seconds(one.below_s)}` : "never");
      text(none, one.unavailable_s > 0 ? `▲ ${seconds(one.unavailable_s)}` : "never");
      attr(node, "title", one.why || null);
    },
  };
}

export function makeChange(parent, say, alarm) {
  const title = el("h2"),
    state = el("span", { class: "chip" }),
    cause = el("p", { class: "cause" });
  const facts = el("p", { class: "facts" }),
    error = el("p", { class: "warn", role: "alert", hidden: true });
  const yes = el(
    "button",
    {
      type: "button",
      class: "main",
      id: "approve",
      "aria-keyshortcuts": "a",
      title: "Approve (a)",
    },
    "Approve",
  );
  const no = el(
    "button",
    {
      type: "button",
      class: "danger",
      id: "reject",
      "aria-keyshortcuts": "r",
      title: "Reject (r)",
    },
    "Reject …",
  );
  const ask = el("div", { class: "ask" }, yes, no);
  const bar = el(
    "div",
    { class: "progress", role: "progressbar", "aria-label": "Steps done", "aria-valuemin": "0" },
    el("i"),
  );
  const steps = el("ol", { class: "steps lines", "aria-label": "Steps in their order" });
  const drawLines = makeLines(steps, makeStep);
  let shownStep = -1;
  const stepBox = el(
    "section",
    { class: "card", "aria-label": "Steps" },
    el("h3", {}, "Step by step"),
    bar,
    steps,
  );
  const diff = makeDiff();
  const missing = el("p", { class: "faint", role: "status" }, "What is in it is being read …");
  const none = el(
    "p",
    { class: "faint pad" },
    "No change is under way, and none has been made since the agent started.",
  );
  const whole = el(
    "div",
    {},
    el(
      "div",
      { class: "card" },
      el("div", { class: "row" }, title, state, el("span", { class: "grow" }), ask),
      cause,
      facts,
      error,
    ),
    el("div", { class: "with-steps" }, el("div", { class: "card" }, missing, diff.node), stepBox),
  );
  parent.append(whole, none);
  let number = 0,
    waits = false,
    said = "",
    asking = 0;

  async function answer(path, body) {
    asking = number;
    yes.disabled = no.disabled = true;
    try {
      const receipt = await post(`/v1/changes/${number}/${path}`, body);
      say(
        receipt.sentence ||
          (path === "approve" ? `Change ${number} is approved.` : `Change ${number} is rejected.`),
      );
    } catch (problem) {
      asking = 0;
      yes.disabled = no.disabled = false;
      alarm(`The agent did not take it: ${problem.message}`);
    }
  }
  const box = id("why"),
    reason = id("why-text");
  yes.addEventListener("click", () => waits && answer("approve"));
  no.addEventListener("click", () => waits && ((reason.value = ""), box.showModal()));
  box.querySelector("[value=no]").addEventListener("click", () => box.close());
  box
    .querySelector("form")
    .addEventListener("submit", () => waits && answer("reject", { why: reason.value.trim() }));

  function update(model) {
    const one = model.parts.change(model.current ?? model.last, true);
    show(whole, Boolean(one));
    show(none, !one);
    if (!one) return;
    if (number !== one.number) asking = 0;
    number = one.number;
    waits = Boolean(model.current) && one.state === "proposed";
    text(title, `Change ${one.number}`);
    text(state, STATES[one.state] ?? one.state);
    attr(state, "class", `chip is-${one.state}`);
    text(cause, one.cause || "no cause was given");
    show(ask, waits);
    if (waits) yes.disabled = no.disabled = asking === number;
    const change = one.change ?? {},
      list = change.steps ?? [],
      counts = change.changes ?? {};
    text(
      facts,
      [
        `planned ${clock(one.planned_ms, true)}`,
        one.ended_ms
          ? `ended ${clock(one.ended_ms)}`
          : `about ${seconds(change.predicted_s)} of driver time`,
        `${plural(stepsOf(one), "step")}`,
        ["kept", "restarted", "moved", "created", "removed"]
          .filter((key) => counts[key])
          .map((key) => `${counts[key]} ${key}`)
          .join(", "),
      ]
        .filter(Boolean)
        .join("  ·  "),
    );
    show(error, Boolean(one.error));
    text(error, one.error ?? "");
    drawSteps(one, list);
    show(missing, !one.change);
    show(stepBox, Boolean(one.change));
    const digest = `${one.number} ${list.length} ${one.planned_ms} ${model.gpus.length}`;
    if (digest !== said) {
      said = digest;
      diff.update(change, model.gpus, one.explanation);
    }
  }

  function drawSteps(one, list) {
    const done =
      one.state === "succeeded" ? list.length : Math.min(one.steps_done ?? 0, list.length);
    const running = one.state === "applying" || one.state === "approved";
    attr(bar, "aria-valuemax", String(list.length));
    attr(bar, "aria-valuenow", String(done));
    attr(bar, "aria-valuetext", `${done} of ${list.length} steps`);
    bar.firstChild.style.transform = `scaleX(${list.length ? done / list.length : 0})`;
    const rows = list.map((step, at) => ({
      step,
      is:
        at < done
          ? "done"
          : at > done
            ? "later"
            : running
              ? "now"
              : one.state === "failed"
                ? "failed"
                : "later",
    }));
    drawLines.update(rows, ({ step }) => `${step.op} ${placeOf(step)} ${step.service ?? ""}`);
    if (running && done !== shownStep && !parent.hidden) drawLines.reveal((shownStep = done));
  }
  return {
    update,
    approve: () => !parent.hidden && waits && yes.click(),
    reject: () => !parent.hidden && waits && no.click(),
  };
}

// One line on the first view, as long as there is something to say.
export function makeBanner(parent) {
  const words = el("p"),
    more = el("span", { class: "faint" }),
    link = el("a", { href: "#change", class: "button main" }, "Review");
  const fill = el("i"),
    bar = el("div", { class: "progress", "aria-hidden": "true" }, fill);
  const node = el(
    "aside",
    { class: "banner", "aria-label": "Change", hidden: true },
    el("div", { class: "grow" }, words, more, bar),
    link,
  );
  parent.append(node);
  return (model) => {
    const one = model.current;
    show(node, Boolean(one));
    if (!one) return;
    const steps = stepsOf(one);
    const waits = one.state === "proposed";
    attr(node, "class", waits ? "banner waits" : "banner");
    text(
      words,
      waits
        ? `Change ${one.number} waits for your yes`
        : `Change ${one.number} is ${STATES[one.state] ?? one.state}: step ${Math.min(steps, (one.steps_done ?? 0) + 1)} of ${steps}`,
    );
    text(more, one.cause ?? "");
    text(link, waits ? "Review" : "Watch");
    show(bar, !waits);
    style(fill, "transform", `scaleX(${steps ? (one.steps_done ?? 0) / steps : 0})`);
  };
}
