#include "sim/graph.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"
#include "sim/dispatch.h"

namespace partita::sim {
namespace {

constexpr double kNanosPerMicro = 1000;
// Ends that rounding alone keeps apart are at the same time.
constexpr double kSameNs = 1e-3;

double copy_us(const plan::GraphTask& task, double copy_gbps) {
  return task.bytes / (copy_gbps * kNanosPerMicro);
}

}  // namespace

GraphMachine::GraphMachine(const hw::Topology& topology, const plan::GraphProblem& problem,
                           double copy_gbps)
    : topology_(topology),
      problem_(problem),
      copy_gbps_(copy_gbps),
      kernels_on_(at(topology.units())) {
  CHECK(copy_gbps > 0);
}

void GraphMachine::begin(int task, const hw::UnitMask& mask) {
  const plan::GraphTask& its = problem_.tasks[at(task)];
  Running one{.task = task, .mask = mask};
  if (its.kind == plan::GraphTaskKind::lane) {
    CHECK(mask.any() && (mask >> kernels_on_.size()).none());
    const GroupKernel kernel{.groups = its.groups, .time_us = its.work_us};
    one.alone_ns = kNanosPerMicro * dispatch_time_us(hw::units_per_cluster(topology_, mask), kernel,
                                                     Dispatcher::equal_split);
    for (std::size_t unit = 0; unit < kernels_on_.size(); ++unit) kernels_on_[unit] += mask[unit];
  } else {
    CHECK(mask.none());
    const bool copy = its.kind == plan::GraphTaskKind::copy;
    one.alone_ns = kNanosPerMicro * (copy ? copy_us(its, copy_gbps_) : its.work_us);
  }
  running_.insert(std::ranges::lower_bound(running_, task, {}, &Running::task), one);
}

// Clusters of the mask x the least sum of what its units leave in one of them: each all of itself,
// or its share among those that run on it.
double GraphMachine::effective(const hw::UnitMask& mask, bool shared) {
  double clusters = 0, least = 0;
  std::size_t unit = 0;
  for (const int units : topology_.units_in) {
    double sum = 0;
    for (int i = 0; i < units; ++i, ++unit)
      if (mask[unit]) sum += shared ? 1.0 / kernels_on_[unit] : 1.0;
    if (sum == 0) continue;
    least = clusters == 0 ? sum : std::min(least, sum);
    ++clusters;
  }
  return clusters * least;
}

void GraphMachine::set_speeds() {
  for (Running& one : running_)
    if (one.mask.any()) one.speed = effective(one.mask, true) / effective(one.mask, false);
}

std::vector<int> GraphMachine::next() {
  CHECK(!running_.empty());
  set_speeds();
  const auto needs = [](const Running& one) { return one.left * one.alone_ns / one.speed; };
  const double step = needs(*std::ranges::min_element(running_, {}, needs));
  now_ += step;
  std::vector<int> ended;
  std::vector<Running> going_on;
  for (Running one : running_) {
    if (needs(one) > step + kSameNs) {
      one.left -= step * one.speed / one.alone_ns;
      going_on.push_back(one);
      continue;
    }
    for (std::size_t unit = 0; unit < kernels_on_.size(); ++unit)
      kernels_on_[unit] -= one.mask[unit];
    ended.push_back(one.task);
  }
  running_ = std::move(going_on);
  return ended;
}

std::int64_t GraphMachine::now_ns() const { return std::llround(now_); }

double graph_sequential_us(const plan::GraphProblem& problem, double copy_gbps) {
  double sum = 0;
  for (const plan::GraphTask& task : problem.tasks)
    sum += task.kind == plan::GraphTaskKind::copy ? copy_us(task, copy_gbps)
                                                  : task.work_us * task.groups;
  return sum;
}

}  // namespace partita::sim
