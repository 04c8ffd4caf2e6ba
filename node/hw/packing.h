// Packing: how many GPUs a set of instances needs. Instances of one MIG profile are
// interchangeable, so a set is a vector of counts per profile ("class"), and a GPU offers one of a
// few maximal count vectors ("fills").
//
// Facets are the linear inequalities weight . counts <= capacity * gpus that hold for every set
// that fits; together they describe the convex hull of what fits exactly. They are derived from the
// fills, nothing is written by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hw/gpu_model.h"
#include "hw/layout.h"

namespace partita::hw {

// One maximal way to use a GPU: instances per class, and a legal layout that has exactly these.
struct Fill {
  std::vector<int> counts;
  Layout layout;
};

struct Facet {
  std::vector<std::int64_t> weight;  // per class, >= 0
  std::int64_t capacity = 0;         // > 0; weights and capacity have no common factor
  bool operator==(const Facet&) const = default;
};

struct PackingRules {
  std::vector<int> profiles;  // class k is gpu.profiles[profiles[k]]
  std::vector<Fill> fills;    // maximal by inclusion, sorted by counts
  std::vector<Facet> facets;  // sorted
};

// Rules for the given profiles (indices into gpu.profiles, each legal at least once).
PackingRules packing_rules(const GpuModel& gpu, const std::vector<int>& profiles);

// Which fills to use, as (index into fills, how many), so that `counts` fits on at most `gpus`
// GPUs; nothing when it does not fit. Exact but for a search limit of kPackNodes, reached by no GPU
// of the catalogue.
inline constexpr int kPackNodes = 100'000;
std::optional<std::vector<std::pair<int, int>>> pack(const PackingRules& rules,
                                                     const std::vector<int>& counts, int gpus);

// Fewest GPUs by the facets alone: a lower bound of pack, and equal to it on every GPU of the
// catalogue (tested).
int gpus_needed(const PackingRules& rules, const std::vector<int>& counts);

}  // namespace partita::hw
