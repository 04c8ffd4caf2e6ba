// A small agent for tests of the page: its states are made up, the API is the real one's (docs/api.md). Files of the
// page come from web/. One seed gives one run.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const TYPES = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const GPCS = { "1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7 };
const SIZE = { "1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8 };
const LAYOUTS = [
  [
    ["4g.40gb", 0],
    ["3g.40gb", 4],
  ],
  [
    ["2g.20gb", 0],
    ["2g.20gb", 2],
    ["3g.40gb", 4],
  ],
  [["7g.80gb", 0]],
  [
    ["1g.10gb", 0],
    ["1g.10gb", 1],
    ["2g.20gb", 2],
    ["3g.40gb", 4],
  ],
  [
    ["1g.10gb", 0],
    ["1g.10gb", 1],
    ["1g.10gb", 2],
    ["1g.10gb", 3],
    ["1g.10gb", 4],
    ["1g.10gb", 5],
    ["1g.10gb", 6],
  ],
];
const NAMES = [
  "resnet50",
  "bert-base",
  "whisper",
  "yolov8",
  "llama-7b",
  "clip",
  "ranker",
  "ocr",
  "tts",
  "embed",
  "fraud",
  "segment",
];

// A node as the agent sees it.
export function fleet({ gpus = 8, services = 6, seed = 7, sevenths = false } = {}) {
  const next = random(seed);
  const names = Array.from({ length: services }, (_, i) => NAMES[i] ?? `service-${i + 1}`);
  const state = { driver: "sim", driver_version: "1", gpus: [] },
    assignment = { revision: 1, segments: [], services: [] },
    now = [];
  let at = 0;
  for (let i = 0; i < gpus; ++i) {
    const out = !sevenths && i === gpus - 2;
    const layout = out ? [] : sevenths ? LAYOUTS[4] : LAYOUTS[i % LAYOUTS.length];
    const uuid = `GPU-${String(i).padStart(4, "0")}`;
    const instances = layout.map(([profile, start], k) => {
      const device = `MIG-${i}-${k}`;
      if (sevenths || i !== gpus - 1 || k === 0)
        assignment.segments.push({
          device,
          gpu_uuid: uuid,
          profile,
          start,
          service: names[at++ % names.length],
          batch: 2 ** (at % 4),
          processes: 1 + (at % 3),
          throughput_rps: 100 + Math.round(next() * 300),
        });
      return {
        profile,
        start,
        size: SIZE[profile],
        gpcs: GPCS[profile],
        profile_id: 19,
        gi_id: k + 1,
        compute: [{ ci_id: 0, gpcs: GPCS[profile], uuid: device }],
        holders: [{ pid: 4000 + i * 10 + k, name: "partita worker" }],
      };
    });
    state.gpus.push({
      index: i,
      uuid,
      name: "NVIDIA A100-SXM4-80GB",
      model: "A100-80GB",
      pci_device_id: "0x20B210DE",
      memory_mib: 81920,
      mig_capable: true,
      mig_enabled: true,
      mig_pending: true,
      lost: false,
      holders: [],
      instances,
    });
    now.push({
      index: i,
      uuid,
      model: "A100-80GB",
      out,
      ...(out ? { why: "XID 79: it fell off the bus at 13:02" } : {}),
      sample: {
        index: i,
        uuid,
        model: "A100-80GB",
        compute_slices: 7,
        power_w: 80 + Math.round(next() * 300),
        power_limit_w: 400,
        temperature_c: 45 + Math.round(next() * 30),
        ...(i === 2 ? { throttle: ["sw_power_cap"] } : i === 3 ? { throttle: ["gpu_idle"] } : {}),
        instances: layout.map(([profile], k) => ({
          gi_id: k + 1,
          uuid: `MIG-${i}-${k}`,
          profile,
          compute_slices: GPCS[profile],
          memory_slices: SIZE[profile],
          activity: { sm: next() },
          memory_used_mib: 8000,
        })),
      },
    });
  }
  return {
    api_version: "partita/v1",
    kind: "AgentState",
    version: 1,
    time_ms: Date.now(),
    node: "node-17",
    mode: "approve",
    converged: true,
    doing: "nothing to do; next look in 4 s",
    state,
    assignment,
    gpus: now,
    services: names.map((name, i) => service(name, i, next)),
    plan: planOf(state, assignment),
    batch: tasks(state, now),
    notices: [],
    restarts: 3,
    given_up_workers: 0,
    drifts: 1,
    changes: 11,
    failed_changes: 1,
  };
}

// As the agent shows it where the node is large: its parts are documents of their own.
export function brief(state) {
  const apart = (one) => {
    if (!one) return one;
    const { change, plan, explanation, ...rest } = one;
    return { ...rest, steps: change.steps.length };
  };
  const { state: node, assignment, plan, current, last, ...rest } = state;
  const services = state.services.map(({ why, at_risk, capacity_rps, ...one }) => {
    one.asked_rps = one.rate_rps;
    for (const key of Object.keys(one)) if (one[key] === 0) delete one[key];
    delete one.rate_rps;
    return /not enough GPUs/.test(why) ? { ...one, reason: 0 } : why ? { ...one, why } : one;
  });
  return {
    ...rest,
    node_version: state.assignment.revision,
    left_out: ["state", "assignment", "plan", "changes", "tasks"],
    services,
    as_of: new Date(state.time_ms).toISOString(),
    reasons: ["nothing is planned for {service}: not enough GPUs; {asked} req/s are asked for"],
    ...(current ? { current: apart(current) } : {}),
    ...(last ? { last: apart(last) } : {}),
  };
}

// GET /v1/node.
const nodeOf = (state) => {
  const by = new Map(state.assignment.segments.map((one) => [one.device, one]));
  return {
    ...state.state,
    kind: "NodeState",
    gpus: state.state.gpus.map((gpu) => ({
      ...gpu,
      instances: gpu.instances.map((one) => {
        const uuid = one.compute[0].uuid,
          runs = by.get(uuid);
        return {
          ...one,
          uuid,
          ...(runs
            ? { service: runs.service, batch: runs.batch, processes: runs.processes }
            : {}),
        };
      }),
    })),
  };
};

// Services beyond the slices are not served, and some of the others are in trouble.
function loaded(state) {
  const slices = state.assignment.segments.length,
    hour = Date.now() - 3600000;
  state.services.forEach((one, i) => {
    const served = i < slices;
    Object.assign(one, {
      verdict: !served ? "down" : i === 7 ? "degraded" : i === 9 ? "at_risk" : "serves",
      since: new Date(hour + i * 1000).toISOString(),
      asked_rps: one.rate_rps,
      answered_rps: served ? one.rate_rps : 0,
      can_carry_rps: served ? one.capacity_rps : 0,
      at_risk: !served || i === 7 || i === 9,
    });
    if (i === 7) one.why = "1 of 2 workers is ready: it can carry 40 of 60 req/s";
    else if (i === 9) one.why = "its rate will pass what it can carry in 4 minutes";
    else delete one.why;
    if (!served)
      Object.assign(one, {
        why: `nothing is planned for ${one.name}: not enough GPUs; 0 req/s are asked for`,
        segments: 0,
        ready_workers: 0,
        planned_rps: 0,
        capacity_rps: 0,
      });
  });
}

function service(name, i, next) {
  const rate = Math.round(60 + next() * 900),
    risk = i === 4;
  return {
    name,
    model: name,
    slo_ms: [50, 100, 200, 30, 400][i % 5],
    percentile: 99,
    wanted_rps: rate,
    rate_rps: rate,
    forecast_rps: rate * 1.1,
    forecast_low_rps: rate * 0.95,
    forecast_high_rps: rate * 1.25,
    planned_rps: rate * 1.2,
    capacity_rps: rate * (risk ? 1.02 : 1.4),
    segments: 3,
    ready_workers: 6,
    p99_ms: [50, 100, 200, 30, 400][i % 5] * (risk ? 1.1 : 0.4 + next() * 0.4),
    attainment: risk ? 0.9871 : 1 - next() * 0.002,
    at_risk: risk,
    ...(risk ? { why: "its rate will pass what it can carry in 4 minutes" } : {}),
    watts: 90 + next() * 240,
  };
}

function planOf(state, assignment) {
  const by = new Map(assignment.segments.map((one) => [one.device, one]));
  return {
    api_version: "partita/v1",
    kind: "ServingPlan",
    gpu_model: "A100-80GB",
    services: [],
    gpus: state.gpus.map((gpu) => ({
      index: gpu.index,
      model: gpu.model,
      instances: gpu.instances.flatMap((one) => {
        const segment = by.get(one.compute[0].uuid);
        return segment
          ? [
              {
                profile: one.profile,
                start: one.start,
                service: segment.service,
                batch: segment.batch,
                processes: segment.processes,
                throughput_rps: segment.throughput_rps,
                latency_ms: 10,
              },
            ]
          : [];
      }),
    })),
  };
}

function tasks(state, now) {
  const begin = Date.now() - 1800000,
    list = [];
  // "index" runs for the second time; one that ended yesterday, one that failed and one without a place besides.
  ["train-a", "train-b", "eval-1", "eval-2", "index", "backfill", "distill"].forEach((name, i) => {
    const gpu = state.gpus[((i % 3) + Math.max(0, state.gpus.length - 4)) % state.gpus.length];
    list.push({
      name,
      gpu_uuid: gpu.uuid,
      profile: i % 2 ? "3g.40gb" : "4g.40gb",
      start: i % 2 ? 4 : 0,
      begin_ms: begin + Math.floor(i / 3) * 1500000,
      end_ms: begin + Math.floor(i / 3) * 1500000 + 900000 + i * 80000,
      state: i < 3 ? "done" : i < 6 ? "running" : "waiting",
      batch: 4,
      attempts: i === 4 ? 2 : i < 6 ? 1 : 0,
    });
  });
  const [one] = list;
  list.unshift({ ...one, batch: 2, name: "yesterday", begin_ms: begin - 9e7, end_ms: begin - 8e7 });
  list.push({
    ...one,
    name: "tokenise",
    state: "failed",
    begin_ms: begin + 1200000,
    end_ms: begin + 1300000,
    reason: "its command ended with status 3",
  });
  list.push({
    ...one,
    batch: 3,
    name: "sweep",
    state: "cancelled",
    begin_ms: begin + 1300000,
    end_ms: begin + 1350000,
    reason: "ops cancelled the batch",
  });
  list.push({ batch: 4, name: "publish", state: "waiting" });
  return {
    waiting: 2,
    running: 3,
    done: 4,
    failed: 1,
    cancelled: 1,
    watts: 321,
    ends_ms: Date.now() + 5400000,
    gpus: [...new Set(list.map((task) => task.gpu_uuid).filter(Boolean))],
    tasks: list,
  };
}

// What changed, as docs/api.md says.
export function changesBetween(before, after) {
  if (Array.isArray(after) && Array.isArray(before)) {
    const patch = {};
    after.forEach((one, i) => {
      if (JSON.stringify(one) !== JSON.stringify(before[i]))
        patch[i] = i < before.length ? changesBetween(before[i], one) : one;
    });
    if (before.length !== after.length) patch.length = after.length;
    return patch;
  }
  if (after === null || typeof after !== "object" || Array.isArray(after)) return after;
  if (before === null || typeof before !== "object" || Array.isArray(before)) return after;
  const patch = {};
  for (const key of Object.keys(after))
    if (JSON.stringify(after[key]) !== JSON.stringify(before[key]))
      patch[key] = key in before ? changesBetween(before[key], after[key]) : after[key];
  for (const key of Object.keys(before)) if (!(key in after)) patch[key] = null;
  return patch;
}

const place = (gpu, profile, start, segment) => ({
  gpu,
  gpu_uuid: `GPU-${String(gpu).padStart(4, "0")}`,
  profile,
  start,
  ...segment,
});

// GPU 0 is cut anew: its 3g goes, two smaller ones come; one service moves, one restarts with a larger batch.
export function proposal(state, number = 12) {
  const [a, b] = state.assignment.segments,
    old = { service: b.service, batch: b.batch, processes: b.processes };
  const keepA = place(0, a.profile, a.start, {
    service: a.service,
    batch: a.batch,
    processes: a.processes,
    gi_id: 1,
    uuid: a.device,
    ours: true,
    holders: [],
  });
  const gone = place(0, b.profile, b.start, {
    ...old,
    gi_id: 2,
    uuid: b.device,
    ours: true,
    holders: [],
  });
  const c1 = place(0, "2g.20gb", 4, old),
    c2 = place(0, "1g.10gb", 6, { service: "llama-7b", batch: 2, processes: 1 });
  const step = (op, where, more = {}) => ({
    op,
    ...where,
    ...more,
    predicted_s: op.startsWith("create") ? 0.4 : op === "drain" ? 1.2 : 0.1,
  });
  const bare = ({ gpu, gpu_uuid, profile, start }) => ({ gpu, gpu_uuid, profile, start });
  return {
    number,
    state: "proposed",
    cause: "rate of llama-7b rose from 410 to 780 req/s and will pass its capacity in 4 minutes",
    planned_ms: Date.now(),
    ended_ms: 0,
    steps_done: 0,
    error: "",
    explanation: [
      "one GPU is out, so the new slice has to come from GPU 0",
      "moving bert-base to a smaller slice costs it nothing: it runs at 41 % of its capacity",
    ],
    plan: state.plan,
    change: {
      gpu_of: [0],
      keep: [keepA],
      destroy: [gone],
      create: [c1, c2],
      reassign: [{ from: keepA, to: { service: a.service, batch: 8, processes: 2 } }],
      move: [{ ...c1, from: gone }],
      temporary: [],
      steps: [
        step("stop", bare(gone), old),
        step("drain", bare(gone)),
        step("destroy_compute", bare(gone)),
        step("destroy_instance", bare(gone)),
        step("create_instance", bare(c1)),
        step("create_compute", bare(c1)),
        step("start", c1),
        step("create_instance", bare(c2)),
        step("create_compute", bare(c2)),
        step("start", c2),
        step("stop", bare(keepA), { service: a.service }),
        step("start", bare(keepA), { service: a.service, batch: 8, processes: 2 }),
      ],
      affected_services: [
        {
          name: b.service,
          unavailable_s: 0,
          below_s: 3.1,
          least_available: 0.67,
          why: "its slice has to leave before its successor can come",
        },
        { name: a.service, unavailable_s: 0, below_s: 0, least_available: 1 },
      ],
      blockers: [],
      changes: { kept: 18, restarted: 1, moved: 1, created: 1, removed: 0 },
      kept_gpcs: 40,
      predicted_s: 3.9,
      explanation: ["GPU 0 is cut anew because there the fewest requests are touched"],
    },
  };
}

function carriedOut(state) {
  const gpu = state.state.gpus[0],
    gone = gpu.instances.pop(),
    of = state.assignment.segments.findIndex((one) => one.device === gone.compute[0].uuid);
  state.assignment.segments.splice(of, 1);
  for (const [k, one] of state.current.change.create.entries()) {
    const uuid = `MIG-new-${k}`;
    gpu.instances.push({
      ...gone,
      profile: one.profile,
      start: one.start,
      size: SIZE[one.profile],
      gpcs: GPCS[one.profile],
      gi_id: 20 + k,
      compute: [{ ci_id: 0, gpcs: GPCS[one.profile], uuid }],
    });
    state.assignment.segments.push({
      device: uuid,
      gpu_uuid: gpu.uuid,
      profile: one.profile,
      start: one.start,
      service: one.service,
      batch: one.batch,
      processes: one.processes,
      throughput_rps: 200,
    });
  }
}

function events(count) {
  const kinds = [
      "started",
      "desired",
      "proposed",
      "approved",
      "applying",
      "step",
      "step",
      "applied",
      "repair",
      "health",
      "notice",
    ],
    now = Date.now();
  return Array.from({ length: count }, (_, i) => {
    const kind = kinds[i % kinds.length],
      change = ["proposed", "approved", "applying", "step", "applied"].includes(kind)
        ? 1 + Math.floor(i / kinds.length)
        : 0;
    return {
      id: i + 1,
      time_ms: now - (count - i) * 1200000,
      kind,
      change,
      user: change ? "token ops" : "agent",
      cause:
        {
          proposed: "rate of bert-base rose from 120 to 260 req/s",
          applied: "rate of bert-base rose from 120 to 260 req/s",
          repair: "2 instances were missing after a reboot",
          health: "XID 79 on GPU 6",
          desired: "services.yaml was changed",
        }[kind] ?? "",
      subject: "",
      outcome: kind === "applied" ? (i % 5 === 2 ? "failed" : "succeeded") : "none",
      detail: kind === "applied" ? "12 steps in 4.1 s" : "",
      documents: [],
    };
  }).reverse();
}

// The fleet as a node's agent tells of it: half of the services on two nodes, one node lost, one that waits.
export function fleetOf({ nodes = 5, services = 6, power = false } = {}) {
  const name = (i) => `node-${17 + (i % nodes)}`;
  const on = (i, planned, carried, share) => ({
    node: name(i),
    planned_rps: planned,
    carried_rps: carried,
    share,
  });
  const all = Array.from({ length: services }, (_, i) => {
    const pieces = i % 2 ? [on(i, 100, 100, 0.5), on(i + 2, 100, 100, 0.5)] : [on(i, 200, 200, 1)];
    return {
      service: NAMES[i] ?? `service-${i + 1}`,
      verdict: i === 2 ? "degraded" : "serves",
      wanted_rps: i === 2 ? 400 : 200,
      arrived_rps: i === 2 ? 350 : 150,
      planned_rps: 200,
      carried_rps: 200,
      on: pieces,
    };
  });
  const state = (i) => (i === 1 ? "lost" : i === 3 ? "waits" : "ready");
  return {
    api_version: "partita/v1",
    kind: "FleetStatus",
    fleet: "prod",
    leader: "node-17",
    revision: 42,
    converged: false,
    survive: "node",
    approval: "approve",
    proposal: "6f0c",
    proposed: ["node-20 carries bert-base 100 req/s"],
    nodes: Array.from({ length: nodes }, (_, i) => ({
      node: name(i),
      rack: `r${i % 3}`,
      state: state(i),
      there: i !== 1,
      drained: false,
      gpus: 8,
      usable_gpus: i === 2 ? 7 : 8,
      ...(i === 2 ? { nvlink: [{ gpus: [0, 1, 2, 3] }, { gpus: [4, 5] }, { gpus: [6] }] } : {}),
      revision: 42,
      taken: 42,
      ready: i === 3 ? 41 : 42,
      ...(i === 3 ? { waits_for: "node-17" } : {}),
      carries: all
        .filter((one) => i !== 1 && one.on.some((piece) => piece.node === name(i)))
        .map((one) => ({ service: one.service, rate_rps: 100 })),
      ...(power
        ? {
            budget_w: 2400 + i,
            gpu_budget_w: 1600 + i,
            ...(i === 1 ? {} : { gpu_draw_w: i === 2 ? 1700 : 1500 }), // of one that is lost nobody knows
            ...(i === 3 ? { holds_budget: false } : {}),
            ...(i === 0 ? {} : { limited_by: "pdu-3" }),
          }
        : {}),
    })),
    services: all,
    ...(power
      ? {
          power: {
            sharing: "value",
            revision: 7,
            points: [
              { name: "r1a", under: "A", rating_w: 9000, budget_w: 4000 },
              { name: "A", rating_w: 20000, budget_w: 4000 },
              { name: "B", rating_w: 20000, budget_w: 0, failed: true },
              { name: "r1b", under: "B", rating_w: 9000, budget_w: 0, failed: true },
              { name: "pdu-3", under: "r1a", rating_w: 4500, budget_w: 4000 },
            ],
            unsafe: ["A"],
          },
        }
      : {}),
  };
}

// options: {root, port, token, role, hold, fleet options}; hold(n) ends when step n + 1 may be done; the answer has .port, .state, .tick(), .propose(), .stop().
export async function startAgent(options) {
  const state = options.state ?? fleet(options),
    shown = () => (options.large ? brief(state) : state),
    next = random(99),
    streams = new Set(),
    calls = [],
    past = events(66);
  if (options.large) loaded(state);
  let told = null;
  const self = { state, calls, fleet: options.fleet, port: 0, applyMs: options.applyMs ?? 60 };
  const send = (stream, text, name = "state") =>
    stream.write(`event: ${name}\nid: ${state.version}\n${text}\n\n`);
  const data = () =>
    JSON.stringify(shown())
      .split("\n")
      .map((line) => `data: ${line}`)
      .join("\n");
  self.push = () => {
    ++state.version;
    state.time_ms = Date.now();
    if (options.large) {
      // As the agent does it: the first state whole, then what has changed.
      const now = JSON.parse(JSON.stringify(shown())),
        patch = JSON.stringify(changesBetween(told, now));
      told = now;
      for (const stream of streams) send(stream, `data: ${patch}`, "changes");
      return;
    }
    const text = data();
    for (const stream of streams) send(stream, text);
  };
  self.tick = () => {
    for (const gpu of state.gpus) {
      gpu.sample.power_w = Math.max(60, Math.min(400, gpu.sample.power_w + (next() - 0.5) * 30));
      for (const one of gpu.sample.instances)
        one.activity.sm = Math.max(0, Math.min(1, one.activity.sm + (next() - 0.5) * 0.2));
    }
    for (const one of state.services) {
      one.rate_rps = Math.max(1, one.rate_rps * (1 + (next() - 0.5) * 0.06));
      one.p99_ms *= 1 + (next() - 0.5) * 0.02;
    }
    self.push();
  };
  self.propose = () => {
    state.current = proposal(state);
    state.converged = false;
    state.doing = "change 12 waits for a yes";
    self.push();
  };
  async function carryOut() {
    const one = state.current;
    one.state = "applying";
    state.doing = `change ${one.number} is under way`;
    for (; one.steps_done < one.change.steps.length; ++one.steps_done) {
      self.push();
      if (options.hold) await options.hold(one.steps_done);
      else await new Promise((resolve) => setTimeout(resolve, self.applyMs));
    }
    carriedOut(state);
    one.state = "succeeded";
    one.ended_ms = Date.now();
    state.last = one;
    delete state.current;
    state.converged = true;
    state.doing = "nothing to do; next look in 4 s";
    ++state.changes;
    self.push();
  }
  const json = (response, status, value) => (
    response.writeHead(status, { "Content-Type": "application/json" }),
    response.end(JSON.stringify(value))
  );
  const no = (response, status, code, message) =>
    json(response, status, { api_version: "partita/v1", kind: "ApiError", code, message });

  function series(query) {
    const from = Number(query.get("from_ms")),
      to = Number(query.get("to_ms")),
      metric = query.get("metric"),
      length = (to - from) / 120;
    const level =
      {
        rate_rps: 500,
        planned_rps: 650,
        p99_ms: 40,
        attainment: 0.995,
        gpus: 7,
        instances: 24,
        watts: 180,
      }[metric] ?? 10;
    const noise = random(metric.length * 31 + (query.get("subject") ?? "").length);
    return Array.from({ length: 120 }, (_, i) => {
      const wave =
        metric === "attainment"
          ? 0.004 * noise()
          : level *
            (metric === "planned_rps"
              ? 0.1 * Math.sign(Math.sin(i / 19))
              : 0.25 * Math.sin(i / 19) + 0.05 * noise());
      const mean =
        metric === "gpus" ? 5 + Math.round(2 * Math.abs(Math.sin(i / 19))) : level + wave;
      return {
        from_ms: from + i * length,
        length_ms: length,
        count: 10,
        mean,
        least: metric === "attainment" ? mean - 0.002 : mean * 0.93,
        greatest: metric === "attainment" ? Math.min(1, mean + 0.001) : mean * 1.08,
      };
    });
  }
  function answer(request, response, url) {
    calls.push(`${request.method} ${url.pathname}`);
    if (options.token && request.headers.authorization !== `Bearer ${options.token}`)
      return no(response, 401, "unauthenticated", "a token is needed");
    const post = /^\/v1\/changes\/(\d+)\/(approve|reject)$/.exec(url.pathname);
    if (post && request.method === "POST") {
      if (options.role === "viewer")
        return no(response, 403, "denied", "approving needs the role operator");
      if (state.current?.number !== Number(post[1]))
        return no(response, 409, "conflict", "no such change waits");
      let body = "";
      request.on("data", (piece) => (body += piece));
      request.on("end", () => {
        self.body = body;
        json(response, 202, {
          api_version: "partita/v1",
          kind: "Receipt",
          change: Number(post[1]),
          sentence: `change ${post[1]} will be ${post[2] === "approve" ? "carried out" : "forgotten"}`,
        });
        if (post[2] === "approve") return carryOut();
        state.last = { ...state.current, state: "rejected", ended_ms: Date.now() };
        delete state.current;
        self.push();
      });
      return;
    }
    const gpu = /^\/v1\/gpus\/(.+)\/(take-out|give-back)$/.exec(url.pathname);
    if (gpu && request.method === "POST") {
      const found = state.gpus.find((one) => one.uuid === decodeURIComponent(gpu[1]));
      let body = "";
      request.on("data", (piece) => (body += piece));
      request.on("end", () => {
        found.out = gpu[2] === "take-out";
        found.why = found.out ? JSON.parse(body).why : "";
        json(response, 202, { kind: "Receipt", sentence: `GPU ${found.index}: ${gpu[2]}` });
        self.push();
      });
      return;
    }
    if (self.fleet && url.pathname === "/v1/fleet") return json(response, 200, self.fleet);
    if (self.fleet && url.pathname === "/v1/fleet/history")
      return json(response, 200, {
        kind: "FleetHistory",
        events: [
          { time_ms: Date.now() - 60000, revision: 0, by: "node-17", what: "node-17 leads" },
          { time_ms: Date.now(), revision: 42, by: "node-17", what: "node-18 is lost; bert-base goes to node-20" },
        ],
      });
    if (url.pathname === "/v1/state") return json(response, 200, shown());
    if (url.pathname === "/v1/node") return json(response, 200, nodeOf(state));
    if (url.pathname === "/v1/history")
      return json(response, 200, {
        kind: "History",
        events: past.filter((one) => one.id < Number(url.searchParams.get("before") ?? 1e9)),
      });
    for (const [name, value] of url.searchParams)
      if (value === "") return no(response, 400, "bad_input", `${name} is empty`);
    if (url.pathname === "/v1/series")
      return json(response, 200, { kind: "Series", buckets: series(url.searchParams) });
    if (url.pathname === "/v1/latest")
      return json(response, 200, {
        kind: "Latest",
        values: state.services.map((one) => ({
          metric: "watts",
          subject: one.name,
          value: one.watts,
          time_ms: state.time_ms,
        })),
      });
    if (/^\/v1\/changes\/\d+$/.test(url.pathname))
      return json(response, 200, {
        kind: "AgentChange",
        ...proposal(state, Number(url.pathname.slice(12))),
        state: "succeeded",
      });
    if (url.pathname !== "/v1/events") return no(response, 404, "not_found", "no such call");
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(":\n\n");
    streams.add(response);
    response.on("close", () => streams.delete(response));
    if (options.large) told ??= JSON.parse(JSON.stringify(shown()));
    if (options.large) send(response, `data: ${JSON.stringify(told)}`);
    else send(response, data());
  }
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    if (url.pathname.startsWith("/v1/")) return answer(request, response, url);
    try {
      const name = url.pathname === "/" ? "/index.html" : url.pathname;
      const body = readFileSync(join(options.root, name));
      response.writeHead(200, {
        "Content-Type": TYPES[name.split(".").pop()],
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache",
      });
      response.end(body);
    } catch {
      no(response, 404, "not_found", "no such file");
    }
  });
  await new Promise((resolve, reject) =>
    server.once("error", reject).listen(options.port ?? 0, "127.0.0.1", resolve),
  );
  self.port = server.address().port;
  self.url = `http://127.0.0.1:${self.port}/`;
  const timer = options.tickMs ? setInterval(self.tick, options.tickMs) : null;
  self.streams = streams;
  self.stop = () =>
    new Promise((resolve) => {
      clearInterval(timer);
      server.close(resolve);
      server.closeAllConnections();
    });
  return self;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const agent = await startAgent({
    root: new URL("../../web", import.meta.url).pathname,
    port: Number(process.argv[2] ?? 8123),
    tickMs: 1000,
  });
  setTimeout(agent.propose, 3000);
  console.log(agent.url);
}
