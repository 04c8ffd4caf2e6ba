// From the document AgentState to what is drawn. Every name of the document that the page knows stands here, in
// change.js or in history.js; what is missing stays undefined and is drawn as "–".
import { clock, known } from "./dom.js";

export const COLOURS = 8,
  PATTERNS = 5;
const order = new Map(); // service -> n, for as long as the page lives

export function looksOf(service) {
  if (!service) return "free";
  let n = order.get(service);
  if (n === undefined) order.set(service, (n = order.size));
  return `f${n % COLOURS} p${Math.floor(n / COLOURS) % PATTERNS}`;
}

// Memory slices of a GPU of this model.
export const slicesOf = (model) => (/A30/.test(model ?? "") ? 4 : 8);

// Memory slices that a profile takes, by its memory, or by its name alone.
export function sizeOf(profile, slices, memoryMib) {
  const match = /^(\d+)g\.(\d+)gb/.exec(profile ?? "");
  if (!match) return slices;
  if (memoryMib)
    return Math.max(
      1,
      Math.min(slices, Math.round((Number(match[2]) * slices) / (memoryMib / 1024))),
    );
  const gpcs = Number(match[1]);
  return slices === 4 ? gpcs : gpcs >= 7 ? 8 : gpcs >= 3 ? 4 : gpcs;
}

// Verdicts of services, the worst first: sign, word, class.
export const VERDICTS = {
  down: ["✕", "down", "bad"],
  unknown: ["?", "unknown", "risk"],
  degraded: ["◐", "degraded", "risk"],
  at_risk: ["▲", "at risk", "risk"],
  serves: ["✓", "serves", "fine"],
};
// The agent's own verdict; one that gives none says whether it is at risk. What is no verdict that we know is unknown.
export function verdictOf(service, stale) {
  if (stale) return "unknown";
  const said = service.verdict ?? (service.at_risk ? "at_risk" : "serves");
  return said in VERDICTS ? said : "unknown";
}
const timeOf = (since) => (typeof since === "string" ? Date.parse(since) : since);
// Since when and why, for people.
export function whyOf(service, stale) {
  if (stale) return `the state is of ${clock(stale)}`;
  const since = timeOf(service.since);
  const why = service.why ?? "";
  return [since ? `since ${clock(since, Date.now() - since > 72000000)}` : "", why]
    .filter(Boolean)
    .join(": ");
}

export const busyOf = (activity) => activity?.sm ?? activity?.graphics_engine;

function cellOf(instance, samples, segments, slices, memory) {
  const uuid = instance.uuid ?? instance.compute?.[0]?.uuid ?? "";
  const segment = segments.get(uuid);
  const service = segment?.service ?? instance.service ?? "";
  const sample = samples?.get(instance.gi_id);
  return {
    key: uuid || `${instance.gi_id}@${instance.start}`,
    uuid,
    service,
    start: instance.start ?? 0,
    size: instance.size ?? sizeOf(instance.profile, slices, memory),
    profile: instance.profile ?? "",
    gi: instance.gi_id,
    batch: segment?.batch ?? instance.batch,
    processes: segment?.processes ?? instance.processes,
    throughput: segment?.throughput_rps,
    busy: busyOf(sample?.activity),
    memoryMib: sample?.memory_used_mib,
    holders: instance.holders ?? [],
    broken: !uuid,
  };
}

function gpuOf(state, now, segments) {
  const sample = now?.sample ?? undefined;
  let samples = null;
  if (sample?.instances) {
    samples = new Map();
    for (const one of sample.instances) samples.set(one.gi_id, one);
  }
  const model = state?.model || now?.model || "";
  const cells = [];
  let slices = slicesOf(model);
  for (const instance of state?.instances ?? []) {
    const cell = cellOf(instance, samples, segments, slices, state.memory_mib);
    cells.push(cell);
    slices = Math.max(slices, cell.start + cell.size);
  }
  if (cells.length === 0 && (state?.service || segments.has(state?.uuid)))
    cells.push(cellOf({ ...state, profile: "whole GPU", start: 0, size: slices }, null, segments, slices));
  return {
    key: state?.uuid || now?.uuid || `gpu ${state?.index ?? now?.index}`,
    index: state?.index ?? now?.index ?? 0,
    model,
    slices,
    cells,
    memoryMib: state?.memory_mib,
    out: Boolean(now?.out) || Boolean(state?.lost),
    why: now?.why || (state?.lost ? "it fell off the bus" : ""),
    mig: state?.mig_enabled !== false,
    power: sample?.power_average_w ?? sample?.power_w,
    limit: sample?.power_limit_w,
    celsius: sample?.temperature_c,
    throttle: (sample?.throttle ?? []).filter((one) => one !== "gpu_idle"), // it rests
    busy: busyOf(sample?.activity),
    foreign: state?.holders ?? [],
  };
}

