// parse_tasks of batch_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "base/append.h"
#include "base/check.h"
#include "base/nearest.h"
#include "base/unicode.h"
#include "base/words.h"
#include "forms/batch_forms.h"
#include "forms/batch_text.h"
#include "profile/csv.h"

namespace partita::forms {
namespace {

using profile::Csv;
using profile::CsvRow;

constexpr int kKnownSizes[] = {1, 2, 3, 4, 7};
constexpr std::size_t kMaxCommandBytes = 16'384;
constexpr double kMaxPriority = 1e6, kMostTimeCv = 10;

// A word of the file shortened for messages.
std::string shown(std::string_view word) {
  constexpr std::size_t kShown = 80;
  return utf8(printable(word.substr(0, kShown))) + (word.size() > kShown ? "..." : "");
}

// Where in the file each fact of a task stands; -1: nowhere.
struct Columns {
  int task = -1, command = -1, release = -1, deadline = -1, priority = -1, after = -1;
  int time_cv = -1;
  // Per GPU model and size.
  std::vector<std::array<int, hw::kMaxSlices + 1>> times;
};

// ---- the header ----

class HeaderReader {
 public:
  HeaderReader(const Csv& csv, const std::vector<hw::GpuModel>& models);
  Result<Columns> read();

 private:
  // "time_s_2g@A30-24GB": 2 and "A30-24GB"; no size for another kind of column.
  struct TimeColumn {
    int size = 0;
    std::string_view model;
  };
  static TimeColumn time_of(std::string_view name);
  Result<void> take(const std::string& name, int column);
  Result<void> take_time(const std::string& name, TimeColumn time, int column);
  Result<void> place(const std::string& name, int& at, int column) const;
  tl::unexpected<Error> refuse(std::string message) const {
    return bad_input(csv_.at(csv_.header), std::move(message));
  }
  std::vector<std::string> words(const std::vector<int>& sizes) const;

  const Csv& csv_;
  const std::vector<hw::GpuModel>& models_;
  std::vector<std::vector<int>> sizes_;  // per model
  std::vector<int> all_sizes_;           // of any model of the problem
  Columns own_;                          // the columns that hold for one GPU model alone
  Columns columns_;
};

HeaderReader::HeaderReader(const Csv& csv, const std::vector<hw::GpuModel>& models)
    : csv_(csv), models_(models) {
  std::set<int> all;
  std::array<int, hw::kMaxSlices + 1> nowhere;
  nowhere.fill(-1);
  for (const hw::GpuModel& model : models) {
    sizes_.push_back(sizes_of(model));
    all.insert(sizes_.back().begin(), sizes_.back().end());
    columns_.times.push_back(nowhere);
  }
  own_.times = columns_.times;
  all_sizes_.assign(all.begin(), all.end());
}

HeaderReader::TimeColumn HeaderReader::time_of(std::string_view name) {
  if (!name.starts_with(kTimePrefix)) return {};
  name.remove_prefix(kTimePrefix.size());
  TimeColumn time;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), time.size);
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (error != std::errc() || time.size < 1 || !name.starts_with('g')) return {};
  name.remove_prefix(1);
  if (name.empty()) return time;
  if (!name.starts_with('@') || name.size() == 1) return {};
  time.model = name.substr(1);
  return time;
}

std::vector<std::string> HeaderReader::words(const std::vector<int>& sizes) const {
  std::vector<std::string> names;
  for (const int size : sizes) names.push_back(time_column(size));
  return names;
}

Result<void> HeaderReader::place(const std::string& name, int& at, int column) const {
  if (at >= 0)
    return refuse(fmt::format("columns '{}' and '{}' mean the same",
                              csv_.header.cells[static_cast<std::size_t>(at)], shown(name)));
  at = column;
  return {};
}

