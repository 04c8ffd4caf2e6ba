#include "planners/serving/token_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/index.h"
#include "llm/engine/engine.h"
#include "llm/engine/token_times.h"
#include "plan/digest.h"

namespace partita::planners::serving {
namespace {

constexpr double kSpent = 0.5;  // of the late ones that a percentile allows (pool_oracle.h)
constexpr double kFewestLate = 10;
constexpr int kFewestRequests = 1500, kMostRequests = 60'000;
constexpr int kGlance = 400;  // requests
constexpr int kFills = 6;     // times as many as run at once tell what a full engine serves
constexpr double kFar = 5;
constexpr int kConfirmed = 3;                  // times as many requests confirm what was found
constexpr double kPrecision = 0.02;            // of rates
constexpr int kFirstStep = 4;                  // of kPrecision
constexpr double kLimits[] = {1, 0.75, 0.55};  // of the requests whose steps keep TPOT
constexpr double kLeastShare = 1e-3;           // of the fluid rate that is worth asking for
constexpr double kSmallShare = 0.2;            // of a service's requests
constexpr double kBusiest = 0.97;    // of what an engine serves that is never without work
constexpr double kLeastBusy = 1e-6;  // ms of an engine that a request takes

double allowed_late(const plan::Service& service) { return 1 - service.percentile / 100; }

// Milliseconds of a step of n sequences with mean contexts that computes no prompt.
double step_ms(const plan::Service& service, const profile::TokenEngine& engine, double n) {
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  const profile::StepCost& c = engine.spec.cost;
  return c.of_sequences(n) + c.cached_token * n * mean.context;
}

// The least that a token costs with at most so many at a time: up to where it is crowded each costs
// less the more there are, and from there on either less or more.
double token_ms(const plan::Service& service, const profile::TokenEngine& engine, double most) {
  const double fewer = std::clamp(1.0 * engine.spec.cost.crowded_from, std::min(1.0, most), most);
  return std::min(step_ms(service, engine, most) / most, step_ms(service, engine, fewer) / fewer);
}

}  // namespace

int most_sequences(const plan::Service& service, const profile::TokenEngine& engine) {
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  const double held = mean.context / profile::kBlockTokens;
  return std::max(
      1, static_cast<int>(std::min(1.0 * engine.spec.sequences,
                                   std::max(1.0, static_cast<double>(engine.spec.blocks) / held))));
}

// The milliseconds of a step are a quadratic form of the square root of the sequences, and where it
// is crowded a straight line.
double sequences_in_time(const plan::Service& service, const profile::TokenEngine& engine) {
  const double most = most_sequences(service, engine), limit = service.tokens->tpot.value;
  if (limit <= 0 || step_ms(service, engine, most) <= limit) return most;
  const profile::StepCost& c = engine.spec.cost;
  const double each = c.sequence + c.cached_token * plan::mean_of(*service.tokens).context;
  const double left = std::max(0.0, limit - c.step), root = c.root_sequences;
  double found = std::pow(2 * left / (root + std::sqrt(root * root + 4 * each * left)), 2);
  if (c.crowded > 0 && found > c.crowded_from)
    found = (left + c.crowded * c.crowded_from) / (each + c.crowded);
  return step_ms(service, engine, 1) <= limit ? std::clamp(found, 1.0, most)
                                              : std::min(found, most);
}

// One service on replicas under rates: always the same requests.
class TokenTrials {
 public:
  explicit TokenTrials(const plan::Service& service)
      : service_(service),
        late_(kSpent * allowed_late(service)),
        glance_(service, {.count = kGlance, .seed = 0x70}),
        usual_(service, {.count = count(1), .seed = 0x71}),
        confirming_(service, {.count = count(kConfirmed), .seed = 0x70 + 1U * kConfirmed}) {}

