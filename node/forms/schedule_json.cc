// Schedule JSON of batch_forms.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/form_rules.h"
#include "forms/batch_forms.h"
#include "forms/batch_text.h"

namespace partita::forms {
namespace {

constexpr Range kGpuIndices{.high = 1e9};
constexpr Range kTaskStarts{.high = 1023};
// The judge says which times are wrong; here they only have to be times.
constexpr double kMaxSeconds = static_cast<double>(2 * kMaxBatchTime / kNanosInSecond);
constexpr Range kTimes{.low = -kMaxSeconds, .high = kMaxSeconds};
constexpr ListForm kLines{.indent = "    "};

void describe_time(Form& f, std::string_view key, Nanos& time, std::string_view about) {
  double value = seconds(time).value;
  form::digits(f, key, value, exact_seconds(time), kTimes, about);
  if (f.reading() && !f.reading()->error() && f.reading()->has(key)) time = nanos({value});
}

void describe(Form& f, ScheduledTask& task) {
  f.name("task", task.task, "its name");
  f.integer("gpu", task.gpu, kGpuIndices, "counted from 0");
  f.name("profile", task.profile, "MIG profile of its instance");
  f.integer("start", task.start, kTaskStarts, "first memory slice of its instance");
  describe_time(f, "begin_s", task.begin, "from the start of the batch");
  describe_time(f, "end_s", task.end, "from the start of the batch");
}

void describe(Form& f, Reconfiguration& change) {
  f.integer("gpu", change.gpu, kGpuIndices, "counted from 0");
  f.word("op", change.op, {"create", "destroy"}, "what happens to the instance");
  f.name("profile", change.profile, "MIG profile of the instance");
  f.integer("start", change.start, kTaskStarts, "first memory slice of the instance");
  describe_time(f, "begin_s", change.begin, "from the start of the batch");
  describe_time(f, "end_s", change.end, "from the start of the batch");
}

void describe(Form& f, LateTask& late) {
  f.name("task", late.task, "its name");
  describe_time(f, "deadline_s", late.deadline, "should have ended by then");
  describe_time(f, "end_s", late.end, "ends then");
}

void describe(Form& f, BatchStats& stats) {
  f.optional().number("scheduling_ms", stats.scheduling_ms, kNotNegative,
                      "CPU time of the scheduler alone");
  f.optional().whole("nodes", stats.nodes, kNotNegative,
                     "search nodes and evaluated neighbours");
}

void describe(Form& f, ChosenFor& spread) {
  f.number("spread", spread.spread, kNotNegative, "of the task times, as a share");
  f.integer("runs", spread.runs, kGpuIndices, "that were simulated");
  f.whole("seed", spread.seed, "of the simulation");
  f.number("expected_makespan_s", spread.expected.value, kTimes, "mean over the runs");
  f.number("p95_makespan_s", spread.p95.value, kTimes, "95 % of the runs end within");
}

// "gpu_model", "gpus", and "gpu_models" where that is not the same model for all.
void describe_gpus(Form& f, std::vector<std::string>& models) {
  std::string first = models.empty() ? "" : models.front();
  int gpus = static_cast<int>(models.size());
  const bool same = std::ranges::all_of(models, [&](const auto& model) { return model == first; });
  f.name("gpu_model", first, "catalogue name of the (first) GPU's model");
  f.integer("gpus", gpus, {.low = 1, .high = kMaxBatchGpus}, "how many GPUs");
  f.optional(!same).names("gpu_models", models, {.most = kMaxBatchGpus, .indent = "    "},
                          "one name per GPU, where they differ");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  if (!in->has("gpu_models")) models.assign(static_cast<std::size_t>(gpus), first);
  if (models.size() != static_cast<std::size_t>(gpus))
    in->refuse("gpu_models",
               fmt::format("'gpu_models' has {} names, 'gpus' is {}", models.size(), gpus));
  if (models.empty() || models.front() != first)
    in->refuse("gpu_models",
               fmt::format("the first of 'gpu_models' must be the 'gpu_model', '{}'", first));
}

// Stated where there are several GPUs. A schedule of several that does not say so is one in which
// every GPU reconfigures by itself.
void describe_reconfigurer(Form& f, const std::vector<std::string>& models,
                           plan::Reconfigurer& who) {
  using Of = plan::Reconfigurer::Of;
  const bool several = models.size() > 1;
  f.optional(several).word("reconfigurer", who.of, {"node", "gpu"},
                           "who creates and destroys instances, one at a time");
  f.optional(several && who.of == Of::node)
      .integer("gpus_per_node", who.gpus_per_node, {.low = 1, .high = kMaxBatchGpus},
               "neighbouring GPUs that share a reconfigurer");
  Fields* const in = f.reading();
  if (in && !in->error() && models.size() > 1 && !in->has("reconfigurer")) who.of = Of::gpu;
}

struct ScheduleDocument {
  BatchSchedule schedule;
  std::vector<LateTask> late;
  std::optional<ChosenFor> chosen_for;
};

void describe(Form& f, ScheduleDocument& document) {
  BatchSchedule& schedule = document.schedule;
  f.lines("  ");
  f.document("BatchSchedule");
  describe_gpus(f, schedule.gpu_models);
  describe_reconfigurer(f, schedule.gpu_models, schedule.reconfigurer);
  f.optional(!schedule.scheduler.empty())
      .name("scheduler", schedule.scheduler, "the planner that made it");
  f.optional(!schedule.problem_digest.empty())
      .name("problem_digest", schedule.problem_digest, "of the problem that it solves");
  f.optional();
  describe_time(f, "makespan_s", schedule.makespan, "the end of the last task; missing: counted");
  f.optional();
  describe_time(f, "lower_bound_s", schedule.lower_bound, "no schedule is shorter; 0: not stated");
  f.optional().boolean("optimal", schedule.optimal, "proven that no schedule is shorter");
  f.list("tasks", schedule.tasks, describe, kLines, "which task runs where and when");
  f.optional().list("reconfigurations", schedule.reconfigurations, describe, kLines,
                    "instances that are created and destroyed");
  f.optional(!document.late.empty())
      .list("late", document.late, describe, kLines, "tasks that end after their deadline");
  f.optional().object("stats", schedule.stats, describe, "what scheduling took");
  f.optional(!schedule.explanation.empty())
      .notes("explanation", schedule.explanation, kLines, "sentences that explain the plan");
  f.object("robustness", document.chosen_for, describe, "what choosing it was based on");
  if (!f.reading()) return;
  // What is stated is kept, right or wrong: it is the judge who compares.
  const Nanos stated = schedule.makespan;
  put_in_order(schedule);
  if (f.reading()->has("makespan_s")) schedule.makespan = stated;
}

}  // namespace

std::string schedule_json(const BatchSchedule& schedule, const std::vector<LateTask>& late,
                          const std::optional<ChosenFor>& chosen_for) {
  return write_form(ScheduleDocument{schedule, late, chosen_for}, describe);
}

Result<BatchSchedule> parse_schedule(const std::string& file, std::string_view text) {
  auto document = TRY(read_form<ScheduleDocument>(file, text, describe));
  return std::move(document.schedule);
}

DocumentKind schedule_kind() {
  return document_kind<ScheduleDocument, describe, "BatchSchedule",
                       "which task runs on which instance when">();
}

}  // namespace partita::forms
