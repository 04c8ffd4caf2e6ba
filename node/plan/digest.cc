#include "plan/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "base/index.h"
#include "base/rng.h"

namespace partita::plan {
namespace {

// A hash of what is added, in the order in which it is; every part says how long it is.
class Digester {
 public:
  Digester& add(std::uint64_t word) {
    state_ = mix64(state_ ^ word) + 0x9e3779b97f4a7c15ULL;
    return *this;
  }
  Digester& add(std::int64_t number) { return add(static_cast<std::uint64_t>(number)); }
  Digester& add(int number) { return add(std::int64_t{number}); }
  Digester& add(bool flag) { return add(std::uint64_t{flag}); }
  Digester& add(double number) { return add(std::bit_cast<std::uint64_t>(number + 0.0)); }
  Digester& add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) add(std::uint64_t{static_cast<unsigned char>(c)});
    return *this;
  }
  Digester& add(std::vector<std::string> names) {
    std::ranges::sort(names);
    add(std::uint64_t{names.size()});
    for (const std::string& name : names) add(std::string_view(name));
    return *this;
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0x50617274697461ULL;
};

template <class T, class Key>
std::vector<const T*> sorted_by(const std::vector<T>& items, Key key) {
  std::vector<const T*> sorted;
  for (const T& item : items) sorted.push_back(&item);
  std::ranges::sort(sorted, {}, [&](const T* item) { return key(*item); });
  return sorted;
}

void add_numbers(Digester& out, const std::vector<double>& numbers) {
  out.add(std::uint64_t{numbers.size()});
  for (const double number : numbers) out.add(number);
}

// What tells one law from another of its kind.
struct LawNumbers {
  Digester& out;
  void operator()(const PoissonArrivals&) const {}
  void operator()(const EvenArrivals&) const {}
  void operator()(const GammaArrivals& gamma) const { out.add(gamma.cv); }
  void operator()(const BurstArrivals& burst) const { add(burst.on_off); }
  void operator()(const MmppArrivals& mmpp) const { add(mmpp.on_off); }
  void operator()(const TraceArrivals& recorded) const {
    if (!recorded.trace) {
      out.add(std::string_view(recorded.file)).add(std::string_view(recorded.row));
      return;
    }
    add_numbers(out, recorded.trace->times_s);
    add_numbers(out, recorded.trace->per_minute);
  }
  void add(const OnOff& on_off) const {
    out.add(on_off.peak).add(on_off.seconds).add(on_off.every);
  }
};

// Nothing for steady Poisson traffic without headroom, so that older plans keep their digest.
void add_traffic(Digester& out, const Traffic& traffic) {
  if (traffic == Traffic{}) return;
  out.add(std::string_view("traffic")).add(traffic.headroom);
  out.add(std::uint64_t{traffic.arrivals.index()});
  std::visit(LawNumbers{out}, traffic.arrivals);
  out.add(std::uint64_t{traffic.rates.size()});
  for (const RateAt& entry : traffic.rates) out.add(entry.minute).add(entry.rate.value);
}

void add_tokens(Digester& out, const Tokens& tokens) {
  out.add(std::uint64_t{tokens.index()}).add(mean_of(tokens));
  if (const auto* law = std::get_if<LognormalTokens>(&tokens)) out.add(law->cv);
  if (const auto* list = std::get_if<ListedTokens>(&tokens))
    for (const int one : *list) out.add(one);
}

void add_tokens(Digester& out, const TokenTerms& tokens) {
  out.add(std::string_view("tokens")).add(tokens.ttft.value).add(tokens.tpot.value);
  out.add(tokens.prefix_share).add(tokens.prefix_tokens);
  if (const auto* pair = std::get_if<TokenPair>(&tokens.lengths)) {
    add_tokens(out, pair->in);
    add_tokens(out, pair->out);
    return;
  }
  const auto& trace = std::get<TokenTrace>(tokens.lengths);
  if (trace.in_times != 1 || trace.out_times != 1) out.add(trace.in_times).add(trace.out_times);
  if (!trace.requests) out.add(std::string_view(trace.file));
  if (!trace.requests) return;
  for (const TracedRequest& one : *trace.requests) out.add(one.in).add(one.out);
}

void add_models(Digester& out, const ModelSet& set) {
  out.add(std::string_view("models")).add(std::uint64_t{set.models.size()});
  for (const SetModel* one : sorted_by(
           set.models, [](const SetModel& model) -> const auto& { return model.name; }))
    out.add(std::string_view(one->name)).add(one->weight);
  out.add(set.memory.value).add(set.reserve.value).add(set.load.value).add(set.cold.value);
}

void add_service(Digester& out, const Service& service) {
  out.add(std::string_view(service.name)).add(std::string_view(service.model));
  out.add(service.rate.value).add(service.slo.value).add(service.percentile);
  out.add(service.min_replicas).add(service.spread).add(service.avoid);
  add_traffic(out, service.traffic);
  if (service.tokens) add_tokens(out, *service.tokens);
  if (service.models) add_models(out, *service.models);
}

void add_engine(Digester& out, const profile::TokenEngine& engine) {
  const profile::StepCost& c = engine.spec.cost;
  out.add(std::string_view(engine.name.configuration)).add(std::string_view(engine.mig_profile));
  out.add(engine.gpus).add(engine.spec.sequences).add(engine.spec.blocks);
  out.add(engine.spec.step_tokens).add(engine.prefills).add(engine.decodes);
  out.add(engine.prefill_units).add(engine.decode_units);
  for (const double cost :
       {c.step, c.sequence, c.root_sequences, c.cached_token, c.prompt_token, c.prompt_context,
        engine.request_ms, engine.request_token_ms, engine.move_token_ms})
    out.add(cost);
  if (c.mixed > 0) out.add(c.mixed);
  if (c.crowded > 0) out.add(c.crowded).add(c.crowded_from);
}

void add_points(Digester& out, const FleetEntry& entry, const std::vector<std::string>& models) {
  out.add(std::string_view(entry.gpu.name));
  for (const std::string& model : models) {
    if (const auto engines = entry.engines.find(model); engines != entry.engines.end())
      for (const profile::TokenEngine& engine : engines->second) add_engine(out, engine);
    const auto found = entry.profiles.find(model);
    if (found == entry.profiles.end()) continue;
    const auto points = sorted_by(found->second.points, [](const profile::ProfilePoint& point) {
      return std::tuple(point.gpcs, point.processes, point.batch);
    });
    out.add(std::string_view(model)).add(std::uint64_t{points.size()});
    for (const profile::ProfilePoint* point : points) {
      out.add(point->gpcs).add(point->processes).add(point->batch);
      out.add(point->throughput.value).add(point->latency.value);
      out.add(point->memory ? point->memory->value : -1);
      if (point->predicted()) out.add(std::string_view(*point->learned_on));
    }
  }
}

}  // namespace

