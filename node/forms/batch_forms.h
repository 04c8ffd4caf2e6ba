// Forms of the batch vocabulary: tasks CSV, schedule JSON, and pictures: slices against time, in
// the terminal and as SVG, also of several schedules side by side.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/units.h"
#include "forms/vocabulary.h"
#include "hw/catalogue.h"
#include "plan/batch.h"

namespace partita::forms {

// Tasks CSV: `task,time_s_1g,time_s_2g,...`: one column per size of the GPU models; an empty cell:
// the task does not fit. A column `time_s_2g@A30-24GB` counts for that GPU model only, instead of
// time_s_2g. Optional: command, release_s, deadline_s, priority, after (names between semicolons).
// A size of a model without a column: no task fits there; a column of a size that no model has is
// left alone when it is a known size of some GPU (1g 2g 3g 4g 7g) and refused otherwise.
// Refused with FILE:LINE: missing or unknown columns, duplicate or empty names, times that are not
// positive and finite or above the limits, a task that fits nowhere, unknown names or a cycle in
// `after` (the cycle is named), a deadline before the release.
// The problem has the tasks and the models; one GPU per entry of `gpus`.
Result<BatchProblem> parse_tasks(const std::string& file, std::string_view text,
                                 const std::vector<hw::GpuModel>& models,
                                 const std::vector<int>& gpus);

// The tasks of a problem as CSV that parse_tasks reads back to the same tasks, for times up to 46
// days and names without ';' at which `after` could point.
std::string tasks_csv(const BatchProblem& problem);

// What is odd but allowed, for a warning each: times that grow with the size of the instance (by
// more than 2 %), releases after deadlines that cannot be met.
std::vector<std::string> task_warnings(const BatchProblem& problem);

// Schedule JSON, kind BatchSchedule, api_version partita/v1, times in seconds. parse(print(s)) == s
// for times up to 46 days. `gpu_model` is the first GPU's, `gpus` the number of GPUs; `gpu_models`
// lists one name per GPU and is written when they differ. Reading needs api_version, kind,
// gpu_model, gpus and tasks; unknown keys are left alone.
// `chosen_for`: key `robustness`, the simulated runs for which it was chosen.
struct ChosenFor {
  double spread = 0;
  int runs = 0;
  std::uint64_t seed = 0;
  Seconds expected, p95;  // makespans
};
std::string schedule_json(const BatchSchedule& schedule, const std::vector<LateTask>& late = {},
                          const std::optional<ChosenFor>& chosen_for = {});
DocumentKind schedule_kind();
Result<BatchSchedule> parse_schedule(const std::string& file, std::string_view text);

struct GanttOptions {
  bool colour = false;  // ANSI colours (terminals only)
  int width = 100;      // columns of the terminal; at least kMinGanttColumns are taken
  bool explain = false;
};

// For people: per GPU one line per memory slice against time, a table of the tasks, the makespan
// with its bound, and who is late. Draws kMaxTextGpus GPUs, lists kMaxTextTasks tasks and as many
// late ones, and says how many more there are. Draws any schedule without crashing.
inline constexpr int kMinGanttColumns = 40;
inline constexpr int kMaxGanttColumns = 400;
inline constexpr int kMaxTextGpus = 16;
inline constexpr int kMaxTextTasks = 60;
std::string schedule_text(const BatchSchedule& schedule, const std::vector<LateTask>& late,
                          const hw::Catalogue& catalogue, const GanttOptions& options);

// A self-contained SVG: time across, memory slices down, one box per task, creates and destroys as
// narrow boxes in two colours, all facts on hover. Several schedules stand below each other on one
// time scale, each under its scheduler's name and makespan. Draws kMaxSvgSchedules schedules, of
// each kMaxGanttGpus GPUs, kMaxGanttTasks tasks and as many reconfigurations, and says how many
// more there are. Well-formed XML for any schedule.
inline constexpr int kMaxSvgSchedules = 16;
inline constexpr int kMaxGanttGpus = 64;
inline constexpr int kMaxGanttTasks = 5'000;
std::string schedules_svg(const std::vector<BatchSchedule>& schedules,
                          const hw::Catalogue& catalogue);

}  // namespace partita::forms
