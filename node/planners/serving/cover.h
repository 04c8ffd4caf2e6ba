// Covers: how many instances of each class a service runs on so that they carry its rate. The
// covering problem of one service is a knapsack with a handful of items; the planner asks it many
// times under different prices. A class is a MIG profile of one GPU model of the fleet; instances
// of a class are interchangeable.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace partita::planners::serving {

// Classes of all GPU models of a fleet together; larger fleets are refused.
inline constexpr int kMaxClasses = 24;

using Counts = std::array<std::int32_t, kMaxClasses>;  // instances per class; unused entries are 0
using Prices = std::array<double, kMaxClasses>;        // per instance of a class, >= 0

double cost(const Counts& counts, const Prices& prices, int classes);
int total(const Counts& counts);

// One way to carry a service's rate: what an instance of each class counts for (requests/s; 0: it
// cannot be used), and how much all instances must count together. Under the pooled rule a service
// has several: with shorter batches less is lost to waiting (pooled.h).
struct Mode {
  std::array<double, kMaxClasses> rate{};
  double demand = 0;
  auto operator<=>(const Mode&) const = default;
};

// What the planner needs to know of a service; services that agree in all of this are one kind with
// copies. A cover covers it in its own mode or in one of the others.
struct Kind : Mode {
  std::vector<Mode> others;
  int min_count = 1;          // instances at least
  int max_count = INT32_MAX;  // instances at most (a spread service: one per GPU)
  int copies = 1;
};

bool covers(const Kind& kind, const Counts& counts, int classes);

// The mode (0: the kind's own) in which these counts cover it with most to spare; -1: none.
int mode_of(const Kind& kind, const Counts& counts, int classes);
inline const Mode& mode(const Kind& kind, int index) {
  return index == 0 ? kind : kind.others[static_cast<std::size_t>(index - 1)];
}
inline int modes(const Kind& kind) { return 1 + static_cast<int>(kind.others.size()); }
// Whether an instance of the class can serve it in some mode.
bool usable(const Kind& kind, std::size_t cls);

struct PricedCover {
  double bound =
      0;  // no cover is cheaper; equals the cost of `counts` unless the search limit was reached
  Counts counts{};
};

// The cheapest cover under prices (max_count is ignored). Exact within kPricingNodes per mode. The
// kind must have a usable class.
inline constexpr int kPricingNodes = 50'000;
// The mode's demand, less what sums of rates may be off.
double needed(const Mode& mode);
// What instances of these counts carry in that mode, requests/s.
double carried(const Mode& mode, const Counts& counts, int classes);
PricedCover cheapest_cover(const Kind& kind, const Prices& prices, int classes);

// Which classes can stand in for which: smaller[k] lists classes j whose instances fit wherever one
// of class k does and count for no more, in every row of the packing rules.
using Smaller = std::vector<std::vector<int>>;

struct Enumeration {
  std::vector<Counts> covers;
  bool complete = true;  // false when the limit was reached
};

// All covers that cost at most `budget` and cannot be shrunk: no instance can be left out, none can
// be replaced by a smaller class, in the mode that they cover. Whoever needs a cover of least
// resources finds one among them. A cover of several modes may be listed once for each.
struct EnumerationLimits {
  double budget = 0;
  std::size_t covers = 0;  // stop after that many
};
Enumeration enumerate_covers(const Kind& kind, const Prices& prices, const Smaller& smaller,
                             const EnumerationLimits& limits);

}  // namespace partita::planners::serving
