#include "planners/serving/planning.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace partita::planners::serving {

double round_up(double bound) {
  return std::ceil(bound - kBoundSlack * (1 + std::abs(bound) * 1e-3));
}

double Planning::price(const GpuCounts& gpus) const {
  double sum = 0;
  for (std::size_t m = 0; m < gpus.size(); ++m) sum += gpus[m] * problem_.fleet[m].price;
  return sum;
}

void Planning::say(std::string sentence) {
  if (options_.progress) options_.progress(sentence);
  explanation_.push_back(std::move(sentence));
}

MasterProblem Planning::master_problem() const {
  MasterProblem master;
  master.classes = fleet_.classes;
  master.kinds = &table_.kinds;
  master.rows = &fleet_.rows;
  master.gpcs = fleet_.gpcs;
  return master;
}

SearchProblem Planning::rows_on(const GpuCounts& gpus) const {
  SearchProblem search{fleet_.classes, &table_.kinds, {}, {}, &fleet_.smaller, {}};
  for (const Row& row : fleet_.rows)
    search.rows.push_back({row.weight, row.capacity * gpus[at(row.model)]});
  for (const GroupRow& row : fleet_.group_rows) search.rows.push_back({row.weight, row.most});
  return search;
}

int Planning::gpcs_of(const Choice& choice) const {
  return static_cast<int>(std::lround(cost(sum_of(choice), fleet_.gpcs, fleet_.classes)));
}

std::vector<Counts> Planning::per_service(const Choice& choice) const {
  std::vector<Counts> counts(problem_.services.size(), Counts{});
  for (std::size_t i = 0; i < choice.size(); ++i)
    for (std::size_t copy = 0; copy < choice[i].size(); ++copy)
      counts[at(table_.services[i][copy])] = choice[i][copy];
  return counts;
}

PointTables Planning::tables_of(const Choice& choice) const {
  PointTables tables = modes_.front();
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Kind& kind = table_.kinds[i];
    for (std::size_t copy = 0; copy < choice[i].size(); ++copy) {
      const Counts& counts = choice[i][copy];
      const int m = kind.burn ? watts_of(kind, counts, fleet_.classes).mode
                              : mode_of(kind, counts, fleet_.classes);
      if (m <= 0) continue;
      const auto s = at(table_.services[i][copy]);
      for (std::size_t entry = 0; entry < tables.size(); ++entry)
        tables[entry].best[s] = modes_[at(m)][entry].best[s];
    }
  }
  return tables;
}

Placement Planning::placed(const Choice& choice, const GpuCounts& gpus) const {
  const bool one = modes_.size() == 1;
  return place(problem_, one ? modes_.front() : tables_of(choice), fleet_, per_service(choice),
               gpus);
}

plan::ServingPlan Planning::plan_of(std::vector<plan::PlannedGpu> gpus, int gpcs) {
  plan::ServingPlan plan;
  plan.gpus = std::move(gpus);
  plan.objective.gpus = static_cast<int>(plan.gpus.size());
  plan.objective.gpcs = gpcs;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    plan.objective.cost +=
        std::ranges::find(problem_.fleet, gpu.model, [](const plan::FleetEntry& entry) {
          return entry.gpu.name;
        })->price;
  plan.explanation = std::move(explanation_);
  plan.stats.nodes = options_.node_budget - nodes_;
  return plan;
}

}  // namespace partita::planners::serving
