// A fleet as the exact planner sees it: the classes of all its GPU models in one row of numbers,
// and the packing rows of every model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw/packing.h"
#include "plan/serving.h"
#include "planners/serving/cover.h"
#include "planners/serving/master.h"
#include "planners/serving/planner.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

// Groups are within NVLink domains: weight . N <= most, N the summed counts, however many GPUs a
// plan uses.
struct GroupRow {
  std::array<std::int64_t, kMaxClasses> weight{};
  std::int64_t most = 0;
};

struct Fleet {
  int classes = 0;
  std::vector<hw::PackingRules> rules;  // per model (fleet entry)
  std::vector<int> first_class;         // per model
  std::vector<int> model_of;            // per class
  std::vector<int> gpus;                // per class: of a group; 1: an instance
  std::vector<int> single;              // per class: that of one GPU of the group; else itself
  Prices gpcs{};                        // compute slices per class
  std::vector<Row> rows;
  std::vector<GroupRow> group_rows;
  Smaller smaller;

  // The counts of one model's classes.
  std::vector<int> counts_of(int model, const Counts& counts) const;
  bool has_groups() const;
  bool fit_nodes(const Counts& sum) const;  // whether all groups find a domain
};

// How many groups of so many GPUs the NVLink domains of an entry hold; it has a count.
int groups_in_nodes(const plan::FleetEntry& entry, int gpus);

// Classes of every entry from its point table. Refused (limit) beyond kMaxClasses. `known`: rules
// of the fleet's models that were found before; may be null.
Result<Fleet> make_fleet(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
                         KnownRules* known = nullptr);

// Numbers of GPUs per model worth trying: at least the bound in price, below the incumbent's, in
// ascending price. Limit: kMaxFleetTrials.
struct Trials {
  std::vector<std::vector<int>> counts;
  bool complete = true;
};
inline constexpr std::size_t kMaxFleetTrials = 3000;
Trials fleet_trials(const plan::ServingProblem& problem, double bound,
                    const std::optional<std::vector<int>>& incumbent);

// These numbers of GPUs and then all others of the same price, the nearest first: on each the
// slices may be fewer. Limit: kMaxEqualTrials.
inline constexpr std::size_t kMaxEqualTrials = 200;
Trials equally_priced(const plan::ServingProblem& problem, const std::vector<int>& gpus);

// Services that agree in everything that matters for counting, and (where watts count) in what they
// burn, with the indices of the services.
struct KindTable {
  std::vector<Kind> kinds;
  std::vector<std::vector<int>> services;  // per kind, one per copy
};
// `modes`: tables of the same shapes, at least one; mode i of a kind is what modes[i] says.
enum class OwnCost { none, watts };
KindTable make_kinds(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                     const Fleet& fleet, OwnCost own = OwnCost::none);
// What a service's instances count for in one table.
Mode mode_in(const plan::ServingProblem& problem, const PointTables& tables, const Fleet& fleet,
             std::size_t service);
// Compute slices that no plan goes below: every service's cheapest cover by itself.
double slices_at_least(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                       const Fleet& fleet);

}  // namespace partita::planners::serving
