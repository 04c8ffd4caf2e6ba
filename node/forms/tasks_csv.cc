// tasks_csv and task_warnings of batch_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "base/append.h"
#include "base/terminal.h"
#include "forms/batch_forms.h"
#include "forms/batch_text.h"
#include "profile/csv.h"

namespace partita::forms {
namespace {

// One column of times: its name, and whose times it holds.
struct TimeColumn {
  std::string name;
  std::size_t model = 0;
  int size = 0;
};

// One column per size where all GPU models of that size agree, else one per model.
std::vector<TimeColumn> time_columns(const BatchProblem& problem) {
  std::map<int, std::vector<std::size_t>> models_of;
  for (std::size_t m = 0; m < problem.models.size(); ++m)
    for (const int size : sizes_of(problem.models[m])) models_of[size].push_back(m);
  std::vector<TimeColumn> columns;
  for (const auto& [size, models] : models_of) {
    const bool agreed = std::ranges::all_of(problem.tasks, [&](const Task& task) {
      return std::ranges::all_of(models, [&](std::size_t m) {
        return task.times[m][size] == task.times[models.front()][size];
      });
    });
    if (agreed) {
      columns.push_back({time_column(size), models.front(), size});
      continue;
    }
    for (const std::size_t m : models)
      columns.push_back({fmt::format("{}@{}", time_column(size), problem.models[m].name), m, size});
  }
  return columns;
}

// An optional column and how a task fills it; left out when every task leaves it empty.
struct OptionalColumn {
  const char* name;
  std::string (*cell)(const Task&);
};

constexpr std::array<OptionalColumn, 6> kOptional{{
    {"command", [](const Task& task) { return task.command; }},
    {"release_s",
     [](const Task& task) { return task.release ? exact_seconds(task.release) : std::string(); }},
    {"deadline_s",
     [](const Task& task) {
       return task.deadline ? exact_seconds(*task.deadline) : std::string();
     }},
    {"priority",
     [](const Task& task) {
       return task.priority == 1 ? std::string() : fmt::format("{}", task.priority);
     }},
    {"after", [](const Task& task) { return joined(task.after, ";"); }},
    {"time_cv",
     [](const Task& task) {
       return task.time_cv == 0 ? std::string() : fmt::format("{}", task.time_cv);
     }},
}};

// ---- warnings ----

std::string called(const Task& task) {
  return task.line > 0 ? fmt::format("task '{}' in line {}", task.name, task.line)
                       : fmt::format("task '{}'", task.name);
}

// The size at which more slices cost a task the most time, if that is more than 2 %; or empty.
std::string slower_when_larger(const Task& task, const SizeTimes& times,
                               const hw::GpuModel& model) {
  constexpr double kTolerated = 1.02;
  double worst = kTolerated;
  int small = 0, large = 0, fastest = 0;
  for (const int size : sizes_of(model)) {
    if (times[size] == 0) continue;
    if (fastest > 0) {
      const double ratio = static_cast<double>(times[size]) / static_cast<double>(times[fastest]);
      if (ratio > worst) worst = ratio, small = fastest, large = size;
    }
    if (fastest == 0 || times[size] < times[fastest]) fastest = size;
  }
  if (large == 0) return "";
  return fmt::format("{} takes longer on {}g than on {}g of {}: {} s instead of {} s", called(task),
                     large, small, model.name, number_text(seconds(times[large]).value),
                     number_text(seconds(times[small]).value));
}

Nanos shortest(const Task& task) {
  Nanos time = kForever;
  for (const SizeTimes& times : task.times)
    for (const Nanos t : times.by_gpcs)
      if (t > 0) time = std::min(time, t);
  return time;
}

// The first warnings of one kind in full, then how many more there are.
class Warnings {
 public:
  void add(std::string warning) {
    if (warning.empty()) return;
    if (++count_ <= kShown) shown_.push_back(std::move(warning));
  }
  std::vector<std::string> take(std::string_view kind) && {
    if (count_ > kShown) shown_.push_back(fmt::format("{} more {}", count_ - kShown, kind));
    return std::move(shown_);
  }

 private:
  static constexpr int kShown = 10;
  int count_ = 0;
  std::vector<std::string> shown_;
};

}  // namespace

std::vector<int> sizes_of(const hw::GpuModel& model) {
  std::set<int> sizes;
  for (const hw::MigProfile& profile : model.profiles)
    if (profile.plain()) sizes.insert(profile.gpcs);
  return {sizes.begin(), sizes.end()};
}

std::string time_column(int size) { return fmt::format("{}{}g", kTimePrefix, size); }

std::string exact_seconds(Nanos time) {
  std::string text = fmt::format("{}{}.{:09}", time < 0 ? "-" : "", std::abs(time / kNanosInSecond),
                                 std::abs(time % kNanosInSecond));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string tasks_csv(const BatchProblem& problem) {
  const std::vector<TimeColumn> times = time_columns(problem);
  std::vector<OptionalColumn> optional;
  std::ranges::copy_if(kOptional, std::back_inserter(optional), [&](const OptionalColumn& column) {
    return std::ranges::any_of(problem.tasks,
                               [&](const Task& task) { return !column.cell(task).empty(); });
  });
  std::string text = "task";
  for (const TimeColumn& column : times) text.append(",").append(profile::csv_cell(column.name));
  for (const OptionalColumn& column : optional) text.append(",").append(column.name);
  text += '\n';
  for (const Task& task : problem.tasks) {
    text += profile::csv_cell(task.name);
    for (const TimeColumn& column : times) {
      const Nanos time = task.times[column.model][column.size];
      text.append(",").append(time > 0 ? exact_seconds(time) : "");
    }
    for (const OptionalColumn& column : optional)
      text.append(",").append(profile::csv_cell(column.cell(task)));
    text += '\n';
  }
  return text;
}

std::vector<std::string> task_warnings(const BatchProblem& problem) {
  Warnings slower, hopeless;
  std::vector<bool> used(problem.models.size());
  for (const Task& task : problem.tasks) {
    for (std::size_t m = 0; m < problem.models.size(); ++m) {
      slower.add(slower_when_larger(task, task.times[m], problem.models[m]));
      used[m] = used[m] || task.times[m] != SizeTimes{};
    }
    if (task.deadline && shortest(task) > *task.deadline - task.release)
      hopeless.add(fmt::format(
          "{} cannot meet its deadline: released at {} s, it runs for at least {} s and must end "
          "by {} s",
          called(task), number_text(seconds(task.release).value),
          number_text(seconds(shortest(task)).value), number_text(seconds(*task.deadline).value)));
  }
  std::vector<std::string> all = std::move(slower).take("times that grow with the size");
  std::ranges::move(std::move(hopeless).take("deadlines that cannot be met"),
                    std::back_inserter(all));
  for (std::size_t m = 0; m < problem.models.size(); ++m)
    if (!used[m]) all.push_back(fmt::format("no task fits on {}", problem.models[m].name));
  return all;
}

}  // namespace partita::forms