std::string digest(const ServingProblem& problem) {
  Digester out;
  std::vector<std::string> models;
  for (const Service* service : sorted_by(
           problem.services, [](const Service& s) -> const auto& { return s.name; })) {
    add_service(out, *service);
    models.push_back(service->model);
  }
  std::ranges::sort(models);
  models.erase(std::unique(models.begin(), models.end()), models.end());
  out.add(std::string_view(to_string(problem.rule)));
  // The rule's usual server says nothing, so that older plans keep their digest.
  const bool queues = problem.rule.kind == SloRule::Kind::queueing;
  if (problem.rule.dispatch != (queues ? Dispatch::paced : Dispatch::pooled))
    out.add(std::string_view("dispatch")).add(std::string_view(to_string(problem.rule.dispatch)));
  if (problem.survive > 0) out.add(std::string_view("survive")).add(problem.survive);
  for (const FleetEntry* entry : sorted_by(
           problem.fleet, [](const FleetEntry& one) -> const auto& { return one.gpu.name; }))
    add_points(out, *entry, models);
  return out.text();
}

std::string digest(const BatchProblem& problem) {
  Digester out;
  for (const int model : problem.gpus) out.add(std::string_view(problem.models[at(model)].name));
  std::vector<std::size_t> models;  // by name
  for (std::size_t m = 0; m < problem.models.size(); ++m) models.push_back(m);
  std::ranges::sort(models, {}, [&](std::size_t m) { return problem.models[m].name; });
  for (const Task* task : sorted_by(
           problem.tasks, [](const Task& one) -> const auto& { return one.name; })) {
    out.add(std::string_view(task->name)).add(task->release).add(task->after);
    for (const std::size_t m : models)
      for (const Nanos time : task->times[m].by_gpcs) out.add(time);
  }
  return out.text();
}

std::string digest(const KernelProblem& problem) {
  Digester out;
  out.add(problem.total_units).add(problem.switches).add(problem.switch_cost);
  out.add(std::string_view(to_string(problem.overlap)));
  for (const KernelWorker& worker : problem.workers) {
    out.add(std::string_view(worker.name)).add(std::uint64_t{worker.times.units.size()});
    for (const int units : worker.times.units) out.add(units);
    out.add(std::uint64_t{worker.times.time.size()});
    for (const double time : worker.times.time) out.add(time);
  }
  return out.text();
}

std::string digest(const PowerProblem& problem) {
  Digester out;
  out.add(std::string_view("power")).add(problem.table.idle.value);
  for (const int units : problem.table.units_in) out.add(units);
  for (const ClockIdle& clock : problem.table.clocks)
    out.add(clock.clock.value).add(clock.active_idle.value);
  std::vector<std::string> models;
  for (const Terms* service : sorted_by(
           problem.services, [](const Terms& s) -> const auto& { return s.name; })) {
    out.add(std::string_view(service->name)).add(std::string_view(service->model));
    out.add(service->rate.value).add(service->slo.value).add(service->percentile);
    models.push_back(service->model);
  }
  std::ranges::sort(models);
  models.erase(std::unique(models.begin(), models.end()), models.end());
  for (const std::string& name : models) {
    const ModelResponse* model = problem.table.find(name);
    if (!model) continue;
    out.add(std::string_view(name)).add(std::uint64_t{model->points.size()});
    for (const PowerPoint& point : model->points) {
      out.add(point.clock.value).add(point.units).add(point.batch);
      out.add(point.p95.value).add(point.max_rate.value).add(point.power.value);
    }
  }
  out.add(std::string_view(to_string(problem.gating)));
  return out.add(std::string_view(to_string(problem.promise))).text();
}

}  // namespace partita::plan
