#include "planners/mask/right_size.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace partita::planners::mask {
namespace {

using profile::KernelProfile;
using profile::ModelKernels;

constexpr double kTimeRounding = 1e-9;

std::vector<int> sizes_or_all(Sizes sizes, std::size_t units) {
  if (!sizes.empty()) return {sizes.begin(), sizes.end()};
  std::vector<int> all(units);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

double budget_of(const ModelKernels& model, double tolerance) {
  return model.time_us(model.units) * (1 + tolerance) * (1 + kTimeRounding);
}

RightSize measured(const ModelKernels& model, std::vector<int> units) {
  RightSize size;
  for (std::size_t k = 0; k < units.size(); ++k) {
    const double time = model.kernels[k].on(units[k]);
    size.time_us += time;
    size.unit_us += units[k] * time;
  }
  size.units = std::move(units);
  return size;
}

// ---- knapsack ----

// One way to run a kernel. Of equal or longer times those that also spend more are left out.
struct Option {
  int units = 0;
  double time = 0, spent = 0;
};

std::vector<Option> options_of(const KernelProfile& kernel, const std::vector<int>& sizes) {
  std::vector<Option> all;
  for (const int n : sizes) all.push_back({n, kernel.on(n), n * kernel.on(n)});
  std::ranges::sort(all, [](const Option& a, const Option& b) {
    return std::tuple(a.time, a.spent, a.units) < std::tuple(b.time, b.spent, b.units);
  });
  std::vector<Option> kept;
  for (const Option& one : all)
    if (kept.empty() || one.spent < kept.back().spent) kept.push_back(one);
  return kept;  // time ascending, spent descending
}

class Knapsack {
 public:
  Knapsack(const ModelKernels& model, const std::vector<int>& sizes, double budget)
      : budget_(budget) {
    for (const KernelProfile& kernel : model.kernels) options_.push_back(options_of(kernel, sizes));
  }

  // The options that are best at a price of time, the fastest of equals or the slowest.
  std::vector<std::size_t> best_at(double price) const {
    std::vector<std::size_t> best;
    for (const std::vector<Option>& options : options_) {
      std::size_t least = 0;
      for (std::size_t i = 1; i < options.size(); ++i)
        if (value(options[i], price) < value(options[least], price)) least = i;
      best.push_back(least);
    }
    return best;
  }

  double time_of(const std::vector<std::size_t>& chosen) const {
    double sum = 0;
    for (std::size_t k = 0; k < chosen.size(); ++k) sum += options_[k][chosen[k]].time;
    return sum;
  }
  double spent_by(const std::vector<std::size_t>& chosen) const {
    double sum = 0;
    for (std::size_t k = 0; k < chosen.size(); ++k) sum += options_[k][chosen[k]].spent;
    return sum;
  }
  std::vector<int> units_of(const std::vector<std::size_t>& chosen) const {
    std::vector<int> units;
    for (std::size_t k = 0; k < chosen.size(); ++k) units.push_back(options_[k][chosen[k]].units);
    return units;
  }

  // The price of time at which the best options just fit, and the bound that it gives.
  void price() {
    double low = 0, high = 1;
    while (time_of(best_at(high)) > budget_ && high < 1e30) high *= 2;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (time_of(best_at(middle)) > budget_ ? low : high) = middle;
    }
    price_ = high;
    chosen_ = best_at(high);
    bound_ = spent_by(chosen_) + price_ * (time_of(chosen_) - budget_);
    improve();
  }

  // Takes slower options where they still fit, those that save most first.
  void improve() {
    double room = budget_ - time_of(chosen_);
    for (bool better = true; better;) {
      better = false;
      double most = 0;
      std::pair<std::size_t, std::size_t> move;
      for (std::size_t k = 0; k < options_.size(); ++k) {
        const Option& now = options_[k][chosen_[k]];
        for (std::size_t i = chosen_[k] + 1; i < options_[k].size(); ++i) {
          if (options_[k][i].time - now.time > room) break;
          const double saved = now.spent - options_[k][i].spent;
          if (saved <= most) continue;
          most = saved;
          move = {k, i};
          better = true;
        }
      }
      if (!better) return;
      room -=
          options_[move.first][move.second].time - options_[move.first][chosen_[move.first]].time;
      chosen_[move.first] = move.second;
    }
  }

  // Enumerates what the gap leaves; false when that is too much.
  bool prove(std::size_t max_states);

  const std::vector<std::size_t>& chosen() const { return chosen_; }
  double bound() const { return bound_; }

 private:
  static double value(const Option& option, double price) {
    return option.spent + price * option.time;
  }

  struct State {
    double time = 0, spent = 0, excess = 0;  // excess: reduced costs so far
    std::uint32_t before = 0;                // index into the list of the kernel before
    std::uint32_t option = 0;
  };

  const double budget_;
  std::vector<std::vector<Option>> options_;
  double price_ = 0, bound_ = 0;
  std::vector<std::size_t> chosen_;
};

bool Knapsack::prove(std::size_t max_states) {
  const double limit = spent_by(chosen_) * (1 - kTimeRounding);
  if (bound_ >= limit) return true;
  const double gap = limit - bound_;
  std::vector<std::vector<State>> lists{{State{}}};
  std::vector<double> fastest(options_.size() + 1);
  for (std::size_t k = options_.size(); k-- > 0;)
    fastest[k] = fastest[k + 1] + options_[k].front().time;
  std::size_t total = 0;
  const std::vector<std::size_t> best = best_at(price_);
  for (std::size_t k = 0; k < options_.size(); ++k) {
    const double least = value(options_[k][best[k]], price_);
    std::vector<State> next;
    for (std::uint32_t b = 0; b < lists.back().size(); ++b) {
      const State& before = lists.back()[b];
      for (std::uint32_t i = 0; i < options_[k].size(); ++i) {
        const Option& option = options_[k][i];
        const double excess = before.excess + value(option, price_) - least;
        const double time = before.time + option.time;
        if (excess >= gap || time + fastest[k + 1] > budget_) continue;
        next.push_back({time, before.spent + option.spent, excess, b, i});
      }
    }
    std::ranges::sort(next, [](const State& a, const State& b) {
      return std::tuple(a.time, a.spent) < std::tuple(b.time, b.spent);
    });
    std::vector<State> kept;
    for (const State& one : next)
      if (kept.empty() || one.spent < kept.back().spent) kept.push_back(one);
    total += kept.size();
    if (kept.empty()) return true;  // nothing better than what we have
    if (total > max_states) return false;
    lists.push_back(std::move(kept));
  }
  const State* last = &lists.back().back();  // the least spent
  if (last->spent >= limit) return true;
  for (std::size_t k = options_.size(); k-- > 0;) {
    chosen_[k] = last->option;
    last = &lists[k][last->before];
  }
  return true;
}

}  // namespace

