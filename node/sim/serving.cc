#include "sim/serving.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/draws/poisson_times.h"
#include "base/hash.h"
#include "base/index.h"
#include "llm/engine/token_times.h"
#include "profile/share.h"
#include "sim/arrivals.h"
#include "sim/pipeline_world.h"
#include "sim/service_world.h"
#include "sim/set_service.h"
#include "sim/token_service.h"

namespace partita::sim {
namespace {

struct Instance {
  plan::PoolMember member;
  Rps throughput;     // planned
  double weight = 0;  // SMs, or compute slices
};

// Everything the run needs to know about one service, by name: names order the simulation, so that
// the order of the problem's list cannot matter.
struct Entry {
  const plan::Service* service = nullptr;
  std::size_t index = 0;  // in the problem
  std::vector<Instance> instances = {};
  std::vector<TokenReplica> replicas = {};                  // of a language model
  std::vector<SetInstance> holders = {};                    // of a set, as `instances`
  std::map<const profile::TokenEngine*, int> grouped = {};  // instances of groups so far
  std::span<const double> trace = {};
  Millis pool_slo = {};  // that its pool is run with: of what pipelines use a share of theirs
  bool chained = false;  // it is a pipeline, or a step of one
};

// Half of what int64 nanoseconds hold: room for more arrivals than expected.
constexpr double kMaxClockSeconds = 4e9;

using Entries = std::map<std::string_view, Entry>;

struct Slices {
  double used = 0, total = 0;
};

// The part of its profile's compute that an instance has: all of it, or an MPS share.
double part_of(const plan::PlannedInstance& instance) {
  return instance.share_percent == 0 ? 1 : instance.share_percent / 100;
}

const plan::FleetEntry* find_fleet(const plan::ServingProblem& problem, const std::string& model) {
  const auto found = std::find_if(problem.fleet.begin(), problem.fleet.end(),
                                  [&](const auto& entry) { return entry.gpu.name == model; });
  return found == problem.fleet.end() ? nullptr : &*found;
}

std::string place_of(const plan::PlannedGpu& gpu, const plan::PlannedInstance& instance) {
  return "plan gpu " + std::to_string(gpu.index) + " start " + std::to_string(instance.start);
}

// True when every instance in use states its SMs; otherwise compute slices weigh them all.
bool weigh_by_sms(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    const plan::FleetEntry* fleet = find_fleet(problem, gpu.model);
    for (const plan::PlannedInstance& instance : gpu.instances) {
      const int profile = fleet == nullptr ? -1 : fleet->gpu.profile_index(instance.profile);
      if (profile < 0 || !fleet->gpu.profiles[static_cast<std::size_t>(profile)].sms) return false;
    }
  }
  return true;
}

// What runs on an instance; bad input when the problem does not know its parts.
Result<Instance> instance_of(const plan::FleetEntry& fleet, const hw::MigProfile& mig,
                             const plan::Service& service, const plan::PlannedInstance& planned) {
  const auto table = fleet.profiles.find(service.model);
  if (table == fleet.profiles.end()) {
    return bad_input("", "no profile of model " + service.model + " on " + fleet.gpu.name);
  }
  Instance instance;
  instance.throughput = planned.throughput;
  const profile::WorkloadProfile workload =
      planned.share_percent == 0
          ? profile::WorkloadProfile{}
          : profile::at_share(table->second, mig.gpcs, planned.share_percent);
  instance.member = {profile::batch_curve(planned.share_percent == 0 ? table->second : workload,
                                          mig.gpcs, planned.processes, planned.batch),
                     planned.processes};
  if (instance.member.curve.steps.empty()) {
    return bad_input("", service.model + " was not measured on " + std::to_string(mig.gpcs) +
                             " GPCs with batch " + std::to_string(planned.batch) + " and " +
                             std::to_string(planned.processes) + " processes");
  }
  if (!(std::isfinite(planned.throughput.value) && planned.throughput.value > 0)) {
    return bad_input("", "the planned throughput is not positive");
  }
  return instance;
}

// An instance of a language model; of a group of GPUs the first one stands for all.
Result<void> add_replica(const plan::ServingProblem& problem, const std::string& gpu,
                         const plan::PlannedInstance& planned, Entry& entry) {
  const profile::TokenEngine* const engine = plan::engine_of(problem, gpu, *entry.service, planned);
  if (engine == nullptr)
    return bad_input(
        "", "no engine '" + planned.engine.configuration + "' of model " + entry.service->model);
  if (!(std::isfinite(planned.throughput.value) && planned.throughput.value > 0))
    return bad_input("", "the planned throughput is not positive");
  if (entry.grouped[engine]++ % engine->gpus != 0) return {};
  TokenReplica replica{*engine, engine->gpus * planned.throughput.value};
  replica.engine.spec.sequences = std::clamp(planned.batch, 1, engine->spec.sequences);
  entry.replicas.push_back(std::move(replica));
  return {};
}

// Adds the instances of one GPU to the services that they belong to.
Result<void> add_gpu(Entries& entries, const plan::ServingProblem& problem,
                     const plan::PlannedGpu& gpu, bool by_sms) {
  const plan::FleetEntry& fleet = *find_fleet(problem, gpu.model);
  for (const plan::PlannedInstance& instance : gpu.instances) {
    const int profile = fleet.gpu.profile_index(instance.profile);
    if (profile < 0) {
      return bad_input(place_of(gpu, instance), "unknown MIG profile " + instance.profile);
    }
    const auto entry = entries.find(instance.service);
    if (entry == entries.end()) {
      return bad_input(place_of(gpu, instance), "unknown service " + instance.service);
    }
    const hw::MigProfile& mig = fleet.gpu.profiles[static_cast<std::size_t>(profile)];
    if (entry->second.service->tokens) {
      const auto added = add_replica(problem, gpu.model, instance, entry->second);
      if (!added) return bad_input(place_of(gpu, instance), added.error().message);
      continue;
    }
    Result<Instance> found = instance_of(fleet, mig, *entry->second.service, instance);
    if (!found) return bad_input(place_of(gpu, instance), found.error().message);
    found->weight = part_of(instance) * (by_sms ? *mig.sms : mig.gpcs);
    if (entry->second.service->models) {
      if (instance.held < 1) return bad_input(place_of(gpu, instance), "it holds no model");
      entry->second.holders.push_back({found->member.curve.steps.front().latency, instance.held});
    }
    entry->second.instances.push_back(std::move(*found));
  }
  return {};
}

// Pipelines and what they use.
Result<void> mark_chained(Entries& entries, const plan::ServingPlan& plan) {
  for (auto& [name, entry] : entries) entry.pool_slo = entry.service->slo;
  for (const plan::PlannedService& row : plan.services)
    if (const auto entry = entries.find(row.name); entry != entries.end() && row.slo.value > 0)
      entry->second.pool_slo = row.slo;
  for (auto& [name, entry] : entries) {
    if (!entry.service->pipeline) continue;
    entry.chained = true;
    for (const plan::PipelineStep& step : entry.service->pipeline->steps) {
      const auto used = entries.find(step.service);
      if (used == entries.end())
        return bad_input("service " + std::string(name), "unknown step " + step.service);
      used->second.chained = true;
    }
  }
  return {};
}

Result<Entries> collect(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  Entries entries;
  for (std::size_t i = 0; i < problem.services.size(); ++i) {
    const plan::Service& service = problem.services[i];
    if (!entries.emplace(service.name, Entry{.service = &service, .index = i}).second) {
      return bad_input("service " + service.name, "the name appears twice");
    }
  }
  if (auto marked = mark_chained(entries, plan); !marked) return failed(marked.error());
  const bool by_sms = weigh_by_sms(problem, plan);
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    const plan::FleetEntry* fleet = find_fleet(problem, gpu.model);
    if (fleet == nullptr) {
      return bad_input("plan gpu " + std::to_string(gpu.index), "unknown GPU model " + gpu.model);
    }
    if (auto added = add_gpu(entries, problem, gpu, by_sms); !added) return failed(added.error());
  }
  return entries;
}