  // No more than may be late are, of all and of the last ones.
  bool holds(const profile::TokenEngine& engine, double rate) {
    if (plan::is_poisson(service_.traffic.arrivals)) {  // what misses by far is seen at once
      const double share = llm::lateness(service_, engine, glance_.at(Rps{rate})).share;
      if (share > kFar * late_ + kFar / kGlance) return false;
    }
    return spent(engine, usual_.at(Rps{rate})) <= 1 &&
           spent(engine, confirming_.at(Rps{rate})) <= 1;
  }
  // What the engine serves of requests that are all there at once, whatever is promised: at higher
  // rates they wait ever longer.
  Rps served(const profile::TokenEngine& engine) {
    const int at_once = engine.spec.sequences * std::max(1, engine.decodes);
    const int requests = std::clamp(kFills * at_once, kFewestRequests, kMostRequests);
    return llm::served_at_most(service_, engine, {.count = requests, .seed = 0x73});
  }
  const plan::Service& service() const { return service_; }

 private:
  int count(int times) const {
    const double needed = times * kFewestLate / late_;
    return static_cast<int>(std::clamp(needed, 1.0 * kFewestRequests, 1.0 * kMostRequests));
  }
  double spent(const profile::TokenEngine& engine, const std::vector<llm::Request>& requests) {
    const llm::Lateness found = llm::lateness(service_, engine, requests);
    return std::max(found.share, found.at_end / 2) / late_;
  }

