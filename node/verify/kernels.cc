#include "verify/kernels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace partita::verify {
namespace {

using plan::Reason;

bool equal(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

class KernelJudge {
 public:
  KernelJudge(const plan::KernelProblem& problem, const plan::KernelPlan& plan)
      : problem_(problem), plan_(plan) {}

  std::vector<Reason> judge() {
    const std::size_t workers = problem_.workers.size();
    if (plan_.workers.size() != workers) {
      add("workers", "plan", static_cast<double>(plan_.workers.size()),
          static_cast<double>(workers));
      return std::move(found_);
    }
    for (std::size_t w = 0; w < workers; ++w) worker(problem_.workers[w], plan_.workers[w]);
    objective();
    return std::move(found_);
  }

 private:
  void add(const char* word, const std::string& subject, double have, double need) {
    found_.push_back({word, subject, have, need, {}});
  }
  void same(const char* word, const std::string& subject, double have, double need) {
    if (!equal(have, need)) add(word, subject, have, need);
  }

  void worker(const plan::KernelWorker& worker, const plan::Grouping& grouping) {
    const std::string subject = "worker " + worker.name;
    const plan::KernelTimes& times = worker.times;
    const std::size_t kernels = grouping.option.size(), options = times.units.size();
    if (static_cast<int>(kernels) != times.kernels())
      return add("kernels", subject, static_cast<double>(kernels), times.kernels());
    int switches = 0;
    double time = 0, units = 0;
    for (std::size_t k = 0; k < kernels; ++k) {
      const std::size_t option = grouping.option[k];
      if (option >= options)
        return add("option", subject, static_cast<double>(option),
                   static_cast<double>(options - 1));
      time += times.time[k * options + option];
      units += times.units[option];
      if (k > 0 && option != grouping.option[k - 1]) ++switches;
    }
    if (switches > problem_.switches) add("switches", subject, switches, problem_.switches);
    if (switches != grouping.switches) add("switches", subject, grouping.switches, switches);
    time += switches * problem_.switch_cost;
    units /= static_cast<double>(kernels);
    same("time", subject, grouping.time, time);
    same("mean_units", subject, grouping.mean_units, units);
    all_units_ += units;
    own_.push_back({time, units});
  }

  void objective() {
    double sum = 0;
    for (const auto& [time, units] : own_) {
      const bool own = problem_.overlap == plan::Overlap::literal;
      sum += time + time * (all_units_ - (own ? 0 : units)) / problem_.total_units;
    }
    if (own_.size() == problem_.workers.size()) same("objective", "plan", plan_.objective, sum);
    const bool above = plan_.bound > plan_.objective * (1 + 1e-9);
    const bool open = plan_.optimal && plan_.bound < plan_.objective * (1 - 1e-9);
    if (above || open || !std::isfinite(plan_.bound))
      add("bound", "plan", plan_.bound, plan_.objective);
  }

  const plan::KernelProblem& problem_;
  const plan::KernelPlan& plan_;
  double all_units_ = 0;
  std::vector<std::pair<double, double>> own_;  // time, mean units
  std::vector<Reason> found_;
};

// Units of the mask that lie in an atom, or in what is left over in a cluster, of which the mask
// has not all; 0 for all units of the GPU.
int in_split_atoms(const hw::Topology& topology, int atom, const hw::UnitMask& mask) {
  if (static_cast<int>(mask.count()) == topology.units()) return 0;
  int split = 0;
  std::size_t unit = 0;
  for (const int units : topology.units_in) {
    for (int at = 0; at < units; at += atom) {
      int taken = 0;
      for (int i = at; i < std::min(at + atom, units); ++i) taken += mask[unit++];
      if (taken != atom) split += taken;
    }
  }
  return split;
}

// The least and the most units of the mask on a die, where there are several: those of a die follow
// each other, as many as on the others.
std::pair<int, int> on_dies(const hw::Topology& topology, const hw::UnitMask& mask) {
  const auto each = static_cast<std::size_t>(topology.units() / topology.dies);
  int least = topology.units(), most = 0;
  for (std::size_t first = 0; first < each * static_cast<std::size_t>(topology.dies);
       first += each) {
    int count = 0;
    for (std::size_t unit = first; unit < first + each; ++unit) count += mask[unit];
    least = std::min(least, count);
    most = std::max(most, count);
  }
  return {least, most};
}

}  // namespace

std::vector<Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan) {
  return KernelJudge(problem, plan).judge();
}

std::vector<Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan,
                           const plan::Lanes& lanes, const hw::Topology& topology) {
  std::vector<Reason> found;
  for (const plan::Lane& lane : lanes.all)
    if (lane.worker >= plan.workers.size())
      found.push_back({"lane", "plan", static_cast<double>(lane.worker), 0, {}});
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const std::string subject = "worker " + problem.workers[w].name;
    std::map<int, int> uses, has;  // kernels by units
    for (const std::uint8_t option : plan.workers[w].option)
      ++uses[problem.workers[w].times.units[option]];
    for (const plan::Lane& lane : lanes.all) {
      if (lane.worker != w) continue;
      has[lane.units] += lane.kernels;
      if (lane.kernels < 1) found.push_back({"lane", subject, double(lane.kernels), 1, {}});
      uses.try_emplace(lane.units, 0);
      const auto count = static_cast<double>(lane.mask.count());
      const bool outside = (lane.mask >> static_cast<std::size_t>(topology.units())).any();
      if (count != lane.units || outside)
        found.push_back({"lane_units", subject, count, static_cast<double>(lane.units), {}});
      const auto [least, most] = on_dies(topology, lane.mask);
      if (topology.dies > 1 && (least == 0 || most - least > lanes.atom))
        found.push_back({"die", subject, double(least), std::floor(count / topology.dies), {}});
      if (const int split = in_split_atoms(topology, lanes.atom, lane.mask); split > 0)
        found.push_back({"atom", subject, static_cast<double>(split), 0, {}});
    }
    for (const auto& [units, need] : uses)
      if (has[units] != need)
        found.push_back({"lane", subject, static_cast<double>(has[units]), double(need), {}});
  }
  return found;
}

std::vector<Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan,
                           const std::vector<std::optional<double>>& predicted) {
  std::vector<Reason> found;
  double all_units = 0;
  for (const plan::Grouping& one : plan.workers) all_units += one.mean_units;
  for (std::size_t w = 0; w < predicted.size() && w < plan.workers.size(); ++w) {
    const plan::Grouping& one = plan.workers[w];
    const double own = problem.overlap == plan::Overlap::literal ? 0 : one.mean_units;
    const double need = one.time + one.time * (all_units - own) / problem.total_units;
    if (predicted[w] && !equal(*predicted[w], need))
      found.push_back({"predicted", "worker " + problem.workers[w].name, *predicted[w], need, {}});
  }
  return found;
}

}  // namespace partita::verify