Result<void> attach_traces(Entries& entries, const std::vector<Trace>& traces) {
  for (const Trace& trace : traces) {
    const auto entry = entries.find(trace.service);
    if (entry == entries.end()) return bad_input("trace", "unknown service " + trace.service);
    if (!entry->second.trace.empty()) return bad_input("trace", trace.service + " appears twice");
    if (!std::is_sorted(trace.times_s.begin(), trace.times_s.end()) ||
        (!trace.times_s.empty() && !(trace.times_s.front() >= 0))) {
      return bad_input("trace", "times of " + trace.service + " do not ascend from 0");
    }
    entry->second.trace = trace.times_s;
  }
  return {};
}

// The requests that a service is expected to be offered.
double expected_arrivals(const Entry& entry, const ServingOptions& options) {
  return options.arrivals == ArrivalKind::trace
             ? static_cast<double>(entry.trace.size())
             : entry.service->rate.value * options.duration.value;
}

// Keeps what is simulated within the limits of the clock and of memory.
Result<void> check_limits(const Entries& entries, const ServingOptions& options) {
  const double duration = options.duration.value, warmup = options.warmup.value;
  if (!(duration > 0 && duration <= kMaxDuration.value)) {
    return bad_input("duration", "must be positive and at most " +
                                     std::to_string(static_cast<long>(kMaxDuration.value)) + " s");
  }
  if (!(warmup >= 0 && warmup < duration)) {
    return bad_input("warmup", "must be at least 0 and less than the duration");
  }
  if (options.arrivals == ArrivalKind::gamma && !(options.cv > 0 && options.cv <= plan::kMaxCv)) {
    return bad_input("arrivals", "the cv of gamma arrivals must be above 0 and at most " +
                                     std::to_string(static_cast<int>(plan::kMaxCv)));
  }
  double arrivals = 0;
  for (const auto& [name, entry] : entries) {
    const double rate = entry.service->rate.value;
    if (!(rate > 0 && std::isfinite(rate)) ||
        !(entry.service->slo.value > 0 || entry.service->tokens)) {
      return bad_input("service " + std::string(name), "rate and SLO must be positive");
    }
    const auto* trace = std::get_if<plan::TraceArrivals>(&entry.service->traffic.arrivals);
    if (options.arrivals == ArrivalKind::declared && trace && !trace->trace) {
      return bad_input("service " + std::string(name),
                       "its trace " + trace->file + " has not been loaded");
    }
    const double offered = expected_arrivals(entry, options);
    arrivals += offered;
    for (const Instance& instance : entry.instances) {
      const Millis slowest = instance.member.curve.steps.back().latency;
      if (duration + offered * slowest.value / 1e3 > kMaxClockSeconds) {
        return failed({ErrorCode::limit, "its requests could outlast the clock",
                       "service " + std::string(name)});
      }
    }
  }
  if (arrivals > kMaxArrivals) {
    return failed({ErrorCode::limit, "more than 10^9 requests would arrive", "duration"});
  }
  return {};
}

