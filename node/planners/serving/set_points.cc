#include "planners/serving/set_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/index.h"
#include "base/rng.h"
#include "model/model_cache.h"

namespace partita::planners::serving {

namespace {

constexpr int kHalvings = 12;  // of rates
constexpr std::size_t kWarming = 200'000, kPlayed = 400'000;
// Of an instance's time: near saturation what is seen of any number of requests says little.
constexpr double kFullest = 0.9;

std::vector<double> weights_of(const plan::ModelSet& set) {
  std::vector<double> weights;
  for (const plan::SetModel& model : set.models) weights.push_back(model.weight);
  return weights;
}

// One request at a time in one process: they are of many models.
const profile::ProfilePoint* point_of(const plan::FleetEntry& entry, const plan::Service& service,
                                      const hw::MigProfile& shape) {
  const auto found = entry.profiles.find(service.model);
  if (found == entry.profiles.end() || !shape.memory) return nullptr;
  return profile::find_point(found->second, shape.gpcs, 1, 1);
}

// Models in a ring by when they were asked for last; the head is a place of its own.
class Recent {
 public:
  // Begins with the first ones.
  Recent(std::size_t models, std::size_t held) : next_(models + 1), before_(models + 1) {
    there_.assign(models, false);
    next_[models] = before_[models] = models;
    for (std::size_t m = std::min(models, held); m-- > 0;) put_first(m);
    room_ = held - std::min(models, held);
  }
  bool ask(std::size_t model) {  // whether it was there
    const bool there = there_[model];
    if (there) take_out(model);
    if (!there && room_ == 0) take_out(before_.back());
    room_ -= !there && room_ > 0;
    put_first(model);
    return there;
  }

 private:
  void take_out(std::size_t m) {
    next_[before_[m]] = next_[m];
    before_[next_[m]] = before_[m];
    there_[m] = false;
  }
  void put_first(std::size_t m) {
    const std::size_t head = next_.size() - 1, first = next_[head];
    next_[head] = before_[first] = m;
    next_[m] = first;
    before_[m] = head;
    there_[m] = true;
  }
  std::vector<std::size_t> next_, before_;
  std::vector<bool> there_;
  std::size_t room_ = 0;
};

}  // namespace

// Requests of a service on an instance that holds so many models: always the same ones.
class SetTrials {
 public:
  SetTrials(const plan::Service& service, int held) : service_(service) {
    Rng rng(0x5e);
    std::vector<double> until = weights_of(*service.models);
    std::ranges::sort(until, std::greater{});
    std::partial_sum(until.begin(), until.end(), until.begin());
    Recent recent(until.size(), at(held));
    const auto draw = [&] {
      const auto found = std::ranges::upper_bound(until, rng.uniform() * until.back());
      return std::min(at(static_cast<int>(found - until.begin())), until.size() - 1);
    };
    for (std::size_t i = 0; i < kWarming; ++i) recent.ask(draw());
    cold_.reserve(kPlayed);
    gaps_.reserve(kPlayed);
    for (std::size_t i = 0; i < kPlayed; ++i) {
      cold_.push_back(!recent.ask(draw()));
      gaps_.push_back(static_cast<float>(rng.exponential()));
    }
  }

  // see(ms from arrival to answer, cold) of every request.
  template <class See>
  void play(Millis run, Rps rate, See see) const {
    const double load = service_.models->load.value, gap = 1e3 / rate.value;
    double waits = 0;
    for (std::size_t i = 0; i < kPlayed; ++i) {
      const double time = waits + run.value + (cold_[i] ? load : 0);
      see(time, cold_[i]);
      waits = std::max(0.0, time - gap * static_cast<double>(gaps_[i]));
    }
  }
  bool keeps(Millis run, Rps rate) const {
    const double slo = service_.slo.value, promised = service_.models->cold.value;
    const double cold_limit = promised > 0 ? promised : slo;
    long late = 0, cold_late = 0, colds = 0;
    play(run, rate, [&](double time, bool cold) {
      late += time > slo;
      colds += cold;
      cold_late += cold && time > cold_limit;
    });
    const double may = kSpentOfSets * (1 - service_.percentile / 100);
    return static_cast<double>(late) <= may * static_cast<double>(kPlayed) &&
           (promised == 0 || static_cast<double>(cold_late) <= may * static_cast<double>(colds));
  }
  double cold_share() const {
    return static_cast<double>(std::ranges::count(cold_, true)) / static_cast<double>(kPlayed);
  }

 private:
  const plan::Service& service_;
  std::vector<bool> cold_;
  std::vector<float> gaps_;  // of mean 1
};

SetOracle::SetOracle(const plan::ServingProblem& problem) : problem_(problem) {}
SetOracle::~SetOracle() = default;

const SetTrials& SetOracle::trials(const plan::Service& service, int held) {
  std::unique_ptr<SetTrials>& known = trials_[{service.name, held}];
  if (!known) known = std::make_unique<SetTrials>(service, held);
  return *known;
}

Rps SetOracle::most(const plan::Service& service, int held, const profile::ProfilePoint& point) {
  const Millis run = profile::batch_time(point), load = service.models->load;
  const auto [known, fresh] = rates_.try_emplace({{service.name, held}, run.value});
  Rps& rate = known->second;
  if (!fresh) return rate;
  const double cold = model::cold_share(weights_of(*service.models), held);
  const bool hopeless =
      run > service.slo || (run + load > service.slo && cold > 2 * (1 - service.percentile / 100));
  if (hopeless) return rate;
  const SetTrials& played = trials(service, held);
  double low = 0;
  double high = std::min(point.throughput.value,
                         1e3 * kFullest / (run.value + played.cold_share() * load.value));
  if (!played.keeps(run, Rps{high / (1 << kHalvings)})) return rate;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (played.keeps(run, Rps{middle}) ? low : high) = middle;
  }
  return rate = Rps{low};
}

