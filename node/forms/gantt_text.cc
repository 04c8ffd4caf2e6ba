// schedule_text of batch_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/unicode.h"
#include "forms/batch_forms.h"
#include "forms/batch_text.h"
#include "forms/gantt.h"

namespace partita::forms {
namespace {

// What a cell of the picture shows: a task's index in its lane, or one of these.
constexpr int kNobody = -1, kCreate = -2, kDestroy = -3, kSeveral = -4;

// Which cells of a GPU's slices show what. A cell is a slice times the same share of the time.
class Canvas {
 public:
  Canvas(const GpuRow& lane, int width, Nanos end);
  int at(int row, int column) const { return cells_[index(row, column)]; }

 private:
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row * width_ + column);
  }
  // Rounded to the nearest border between cells.
  int column(Nanos time) const {
    const double share = static_cast<double>(time) / static_cast<double>(end_);
    return std::clamp(static_cast<int>(std::lround(share * width_)), 0, width_ - 1);
  }
  int end_column(Nanos time) const {
    const double share = static_cast<double>(time) / static_cast<double>(end_);
    return std::clamp(static_cast<int>(std::lround(share * width_)), 0, width_);
  }
  bool free_of_changes(const Bar& bar, int column) const;
  void paint_task(const Bar& bar, int task);
  void paint_change(const Bar& bar);

  int width_;
  Nanos end_;
  std::vector<int> cells_;
};

Canvas::Canvas(const GpuRow& lane, int width, Nanos end)
    : width_(width), end_(end), cells_(static_cast<std::size_t>(lane.slices * width), kNobody) {
  for (std::size_t i = 0; i < lane.tasks.size(); ++i)
    paint_task(lane.tasks[i], static_cast<int>(i));
  for (const Bar& bar : lane.changes) paint_change(bar);
}

// However short, a task gets a cell when there is one; it never covers another task.
void Canvas::paint_task(const Bar& bar, int task) {
  const int begin = column(bar.begin), end = std::max(begin + 1, end_column(bar.end));
  for (int row = bar.first; row < bar.first + bar.slices; ++row)
    for (int c = begin; c < end; ++c)
      if (at(row, c) == kNobody) cells_[index(row, c)] = task;
}

bool Canvas::free_of_changes(const Bar& bar, int column) const {
  if (column >= width_) return false;
  for (int row = bar.first; row < bar.first + bar.slices; ++row)
    if (at(row, column) < kNobody) return false;
  return true;
}

// Creates and destroys are mostly shorter than a cell: each gets one all the same, its neighbour's
// when its own is taken.
void Canvas::paint_change(const Bar& bar) {
  int begin = column(bar.begin);
  int end = std::max(begin + 1, end_column(bar.end));
  int shown = bar.change->op == Reconfiguration::Op::create ? kCreate : kDestroy;
  const bool narrow = end - begin == 1;
  if (narrow && !free_of_changes(bar, begin)) {
    if (free_of_changes(bar, begin + 1)) {
      ++begin, ++end;
    } else {
      shown = kSeveral;
    }
  }
  for (int row = bar.first; row < bar.first + bar.slices; ++row)
    for (int c = begin; c < end; ++c)
      if (narrow || at(row, c) >= kNobody) cells_[index(row, c)] = shown;
}

class Gantt {
 public:
  Gantt(const BatchSchedule& schedule, const hw::Catalogue& catalogue, const GanttOptions& options);
  std::string draw();

 private:
  std::string lane_text(const GpuRow& lane);
  std::string row(const GpuRow& lane, const Canvas& canvas, int row);
  std::string run(const GpuRow& lane, int shown, int row, int width);
  std::string axis() const;

  const BatchSchedule& schedule_;
  const Painter painter_;
  std::vector<GpuRow> lanes_;
  Nanos end_;
  int head_ = 0;   // columns left of the picture
  int cells_ = 0;  // columns of the picture
  long hidden_ = 0;
  std::map<std::string_view, int> colours_;
};

Gantt::Gantt(const BatchSchedule& schedule, const hw::Catalogue& catalogue,
             const GanttOptions& options)
    : schedule_(schedule),
      painter_(options.colour),
      lanes_(gpu_rows(schedule, catalogue)),
      end_(last_end(schedule)) {
  int slices = 1;
  for (const GpuRow& lane : lanes_) slices = std::max(slices, lane.slices);
  head_ = columns(fmt::format("  slice {} ", slices - 1));
  cells_ = std::clamp(options.width, kMinGanttColumns, kMaxGanttColumns) - head_ - 1;
  for (const ScheduledTask& task : schedule.tasks)
    colours_.emplace(task.task, static_cast<int>(colours_.size()));
}

// The cells of one task in one slice. Boxes are closed at the left; the first line has the name,
// the second, if any, says how long it takes.
std::string Gantt::run(const GpuRow& lane, int shown, int row, int width) {
  if (shown == kNobody) return painter_.dim(repeated("·", width));
  if (shown == kCreate) return painter_.filled(repeated("+", width), kCreateColour);
  if (shown == kDestroy) return painter_.filled(repeated("x", width), kDestroyColour);
  if (shown == kSeveral) return painter_.filled(repeated("*", width), kDestroyColour);
  const Bar& bar = lane.tasks[static_cast<std::size_t>(shown)];
  const int line = row - bar.first;
  const bool top = line == 0, bottom = line == bar.slices - 1;
  constexpr int kLeastName = 3;
  std::string label;
  if (top) label = utf8(printable(bar.task->task));
  if (line == 1) label = seconds_text(bar.end - bar.begin);
  if (columns(label) > width - 1) {
    label = top && width - 1 >= kLeastName ? fit(label, width - 1) : "";
  }
  std::string text = top && bottom ? "[" : top ? "┌" : bottom ? "└" : "│";
  text += label + repeated(top || bottom ? "─" : " ", width - 1 - columns(label));
  return painter_.filled(text, distinct_colour(colours_.at(bar.task->task)));
}