Nanos to_nanos(double value, double unit) {
  return static_cast<Nanos>(std::llround(std::min(value * unit, 9e18)));
}

// One queue over all instances, one per instance, or one per process; an instance's processes are
// members of consecutive queues or one member of one.
std::vector<QueueSpec> queues_of(const Entry& entry, plan::Dispatch dispatch, Nanos slo) {
  std::vector<QueueSpec> queues;
  if (dispatch == plan::Dispatch::pooled) {
    QueueSpec pool;
    std::vector<plan::PoolMember> members;
    for (const Instance& instance : entry.instances) {
      members.push_back(instance.member);
      pool.throughput += instance.throughput;
    }
    if (members.empty()) return queues;
    pool.policy = plan::pooled_policy(std::move(members), slo);
    queues.push_back(std::move(pool));
    return queues;
  }
  for (const Instance& instance : entry.instances) {
    const bool split = dispatch == plan::Dispatch::per_process;
    plan::PoolMember member = instance.member;
    if (split) member.processes = 1;
    const QueueSpec queue{
        {.members = {member}, .paced = dispatch == plan::Dispatch::paced, .slo = {}},
        instance.throughput / (split ? instance.member.processes : 1)};
    queues.insert(queues.end(), at(split ? instance.member.processes : 1), queue);
  }
  return queues;
}

