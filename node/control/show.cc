#include "control/show.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/planning.h"

namespace partita::control {
namespace {

// See ServiceNow::restart_s. One that ends before it was ready is not being started any more.
double restart_of(const std::string& service, const std::vector<actuate::WorkerRecord>& workers) {
  double longest = 0;
  for (const actuate::WorkerRecord& one : workers) {
    if (one.segment.service != service || one.answering == actuate::Answering::ready) continue;
    const bool starts = one.pid != 0 && one.restarts > 0 && one.quick_failures == 0 &&
                        one.answering == actuate::Answering::starting;
    if (!starts || !one.start_s) return 0;
    longest = std::max(longest, *one.start_s);
  }
  return longest;
}

std::vector<ServiceNow> services_now(const ShowGround& ground) {
  std::vector<ServiceNow> services;
  std::map<std::string, int> running;  // segments, by service
  for (const actuate::AssignedSegment& segment : ground.node.assignment.segments)
    running[segment.service] += ground.node.has(segment) ? 1 : 0;
  for (std::size_t s = 0; s < ground.services.size(); ++s) {
    ServiceNow now{ground.services[s]};
    const Meters::Reading& reading = ground.rates[s].reading;
    now.rate_rps = reading.rate;
    now.p99_ms = reading.p99_ms;
    now.attainment = reading.attainment;
    now.token_traffic = reading.tokens;
    now.ready_workers = reading.ready_workers;
    now.restart_s = restart_of(now.name, ground.workers);
    if (const auto& forecast = ground.rates[s].forecast) {
      now.forecast_rps = forecast->rate;
      now.forecast_low_rps = forecast->low;
      now.forecast_high_rps = forecast->high;
    }
    if (const auto& target = ground.memory.target)
      if (const PlannedFor* rate = target->rate_of(now.name)) now.planned_rps = rate->rate_rps;
    now.segments = running[now.name];
    if (const auto known = ground.draws.find(now.name); known != ground.draws.end()) {
      now.watts = known->second.watts;
      now.energy_j = known->second.joules;
    }
    const auto& parts = ground.host_parts.draws();
    if (const auto known = parts.find(now.name); known != parts.end()) {
      now.host_w = known->second.watts;
      now.host_energy_j = known->second.joules;
      now.host_idle_j = ground.host_parts.idle_joules(now.name);
    }
    if (const auto known = ground.bills.find(now.name); known != ground.bills.end()) {
      now.energy_cost = known->second.cost;
      now.co2_g = known->second.co2_g;
    }
    now.is = ground.verdicts[s];
    services.push_back(std::move(now));
  }
  // A pipeline has as many workers as the step that has fewest.
  for (ServiceNow& now : services) {
    std::optional<int> fewest;
    for (const plan::PipelineStep& step :
         now.pipeline ? now.pipeline->steps : std::vector<plan::PipelineStep>{})
      for (const ServiceNow& of : services)
        if (of.name == step.service)
          fewest = std::min(fewest.value_or(of.ready_workers), of.ready_workers);
    if (fewest) now.ready_workers = *fewest;
  }
  return services;
}

std::vector<GpuNow> gpus_now(const ShowGround& ground) {
  std::vector<GpuNow> gpus;
  const auto& not_used = ground.node.use.not_used;
  for (const device::GpuState& gpu : ground.node.state.gpus) {
    GpuNow now{.index = gpu.index, .uuid = gpu.uuid, .model = gpu.model};
    const auto why = not_used.find(gpu.uuid.empty() ? fmt::format("gpu {}", gpu.index) : gpu.uuid);
    now.out = why != not_used.end();
    if (now.out) now.why = why->second;
    if (ground.sample)
      for (const telemetry::GpuSample& sample : ground.sample->gpus)
        if (sample.index == gpu.index) now.sample = sample;
    gpus.push_back(std::move(now));
  }
  return gpus;
}

// With what GPUs, CPUs and memory take together, where all of them say it.
std::optional<HostNow> host_now(const ShowGround& ground) {
  if (!ground.host) return {};
  HostNow now = *ground.host;
  if (ground.sample) now.node_w = together(now, *ground.sample);
  return now;
}

// Nobody serves it, or its workers that are ready carry less than is planned for.
bool lacks_workers(const ServiceVerdict& one, const std::vector<PlannedFor>& rates) {
  if (one.verdict == Standing::unknown) return false;
  const auto planned = std::ranges::find(rates, one.service, &PlannedFor::service);
  constexpr double kExact = 1 - 1e-9;
  return one.verdict == Standing::down ||
         (planned != rates.end() && one.can_carry_rps < planned->rate_rps * kExact);
}

// The node is as the plan in force wants it, its workers too, and nothing more is needed.
bool is_converged(const ShowGround& ground, bool writing) {
  const AgentMemory& memory = ground.memory;
  if (!ground.node.known || !memory.target || !ground.fleet_heard) return false;
  if (!same_gpus_usable(*memory.target, ground.node.use)) return false;
  const auto lacks = [&](const ServiceVerdict& one) {
    return lacks_workers(one, memory.target->rates);
  };
  if (std::ranges::any_of(ground.verdicts, lacks)) return false;
  if (memory.proposal && !memory.proposal->gain) return false;
  return writing || ((memory.target->done || ground.rerated) && !ground.under);
}

// Where nothing is to be done on the node a service may still be down: that is for others to mend.
std::string what_it_does(const ShowGround& ground) {
  std::string down;
  int services = 0;
  for (const ServiceVerdict& one : ground.verdicts) {
    if (one.verdict != Standing::down) continue;
    ++services;
    down = one.service;
  }
  if (!ground.memory.target && ground.memory.proposal)
    return fmt::format("change {} waits for approval", ground.memory.proposal->change);
  const std::string& doing = ground.report.doing;
  if (doing != "nothing to do" || services == 0) return doing;
  if (services == 1) return fmt::format("nothing to change; {} is down", down);
  return fmt::format("nothing to change; {} services are down", services);
}

}  // namespace

void show(Snapshot& snapshot, const ShowGround& ground) {
  bool changed = false;
  // Most of a snapshot is as it was: comparing costs less than copying it at every look.
  const auto update = [&](auto& shown, const auto& now) {
    if (shown == now) return false;
    shown = now;
    return changed = true;
  };
  update(snapshot.node, ground.world.node);
  update(snapshot.mode, ground.memory.mode);
  // Where only what is promised is written down, the node is as it shall be.
  const bool writing = ground.under && ground.under->writes() && !ground.under->emptying;
  update(snapshot.converged, is_converged(ground, writing));
  const bool other_node = update(snapshot.state, ground.node.state);
  update(snapshot.node_fault, ground.node.blind);
  snapshot.node_read_ms = ground.node.read_ms;
  const bool others_run = update(snapshot.assignment, ground.node.assignment);
  std::vector<ServiceNow> services = services_now(ground);
  // That it was measured again is no change.
  for (std::size_t s = 0; s < std::min(services.size(), snapshot.services.size()); ++s)
    snapshot.services[s].is.as_of_ms = services[s].is.as_of_ms;
  update(snapshot.services, services);
  update(snapshot.gpus, gpus_now(ground));
  if (ground.memory.target)
    update(snapshot.plan, ground.memory.target->plan);
  else
    update(snapshot.plan, std::nullopt);
  if (ground.under && !writing)
    update(snapshot.current, ground.under->shown);
  else if (ground.memory.proposal)
    update(snapshot.current, ground.proposed);
  else
    update(snapshot.current, std::nullopt);
  update(snapshot.last, ground.last);
  update(snapshot.batch, ground.batch);
  update(snapshot.power, ground.power);
  update(snapshot.host, host_now(ground));
  update(snapshot.uncarried, ground.uncarried);
  std::vector<JudgedPlans> judged;
  for (const auto& [asked, said] : ground.memo.said)
    judged.push_back({asked, said.first, said.second});
  update(snapshot.judged, judged);
  update(snapshot.drifts, ground.memory.drifts);
  update(snapshot.changes, ground.changes);
  update(snapshot.failed_changes, ground.memory.failed_changes);
  update(snapshot.doing, what_it_does(ground));
  snapshot.notices = ground.report.notices();
  snapshot.restarts = ground.restarts;
  snapshot.given_up_workers = ground.given_up;
  if (changed) ++snapshot.version;
  if (other_node || others_run) snapshot.node_version = snapshot.version;
  snapshot.time_ms = ground.now_ms;
}

std::vector<history::Measured> measured(const ShowGround& ground) {
  std::vector<history::Measured> rows;
  const auto add = [&](const char* metric, const std::string& subject, double value) {
    rows.push_back({ground.now_ms, metric, subject, value});
  };
  const std::optional<Target>& target = ground.memory.target;
  for (std::size_t s = 0; s < ground.services.size(); ++s) {
    const std::string& name = ground.services[s].name;
    const Meters::Reading& reading = ground.rates[s].reading;
    if (reading.rate) add("rate_rps", name, *reading.rate);
    if (reading.p99_ms) add("p99_ms", name, *reading.p99_ms);
    if (reading.attainment) add("attainment", name, *reading.attainment);
    if (reading.tokens) {
      add("tokens_per_s", name, reading.tokens->out_per_s);
      if (reading.tokens->ttft_p99_ms) add("ttft_p99_ms", name, *reading.tokens->ttft_p99_ms);
      if (reading.tokens->tpot_p99_ms) add("tpot_p99_ms", name, *reading.tokens->tpot_p99_ms);
    }
    for (const Meters::KeyRates& key : reading.keys) {
      const std::string of_key = fmt::format("{}, {}", name, key.key);
      if (reading.tokens) {
        add("key_tokens_per_s", of_key, key.tokens);
        continue;
      }
      add("key_rps", of_key, key.answered);
      add("key_refused_rps", of_key, key.refused);
      add("key_bytes_per_s", of_key, key.bytes);
    }
    if (const PlannedFor* rate = target ? target->rate_of(name) : nullptr)
      add("planned_rps", name, rate->rate_rps);
  }
  if (ground.sample)
    for (const telemetry::GpuSample& gpu : ground.sample->gpus)
      if (gpu.power) add("watts", gpu.uuid, gpu.power->value);
  for (const auto& [tenant, draw] : ground.draws) add("watts", tenant, draw.watts);
  for (const auto& [tenant, draw] : ground.host_parts.draws())
    add("host_watts", tenant, draw.watts);
  for (const auto& [tenant, bill] : ground.bills) {
    if (bill.cost) add("energy_cost", tenant, *bill.cost);
    if (bill.co2_g) add("co2_g", tenant, *bill.co2_g);
  }
  if (const auto host = host_now(ground)) {
    if (host->cpu_w) add("cpu_watts", "", *host->cpu_w);
    if (host->dram_w) add("dram_watts", "", *host->dram_w);
    if (host->node_w) add("node_watts", "", *host->node_w);
  }
  if (!ground.node.known) return rows;
  int used = 0, instances = 0;
  for (const device::GpuState& gpu : ground.node.state.gpus) {
    used += gpu.instances.empty() ? 0 : 1;
    instances += static_cast<int>(gpu.instances.size());
  }
  add("gpus", "", used);
  add("instances", "", instances);
  return rows;
}

}  // namespace partita::control
