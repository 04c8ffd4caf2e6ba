#include "verify/kernels.h"

#include <cmath>

namespace partita::verify {
namespace {

using plan::Reason;

bool equal(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

class Judge {
 public:
  Judge(const plan::KernelProblem& problem, const plan::KernelPlan& plan)
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

}  // namespace

std::vector<Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan) {
  return Judge(problem, plan).judge();
}

}  // namespace partita::verify
