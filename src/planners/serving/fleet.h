// A fleet as the exact planner sees it: the classes of all its GPU models in one row of numbers,
// and the packing rows of every model.
#pragma once

#include <string>
#include <vector>

#include "hw/packing.h"
#include "plan/serving.h"
#include "planners/serving/cover.h"
#include "planners/serving/master.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

struct Fleet {
  int classes = 0;
  std::vector<hw::PackingRules> rules;  // per model (fleet entry)
  std::vector<int> first_class;         // per model
  std::vector<int> model_of;            // per class
  Prices gpcs{};                        // compute slices per class
  std::vector<Row> rows;
  Smaller smaller;

  // The counts of one model's classes.
  std::vector<int> counts_of(int model, const Counts& counts) const;
};

// Classes of every entry from its point table. Refused (limit) beyond kMaxClasses.
Result<Fleet> make_fleet(const plan::ServingProblem& problem,
                         const std::vector<PointTable>& tables);

// Services that agree in everything that matters for counting, with the indices of the services.
struct KindTable {
  std::vector<Kind> kinds;
  std::vector<std::vector<int>> services;  // per kind, one per copy
};
// `modes`: tables of the same shapes, at least one; mode i of a kind is what modes[i] says.
KindTable make_kinds(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                     const Fleet& fleet);

}  // namespace partita::planners::serving
