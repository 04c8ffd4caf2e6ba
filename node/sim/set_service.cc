#include "sim/set_service.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"
#include "sim/histogram.h"

namespace partita::sim {
namespace {

constexpr double kNanosOfMs = 1e6;

// Models by when they were asked for last.
class HeldModels {
 public:
  HeldModels(const std::vector<std::size_t>& by_weight, int held)
      : asked_(by_weight.size(), 0), held_(static_cast<std::size_t>(held)) {
    for (std::size_t i = 0; i < std::min(held_, by_weight.size()); ++i)
      touch(by_weight[i], -static_cast<long>(i) - 1);
  }
  // Whether it has to be loaded; `turn` ascends from 1.
  bool ask(std::size_t model, long turn) {
    const bool cold = asked_[model] == 0;
    if (!cold) there_.erase({asked_[model], model});
    if (cold && there_.size() == held_) {
      asked_[there_.begin()->second] = 0;
      there_.erase(there_.begin());
    }
    touch(model, turn);
    return cold;
  }

 private:
  void touch(std::size_t model, long turn) {
    asked_[model] = turn;
    there_.emplace(turn, model);
  }
  std::vector<long> asked_;  // when; 0: not held
  std::set<std::pair<long, std::size_t>> there_;
  std::size_t held_;
};

struct Playing {
  HeldModels models;
  double run_ns = 0, free_ns = 0, busy_ns = 0;
};

std::vector<std::size_t> by_weight(const plan::ModelSet& set) {
  std::vector<std::size_t> order(set.models.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return set.models[a].weight > set.models[b].weight;
  });
  return order;
}

// One of those that are idle, else the one that is so first.
Playing& next_of(std::vector<Playing>& all, double now, Rng& rng) {
  const auto idle =
      std::ranges::count_if(all, [&](const Playing& one) { return one.free_ns <= now; });
  if (idle == 0) return *std::ranges::min_element(all, {}, &Playing::free_ns);
  auto left = rng.below(static_cast<std::uint64_t>(idle));
  for (Playing& one : all)
    if (one.free_ns <= now && left-- == 0) return one;
  CHECK(false);
}

}  // namespace

SetOutcome play_set(const plan::Service& service, const std::vector<SetInstance>& instances,
                    SetRun run) {
  const plan::ModelSet& set = *service.models;
  const std::vector<std::size_t> order = by_weight(set);
  std::vector<double> until;
  for (const plan::SetModel& model : set.models)
    until.push_back((until.empty() ? 0 : until.back()) + model.weight);
  std::vector<Playing> playing;
  for (const SetInstance& one : instances)
    playing.push_back({{order, one.held}, one.run.value * kNanosOfMs});
  SetOutcome outcome;
  ServiceReport& report = outcome.report;
  report.name = service.name;
  SetTimes& seen = report.models.emplace();
  LatencyHistogram all, cold;
  long in_time = 0, cold_in_time = 0;
  for (long turn = 1;; ++turn) {
    const plan::Nanos time = run.arrivals.next();
    if (time >= run.end) break;
    ++outcome.events;
    const bool counts = time >= run.warmup;
    report.offered += counts;
    if (playing.empty()) continue;
    const auto now = static_cast<double>(time);
    const auto drawn = std::ranges::upper_bound(until, run.rng.uniform() * until.back());
    const auto model = std::min(static_cast<std::size_t>(drawn - until.begin()), until.size() - 1);
    Playing& one = next_of(playing, now, run.rng);
    const bool loads = one.models.ask(model, turn);
    const double takes = one.run_ns + (loads ? set.load.value * kNanosOfMs : 0);
    const double begin = std::max(one.free_ns, now);
    one.free_ns = begin + takes;
    const auto from = static_cast<double>(run.warmup), to = static_cast<double>(run.end);
    one.busy_ns += std::max(0.0, std::min(one.free_ns, to) - std::max(begin, from));
    ++outcome.events;
    if (!counts) continue;
    const auto latency = static_cast<plan::Nanos>(std::llround(one.free_ns - now));
    const auto within = [&](Millis limit) {
      return static_cast<double>(latency) <= limit.value * kNanosOfMs;
    };
    all.add(latency);
    ++report.completed;
    in_time += within(service.slo);
    if (!loads) continue;
    cold.add(latency);
    cold_in_time += within(set.cold.value > 0 ? set.cold : service.slo);
  }
  const auto ms = [](plan::Nanos time) { return Millis{static_cast<double>(time) / kNanosOfMs}; };
  const auto share = [](long part, long whole) {
    return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
  };
  report.slo_attainment = share(in_time, report.offered);
  report.p50 = ms(all.percentile(50));
  report.p95 = ms(all.percentile(95));
  report.p99 = ms(all.percentile(99));
  seen.cold = cold.count();
  seen.cold_in_time = share(cold_in_time, cold.count());
  seen.cold_p50 = ms(cold.percentile(50));
  seen.cold_p99 = ms(cold.percentile(99));
  for (const Playing& one : playing)
    outcome.activity.push_back(one.busy_ns / static_cast<double>(run.end - run.warmup));
  return outcome;
}

}  // namespace partita::sim
