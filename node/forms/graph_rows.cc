#include "forms/graph_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/terminal.h"

namespace partita::forms {

std::vector<GraphRow> rows_of(const GraphRun& run) {
  std::map<int, GraphRow> lanes, threads;
  for (std::size_t task = 0; task < run.tasks.size(); ++task) {
    const GraphTaskRun& its = run.tasks[task];
    GraphRow& row = its.lane >= 0 ? lanes[its.lane] : threads[its.thread];
    (its.lane >= 0 ? row.lane : row.thread) = its.lane >= 0 ? its.lane : its.thread;
    row.tasks.push_back(static_cast<int>(task));
  }
  std::vector<GraphRow> rows;
  for (auto* all : {&lanes, &threads}) {
    for (auto& [number, row] : *all) {
      std::ranges::stable_sort(row.tasks, {}, [&](int task) {
        return run.tasks[static_cast<std::size_t>(task)].begin_ns;
      });
      row.mask = run.tasks[static_cast<std::size_t>(row.tasks.front())].mask;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string row_name(const GraphRow& row) {
  return row.lane >= 0 ? fmt::format("lane {}", row.lane) : fmt::format("thread {}", row.thread);
}

std::string place_text(const GraphRun& run, const GraphTaskRun& task) {
  if (task.lane < 0) return fmt::format("thread {}", task.thread);
  return fmt::format("lane {}, {}", task.lane,
                     count_text(static_cast<long>(task.mask.count()), run.topology.unit_name));
}

std::string ns_text(std::int64_t ns) { return duration_text(static_cast<double>(ns) / 1e9); }

}  // namespace partita::forms