ServiceSpec spec_of(const Entry& entry, plan::Dispatch dispatch, const ServingOptions& options) {
  const Nanos slo = to_nanos(entry.pool_slo.value, kNanosPerMilli);
  const bool knows_queues = dispatch == plan::Dispatch::paced;
  ServiceSpec spec{
      .arrivals = arrivals_of(*entry.service, options, entry.trace),
      .queues = queues_of(entry, dispatch, slo),
      .slo = slo,
      .warmup = to_nanos(options.warmup.value, kNanosPerSecond),
      .end = to_nanos(options.duration.value, kNanosPerSecond),
      .routing = knows_queues ? Routing::least_work : Routing::random,
      .queue_limit = options.shed ? std::optional(plan::kDefaultQueueLimit) : std::nullopt,
      .mean_lateness = to_nanos(options.mean_lateness.value, kNanosPerMilli),
      .rng = component_rng(options.seed, entry.service->name).split(1)};
  if (options.batching == BatchingKind::full) {
    for (QueueSpec& queue : spec.queues) {
      queue.policy.max_wait = kForever;
      queue.policy.paced = false;
      queue.policy.slo.reset();
    }
  }
  return spec;
}

SetRun set_run(const Entry& entry, const ServingOptions& options) {
  return {.arrivals = arrivals_of(*entry.service, options, entry.trace),
          .warmup = to_nanos(options.warmup.value, kNanosPerSecond),
          .end = to_nanos(options.duration.value, kNanosPerSecond),
          .rng = component_rng(options.seed, entry.service->name).split(3)};
}

TokenRun token_run(const Entry& entry, const ServingOptions& options) {
  return {.arrivals = arrivals_of(*entry.service, options, entry.trace),
          .warmup = to_nanos(options.warmup.value, kNanosPerSecond),
          .end = to_nanos(options.duration.value, kNanosPerSecond),
          .shed = options.shed,
          .rng = component_rng(options.seed, entry.service->name).split(2)};
}

// Busy share of each instance's processes, from those of queues and members.
std::vector<double> activity_of(const Entry& entry, plan::Dispatch dispatch,
                                const std::vector<std::vector<double>>& activity) {
  if (dispatch == plan::Dispatch::pooled)
    return activity.empty() ? std::vector<double>() : activity.front();
  std::vector<double> result;
  std::size_t queue = 0;
  for (const Instance& instance : entry.instances) {
    const int queues = dispatch == plan::Dispatch::per_process ? instance.member.processes : 1;
    double sum = 0;
    for (int i = 0; i < queues; ++i) sum += activity[queue++].front();
    result.push_back(sum / queues);
  }
  return result;
}

// How a service is played above its rate, and how many requests that takes.
struct OverloadRun {
  const Entry* entry = nullptr;
  long in_flight = 0;  // at once: within one SLO, and in batches
  long warmup = 0, counted = 0;
  long requests() const { return warmup + counted; }
};

OverloadRun overload_run(const Entry& entry) {
  constexpr long kFewest = 1'000;
  OverloadRun run{.entry = &entry};
  double in_flight = entry.service->rate.value * entry.service->slo.value / 1e3;
  for (const Instance& instance : entry.instances)
    in_flight += instance.member.curve.max_batch() * instance.member.processes;
  run.in_flight = static_cast<long>(std::min(in_flight, kMaxArrivals));
  run.warmup = run.in_flight;
  run.counted =
      std::max({kFewest, 2 * run.in_flight,
                plan::telling_requests(entry.service->traffic.arrivals, entry.service->rate)});
  return run;
}

