#include "sim/batch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <queue>

#include "base/check.h"
#include "base/index.h"
#include "sim/batch_steps.h"
#include "sim/engine.h"

namespace partita::sim {
namespace {

// Simulated time ends here rather than overflow; nothing realistic comes near.
constexpr Nanos kEndOfTime = INT64_MAX / 2;

// Factors of mean 1: lognormal. Two draws make two normal numbers, of which one waits.
class Stretch {
 public:
  Stretch(Rng rng, double spread) : rng_(rng), sigma_(std::sqrt(std::log1p(spread * spread))) {}

  double next() {
    if (sigma_ == 0) return 1;
    return std::exp(sigma_ * normal() - sigma_ * sigma_ / 2);
  }

 private:
  double normal() {
    if (waiting_) {
      waiting_ = false;
      return spare_;
    }
    const double radius = std::sqrt(2 * rng_.exponential());
    const double angle = 2 * std::numbers::pi * rng_.uniform();
    waiting_ = true;
    spare_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

  Rng rng_;
  double sigma_;
  bool waiting_ = false;
  double spare_ = 0;
};

Nanos scaled(Nanos time, double factor) {
  const double product = static_cast<double>(time) * factor;
  if (factor == 1) return time;
  return product < static_cast<double>(kEndOfTime) ? std::llround(product) : kEndOfTime;
}

// One run after the other of the same steps. All that happens at one time is taken in before a
// reconfigurer chooses; see batch.h for how.
class Player {
 public:
  Player(const Steps& steps, const BatchOptions& options) : steps_(steps) {
    for (std::size_t s = 0; s < steps.steps.size(); ++s) {
      const Step& step = steps.steps[s];
      const double spread = step.gpu < 0 ? options.spread : options.reconfiguration_spread;
      stretches_.emplace_back(component_rng(options.seed, step.stream), spread);
    }
    ends_.resize(steps.steps.size());
    gpus_.resize(steps.first_op.size() - 1);
  }

  // Returns the makespan; end() tells the rest.
  Nanos play() {
    reset();
    while (!queue_.empty()) {
      const Event event = queue_.pop();
      if (event.kind == kStepEnds) {
        step_ended(static_cast<int>(event.subject), event.time);
      } else if (event.kind == kTaskBegins) {
        begin(static_cast<int>(event.subject), event.time);
      } else {
        serve(static_cast<int>(event.subject), event.time);
      }
    }
    CHECK(left_ == 0);
    return *std::max_element(ends_.begin(), ends_.begin() + steps_.tasks);
  }

  Nanos end(int step) const { return ends_[at(step)]; }
  long events() const { return events_; }
  std::uint64_t log_hash() const { return log_.hash(); }

 private:
  enum Kind : std::uint32_t { kStepEnds, kTaskBegins, kServe };

  using Ranks = std::priority_queue<int, std::vector<int>, std::greater<>>;
  struct Gpu {
    Ranks ready;  // ranks of reconfigurations that could begin
    std::vector<bool> begun;
    int first = 0;  // the first rank that has not begun
    bool busy = false;
    Nanos served = -1;  // the latest time for which a kServe was pushed
  };

  void reset() {
    queue_.clear();
    waits_.clear();
    for (const Step& step : steps_.steps) waits_.push_back(step.waits);
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      gpus_[g] = {};
      gpus_[g].begun.resize(at(steps_.first_op[g + 1] - steps_.first_op[g]) + 1);
    }
    left_ = waits_.size();
    for (std::size_t s = 0; s < waits_.size(); ++s) {
      if (waits_[s] == 0) released(static_cast<int>(s), 0);
    }
  }

  void push(Nanos time, Kind kind, int subject) {
    queue_.push({.time = time,
                 .sequence = 0,
                 .kind = kind,
                 .subject = static_cast<std::uint32_t>(subject),
                 .count = 0});
  }

  // All that the step waits for has ended.
  void released(int index, Nanos now) {
    const Step& step = steps_.steps[at(index)];
    if (step.gpu >= 0) {
      gpus_[at(step.gpu)].ready.push(step.rank);
      ask(step.gpu, now);
    } else if (step.earliest > now) {
      push(step.earliest, kTaskBegins, index);
    } else {
      begin(index, now);
    }
  }

  void begin(int index, Nanos now) {
    const Nanos length = scaled(steps_.steps[at(index)].length, stretches_[at(index)].next());
    push(now < kEndOfTime - length ? now + length : kEndOfTime, kStepEnds, index);
  }

  void step_ended(int index, Nanos now) {
    const Step& step = steps_.steps[at(index)];
    ends_[at(index)] = now;
    --left_;
    ++events_;
    log_.record(now, kStepEnds, static_cast<std::uint32_t>(index), 0);
    if (step.gpu >= 0) {
      gpus_[at(step.gpu)].busy = false;
      ask(step.gpu, now);
    }
    for (const int next : step.next) {
      if (--waits_[at(next)] == 0) released(next, now);
    }
  }

