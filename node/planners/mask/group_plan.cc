#include "planners/mask/group_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace partita::planners::mask {
namespace {

constexpr std::size_t kLane = 4;

double smaller(double a, double b) { return a < b ? a : b; }

}  // namespace

GroupPlanner::GroupPlanner(const KernelTimes& times, int switches, double switch_cost)
    : times_(times),
      switches_(std::clamp(switches, 0, std::max(times.kernels() - 1, 0))),
      switch_cost_(switch_cost),
      lanes_((static_cast<std::size_t>(switches_) + kLane) / kLane * kLane),
      table_(times.time.size() * lanes_),
      least_(lanes_ + 1),
      price_(times.units.size()) {
  CHECK(times.kernels() > 0 && times.units.size() <= plan::kMaxOptions);
  CHECK(times.time.size() % times.units.size() == 0);
}

Grouping GroupPlanner::best(double price) {
  const std::size_t options = times_.units.size(), row = options * lanes_;
  const auto kernels = static_cast<std::size_t>(times_.kernels());
  for (std::size_t o = 0; o < options; ++o)
    price_[o] = price * times_.units[o] / static_cast<double>(kernels);
  for (std::size_t o = 0; o < options; ++o)
    std::fill_n(&table_[o * lanes_], lanes_, times_.time[o] + price_[o]);
  // least_[s] is the best with s - 1 switches before this kernel, and one more to come here.
  least_[0] = std::numeric_limits<double>::infinity();
  for (std::size_t k = 1; k < kernels; ++k) {
    const double* before = &table_[(k - 1) * row];
    double* now = &table_[k * row];
    double* least = least_.data() + 1;
    std::copy_n(before, lanes_, least);
    for (std::size_t o = 1; o < options; ++o)
      for (std::size_t s = 0; s < lanes_; ++s) least[s] = smaller(before[o * lanes_ + s], least[s]);
    for (std::size_t s = 0; s < lanes_; ++s) least[s] += switch_cost_;
    for (std::size_t o = 0; o < options; ++o) {
      const double cost = times_.time[k * options + o] + price_[o];
      for (std::size_t s = 0; s < lanes_; ++s)
        now[o * lanes_ + s] = smaller(before[o * lanes_ + s], least_[s]) + cost;
    }
  }
  return traced();
}

// Follows the tables back from the best end.
Grouping GroupPlanner::traced() const {
  const std::size_t options = times_.units.size(), row = options * lanes_;
  const auto kernels = static_cast<std::size_t>(times_.kernels());
  const auto least_option = [&](std::size_t k, std::size_t s) {
    std::size_t best = 0;
    for (std::size_t o = 1; o < options; ++o)
      if (table_[k * row + o * lanes_ + s] < table_[k * row + best * lanes_ + s]) best = o;
    return best;
  };
  Grouping found;
  found.option.resize(kernels);
  auto s = static_cast<std::size_t>(switches_);
  std::size_t o = least_option(kernels - 1, s);
  double units = 0;
  for (std::size_t k = kernels; k-- > 0;) {
    found.option[k] = static_cast<std::uint8_t>(o);
    found.time += times_.time[k * options + o];
    units += times_.units[o];
    if (k == 0 || s == 0) continue;
    const std::size_t other = least_option(k - 1, s - 1);
    const double* before = &table_[(k - 1) * row];
    if (before[o * lanes_ + s] <= before[other * lanes_ + s - 1] + switch_cost_) continue;
    o = other;
    --s;
    ++found.switches;
  }
  found.mean_units = units / static_cast<double>(kernels);
  found.time += switch_cost_ * found.switches;
  return found;
}

}  // namespace partita::planners::mask