// When the requests of a service arrive at a rate, in seconds. Poisson ones are drawn once for all
// rates.
class OverloadTimes {
 public:
  explicit OverloadTimes(const plan::Service& service)
      : law_(service.traffic.arrivals),
        rng_(component_rng(ServingOptions{}.seed, service.name)),
        units_(rng_) {}

  std::vector<double> at(Rps rate, long requests) {
    std::vector<double> times(static_cast<std::size_t>(requests));
    if (plan::is_poisson(law_)) {
      for (std::size_t i = 0; i < times.size(); ++i) times[i] = units_.at(i) / rate.value;
      return times;
    }
    auto source = plan::ArrivalSource::of(law_, rate, rng_);
    for (double& time : times) time = static_cast<double>(source.next()) / kNanosPerSecond;
    return times;
  }

 private:
  const plan::Arrivals& law_;
  Rng rng_;
  PoissonTimes units_;
};

// Begins with a rush where the pool cannot keep up: its queue is then as it will be.
double in_time(ServiceWorld& world, OverloadTimes& arrivals, const OverloadRun& run,
               double factor) {
  const Rps rate{run.entry->service->rate.value * factor};
  double full = 0;  // requests/s of full batches
  for (const Instance& instance : run.entry->instances)
    full += 1e3 * instance.member.curve.max_batch() * instance.member.processes /
            instance.member.curve.steps.back().latency.value;
  std::vector<double> times = arrivals.at(rate, run.requests());
  const double warm_s = times[static_cast<std::size_t>(run.warmup)], end_s = times.back();
  if (rate.value > full) times.insert(times.begin(), static_cast<std::size_t>(run.in_flight), 0);
  ServiceSpec spec = spec_of(*run.entry, plan::Dispatch::pooled, {});
  spec.arrivals = ArrivalSource::recorded(times);
  spec.warmup = std::llround(warm_s * kNanosPerSecond);
  spec.end = std::llround(end_s * kNanosPerSecond) + 1;
  const ServiceOutcome outcome = world.run(std::move(spec));
  return static_cast<double>(outcome.within_slo) /
         static_cast<double>(std::max(1L, outcome.offered));
}

constexpr int kOverloadOfReplica = 1500;  // requests

// Replicas of a language model that are alike, and the share of its requests that each gets.
struct AlikeReplicas {
  const TokenReplica* one = nullptr;
  double share = 0, all = 0;
};

std::vector<AlikeReplicas> alike_replicas(const Entry& entry) {
  std::map<std::tuple<std::string, int, double>, AlikeReplicas> kinds;
  double all = 0;
  for (const TokenReplica& one : entry.replicas) all += one.share;
  for (const TokenReplica& one : entry.replicas) {
    AlikeReplicas& kind =
        kinds[{one.engine.name.configuration, one.engine.spec.sequences, one.share}];
    kind.one = &one;
    kind.share = one.share / all;
    kind.all += one.share / all;
  }
  std::vector<AlikeReplicas> found;
  for (const auto& [key, kind] : kinds) found.push_back(kind);
  return found;
}

// Of a language model, at one replica of each kind. Nobody is refused.
double tokens_in_time(const plan::Service& service, const std::vector<AlikeReplicas>& kinds,
                      double factor) {
  plan::Service more = service;
  more.rate = service.rate * factor;
  double in_time = 0;
  for (const AlikeReplicas& kind : kinds) {
    const llm::ReplicaTimes times = llm::replica_times(
        more, kind.one->engine,
        {.rate = more.rate * kind.share, .count = kOverloadOfReplica, .seed = 0x74});
    in_time += kind.all * (1 - times.late);
  }
  return in_time;
}