int least_units(const KernelProfile& kernel, double tolerance, Sizes sizes) {
  const double longest = kernel.time_us.back() * (1 + tolerance) * (1 + kTimeRounding);
  if (sizes.empty()) {
    int units = 1;
    while (kernel.on(units) > longest) ++units;
    return units;
  }
  return *std::ranges::find_if(sizes, [&](int units) { return kernel.on(units) <= longest; });
}

std::vector<int> least_units(const ModelKernels& model, double tolerance, Sizes sizes) {
  std::vector<int> units;
  for (const KernelProfile& kernel : model.kernels)
    units.push_back(least_units(kernel, tolerance, sizes));
  return units;
}

int knee(const ModelKernels& model, double tolerance, Sizes sizes) {
  const double longest = budget_of(model, tolerance);
  for (const int units : sizes_or_all(sizes, static_cast<std::size_t>(model.units)))
    if (model.time_us(units) <= longest) return units;
  return model.units;
}

RightSize critical_greedy(const ModelKernels& model, double tolerance, Sizes given) {
  const double longest = budget_of(model, tolerance);
  const std::vector<int> sizes = sizes_or_all(given, static_cast<std::size_t>(model.units));
  std::vector<std::size_t> at(model.kernels.size());  // indices of sizes
  // (time saved per unit by the next step that saves anything, kernel, that step)
  using Step = std::tuple<double, std::size_t, std::size_t>;
  std::priority_queue<Step> steps;
  const auto time_at = [&](std::size_t k, std::size_t i) { return model.kernels[k].on(sizes[i]); };
  const auto push = [&](std::size_t k) {
    for (std::size_t i = at[k] + 1; i < sizes.size(); ++i) {
      const double saved = time_at(k, at[k]) - time_at(k, i);
      if (saved <= 0) continue;
      steps.emplace(saved / (sizes[i] - sizes[at[k]]), k, i);
      return;
    }
  };
  double time = 0;
  for (std::size_t k = 0; k < at.size(); ++k) {
    time += time_at(k, 0);
    push(k);
  }
  while (time > longest && !steps.empty()) {
    const auto [saved, k, i] = steps.top();
    steps.pop();
    time += time_at(k, i) - time_at(k, at[k]);
    at[k] = i;
    push(k);
  }
  std::vector<int> units;
  for (const std::size_t i : at) units.push_back(sizes[i]);
  return measured(model, std::move(units));
}

RightSize critical_exact(const ModelKernels& model, double tolerance, Sizes sizes,
                         std::size_t max_states) {
  CHECK(!model.kernels.empty());
  Knapsack knapsack(model, sizes_or_all(sizes, static_cast<std::size_t>(model.units)),
                    budget_of(model, tolerance));
  knapsack.price();
  const bool proven = knapsack.prove(max_states);
  RightSize size = measured(model, knapsack.units_of(knapsack.chosen()));
  size.optimal = proven;
  size.bound = proven ? size.unit_us : std::min(size.unit_us, knapsack.bound());
  return size;
}

}  // namespace partita::planners::mask
