#include "sim/power.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/check.h"
#include "base/index.h"
#include "base/rng.h"
#include "sim/histogram.h"

namespace partita::sim {
namespace {

constexpr double kNeverSeconds = std::numeric_limits<double>::infinity();

// Arrivals whose rate is that of a trace: the next one is where the integral of the rate reaches
// the next mark; marks are one apart, or exponentially far.
class TracedArrivals {
 public:
  TracedArrivals(const plan::PowerTrace& trace, std::size_t service, bool even, Rng rng)
      : trace_(trace), service_(service), even_(even), rng_(rng) {
    mark_ = even ? rng_.uniform() : rng_.exponential();
  }

  double next() {
    while (step_ < trace_.rates.size()) {
      const double rate = trace_.rates[step_][service_].value;
      const double end = static_cast<double>(step_ + 1) * trace_.step.value;
      if (rate > 0 && now_ + (mark_ - passed_) / rate < end) {
        now_ += (mark_ - passed_) / rate;
        passed_ = mark_;
        mark_ += even_ ? 1 : rng_.exponential();
        return now_;
      }
      passed_ += rate * (end - now_);
      now_ = end;
      ++step_;
    }
    return kNeverSeconds;
  }

 private:
  const plan::PowerTrace& trace_;
  const std::size_t service_;
  const bool even_;
  Rng rng_;
  std::size_t step_ = 0;
  double now_ = 0, passed_ = 0, mark_ = 0;
};

// A service with its queue and the one batch that runs.
struct PowerQueue {
  TracedArrivals arrivals;
  double next_arrival = 0;
  double done = kNeverSeconds;  // of the batch that runs
  std::deque<double> waiting = {};
  std::vector<double> running = {};
  std::vector<plan::PowerPoint> batches = {};  // at the setting, as far as it allows
  Watts active_idle{0};
  LatencyHistogram latencies = {};
  long late = 0;
  long came = 0;                  // since the last poll
  std::vector<double> seen = {};  // latencies since the last poll, ms
};

class PoweredGpu {
 public:
  PoweredGpu(const plan::PowerProblem& problem, plan::Gating gating, const PowerRunOptions& options)
      : problem_(problem), gating_(gating), options_(options) {
    const Rng rng(options.seed);
    for (std::size_t s = 0; s < problem.services.size(); ++s) {
      queues_.push_back({TracedArrivals(options.trace, s, options.even, rng.split(s))});
      queues_.back().next_arrival = queues_.back().arrivals.next();
    }
    end_ = options.trace.step.value * static_cast<double>(options.trace.rates.size());
    run_.bins.resize(std::max<std::size_t>(
        1, static_cast<std::size_t>(std::ceil(end_ / options.bin.value - 1e-9))));
  }

  PowerRun run(const plan::Setting& start, const PowerDecision& decide) {
    adopt(start);
    double poll = options_.poll.value;
    double change = kNeverSeconds;
    plan::Setting next;
    while (true) {
      const auto [time, who] = next_event();
      const double stop = std::min({time, poll, change, end_});
      idle_until(stop);
      if (stop >= end_) break;
      if (stop == change) {
        count_changes(next);
        adopt(next);
        change = kNeverSeconds;
      } else if (stop == time) {
        happen(queues_[who], time);
      } else {
        next = decide(observe());
        change = now_ + options_.delay.value;
        poll += options_.poll.value;
      }
    }
    return finish();
  }

 private:
  std::pair<double, std::size_t> next_event() const {
    std::pair<double, std::size_t> first{kNeverSeconds, 0};
    for (std::size_t s = 0; s < queues_.size(); ++s) {
      const double time = std::min(queues_[s].next_arrival, queues_[s].done);
      if (time < first.first) first = {time, s};
    }
    return first;
  }

  PowerRunBin& bin() {
    const auto index = static_cast<std::size_t>(now_ / options_.bin.value);
    return run_.bins[std::min(index, run_.bins.size() - 1)];
  }

  // The board without work until then, bin by bin.
  void idle_until(double time) {
    while (now_ < time) {
      const double edge = (std::floor(now_ / options_.bin.value + 1e-9) + 1) * options_.bin.value;
      const double stop = std::min(time, std::max(edge, now_ + 1e-9));
      spend(ready_.value * (stop - now_));
      PowerRunBin& here = bin();
      here.clock = setting_.clock;
      here.units = used_;
      now_ = stop;
    }
  }

  void spend(double joules) {
    run_.energy += Joules{joules};
    bin().power += Watts{joules};  // divided by the width of the bin at the end
  }

  void happen(PowerQueue& queue, double time) {
    if (queue.next_arrival <= queue.done) {
      queue.waiting.push_back(time);
      ++queue.came;
      bin().rate += Rps{1};
      queue.next_arrival = queue.arrivals.next();
    } else {
      complete(queue);
    }
    if (queue.done == kNeverSeconds && !queue.waiting.empty()) dispatch(queue);
  }