// Rows of language models; those of the fewest kinds of replicas first, while requests are left.
void play_tokens_over(const Entries& entries, plan::ServingPlan& plan, long& left) {
  std::vector<std::pair<const plan::Service*, std::vector<AlikeReplicas>>> models;
  for (const auto& [name, entry] : entries)
    if (entry.service->tokens && !entry.replicas.empty())
      models.emplace_back(entry.service, alike_replicas(entry));
  std::ranges::stable_sort(models, {}, [](const auto& model) { return model.second.size(); });
  for (const auto& [service, kinds] : models) {
    left -= static_cast<long>(kinds.size() * std::size(kOverloads)) * kOverloadOfReplica;
    const auto row = std::ranges::find(plan.services, service->name, &plan::PlannedService::name);
    if (left < 0 || row == plan.services.end()) return;
    row->overload.clear();
    for (const double factor : kOverloads)
      row->overload.push_back({factor, tokens_in_time(*service, kinds, factor)});
  }
}

Millis millis(Nanos ns) { return Millis{static_cast<double>(ns) / kNanosPerMilli}; }

ServiceReport report_of(const std::string& name, const ServiceOutcome& outcome) {
  const double met = static_cast<double>(outcome.within_slo);
  return {.name = name,
          .offered = outcome.offered,
          .completed = outcome.completed,
          .slo_attainment = outcome.offered == 0 ? 1 : met / static_cast<double>(outcome.offered),
          .p50 = millis(outcome.p50),
          .p95 = millis(outcome.p95),
          .p99 = millis(outcome.p99),
          .refused = outcome.refused};
}

// All that has to do with pipelines, as one run. `names`: of its pools, and of its sources.
struct ChainedNames {
  std::vector<std::string_view> pools, sources;
};
struct Chained {
  ChainedRun run;
  ChainedNames names;
};

// The arrivals of a service at the part of its rate that comes from its own clients.
ArrivalSource own_arrivals(const plan::Service& service, Rps rate, const ServingOptions& options) {
  plan::Service own = service;
  own.rate = rate;
  return arrivals_of(own, options, {});
}

Rps own_rate(const plan::ServingProblem& problem, const plan::Service& service) {
  if (service.pipeline || service.member) return service.pipeline ? service.rate : Rps{0};
  const double own =
      service.rate.value - plan::rate_from_pipelines(problem.services, service.name).value;
  constexpr double kLeastShare = 1e-9;  // less is rounding
  return Rps{own > kLeastShare * service.rate.value ? own : 0};
}

ChainedSource source_of(const plan::Service& service, const std::vector<std::string_view>& pools) {
  const auto place = [&](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(pools, name) - pools.begin());
  };
  ChainedSource source;
  source.slo = to_nanos(service.slo.value, kNanosPerMilli);
  source.percentile = service.percentile;
  if (!service.pipeline) {
    source.graph = {{{}}, {0}, {1}, {1}};
    source.pools = {place(service.name)};
    source.fan_out = {1};
    return source;
  }
  source.graph = plan::graph_of(*service.pipeline).value_or(plan::PipelineGraph{});
  for (const plan::PipelineStep& step : service.pipeline->steps) {
    source.pools.push_back(place(step.service));
    source.fan_out.push_back(step.fan_out);
  }
  return source;
}

// Every step has instances: a pool without one would keep its pipelines from the run.
Result<Chained> chained(const Entries& entries, const plan::ServingProblem& problem,
                        const ServingOptions& options) {
  Chained all;
  for (const auto& [name, entry] : entries) {
    if (!entry.chained || entry.service->pipeline) continue;
    auto queues =
        queues_of(entry, plan::Dispatch::pooled, to_nanos(entry.pool_slo.value, kNanosPerMilli));
    if (queues.empty()) return bad_input("service " + std::string(name), "a step has no instance");
    all.names.pools.push_back(name);
    all.run.pools.push_back({std::move(queues.front().policy), options.shed,
                             to_nanos(entry.service->slo.value, kNanosPerMilli),
                             entry.service->percentile});
  }
  for (const auto& [name, entry] : entries) {
    const Rps rate = own_rate(problem, *entry.service);
    if (!entry.chained || !(rate.value > 0)) continue;
    all.names.sources.push_back(name);
    all.run.sources.push_back(source_of(*entry.service, all.names.pools));
    all.run.sources.back().arrivals = own_arrivals(*entry.service, rate, options);
  }
  all.run.warmup = to_nanos(options.warmup.value, kNanosPerSecond);
  all.run.end = to_nanos(options.duration.value, kNanosPerSecond);
  all.run.rng = component_rng(options.seed, "pipelines");
  return all;
}