Result<void> HeaderReader::take_time(const std::string& name, TimeColumn time, int column) {
  const bool known = std::ranges::count(kKnownSizes, time.size) > 0 ||
                     std::ranges::count(all_sizes_, time.size) > 0;
  if (!known)
    return refuse(fmt::format("column '{}': no GPU has instances of {} compute slices; {} wanted",
                              shown(name), time.size, joined(words(all_sizes_), ", ")));
  const auto size = static_cast<std::size_t>(time.size);
  bool model_known = time.model.empty() || hw::builtin_catalogue().find(time.model);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const bool named = same_word(models_[m].name, time.model);
    model_known = model_known || named;
    if (!named && !time.model.empty()) continue;
    if (std::ranges::count(sizes_[m], time.size) == 0) continue;  // a size of other GPUs
    Columns& columns = named ? own_ : columns_;
    if (auto ok = place(name, columns.times[m][size], column); !ok) return ok;
  }
  if (model_known) return {};
  std::vector<std::string> names;
  for (const hw::GpuModel& model : models_) names.push_back(model.name);
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) names.push_back(model.name);
  return refuse(fmt::format("column '{}': unknown GPU model '{}'{}", shown(name), shown(time.model),
                            did_you_mean(time.model, names)));
}

Result<void> HeaderReader::take(const std::string& name, int column) {
  const TimeColumn time = time_of(name);
  if (time.size > 0) return take_time(name, time, column);
  const std::pair<std::string_view, int*> others[] = {
      {"task", &columns_.task},         {"command", &columns_.command},
      {"release_s", &columns_.release}, {"deadline_s", &columns_.deadline},
      {"priority", &columns_.priority}, {"after", &columns_.after},
      {"time_cv", &columns_.time_cv}};
  std::vector<std::string> names = words(all_sizes_);
  for (const auto& [other, at] : others) {
    if (other == name) return place(name, *at, column);
    names.emplace_back(other);
  }
  return refuse(fmt::format("unknown column '{}'{}", shown(name), did_you_mean(name, names)));
}

Result<Columns> HeaderReader::read() {
  for (std::size_t i = 0; i < csv_.header.cells.size(); ++i) {
    if (auto ok = take(csv_.header.cells[i], static_cast<int>(i)); !ok) return failed(ok.error());
  }
  if (columns_.task < 0) return refuse("column 'task' is missing");
  bool any = false;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    for (const int size : sizes_[m]) {
      const int own = own_.times[m][static_cast<std::size_t>(size)];
      int& at = columns_.times[m][static_cast<std::size_t>(size)];
      if (own >= 0) at = own;
      any = any || at >= 0;
    }
  }
  if (!any)
    return refuse(fmt::format("no column with times, such as {}", joined(words(all_sizes_), ", ")));
  return columns_;
}

// ---- the rows ----

class RowReader {
 public:
  RowReader(const Csv& csv, const Columns& columns, const std::vector<hw::GpuModel>& models)
      : csv_(csv), columns_(columns), models_(models) {}
  Result<Task> read(const CsvRow& row) const;

 private:
  const std::string& cell(const CsvRow& row, int column) const {
    return row.cells[static_cast<std::size_t>(column)];
  }
  bool given(const CsvRow& row, int column) const {
    return column >= 0 && !cell(row, column).empty();
  }
  tl::unexpected<Error> refuse(const CsvRow& row, std::string message) const {
    return bad_input(csv_.at(row), std::move(message));
  }
  // A number above 0 (or from 0 on) and at most `max`.
  Result<double> number(const CsvRow& row, int column, double max, bool positive) const;
  Result<Nanos> time(const CsvRow& row, int column, bool positive) const;
  Result<std::vector<SizeTimes>> times(const CsvRow& row) const;
  Result<std::vector<std::string>> after(const CsvRow& row) const;
  std::string wanted_columns() const;

  const Csv& csv_;
  const Columns& columns_;
  const std::vector<hw::GpuModel>& models_;
};

Result<double> RowReader::number(const CsvRow& row, int column, double max, bool positive) const {
  constexpr double kAny = std::numeric_limits<double>::max();
  const auto value = TRY(profile::csv_number(csv_, row, column, {-kAny, kAny}));
  if (value <= max && (positive ? value > 0 : value >= 0)) return value;
  const auto& name = csv_.header.cells[static_cast<std::size_t>(column)];
  return refuse(
      row, fmt::format("{} '{}' must be {} and at most {:.0f}", name,
                       cell(row, column).substr(0, 40), positive ? "above 0" : "at least 0", max));
}