void SetOracle::add_to(PointTable& table, std::size_t entry) {
  const plan::FleetEntry& fleet = problem_.fleet[entry];
  for (std::size_t s = 0; s < problem_.services.size(); ++s) {
    const plan::Service& service = problem_.services[s];
    if (!service.models) continue;
    for (std::size_t k = 0; k < table.profiles.size(); ++k) {
      table.best[s][k].reset();
      const hw::MigProfile& shape = fleet.gpu.profiles[at(table.profiles[k])];
      const profile::ProfilePoint* const point = point_of(fleet, service, shape);
      if (point == nullptr || (!table.gpus.empty() && table.gpus[k] > 1)) continue;
      const int held = plan::held_in(*service.models, *shape.memory);
      const Rps rate = held == 0 ? Rps{0} : most(service, held, *point);
      if (rate.value <= 0) continue;
      table.best[s][k] = BestPoint{1, 1, rate, point->latency, profile::batch_time(*point)};
    }
  }
}

namespace {

const plan::FleetEntry& entry_of(const plan::ServingProblem& problem, const std::string& gpu) {
  const auto entry = std::ranges::find_if(
      problem.fleet, [&](const plan::FleetEntry& one) { return one.gpu.name == gpu; });
  CHECK(entry != problem.fleet.end());
  return *entry;
}

Millis at_percent(std::vector<float>& times, double percent) {
  if (times.empty()) return Millis{0};
  const auto rank = static_cast<std::size_t>(percent / 100 * static_cast<double>(times.size()));
  const auto place = times.begin() + static_cast<std::ptrdiff_t>(std::min(rank, times.size() - 1));
  std::ranges::nth_element(times, place);
  return Millis{*place};
}

}  // namespace

void SetOracle::fill_row(const plan::Service& service, plan::ServingPlan& plan,
                         plan::PlannedService& row) {
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (one.service == service.name) row.planned += one.throughput;
  plan::SetOutlook& outlook = row.set_outlook.emplace();
  outlook.held = static_cast<int>(service.models->models.size());
  for (plan::PlannedGpu& gpu : plan.gpus) {
    const plan::FleetEntry& entry = entry_of(problem_, gpu.model);
    for (plan::PlannedInstance& one : gpu.instances) {
      if (one.service != service.name) continue;
      const hw::MigProfile& shape = entry.gpu.profiles[at(entry.gpu.profile_index(one.profile))];
      const profile::ProfilePoint* const point = point_of(entry, service, shape);
      CHECK(point != nullptr);
      const int held = one.held = plan::held_in(*service.models, *shape.memory);
      const SetTrials& played = trials(service, held);
      std::vector<float> all, colds;
      played.play(profile::batch_time(*point),
                  plan::planning_rate(service) * (one.throughput / row.planned),
                  [&](double time, bool cold) {
                    all.push_back(static_cast<float>(time));
                    if (cold) colds.push_back(static_cast<float>(time));
                  });
      row.predicted_latency = std::max(row.predicted_latency, at_percent(all, service.percentile));
      outlook.cold = std::max(outlook.cold, at_percent(colds, service.percentile));
      outlook.held = std::min(outlook.held, held);
      outlook.cold_share = std::max(outlook.cold_share, played.cold_share());
    }
  }
}

plan::Reason missed_set(const plan::ServingProblem& problem, const plan::Service& service) {
  const std::string subject = "service " + service.name;
  const plan::ModelSet& set = *service.models;
  double largest = 0, cold = 1, run = std::numeric_limits<double>::infinity();
  bool measured = false;
  for (const plan::FleetEntry& entry : problem.fleet)
    for (const hw::MigProfile& shape : entry.gpu.profiles) {
      const profile::ProfilePoint* const point = point_of(entry, service, shape);
      if (shape.memory) largest = std::max(largest, shape.memory->value);
      if (point == nullptr) continue;
      measured = true;
      const int held = plan::held_in(set, *shape.memory);
      if (held == 0) continue;
      cold = std::min(cold, model::cold_share(weights_of(set), held));
      run = std::min(run, profile::batch_time(*point).value);
    }
  if (!measured)
    return {"unknown_model", subject, 0, 0,
            fmt::format("model {} was not measured with batch 1 in one process, as those of a set "
                        "run",
                        service.model)};
  if (!std::isfinite(run))
    return {"memory", subject, largest, set.reserve.value + set.memory.value,
            "MiB that the largest instance has, and that one model needs"};
  const bool cold_alone = set.cold.value > 0 && run + set.load.value > set.cold.value;
  return {"slo", subject, run + (cold_alone ? set.load.value : 0),
          cold_alone ? set.cold.value : service.slo.value,
          fmt::format("no instance keeps it at any rate: a request takes {:.4g} ms, and {:g} ms "
                      "more where its model is loaded first, which is so for {:.3g} % of them at "
                      "least",
                      run, set.load.value, 100 * cold)};
}

}  // namespace partita::planners::serving