struct ChainedReport {
  ChainedNames names;
  ChainedOutcome outcome;
  // What is told of each: of its own requests, or of a pool that has none of its own all of them.
  std::map<std::string_view, ChainedCount> counts = {};
};
Result<ChainedReport> play_chained(const Entries& entries, const plan::ServingProblem& problem,
                                   const ServingOptions& options) {
  if (std::ranges::none_of(entries, [](const auto& one) { return one.second.chained; }))
    return ChainedReport{};
  if (options.arrivals == ArrivalKind::trace)
    return bad_input("arrivals", "a trace cannot be played through pipelines");
  auto made = chained(entries, problem, options);
  if (!made) return failed(made.error());
  ChainedReport report{std::move(made->names), play(std::move(made->run))};
  for (std::size_t p = 0; p < report.names.pools.size(); ++p)
    report.counts[report.names.pools[p]] = report.outcome.pools[p];
  for (std::size_t s = 0; s < report.names.sources.size(); ++s)
    report.counts[report.names.sources[s]] = report.outcome.sources[s];
  return report;
}

// 1 - compute slices of the instances in use / compute slices of the GPUs in use; a plan that uses
// no GPU wastes none.
double external_fragmentation(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  Slices slices;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    if (gpu.instances.empty()) continue;
    const hw::GpuModel& model = find_fleet(problem, gpu.model)->gpu;
    slices.total += model.compute_slices;
    for (const plan::PlannedInstance& instance : gpu.instances) {
      const auto profile = static_cast<std::size_t>(model.profile_index(instance.profile));
      slices.used += part_of(instance) * model.profiles[profile].gpcs;
    }
  }
  return slices.total == 0 ? 0 : 1 - slices.used / slices.total;
}

}  // namespace

Result<ServingReport> simulate(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                               const ServingOptions& options) {
  Result<Entries> entries = collect(problem, plan);
  if (!entries) return failed(entries.error());
  if (auto traces = attach_traces(*entries, options.traces); !traces) {
    return failed(traces.error());
  }
  if (auto limits = check_limits(*entries, options); !limits) return failed(limits.error());

  const plan::Dispatch dispatch = options.dispatch.value_or(plan.rule.dispatch);
  ServingReport report;
  report.services.resize(problem.services.size());
  ServiceWorld world;
  EventLog log;
  double weight = 0, active = 0;
  const auto weigh = [&](const Entry& entry, const std::vector<double>& activity) {
    for (std::size_t i = 0; i < entry.instances.size(); ++i) {
      weight += entry.instances[i].weight;
      active += entry.instances[i].weight * activity[i];
    }
  };
  if (auto played = play_chained(*entries, problem, options); !played) {
    return failed(played.error());
  } else if (!played->names.sources.empty()) {
    for (const auto& [name, count] : played->counts) {
      const Entry& entry = entries->at(name);
      report.services[entry.index] = report_of(std::string(name), count);
      // What was counted are its clients' requests, where it has clients.
      const Rps own = own_rate(problem, *entry.service);
      report.services[entry.index].rate = own.value > 0 ? own : entry.service->rate;
    }
    for (std::size_t p = 0; p < played->names.pools.size(); ++p)
      weigh(entries->at(played->names.pools[p]), played->outcome.pools[p].activity.front());
    report.events += played->outcome.events;
    log.absorb(played->outcome.log_hash);
  }
  const auto note = [&](const Entry& entry, const ServiceReport& of_service, auto events,
                        std::uint64_t hash) {
    report.services[entry.index] = of_service;
    if (options.arrivals != ArrivalKind::trace)
      report.services[entry.index].rate = entry.service->rate;
    report.events += events;
    log.absorb(hash);
  };
  for (const auto& [name, entry] : *entries) {
    if (entry.chained) continue;
    log.absorb(text_hash(name));
    if (entry.service->tokens) {
      const TokenOutcome outcome =
          play_tokens(*entry.service, entry.replicas, token_run(entry, options));
      note(entry, outcome.report, outcome.events, outcome.log_hash);
    } else if (entry.service->models) {
      const SetOutcome outcome = play_set(*entry.service, entry.holders, set_run(entry, options));
      note(entry, outcome.report, outcome.events,
           static_cast<std::uint64_t>(outcome.report.p99.value * kNanosPerMilli));
      weigh(entry, outcome.activity);
    } else {
      const ServiceOutcome outcome = world.run(spec_of(entry, dispatch, options));
      note(entry, report_of(entry.service->name, outcome), outcome.events, outcome.log_hash);
      weigh(entry, activity_of(entry, dispatch, outcome.activity));
    }
  }
  report.internal_slack = weight == 0 ? 0 : 1 - active / weight;
  report.external_fragmentation = external_fragmentation(problem, plan);
  report.log_hash = log.hash();
  return report;
}

