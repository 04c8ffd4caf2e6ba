// graph_run_text of graph_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "forms/batch_text.h"
#include "forms/gantt.h"
#include "forms/graph_forms.h"
#include "forms/graph_rows.h"

namespace partita::forms {
namespace {

constexpr int kIdle = -1;
constexpr int kLeastColumns = 40, kMostColumns = 400, kColumnsPerTick = 12;
constexpr int kTaskColumns = 40, kPathTasks = 8;

class GraphGantt {
 public:
  GraphGantt(const GraphResult& result, const GraphTextOptions& options)
      : problem_(result.problem),
        run_(result.run),
        painter_(options.colour),
        rows_(rows_of(result.run)),
        begin_(begin_of(result.run)),
        length_(std::max<std::int64_t>(1, run_ns(result.run))) {
    for (const GraphRow& row : rows_) head_ = std::max(head_, columns(row_name(row)) + 1);
    cells_ = std::clamp(options.width, kLeastColumns, kMostColumns) - head_ - 1;
  }

  std::string draw() const {
    const auto shown = std::min<std::size_t>(rows_.size(), kMaxGraphRows);
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) text += row_text(rows_[i]);
    text += painter_.dim(axis());
    if (shown < rows_.size())
      text += fmt::format("... and {} more lanes and threads\n", rows_.size() - shown);
    return text;
  }

  static std::int64_t begin_of(const GraphRun& run) {
    if (run.tasks.empty()) return 0;
    return std::ranges::min_element(run.tasks, {}, &GraphTaskRun::begin_ns)->begin_ns;
  }

 private:
  int column(std::int64_t time) const {
    const double share = static_cast<double>(time - begin_) / static_cast<double>(length_);
    return static_cast<int>(std::lround(share * cells_));
  }

  // However short, a task gets a cell when there is one; it never covers another.
  std::string row_text(const GraphRow& row) const {
    std::vector<int> cells(at(cells_), kIdle);
    for (const int task : row.tasks) {
      const int begin = std::min(column(run_.tasks[at(task)].begin_ns), cells_ - 1);
      const int end = std::clamp(column(run_.tasks[at(task)].end_ns), begin + 1, cells_);
      for (int c = begin; c < end; ++c)
        if (cells[at(c)] == kIdle) cells[at(c)] = task;
    }
    std::string text = fit(row_name(row), head_) + "│";
    for (int begin = 0, end = 0; begin < cells_; begin = end) {
      const int shown = cells[at(begin)];
      while (end < cells_ && cells[at(end)] == shown) ++end;
      text += box(shown, end - begin);
    }
    return text + "\n";
  }

  std::string box(int task, int width) const {
    if (task == kIdle) return painter_.dim(repeated("·", width));
    constexpr int kLeastName = 2;
    std::string name = utf8(printable(problem_.tasks[at(task)].name));
    if (columns(name) > width - 1) name = width - 1 >= kLeastName ? fit(name, width - 1) : "";
    const std::string text = "[" + name + repeated("─", width - 1 - columns(name));
    return painter_.filled(text, distinct_colour(task));
  }

  std::string axis() const { return axis_text(length_, head_, cells_, kColumnsPerTick); }

  const GraphProblem& problem_;
  const GraphRun& run_;
  const Painter painter_;
  const std::vector<GraphRow> rows_;
  const std::int64_t begin_, length_;
  int head_ = 0, cells_ = 0;
};

std::string tasks_text(const GraphProblem& problem, const GraphRun& run) {
  const auto shown = std::min<std::size_t>(run.tasks.size(), kMaxGraphLines);
  if (shown == 0) return "no tasks\n";
  const std::int64_t begin = GraphGantt::begin_of(run);
  const AxisUnit unit = axis_unit(run_ns(run));
  const double longest = std::max(1e-3, static_cast<double>(run_ns(run)) / unit.nanos);
  const int decimals = std::clamp(4 - static_cast<int>(std::floor(std::log10(longest))), 0, 3);
  const auto number = [&](std::int64_t ns) {
    return fmt::format("{:.{}f}", static_cast<double>(ns) / unit.nanos, decimals);
  };
  const auto head = [&](const char* what) { return fmt::format("{} {}", what, unit.name); };
  std::vector<TextRow> rows{{"task", head("begin"), head("end"), head("time"), "where"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const GraphTaskRun& task = run.tasks[i];
    const std::string& name = problem.tasks[i].name;
    std::string where = place_text(run, task);
    if (problem.tasks[i].kind == GraphTaskKind::copy) where += ", copy";
    rows.push_back({fit(name, std::min(kTaskColumns, columns(name))), number(task.begin_ns - begin),
                    number(task.end_ns - begin), number(task.end_ns - task.begin_ns), where});
  }
  std::string text = aligned(rows);
  if (shown < run.tasks.size())
    text += fmt::format("... and {} more tasks\n", run.tasks.size() - shown);
  return text;
}

std::string path_text(const GraphProblem& problem, const std::vector<int>& path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i == kPathTasks / 2 && path.size() > kPathTasks) {
      text += " -> ...";
      i = path.size() - kPathTasks / 2;
    }
    text += (text.empty() ? "" : " -> ") + utf8(printable(problem.tasks[at(path[i])].name));
  }
  return text;
}

}  // namespace

std::string graph_run_text(const GraphResult& result, const GraphTextOptions& options) {
  const GraphRun& run = result.run;
  const auto time = static_cast<double>(std::max<std::int64_t>(1, run_ns(run)));
  std::string text = GraphGantt(result, options).draw();
  text += "\n" + tasks_text(result.problem, run) + "\n";
  const std::string on = run.driver == "sequential"
                             ? "one after another on one thread"
                             : fmt::format("on {} ({}), {} and {}, driver {}", run.topology.name,
                                           count_text(run.topology.units(), run.topology.unit_name),
                                           count_text(run.lanes, "lane"),
                                           count_text(run.threads, "thread"), run.driver);
  text += Painter(options.colour).bold(fmt::format("{} {}", ns_text(run_ns(run)), on)) + "\n";
  const CriticalPath path = critical_path(result.problem, run);
  text += fmt::format("critical path {}: {}\n", ns_text(path.ns),
                      path_text(result.problem, path.tasks));
  text += fmt::format("tasks take {} in total: {:.2f} at the same time on average\n",
                      ns_text(work_ns(run)), static_cast<double>(work_ns(run)) / time);
  if (result.sequential)
    text += fmt::format("{} one after another on one thread: speed-up {:.2f}\n",
                        ns_text(run_ns(*result.sequential)),
                        static_cast<double>(run_ns(*result.sequential)) / time);
  const GraphWaits& waits = run.waits;
  if (run.driver != "sequential")
    text +=
        fmt::format("dependencies: {} need no wait, {} waited for on the device, {} on the host\n",
                    waits.skipped, waits.on_device, waits.on_host);
  if (result.relative_error)
    text += fmt::format("relative error {:.3g} against Eigen's product in double precision\n",
                        *result.relative_error);
  return text;
}

}  // namespace partita::forms