std::string Gantt::row(const GpuRow& lane, const Canvas& canvas, int row) {
  std::string text = fit(fmt::format("  slice {}", row), head_) + "│";
  for (int begin = 0, end = 0; begin < cells_; begin = end) {
    const int shown = canvas.at(row, begin);
    while (end < cells_ && canvas.at(row, end) == shown) ++end;
    text += run(lane, shown, row, end - begin);
  }
  return text + "\n";
}

std::string Gantt::lane_text(const GpuRow& lane) {
  const Canvas canvas(lane, cells_, end_);
  std::string text = fmt::format("GPU {}  {}\n", lane.gpu,
                                 lane.model.empty() ? "not listed" : utf8(printable(lane.model)));
  std::set<int> visible;
  for (int r = 0; r < lane.slices; ++r) {
    for (int c = 0; c < cells_; ++c) visible.insert(canvas.at(r, c));
    text += row(lane, canvas, r);
  }
  for (std::size_t i = 0; i < lane.tasks.size(); ++i)
    hidden_ += !visible.contains(static_cast<int>(i));
  return text;
}

std::string Gantt::axis() const {
  constexpr int kColumnsPerTick = 10;
  return axis_text(end_, head_, cells_, kColumnsPerTick);
}

std::string Gantt::draw() {
  const auto shown = std::min<std::size_t>(lanes_.size(), kMaxTextGpus);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += lane_text(lanes_[i]);
  text += painter_.dim(axis());
  if (!schedule_.reconfigurations.empty())
    text += fmt::format("{} create  {} destroy  {} several\n", painter_.filled("+", kCreateColour),
                        painter_.filled("x", kDestroyColour), painter_.filled("*", kDestroyColour));
  if (hidden_ > 0) text += fmt::format("{} too short to be seen\n", count_text(hidden_, "task"));
  if (shown < lanes_.size()) text += fmt::format("... and {} more GPUs\n", lanes_.size() - shown);
  return text;
}

std::string tasks_text(const BatchSchedule& schedule) {
  constexpr int kNameColumns = 40;
  const auto shown = std::min<std::size_t>(schedule.tasks.size(), kMaxTextTasks);
  if (shown == 0) return "no tasks\n";
  // As many decimals as give the makespan five digits.
  const double longest = std::max(1e-9, seconds(last_end(schedule)).value);
  const int decimals = std::clamp(4 - static_cast<int>(std::floor(std::log10(longest))), 0, 9);
  const auto number = [&](Nanos time) {
    return fmt::format("{:.{}f}", seconds(time).value, decimals);
  };
  std::vector<TextRow> rows{{"task", "GPU", "begin s", "end s", "time s", "instance"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const ScheduledTask& t = schedule.tasks[i];
    rows.push_back({fit(t.task, std::min(kNameColumns, columns(t.task))), std::to_string(t.gpu),
                    number(t.begin), number(t.end),
                    fmt::format("{:.{}f}", seconds(t.end).value - seconds(t.begin).value, decimals),
                    instance_text(t)});
  }
  std::string text = aligned(rows);
  if (shown < schedule.tasks.size())
    text += fmt::format("... and {} more tasks\n", schedule.tasks.size() - shown);
  return text;
}

std::string late_text(const std::vector<LateTask>& late) {
  const auto shown = std::min<std::size_t>(late.size(), kMaxTextTasks);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text +=
        fmt::format("task {} ends {} after its deadline\n", utf8(printable(late[i].task)),
                    duration_text(seconds(late[i].end).value - seconds(late[i].deadline).value));
  if (shown < late.size()) text += fmt::format("... and {} more late tasks\n", late.size() - shown);
  return text;
}

}  // namespace

std::string schedule_text(const BatchSchedule& schedule, const std::vector<LateTask>& late,
                          const hw::Catalogue& catalogue, const GanttOptions& options) {
  std::string text = Gantt(schedule, catalogue, options).draw();
  text += "\n" + tasks_text(schedule) + "\n";
  text += Painter(options.colour).bold(makespan_text(schedule)) + "\n";
  text += effort_text(schedule, catalogue) + "\n";
  text += late_text(late);
  text += fmt::format("scheduler {}, {} ms of CPU time",
                      schedule.scheduler.empty() ? "unknown" : utf8(printable(schedule.scheduler)),
                      number_text(schedule.stats.scheduling_ms));
  if (schedule.stats.nodes > 0)
    text += fmt::format("; {}", count_text(schedule.stats.nodes, "search node"));
  text += "\n";
  if (options.explain && !schedule.explanation.empty()) {
    text += "\nwhy:\n";
    for (const std::string& line : schedule.explanation)
      text += fmt::format("  - {}\n", utf8(printable(line)));
  }
  return text;
}

}  // namespace partita::forms