  const plan::Service service_;
  const double late_;
  llm::ReplicaRequests glance_, usual_, confirming_;
};

namespace {

// What the engine carries with its limit of requests at once, above `beat`; 0: no more than that.
// Rates are tried on rungs below the most that it may be given, first ever longer steps down, then
// in halves: an order that the answers alone tell, so that where fewer are late at every rate, what
// is found is no lower.
Rps find_rate(TokenTrials& trials, const profile::TokenEngine& engine, Rps beat) {
  double most = fluid_rate(trials.service(), engine).value;
  if (beat.value >= most || (beat.value > 0 && !trials.holds(engine, beat.value))) return {};
  most = std::min(most, kBusiest * trials.served(engine).value);
  if (beat.value >= most) return {};
  const auto rung = [&](int down) { return most * std::pow(1 - kPrecision, down); };
  const double least = std::max(beat.value, kLeastShare * most);
  const int last = static_cast<int>(std::log(least / most) / std::log(1 - kPrecision));
  int fails = -1, holds = 0;
  for (int step = kFirstStep; !trials.holds(engine, rung(holds)); step *= 2) {
    if (holds == last) return {};
    fails = holds;
    holds = std::min(holds + step, last);
  }
  while (holds - fails > 1) {
    const int middle = std::midpoint(fails, holds);
    (trials.holds(engine, rung(middle)) ? holds : fails) = middle;
  }
  return Rps{rung(holds)};
}

TokenRate find_rate_and_limit(TokenTrials& trials, profile::TokenEngine engine, Rps beat) {
  const plan::Service& service = trials.service();
  const double in_time = sequences_in_time(service, engine);
  TokenRate best;
  if (in_time < 1) return best;
  std::set<int> tried;
  for (const double share : kLimits) {
    engine.spec.sequences = std::max(1, static_cast<int>(std::lround(share * in_time)));
    if (!tried.insert(engine.spec.sequences).second) continue;
    if (const Rps rate = find_rate(trials, engine, std::max(beat, best.rate)); rate > best.rate)
      best = {engine.spec.sequences, rate, Millis{step_ms(service, engine, engine.spec.sequences)}};
  }
  return best;
}

const hw::MigProfile& whole_of(const hw::GpuModel& gpu) {
  return *std::ranges::max_element(gpu.profiles, {}, &hw::MigProfile::gpcs);
}

}  // namespace

int profile_of(const hw::GpuModel& gpu, const profile::TokenEngine& engine) {
  return gpu.profile_index(engine.mig_profile.empty() ? whole_of(gpu).name : engine.mig_profile);
}

namespace {

// Milliseconds that an engine, or a group with prefill apart, is kept busy by a request on average
// when so many decode at a time: a bound from below. A step computes so many tokens of prompts at
// most, so prompts alone take their steps, too.
double busy_ms(const plan::Service& service, const profile::TokenEngine& engine, double decoding) {
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  const double shared =
      service.tokens->prefix_share * std::min<double>(service.tokens->prefix_tokens, mean.in);
  const double prompt = std::max(1.0, mean.in - shared);
  const profile::EngineSpec& by = engine.prompts_by();
  const double prefill =
      prompt * by.cost.prompt_token + prompt * prompt / 2 * by.cost.prompt_context;
  const double steps = prefill + prompt / by.step_tokens * by.cost.step;
  const double decode = (mean.out - 1) * token_ms(service, engine, decoding);
  const double ms = engine.prefills > 0 ? std::max(steps / engine.prefills, decode / engine.decodes)
                                        : std::max(steps, prefill + decode);
  return std::max(ms, kLeastBusy);
}

}  // namespace

// Sum over steps of n (1 + x (TPOT - T)) bounds the tokens of requests in time for every x >= 0,
// and n / T is concave in n, or falls where it is crowded: so no mix of steps produces more tokens
// per time than the one whose steps last TPOT, or than where n / T is highest. A late share may be
// served in any way, so the others set that bound. But all are served in the end, so that with as
// many at a time as fit there has to be time for all of them. With prefill apart, either kind of
// engines sets a bound.
Rps fluid_rate(const plan::Service& service, const profile::TokenEngine& engine) {
  const double n = sequences_in_time(service, engine);
  if (n < 1) return Rps{0};
  const double in_time = service.percentile / 100;
  return Rps{std::min(1e3 / (busy_ms(service, engine, n) * in_time),
                      1e3 / busy_ms(service, engine, most_sequences(service, engine)))};
}

namespace {

// More even than Poisson's, whatever the draws say.
bool is_even(const plan::Arrivals& arrivals) {
  const auto* const gamma = std::get_if<plan::GammaArrivals>(&arrivals);
  return std::holds_alternative<plan::EvenArrivals>(arrivals) || (gamma && gamma->cv < 1);
}

}  // namespace

// Even arrivals are carried at the rate of Poisson's at least, others at that at most. What a
// replica gets of even ones, when it is a small share at random, is Poisson's but for the draws.
TokenRate TokenOracle::rate(const plan::Service& service, const profile::TokenEngine& engine,
                            Rps beat) {
  if (plan::is_poisson(service.traffic.arrivals)) return simulated(service, engine, beat);
  plan::Service calm = service;
  calm.traffic.arrivals = plan::PoissonArrivals{};
  const TokenRate poisson = simulated(calm, engine, beat);
  if (!is_even(service.traffic.arrivals)) {
    if (poisson.rate <= beat) return {};
    TokenRate own = simulated(service, engine, beat);
    own.rate = std::min(own.rate, poisson.rate);
    return own;
  }
  if (fluid_rate(service, engine) < kSmallShare * plan::planning_rate(service)) return poisson;
  const TokenRate own = simulated(service, engine, std::max(beat, poisson.rate));
  return own.rate > poisson.rate ? own : poisson;
}

TokenRate TokenOracle::simulated(const plan::Service& service, const profile::TokenEngine& engine,
                                 Rps beat) {
  plan::ServingProblem asked;
  asked.services.push_back(service);
  plan::Service& one = asked.services.front();
  one.name.clear();
  one.model.clear();
  one.min_replicas = 1;
  one.spread = false;
  one.avoid.clear();
  if (plan::is_poisson(one.traffic.arrivals)) {
    one.rate = Rps{1};
    one.traffic = {};
  }
  const std::string question = plan::digest(asked);
  const std::string key = question + engine.name.configuration + "/" + engine.mig_profile;
  const auto known = known_.find(key);
  const bool answers =
      known != known_.end() && (known->second.rate.rate.value > 0 || known->second.beaten <= beat);
  if (answers) return known->second.rate;
  Asked& asked_of = plan::is_poisson(one.traffic.arrivals) ? poisson_ : other_;
  if (!asked_of.trials || question != asked_of.question)
    asked_of = {question, std::make_shared<TokenTrials>(service)};
  return known_
      .insert_or_assign(key, Known{find_rate_and_limit(*asked_of.trials, engine, beat), beat})
      .first->second.rate;
}

namespace {

// GPUs that a group may have at most: of an NVLink domain, and of all there are.
int most_grouped(const plan::FleetEntry& entry) {
  std::size_t most = 0;
  for (const std::vector<int>& domain : entry.domains) most = std::max(most, domain.size());
  if (most > 0) return static_cast<int>(most);
  return std::min(entry.linked_gpus(), entry.count.value_or(entry.linked_gpus()));
}

bool usable(const plan::FleetEntry& entry, const profile::TokenEngine& engine) {
  return engine.gpus <= most_grouped(entry) && profile_of(entry.gpu, engine) >= 0;
}

std::vector<const profile::TokenEngine*> usable_engines(const plan::ServingProblem& problem,
                                                        const plan::Service& service) {
  std::vector<const profile::TokenEngine*> all;
  for (const plan::FleetEntry& entry : problem.fleet)
    if (const auto engines = entry.engines.find(service.model); engines != entry.engines.end())
      for (const profile::TokenEngine& engine : engines->second)
        if (usable(entry, engine)) all.push_back(&engine);
  return all;
}

// Percent of the requests that are in time where hardly ever two are there at once.
double alone_in_time(const plan::Service& service,
                     const std::vector<const profile::TokenEngine*>& engines) {
  plan::Service calm = service;
  calm.traffic = {};
  llm::ReplicaRequests requests(calm, {.count = kGlance, .seed = 0x72});
  double late = 1;
  for (const profile::TokenEngine* const engine : engines)
    if (const Rps fluid = fluid_rate(service, *engine); fluid.value > 0)
      late = std::min(late, llm::lateness(calm, *engine, requests.at(fluid * kLeastShare)).share);
  return 100 * (1 - late);
}

}  // namespace

AloneTimes alone_times(const plan::ServingProblem& problem, const plan::Service& service) {
  double least_tpot = std::numeric_limits<double>::infinity(), least_ttft = least_tpot;
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  for (const profile::TokenEngine* const engine : usable_engines(problem, service)) {
    const profile::StepCost& c = engine->prompts_by().cost;
    least_tpot = std::min(least_tpot, step_ms(service, *engine, 1));
    least_ttft = std::min(least_ttft, engine->request_ms + mean.in * engine->request_token_ms +
                                          c.step + mean.in * c.prompt_token +
                                          mean.in * mean.in / 2 * c.prompt_context);
  }
  return {Millis{least_ttft}, Millis{least_tpot}};
}

namespace {

// Every engine of the service's model needs what no node here has.
plan::Reason no_engine(const plan::ServingProblem& problem, const plan::Service& service) {
  const std::string subject = "service " + service.name;
  int smallest = 0, there = 0;  // groups that would do, and GPUs that a group may have
  for (const plan::FleetEntry& entry : problem.fleet) {
    const auto engines = entry.engines.find(service.model);
    if (engines == entry.engines.end()) continue;
    there = std::max(there, most_grouped(entry));
    for (const profile::TokenEngine& engine : engines->second)
      if (profile_of(entry.gpu, engine) >= 0)
        smallest = smallest == 0 ? engine.gpus : std::min(smallest, engine.gpus);
  }
  if (smallest > there)
    return {"fleet_count", subject, 1.0 * there, 1.0 * smallest,
            fmt::format("GPUs of one node that are there, and of the smallest group that model {} "
                        "was measured on",
                        service.model)};
  return {"profile", subject, 0, 1,
          fmt::format("engines of model {} that may be used: all were measured on profiles that no "
                      "GPU here has",
                      service.model)};
}

}  // namespace

namespace {

// What was measured on more GPUs than a node here has, and keeps the promise of a request alone:
// on the fewest GPUs.
std::optional<plan::Reason> too_few_for(const plan::ServingProblem& problem,
                                        const plan::Service& service) {
  std::optional<plan::Reason> reason;
  for (const plan::FleetEntry& entry : problem.fleet) {
    const auto engines = entry.engines.find(service.model);
    if (engines == entry.engines.end()) continue;
    for (const profile::TokenEngine& engine : engines->second) {
      const bool fewer = !reason || engine.gpus < reason->need;
      if (engine.gpus <= most_grouped(entry) || !fewer || fluid_rate(service, engine).value <= 0 ||
          alone_in_time(service, {&engine}) < service.percentile)
        continue;
      reason = {"fleet_count", "service " + service.name, 1.0 * most_grouped(entry),
                1.0 * engine.gpus,
                fmt::format("GPUs of one node that are there, and of the smallest group on which "
                            "model {} keeps {}",
                            service.model, plan::to_string(*service.tokens))};
    }
  }
  return reason;
}

}  // namespace

// The first that explains it: no engine may be used, more GPUs would do, none has room for a
// request, a request alone on the fastest takes too long on average, or too many do.
plan::Reason missed_tokens(const plan::ServingProblem& problem, const plan::Service& service) {
  const std::string subject = "service " + service.name;
  const auto engines = usable_engines(problem, service);
  if (engines.empty()) return no_engine(problem, service);
  if (auto few = too_few_for(problem, service)) return *std::move(few);
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  double room = 0;  // tokens, on the engine that has room for most
  for (const profile::TokenEngine* const engine : engines)
    room = std::max(room, static_cast<double>(engine->spec.blocks) * profile::kBlockTokens);
  if (room < mean.in + mean.out)
    return {"kv", subject, room, mean.in + mean.out,
            fmt::format("tokens of KV cache that the largest engine of model {} has, by what was "
                        "measured, and that a request takes on average",
                        service.model)};
  const AloneTimes alone = alone_times(problem, service);
  const std::string none = fmt::format(
      "no engine of model {} that may be used keeps {} for {:g} % of the requests at "
      "any rate: of a request alone, with tokens as they are on average, TTFT is "
      "{:.4g} ms and TPOT {:.4g} ms by what was learned of the engines",
      service.model, plan::to_string(*service.tokens), service.percentile, alone.ttft.value,
      alone.tpot.value);
  const auto too_long = [](Millis takes, Millis limit) { return limit.value > 0 && takes > limit; };
  if (too_long(alone.tpot, service.tokens->tpot))
    return {"slo", subject, alone.tpot.value, service.tokens->tpot.value, none};
  if (too_long(alone.ttft, service.tokens->ttft))
    return {"slo", subject, alone.ttft.value, service.tokens->ttft.value, none};
  const double in_time = alone_in_time(service, engines);
  return {"slo", subject, in_time, service.percentile,
          fmt::format("{}, and {:.4g} % of requests that are alone are in time", none, in_time)};
}

TokenColumns::TokenColumns(const plan::ServingProblem& problem, TokenOracle& oracle,
                           bool all_groups)
    : problem_(problem), all_groups_(all_groups) {
  for (const plan::FleetEntry& entry : problem.fleet) {
    std::set<int> groups;
    std::vector<Cells>& of_entry = cells_.emplace_back();
    for (const plan::Service& service : problem.services) {
      of_entry.push_back(service.tokens ? cells_of(service, entry, oracle) : Cells{});
      for (const auto& [column, cell] : of_entry.back())
        if (column.gpus > 1) groups.insert(column.gpus);
    }
    group_sizes_.emplace_back(groups.begin(), groups.end());
  }
}

// Small groups first: a larger one that carries no more per GPU is never needed, and its fluid rate
// can tell so before anything is simulated.
TokenColumns::Cells TokenColumns::cells_of(const plan::Service& service,
                                           const plan::FleetEntry& entry, TokenOracle& oracle) {
  Cells cells;
  const auto found = entry.engines.find(service.model);
  if (found == entry.engines.end()) return cells;
  std::vector<std::pair<Rps, const profile::TokenEngine*>> engines;
  for (const profile::TokenEngine& engine : found->second)
    engines.emplace_back(fluid_rate(service, engine), &engine);
  std::ranges::stable_sort(engines, [](const auto& a, const auto& b) {
    return std::pair(a.second->gpus, -a.first.value) < std::pair(b.second->gpus, -b.first.value);
  });
  double best_each = 0;  // per GPU, of whole ones
  for (const auto& [fluid, engine] : engines) {
    const bool whole = engine->mig_profile.empty();
    const double most = whole && !all_groups_ ? best_each * engine->gpus : 0;
    if (!usable(entry, *engine) || fluid.value <= most) continue;
    Cell& cell = cells[{profile_of(entry.gpu, *engine), engine->gpus}];
    cell.fluid = std::max(cell.fluid, fluid);
    if (cell.engine == nullptr) cell.engine = engine;  // until one is found that keeps the promise
    if (fluid <= cell.best.rate) continue;
    const Rps beat{std::max(cell.best.rate.value, most)};
    const TokenRate rate = oracle.rate(service, *engine, beat);
    if (rate.rate <= cell.best.rate) continue;
    cell.best = rate;
    cell.engine = engine;
    if (whole) best_each = std::max(best_each, rate.rate.value / engine->gpus);
  }
  return cells;
}

void TokenColumns::add_to(PointTable& table, std::size_t entry, TokenSize size) const {
  const hw::GpuModel& gpu = problem_.fleet[entry].gpu;
  if (table.gpus.empty()) {
    table.gpus.assign(table.profiles.size(), 1);
    table.profiles.insert(table.profiles.end(), group_sizes_[entry].size(), profile_of(gpu, {}));
    table.gpus.insert(table.gpus.end(), group_sizes_[entry].begin(), group_sizes_[entry].end());
  }
  table.engines.assign(problem_.services.size(), {});
  for (std::size_t s = 0; s < problem_.services.size(); ++s) {
    table.best[s].resize(table.profiles.size());
    table.engines[s].assign(table.profiles.size(), nullptr);
    if (!problem_.services[s].tokens) continue;
    for (std::size_t k = 0; k < table.profiles.size(); ++k) {
      const Cell* const cell = cell_at(entry, s, {table.profiles[k], table.gpus[k]});
      table.best[s][k].reset();
      if (cell == nullptr) continue;
      const Rps rate = size == TokenSize::fluid ? cell->fluid : cell->best.rate;
      if (rate.value <= 0) continue;
      table.best[s][k] =
          BestPoint{std::max(1, cell->best.sequences), 1, rate, cell->best.step, cell->best.step};
      table.engines[s][k] = cell->engine;
    }
  }
}

const TokenColumns::Cell* TokenColumns::cell_at(std::size_t entry, std::size_t service,
                                                const Column& column) const {
  const auto found = cells_[entry][service].find(column);
  return found == cells_[entry][service].end() ? nullptr : &found->second;
}

namespace {

// What is late first when more comes than a replica carries, and what those who wait wait for.
plan::TokenLimit limit_of(const plan::Service& service, const profile::TokenEngine& engine,
                          int measured, Rps carried) {
  constexpr double kMore = 1.25, kMost = 4, kFull = 0.97;
  llm::ReplicaTimes crowded;
  for (double more = kMore; more < kMost && crowded.late <= allowed_late(service); more *= kMore)
    crowded = llm::replica_times(service, engine,
                                 {.rate = carried * more, .count = kFewestRequests, .seed = 8});
  if (crowded.late_tpot >= std::max(crowded.late_ttft, crowded.late_e2e))
    return plan::TokenLimit::tpot;
  if (crowded.most_cached > kFull || crowded.preemptions > 0) return plan::TokenLimit::kv;
  if (crowded.most_sequences >= engine.spec.sequences) {
    const double tpot = service.tokens->tpot.value;
    const bool all = tpot <= 0 || step_ms(service, engine, measured) <= tpot;
    return all ? plan::TokenLimit::sequences : plan::TokenLimit::tpot;  // fewer for its sake
  }
  return crowded.late_ttft >= crowded.late_e2e ? plan::TokenLimit::ttft : plan::TokenLimit::e2e;
}

// Instances of one kind of a service, as a plan has them.
struct TokenReplicas {
  const plan::PlannedInstance* instance = nullptr;
  const plan::FleetEntry* entry = nullptr;
  double gpus = 0, rate = 0;
};

std::vector<TokenReplicas> replicas_of(const plan::ServingProblem& problem,
                                       const plan::ServingPlan& plan, const std::string& service) {
  std::map<std::tuple<std::string, std::string, int, double>, TokenReplicas> kinds;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    const auto entry = std::ranges::find_if(
        problem.fleet, [&](const plan::FleetEntry& one) { return one.gpu.name == gpu.model; });
    for (const plan::PlannedInstance& one : gpu.instances) {
      if (one.service != service) continue;
      TokenReplicas& kind = kinds[{gpu.model, one.profile + one.engine.configuration, one.batch,
                                   one.throughput.value}];
      const auto profile = at(entry->gpu.profile_index(one.profile));
      kind.instance = &one;
      kind.entry = &*entry;
      kind.gpus += 1.0 * entry->gpu.profiles[profile].gpcs / whole_of(entry->gpu).gpcs;
      kind.rate += one.throughput.value;
    }
  }
  std::vector<TokenReplicas> all;
  for (const auto& [key, kind] : kinds) all.push_back(kind);
  return all;
}

// A fleet's prices are of one kind of GPU only, and 1, where nobody says them.
bool priced(const plan::ServingProblem& problem) {
  return problem.goal == plan::Goal::cost ||
         std::ranges::any_of(problem.fleet,
                             [](const plan::FleetEntry& one) { return one.price != 1; });
}

}  // namespace