  void complete(PowerQueue& queue) {
    const auto s = static_cast<std::size_t>(&queue - queues_.data());
    const double slo = problem_.services[s].slo.value;
    for (const double arrival : queue.running) {
      const double ms = (queue.done - arrival) * 1e3;
      queue.latencies.add(static_cast<Nanos>(std::llround(ms * 1e6)));
      queue.seen.push_back(ms);
      if (ms > slo * (1 + 1e-9)) ++queue.late;
    }
    queue.running.clear();
    queue.done = kNeverSeconds;
  }

  // A batch of what waits takes the time and energy of the smallest measured one that holds it.
  void dispatch(PowerQueue& queue) {
    const auto most = at(queue.batches.back().batch);
    const std::size_t size = std::min(queue.waiting.size(), most);
    const plan::PowerPoint* point = queue.batches.data();
    while (at(point->batch) < size) ++point;
    for (std::size_t i = 0; i < size; ++i) {
      queue.running.push_back(queue.waiting.front());
      queue.waiting.pop_front();
    }
    queue.done = now_ + point->p95.value * 1e-3;
    spend((point->power - queue.active_idle).value * point->batch / point->max_rate.value);
  }

  plan::Observation observe() {
    plan::Observation seen{Seconds{now_}, {}, {}};
    for (PowerQueue& queue : queues_) {
      plan::ServiceSeen one{Rps{static_cast<double>(queue.came) / options_.poll.value}, {}, {}};
      if (!queue.seen.empty()) {
        const auto rank =
            static_cast<std::ptrdiff_t>(std::ceil(0.95 * static_cast<double>(queue.seen.size()))) -
            1;
        std::ranges::nth_element(queue.seen, queue.seen.begin() + rank);
        one.p95 = Millis{queue.seen[static_cast<std::size_t>(rank)]};
      }
      one.waiting = static_cast<double>(queue.waiting.size());
      queue.came = 0;
      queue.seen.clear();
      seen.services.push_back(one);
    }
    return seen;
  }

  void count_changes(const plan::Setting& next) {
    if (next.clock != setting_.clock) ++run_.clock_changes, spend(options_.cost.clock.value);
    if (next.units != setting_.units) ++run_.unit_changes, spend(options_.cost.units.value);
  }

  void adopt(const plan::Setting& setting) {
    if (setting == setting_) return;
    CHECK(setting.units.size() == queues_.size() && setting.batches.size() == queues_.size());
    setting_ = setting;
    used_ = 0;
    const auto& clocks = problem_.table.clocks;
    const auto idle = std::ranges::lower_bound(clocks, setting.clock, {}, &plan::ClockIdle::clock);
    CHECK(idle != clocks.end() && idle->clock == setting.clock);
    for (std::size_t s = 0; s < queues_.size(); ++s) {
      used_ += setting.units[s];
      queues_[s].active_idle = idle->active_idle;
      queues_[s].batches.clear();
      for (const plan::PowerPoint& point : problem_.table.find(problem_.services[s].model)->points)
        if (point.clock == setting.clock && point.units == setting.units[s] &&
            point.batch <= setting.batches[s])
          queues_[s].batches.push_back(point);
      CHECK(!queues_[s].batches.empty());
    }
    CHECK(used_ <= problem_.table.units());
    int clocked = problem_.table.units();
    if (gating_ == plan::Gating::unit) clocked = used_;
    if (gating_ == plan::Gating::group) {
      clocked = 0;
      for (std::size_t c = 0; clocked < used_; ++c) clocked += problem_.table.units_in[c];
    }
    const Watts per_unit = (idle->active_idle - problem_.table.idle) / problem_.table.units();
    ready_ = problem_.table.idle + clocked * per_unit;
  }

  // What still waits at the end of the trace is served, without being charged for.
  PowerRun finish() {
    run_.time = {end_};
    for (std::size_t s = 0; s < queues_.size(); ++s) {
      PowerQueue& queue = queues_[s];
      while (queue.done != kNeverSeconds || !queue.waiting.empty()) {
        if (queue.done == kNeverSeconds) {
          const Joules before = run_.energy;
          dispatch(queue);
          run_.energy = before;
        }
        now_ = queue.done;
        complete(queue);
      }
      now_ = end_;
      const plan::Terms& service = problem_.services[s];
      run_.services.push_back(
          {service.name, queue.latencies.count(), queue.late,
           Millis{static_cast<double>(queue.latencies.percentile(service.percentile)) * 1e-6},
           service.slo, service.percentile});
    }
    for (PowerRunBin& one : run_.bins) {
      one.power = one.power / options_.bin.value;
      one.rate = one.rate / options_.bin.value;
    }
    return std::move(run_);
  }

  const plan::PowerProblem& problem_;
  const plan::Gating gating_;
  const PowerRunOptions& options_;
  std::vector<PowerQueue> queues_;
  plan::Setting setting_;
  int used_ = 0;
  Watts ready_{0};  // of the board at the setting, nothing running
  double now_ = 0, end_ = 0;
  PowerRun run_;
};

}  // namespace

PowerRun simulate_power(const plan::PowerProblem& problem, plan::Gating gating,
                        const plan::Setting& start, const PowerDecision& decide,
                        const PowerRunOptions& options) {
  return PoweredGpu(problem, gating, options).run(start, decide);
}

}  // namespace partita::sim