Result<std::map<std::string, Millis>> pipeline_latencies(const plan::ServingProblem& problem,
                                                         const plan::ServingPlan& plan) {
  constexpr double kRequests = 30'000;  // of the pipeline that has fewest
  const Result<Entries> entries = collect(problem, plan);
  if (!entries) return failed(entries.error());
  double slowest = kMaxArrivals;
  for (const auto& [name, entry] : *entries)
    if (entry.service->pipeline) slowest = std::min(slowest, entry.service->rate.value);
  ServingOptions options;
  options.duration = Seconds{kRequests / slowest};
  options.shed = false;
  if (auto limits = check_limits(*entries, options); !limits) return failed(limits.error());
  auto played = play_chained(*entries, problem, options);
  if (!played) return failed(played.error());
  std::map<std::string, Millis> found;
  for (const auto& [name, count] : played->counts) found.emplace(name, millis(count.at_percentile));
  return found;
}

Result<plan::ServingPlan> with_overload(const plan::ServingProblem& problem,
                                        plan::ServingPlan plan) {
  if (plan.rule.dispatch != plan::Dispatch::pooled) return plan;
  const Result<Entries> entries = collect(problem, plan);
  if (!entries) return failed(entries.error());
  if (auto limits = check_limits(*entries, {}); !limits) return failed(limits.error());
  std::vector<OverloadRun> runs;
  for (const auto& [name, entry] : *entries)
    if (!plan::adds_up(*entry.service) && !entry.chained) runs.push_back(overload_run(entry));
  std::ranges::stable_sort(runs, {}, &OverloadRun::requests);
  ServiceWorld world;
  long left = kOverloadRequests;
  for (const OverloadRun& run : runs) {
    constexpr double kLongestSeconds = 1e9;  // that nanoseconds of 63 bits hold, and some more
    const double rate = run.entry->service->rate.value;
    if (static_cast<double>(run.requests()) > kLongestSeconds * rate) continue;  // hardly asked
    const long needed = run.requests() * static_cast<long>(std::size(kOverloads));
    if (left < needed) break;
    left -= needed;
    const auto row =
        std::ranges::find(plan.services, run.entry->service->name, &plan::PlannedService::name);
    if (row == plan.services.end()) continue;
    row->overload.clear();
    OverloadTimes arrivals(*run.entry->service);
    for (const double factor : kOverloads)
      row->overload.push_back({factor, in_time(world, arrivals, run, factor)});
  }
  play_tokens_over(*entries, plan, left);
  return plan;
}

}  // namespace partita::sim