void fill_token_row(const plan::ServingProblem& problem, const plan::Service& service,
                    plan::ServingPlan& plan, plan::PlannedService& row) {
  const std::vector<TokenReplicas> replicas = replicas_of(problem, plan, service.name);
  for (const TokenReplicas& kind : replicas) row.planned += Rps{kind.rate};
  plan::TokenOutlook& outlook = row.outlook.emplace();
  outlook.tokens_per_s = service.rate.value * plan::mean_of(*service.tokens).out;
  double price = 0, most = 0;
  for (const TokenReplicas& kind : replicas) {
    const Rps carried = kind.instance->group * kind.instance->throughput;
    const Rps load = plan::planning_rate(service) * (carried / row.planned);
    const profile::TokenEngine* const engine =
        plan::engine_of(problem, kind.entry->gpu.name, service, *kind.instance);
    CHECK(engine != nullptr);
    profile::TokenEngine limited = *engine;
    limited.spec.sequences = kind.instance->batch;
    const llm::ReplicaTimes times =
        llm::replica_times(service, limited, {.rate = load, .count = kFewestRequests, .seed = 7});
    row.predicted_latency = std::max(row.predicted_latency, times.e2e);
    outlook.kv_used = std::max(outlook.kv_used, times.most_cached);
    outlook.gpus += kind.gpus;
    price += kind.gpus * kind.entry->price;
    if (kind.rate > most)
      outlook.limit = limit_of(service, limited, engine->spec.sequences, carried);
    most = std::max(most, kind.rate);
  }
  if (priced(problem)) outlook.cost_per_million = price * 1e6 / (3600 * outlook.tokens_per_s);
}

}  // namespace partita::planners::serving