  // Lets the reconfigurer choose once everything before it at that time has happened.
  void ask(int gpu, Nanos time) {
    Gpu& g = gpus_[at(gpu)];
    if (g.served == time) return;
    g.served = time;
    push(time, kServe, gpu);
  }

  void serve(int gpu, Nanos now) {
    Gpu& g = gpus_[at(gpu)];
    if (g.served == now) g.served = -1;
    if (g.busy || g.ready.empty()) return;
    const int rank = g.ready.top();
    const int index = steps_.first_op[at(gpu)] + rank;
    // A nanosecond late: without differences, those planned earlier have begun by then.
    const Nanos may_overtake = steps_.steps[at(index)].planned + 1;
    if (rank != g.first && may_overtake > now) {
      ask(gpu, may_overtake);
      return;
    }
    g.ready.pop();
    g.begun[at(rank)] = true;
    while (g.begun[at(g.first)]) ++g.first;
    g.busy = true;
    begin(index, now);
  }

  const Steps& steps_;
  std::vector<Stretch> stretches_;  // per step
  EventQueue queue_;
  EventLog log_;
  std::vector<int> waits_;
  std::vector<Nanos> ends_;
  std::vector<Gpu> gpus_;
  std::size_t left_ = 0;
  long events_ = 0;
};

Result<void> check(const Steps& steps, const BatchOptions& options) {
  const auto in_range = [](double spread) { return spread >= 0 && spread <= kMaxSpread; };
  if (!in_range(options.spread)) return bad_input("spread", "must be between 0 and 10");
  if (!in_range(options.reconfiguration_spread)) {
    return bad_input("reconfiguration spread", "must be between 0 and 10");
  }
  if (options.runs < 1 || options.runs > kMaxRuns) {
    return bad_input("runs", "must be between 1 and 1000000");
  }
  if (static_cast<double>(options.runs) * static_cast<double>(steps.steps.size()) >
      kMaxBatchEvents) {
    return failed({ErrorCode::limit, "more than 2 x 10^10 events would happen", "runs"});
  }
  return {};
}

// The least value that at least this share of the runs does not exceed.
Nanos percentile(const std::vector<Nanos>& sorted, double share) {
  const auto rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

// Means of sums that may not fit 64 bits.
Nanos mean(__int128 sum, int runs) { return static_cast<Nanos>((sum + runs / 2) / runs); }

void summarise(BatchReport& report) {
  std::vector<Nanos> sorted = report.makespans;
  std::ranges::sort(sorted);
  __int128 sum = 0;
  for (const Nanos makespan : sorted) sum += makespan;
  report.mean = mean(sum, static_cast<int>(sorted.size()));
  report.p50 = percentile(sorted, 0.5);
  report.p95 = percentile(sorted, 0.95);
  report.worst = sorted.back();
}

}  // namespace

Result<BatchReport> simulate(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
                             const BatchOptions& options) {
  const Result<Steps> steps = steps_of(problem, schedule);
  if (!steps) return failed(steps.error());
  if (auto fine = check(*steps, options); !fine) return failed(fine.error());
  BatchReport report;
  report.scheduler = schedule.scheduler;
  report.planned = schedule.makespan;
  std::vector<__int128> ends(problem.tasks.size());
  std::vector<int> missed(problem.tasks.size());
  Player player(*steps, options);
  for (int run = 0; run < options.runs; ++run) {
    report.makespans.push_back(steps->tasks == 0 ? 0 : player.play());
    for (std::size_t t = 0; t < ends.size(); ++t) {
      const Nanos end = player.end(static_cast<int>(t));
      ends[t] += end;
      missed[t] += problem.tasks[t].deadline && end > *problem.tasks[t].deadline ? 1 : 0;
    }
  }
  summarise(report);
  for (std::size_t t = 0; t < ends.size(); ++t) {
    const Step& step = steps->steps[t];
    report.tasks.push_back({.task = problem.tasks[t].name,
                            .planned_end = step.planned + step.length,
                            .mean_end = mean(ends[t], options.runs),
                            .deadline = problem.tasks[t].deadline,
                            .missed = static_cast<double>(missed[t]) / options.runs});
  }
  report.events = player.events();
  report.log_hash = player.log_hash();
  return report;
}

Result<Robustness> robustness(const plan::BatchProblem& problem,
                              const std::vector<plan::BatchSchedule>& candidates,
                              const BatchOptions& options) {
  CHECK(!candidates.empty());
  Robustness result;
  for (const plan::BatchSchedule& candidate : candidates) {
    Result<BatchReport> report = simulate(problem, candidate, options);
    if (!report) return failed(report.error());
    result.reports.push_back(std::move(*report));
  }
  const auto best = std::ranges::min_element(result.reports, {}, &BatchReport::mean);
  result.best = static_cast<std::size_t>(best - result.reports.begin());
  return result;
}

}  // namespace partita::sim
