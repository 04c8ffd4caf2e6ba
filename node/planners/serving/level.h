// Levelling: with many services each takes its cheapest cover by itself; then some of them take
// another one, until the shapes come in numbers that fill whole GPUs. Its time grows with the
// number of services and hardly faster; it proves nothing.
#pragma once

#include <functional>
#include <vector>

#include "hw/packing.h"
#include "planners/serving/cover.h"

namespace partita::planners::serving {

struct Levelling {
  Prices slices{};  // compute slices of a class
  // Covers that could replace a service's, cheap under the prices.
  std::function<std::vector<Counts>(std::size_t service, const Prices& prices)> offers;
  // Whether one of them may. Asked of those only that would be taken.
  std::function<bool(std::size_t service, const Counts& cover)> allowed;
};

// Lowers the facet of the packing that asks for most GPUs by other covers, those first that pay
// least slices for it, until another facet asks for as many. Returns the GPUs that are needed then
// (hw::gpus_needed).
int level(const hw::PackingRules& rules, std::vector<Counts>& covers, const Levelling& levelling);

}  // namespace partita::planners::serving
