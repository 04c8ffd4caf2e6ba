#include "verify/set_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "base/rng.h"

namespace partita::verify {
namespace {

constexpr long kLeastPlayed = 600'000, kMostPlayed = 2'000'000, kLatePlayed = 4'000;
constexpr double kColdSlack = 0.05;  // of the share of cold starts that is stated
constexpr double kDoubt = 3;         // standard deviations of a count

// The models that are loaded, the one asked for last in front.
class Loaded {
 public:
  // As they are when all were asked for at equal distances: the most wanted ones.
  Loaded(const plan::ModelSet& set, int held) : at_(set.models.size(), order_.end()), held_(held) {
    std::vector<std::size_t> by_weight(set.models.size());
    std::iota(by_weight.begin(), by_weight.end(), std::size_t{0});
    std::ranges::stable_sort(by_weight, [&](std::size_t a, std::size_t b) {
      return set.models[a].weight > set.models[b].weight;
    });
    by_weight.resize(std::min(by_weight.size(), static_cast<std::size_t>(held)));
    for (const std::size_t model : by_weight) at_[model] = order_.insert(order_.end(), model);
  }
  // Whether it had to be loaded.
  bool ask(std::size_t model) {
    if (at_[model] != order_.end()) {
      order_.splice(order_.begin(), order_, at_[model]);
      return false;
    }
    if (order_.size() == static_cast<std::size_t>(held_)) {
      at_[order_.back()] = order_.end();
      order_.pop_back();
    }
    at_[model] = order_.insert(order_.begin(), model);
    return true;
  }

 private:
  std::list<std::size_t> order_;
  std::vector<std::list<std::size_t>::iterator> at_;
  int held_;
};

// Draws models by weight.
class Wanted {
 public:
  explicit Wanted(const plan::ModelSet& set) {
    for (const plan::SetModel& model : set.models)
      until_.push_back((until_.empty() ? 0 : until_.back()) + model.weight);
  }
  std::size_t draw(Rng& rng) const {
    const auto found = std::ranges::upper_bound(until_, rng.uniform() * until_.back());
    return std::min(static_cast<std::size_t>(found - until_.begin()), until_.size() - 1);
  }

 private:
  std::vector<double> until_;
};

double at_percent(std::vector<float>& values, double percent) {
  if (values.empty()) return 0;
  const auto rank = std::min(
      values.size() - 1,
      static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(values.size()))));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::ranges::nth_element(values, place);
  return *place;
}

// No more than may be, as far as so many can tell.
bool few_enough(double late, double all, double may) {
  return late <= may * all + kDoubt * std::sqrt(may * all);
}

}  // namespace

SetVerdict judge_set(const plan::Terms& service, const SetLoad& load) {
  const plan::ModelSet& set = *service.models;
  const double may = 1 - service.percentile / 100;
  const auto requests = std::clamp(static_cast<long>(kLatePlayed / may), kLeastPlayed, kMostPlayed);
  const double gap = 1e3 / load.rate.value;
  const bool all_held = static_cast<std::size_t>(load.held) >= set.models.size();
  Loaded loaded(set, load.held);
  const Wanted wanted(set);
  Rng rng(0x5e7);
  std::vector<float> whole, cold_whole;
  double waits = 0, busy = 0;
  long late = 0, cold_late = 0;
  for (long i = -requests / 2; i < requests; ++i) {
    const bool cold = !all_held && loaded.ask(wanted.draw(rng));
    const double takes = load.run.value + (cold ? set.load.value : 0), time = waits + takes;
    if (i >= 0) {
      busy += takes;
      late += time > service.slo.value;
      whole.push_back(static_cast<float>(time));
      if (cold) cold_late += set.cold.value > 0 && time > set.cold.value;
      if (cold) cold_whole.push_back(static_cast<float>(time));
    }
    waits = std::max(0.0, time - gap * rng.exponential());
  }
  SetVerdict verdict;
  const auto all = static_cast<double>(requests), colds = static_cast<double>(cold_whole.size());
  verdict.stable = busy / all < gap;
  verdict.late = static_cast<double>(late) / all;
  verdict.cold = colds / all;
  verdict.cold_late = colds > 0 ? static_cast<double>(cold_late) / colds : 0;
  verdict.holds = verdict.stable && verdict.late <= may &&
                  few_enough(static_cast<double>(cold_late), colds, may);
  verdict.whole = Millis{at_percent(whole, service.percentile)};
  verdict.cold_whole = Millis{at_percent(cold_whole, service.percentile)};
  return verdict;
}

namespace {

void report_part(const plan::Terms& service, const SetPart& part, const SetVerdict& verdict,
                 Findings& findings) {
  if (!verdict.stable)
    findings.report("overload", part.name, part.load.rate.value, part.load.rate.value,
                    "req/s arriving, which it cannot carry with the models that it has to load");
  else if (!verdict.holds)
    findings.report(
        "slo", "service " + service.name, 100 * (1 - verdict.late), service.percentile,
        fmt::format("percent in time on {} at {:.4g} req/s ({:.3g} % find their model not loaded, "
                    "of these {:.3g} % end within {:g} ms), and wanted",
                    part.name, part.load.rate.value, 100 * verdict.cold,
                    100 * (1 - verdict.cold_late), service.models->cold.value));
}

// What a row states against what was played of one instance.
void check_outlook(const plan::PlannedService& row, const SetVerdict& verdict, int held,
                   Findings& findings) {
  const auto wrong = [&](const char* what, double stated, double right) {
    findings.report("service_row", fmt::format("service {} {}", row.name, what), stated, right,
                    fmt::format("stated, and as played, p{:g}", row.percentile));
  };
  const double stated = row.predicted_latency.value;
  if (std::isfinite(stated) && stated * kPredictionFactor < verdict.whole.value)
    wrong("predicted_latency_ms", stated, verdict.whole.value);
  if (!row.set_outlook) return wrong("models_outlook", 0, held);
  const plan::SetOutlook& outlook = *row.set_outlook;
  if (outlook.held > held) wrong("held", outlook.held, held);
  if (outlook.cold.value * kPredictionFactor < verdict.cold_whole.value)
    wrong("cold_ms", outlook.cold.value, verdict.cold_whole.value);
  if (verdict.cold > outlook.cold_share * (1 + kColdSlack) + kColdSlack * kColdSlack)
    wrong("cold_share", outlook.cold_share, verdict.cold);
}

}  // namespace

void check_set_room(const plan::ModelSet& set, const plan::PlannedInstance& planned, Mib there,
                    const std::string& name, Findings& findings) {
  constexpr double kSame = 1e-9;  // relative
  const double needed = set.reserve.value + planned.held * set.memory.value;
  if (needed > there.value * (1 + kSame) || planned.held < 1)
    findings.report(
        "memory", name, there.value, needed,
        fmt::format("MiB that the instance has, and that {} models of the set need", planned.held));
  if (planned.batch != 1 || planned.processes != 1)
    findings.report("processes", name, planned.batch * planned.processes, 1,
                    "requests of a set of models run one at a time");
}

void check_set_parts(const plan::Terms& service, const plan::PlannedService* row,
                     const std::vector<SetPart>& parts, Findings& findings) {
  std::set<std::tuple<double, double, int>> known;
  for (const SetPart& part : parts) {
    const SetLoad& load = part.load;
    if (!known.insert({load.rate.value, load.run.value, load.held}).second) continue;
    const SetVerdict verdict = judge_set(service, load);
    report_part(service, part, verdict, findings);
    if (row != nullptr) check_outlook(*row, verdict, load.held, findings);
  }
}

}  // namespace partita::verify