// What a large node's state says once, or not where it is as always (docs/api.md).
function inFull(services, { reasons, as_of: asOf }) {
  return services.map((one) => ({
    ...one,
    capacity_rps: one.capacity_rps ?? one.can_carry_rps ?? 0,
    planned_rps: one.planned_rps ?? 0,
    percentile: one.percentile ?? 99,
    segments: one.segments ?? 0,
    ready_workers: one.ready_workers ?? 0,
    rate_rps: one.rate_rps ?? ((one.as_of ?? asOf) ? (one.asked_rps ?? 0) : undefined),
    why:
      one.reason === undefined
        ? one.why
        : (reasons?.[one.reason] ?? "")
            .replace("{asked}", () => String(one.asked_rps ?? 0))
            .replace("{service}", () => one.name),
  }));
}

// node: the slices, where the state does not have them. stale: of when the state is, where that is too long ago.
export function modelOf(state, node, stale) {
  const segments = new Map();
  for (const one of state.assignment?.segments ?? [])
    for (const device of one.device.split(",")) segments.set(device, one); // a group: its GPUs
  const now = new Map();
  for (const one of state.gpus ?? []) now.set(one.index, one);
  const read = node ?? state.state;
  const gpus = (read?.gpus ?? []).map((one) => gpuOf(one, now.get(one.index), segments));
  const there = new Set(gpus.map((gpu) => gpu.index));
  for (const one of state.gpus ?? [])
    if (!there.has(one.index)) gpus.push(gpuOf(null, one, segments));
  const services = state.left_out
    ? inFull(state.services ?? [], state)
    : (state.services ?? []);
  for (const service of services) looksOf(service.name);
  for (const gpu of gpus) for (const cell of gpu.cells) if (cell.service) looksOf(cell.service);
  return {
    state,
    gpus,
    services,
    mode: state.mode ?? "",
    converged: Boolean(state.converged),
    doing: state.doing ?? "",
    node: state.node ?? "",
    time: state.time_ms,
    current: state.current ?? null,
    last: state.last ?? null,
    batch: state.batch ?? {},
    notices: state.notices ?? [],
    plan: state.plan ?? null,
    stale,
    fault: state.state_fault ?? "",
    readAt: timeOf(state.state_as_of) || state.time_ms,
    totals: totalsOf(gpus, services, stale),
  };
}

function totalsOf(gpus, services, stale) {
  let instances = 0,
    running = 0,
    busy = 0,
    measured = 0,
    power = 0,
    metered = 0,
    out = 0;
  for (const gpu of gpus) {
    if (gpu.out) ++out;
    if (known(gpu.power)) ((power += gpu.power), ++metered);
    for (const cell of gpu.cells) {
      ++instances;
      if (cell.service) ++running;
      if (known(cell.busy)) ((busy += cell.busy), ++measured);
    }
  }
  let rate = 0,
    rated = 0,
    worst = undefined;
  const verdicts = Object.fromEntries(Object.keys(VERDICTS).map((one) => [one, 0]));
  for (const service of services) {
    if (known(service.rate_rps)) ((rate += service.rate_rps), ++rated);
    ++verdicts[verdictOf(service, stale)];
    if (known(service.attainment) && !(worst?.attainment <= service.attainment)) worst = service;
  }
  return {
    gpus: gpus.length,
    out,
    instances,
    running,
    busy: measured ? busy / measured : undefined,
    power: metered ? power : undefined,
    rate: rated ? rate : undefined,
    verdicts,
    worst,
  };
}

// A plan's GPUs as the cells of strips.
export function planGpus(plan) {
  return (plan?.gpus ?? []).map((gpu) => {
    const model = gpu.model || plan.gpu_model || "",
      slices = slicesOf(model);
    return {
      key: `plan ${gpu.index}`,
      index: gpu.index,
      model,
      slices,
      out: false,
      why: "",
      cells: (gpu.instances ?? []).map((one) => ({
        key: `${one.start} ${one.profile} ${one.service}`,
        start: one.start,
        size: sizeOf(one.profile, slices),
        profile: one.profile,
        service: one.service,
        batch: one.batch,
        processes: one.processes,
        throughput: one.throughput_rps,
        holders: [],
      })),
    };
  });
}