Result<Nanos> RowReader::time(const CsvRow& row, int column, bool positive) const {
  const auto value = TRY(number(row, column, seconds(kMaxTaskTime).value, positive));
  const Nanos time = nanos({value});
  if (positive && time == 0)
    return refuse(row, fmt::format("{} '{}' is below half a nanosecond",
                                   csv_.header.cells[static_cast<std::size_t>(column)],
                                   cell(row, column).substr(0, 40)));
  return time;
}

std::string RowReader::wanted_columns() const {
  std::set<int> used;
  for (const auto& model : columns_.times)
    for (const int column : model)
      if (column >= 0) used.insert(column);
  std::vector<std::string> names;
  for (const int column : used)
    names.push_back(csv_.header.cells[static_cast<std::size_t>(column)]);
  return joined(names, ", ");
}

Result<std::vector<SizeTimes>> RowReader::times(const CsvRow& row) const {
  std::vector<SizeTimes> times(models_.size());
  bool fits = false;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    for (int size = 1; size <= hw::kMaxSlices; ++size) {
      const int column = columns_.times[m][static_cast<std::size_t>(size)];
      if (!given(row, column)) continue;
      const auto value = time(row, column, true);
      if (!value)
        return refuse(row, value.error().message + "; leave it empty where the task does not fit");
      times[m][size] = *value;
      fits = true;
    }
  }
  if (!fits)
    return refuse(row, fmt::format("task '{}' fits nowhere: no time in {}",
                                   cell(row, columns_.task), wanted_columns()));
  return times;
}

Result<std::vector<std::string>> RowReader::after(const CsvRow& row) const {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  std::string_view rest = cell(row, columns_.after);
  while (!rest.empty()) {
    std::string_view name = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
    name = name.substr(0, name.find_last_not_of(" \t") + 1);
    if (name.empty()) continue;
    if (!seen.insert(name).second)
      return refuse(row, fmt::format("'after' names '{}' twice", shown(name)));
    names.emplace_back(name);
  }
  return names;
}

Result<Task> RowReader::read(const CsvRow& row) const {
  Task task;
  task.line = row.line;
  task.name = cell(row, columns_.task);
  if (const std::string fault = name_fault(task.name); !fault.empty())
    return refuse(row, fmt::format("task {}", fault));
  task.times = TRY(times(row));
  if (given(row, columns_.command)) task.command = cell(row, columns_.command);
  if (task.command.size() > kMaxCommandBytes)
    return refuse(row, fmt::format("command is longer than {} bytes", kMaxCommandBytes));
  if (given(row, columns_.release)) {
    task.release = TRY(time(row, columns_.release, false));
  }
  if (given(row, columns_.deadline)) {
    const auto deadline = TRY(time(row, columns_.deadline, false));
    if (deadline < task.release)
      return refuse(row, fmt::format("deadline_s '{}' is before release_s '{}'",
                                     cell(row, columns_.deadline), cell(row, columns_.release)));
    task.deadline = deadline;
  }
  if (given(row, columns_.priority)) {
    task.priority = TRY(number(row, columns_.priority, kMaxPriority, true));
  }
  if (given(row, columns_.time_cv)) {
    task.time_cv = TRY(number(row, columns_.time_cv, kMostTimeCv, false));
  }
  if (given(row, columns_.after)) {
    task.after = TRY(after(row));
  }
  return task;
}

// ---- the whole ----

std::string line_of(const std::string& file, const Task& task) {
  return fmt::format("{}:{}", file, task.line);
}

// "a after b after c after a", the middle of a long cycle left out.
std::string cycle_text(const std::vector<Task>& tasks, const std::vector<int>& cycle) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > kShown && i == kShown - 2) {
      text += fmt::format("({} more) after ", cycle.size() - kShown + 1);
      i = cycle.size() - 1;
    }
    text += tasks[static_cast<std::size_t>(cycle[i])].name + " after ";
  }
  return text + tasks[static_cast<std::size_t>(cycle.front())].name;
}

