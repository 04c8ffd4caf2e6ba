// Services that must keep apart, and what one GPU may hold under that rule. Services that are
// alike in this respect (they avoid the same services, and not each other) are one group; services
// without any such rule are a group too. A cell is a class for a group; a pattern is what a GPU
// offers: cells whose classes fit together and whose groups may meet. An instance on a group of
// GPUs has these to itself and meets nobody: its cell is a pattern alone, on so many GPUs.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "plan/serving.h"
#include "planners/serving/fleet.h"

namespace partita::planners::serving {

// Which services must not meet on a GPU: apart[s] holds s itself when it is spread. Services that
// may meet all others are missing.
using Apart = std::map<int, std::set<int>>;
Apart make_apart(const std::vector<plan::Service>& services);

struct ApartGroups {
  std::vector<int> of_service;
  std::vector<std::uint64_t>
      apart;  // per group, the groups that it must not meet; its own bit when
              // two of its instances must not meet
  std::size_t count() const { return apart.size(); }
};

// Up to kMaxAlone services are a group each, which makes relaxations stronger. Nothing when there
// are more than kMaxApartGroups groups.
inline constexpr std::size_t kMaxAlone = 24;
inline constexpr std::size_t kMaxApartGroups = 64;
std::optional<ApartGroups> apart_groups(const std::vector<plan::Service>& services);

struct Pattern {
  int model = 0;
  std::vector<int> cells;  // ascending, repeated; cell = group x classes + class
  auto operator<=>(const Pattern&) const = default;
};

// GPUs that one of it takes.
int gpus_of(const Pattern& pattern, const Fleet& fleet);

// Those of the instances that cover a service in one of its modes; nothing when they do not.
std::optional<Counts> cover_within(const Kind& kind, const Counts& counts, int classes);

// What is still of use: an instance that a service can be without never helps, and a relaxation
// that may use such ones is weak (a seventh of a GPU that holds seven instances where one is
// needed).
struct ApartNeeds {
  std::vector<int> most;           // per cell: more on one GPU are of no use
  std::vector<const Kind*> alone;  // per group: its service when it has only one, else null
  std::vector<Counts> placed;      // per group with one service: what it has already
  // Whether a service that has these besides what is placed can use more.
  bool open(std::size_t group, const Counts& counts, int classes) const;
};

// Whether a GPU of the one offers all that a GPU of the other does.
bool offers(const Pattern& more, const Pattern& less);

// Whether all instances of a pattern can be of use.
bool useful(const Pattern& pattern, const ApartNeeds& needs, const Fleet& fleet);

// Patterns of greatest value under prices of the cells.
struct PricedPatterns {
  // No pattern is worth more per GPU; exact within kPatternNodes search nodes per fill.
  double value = 0;
  // Worth more than the floor: at most one per fill of the model, and those of groups of GPUs.
  std::vector<Pattern> patterns;
};
inline constexpr long kPatternNodes = 200'000;
struct PatternQuestion {
  int model = 0;
  const std::vector<double>* prices = nullptr;  // per cell, >= 0
  const ApartNeeds* needs = nullptr;
  const std::vector<Pattern>* banned = nullptr;  // these and what they offer may not be used
  double floor = 0;  // only patterns worth more per GPU are of interest
};
PricedPatterns best_patterns(const Fleet& fleet, const ApartGroups& groups,
                             const PatternQuestion& question);

}  // namespace partita::planners::serving