// Tasks, each after the next one and the last after the first; empty when there is no cycle. Starts
// at the cycle's task that comes first in the file. Walks without recursion: chains may be long.
std::vector<int> find_cycle(const std::vector<std::vector<int>>& after) {
  enum class State : char { fresh, open, done };
  std::vector<State> states(after.size(), State::fresh);
  std::vector<int> path;
  std::vector<std::size_t> next(after.size(), 0);
  for (std::size_t root = 0; root < after.size(); ++root) {
    if (states[root] == State::fresh) path.push_back(static_cast<int>(root));
    while (!path.empty()) {
      const auto at = static_cast<std::size_t>(path.back());
      states[at] = State::open;
      if (next[at] == after[at].size()) {
        states[at] = State::done;
        path.pop_back();
        continue;
      }
      const int before = after[at][next[at]++];
      if (states[static_cast<std::size_t>(before)] == State::fresh) path.push_back(before);
      if (states[static_cast<std::size_t>(before)] != State::open) continue;
      std::vector<int> cycle(std::ranges::find(path, before), path.end());
      std::ranges::rotate(cycle, std::ranges::min_element(cycle));
      return cycle;
    }
  }
  return {};
}

Result<void> check_tasks(const std::string& file, const std::vector<Task>& tasks) {
  std::map<std::string_view, int> index;
  Nanos total = 0;
  for (const Task& task : tasks) {
    const auto [at, fresh] = index.emplace(task.name, static_cast<int>(index.size()));
    if (!fresh)
      return bad_input(line_of(file, task),
                       fmt::format("task '{}' is already defined in line {}", task.name,
                                   tasks[static_cast<std::size_t>(at->second)].line));
    Nanos longest = 0;
    for (const SizeTimes& times : task.times)
      longest = std::max(longest, *std::ranges::max_element(times.by_gpcs));
    total += longest;
    if (total > kMaxBatchTime)
      return bad_input(line_of(file, task),
                       fmt::format("the times of the tasks up to here add up to more than {:.0f} s",
                                   seconds(kMaxBatchTime).value));
  }
  std::vector<std::vector<int>> after(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::string& name : tasks[i].after) {
      const auto found = index.find(name);
      if (found != index.end()) {
        after[i].push_back(found->second);
        continue;
      }
      std::vector<std::string> names;
      for (const Task& task : tasks) names.push_back(task.name);
      return bad_input(
          line_of(file, tasks[i]),
          fmt::format("'after' of task '{}' names '{}', which is not a task of this file{}",
                      tasks[i].name, shown(name), did_you_mean(name, names)));
    }
  }
  if (const std::vector<int> cycle = find_cycle(after); !cycle.empty())
    return bad_input(
        line_of(file, tasks[static_cast<std::size_t>(cycle.front())]),
        fmt::format("tasks wait for each other in a circle: {}", cycle_text(tasks, cycle)));
  return {};
}

}  // namespace

Result<BatchProblem> parse_tasks(const std::string& file, std::string_view text,
                                 const std::vector<hw::GpuModel>& models,
                                 const std::vector<int>& gpus) {
  CHECK(!models.empty() && !gpus.empty());
  const auto csv = TRY(profile::parse_csv(file, text));
  const auto columns = TRY(HeaderReader(csv, models).read());
  if (csv.rows.size() > static_cast<std::size_t>(kMaxTasks))
    return bad_input(csv.at(csv.rows[static_cast<std::size_t>(kMaxTasks)]),
                     fmt::format("more than {} tasks", kMaxTasks));
  BatchProblem problem{{}, models, gpus};
  const RowReader reader(csv, columns, models);
  for (const CsvRow& row : csv.rows) {
    auto task = TRY(reader.read(row));
    problem.tasks.push_back(std::move(task));
  }
  TRY(check_tasks(file, problem.tasks));
  return problem;
}

}  // namespace partita::forms
