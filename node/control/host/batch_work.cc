#include "control/host/batch_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/append.h"
#include "base/index.h"
#include "act/carry/batch_script.h"
#include "act/carry/occupancy.h"
#include "act/carry/task_command.h"
#include "decide/batch.h"
#include "decide/reasons.h"
#include "device/node_driver.h"
#include "forms/batch_forms.h"
#include "verify/judge.h"

namespace partita::control {
namespace {

using exec::Nanos;

constexpr std::int64_t kNanosInMs = 1'000'000;
constexpr const char* kScheduler = "best";

std::string run_path(const std::string& state_dir, const std::string& key, const char* name) {
  return fmt::format("{}/batches/{}/{}", state_dir, key, name);
}

// The models of the run's GPUs, each once, and per GPU which it is.
struct GpuModels {
  std::vector<hw::GpuModel> models;
  std::vector<int> gpus, devices;
};
Result<GpuModels> models_of(const BatchDeed& deed, const hw::Catalogue& catalogue) {
  GpuModels found;
  for (const BatchGpu& gpu : deed.gpus) {
    const hw::GpuModel* model = catalogue.find(gpu.model);
    if (model == nullptr)
      return environment_error("gpu " + std::to_string(gpu.index), "its model is not known now");
    const auto same = std::ranges::find(found.models, model->name, &hw::GpuModel::name);
    found.gpus.push_back(static_cast<int>(same - found.models.begin()));
    if (same == found.models.end()) found.models.push_back(*model);
    found.devices.push_back(gpu.index);
  }
  return found;
}

// What is left of a batch, on the run's GPUs, from now on.
Result<plan::BatchProblem> problem_of_run(const BatchDeed& deed, const hw::Catalogue& catalogue) {
  const auto gpus = TRY(models_of(deed, catalogue));
  auto problem = TRY(forms::parse_tasks("tasks", deed.tasks, gpus.models, gpus.gpus));
  problem.reconfigurer.gpus_per_node = std::max(1, static_cast<int>(problem.gpus.size()));
  const std::set<std::string> over(deed.over.begin(), deed.over.end());
  const Nanos waited = std::max<std::int64_t>(deed.waited_ms, 0) * kNanosInMs;
  std::erase_if(problem.tasks, [&](const plan::Task& task) { return over.contains(task.name); });
  for (plan::Task& task : problem.tasks) {
    std::erase_if(task.after, [&](const std::string& name) { return over.contains(name); });
    task.release = std::max<Nanos>(task.release - waited, 0);
    if (task.deadline) task.deadline = *task.deadline - waited;
    if (task.deadline && *task.deadline <= task.release) task.deadline.reset();
  }
  if (problem.tasks.empty()) return bad_input("tasks", "none is left");
  return problem;
}

BatchTaskState state_of(const exec::TaskRun& run) {
  switch (run.status) {
    case exec::TaskStatus::finished:
      return BatchTaskState::done;
    case exec::TaskStatus::failed:
    case exec::TaskStatus::timed_out:
      return BatchTaskState::failed;
    case exec::TaskStatus::running:
      return BatchTaskState::running;
    case exec::TaskStatus::pending:
    case exec::TaskStatus::skipped:
    case exec::TaskStatus::not_run:
      return BatchTaskState::waiting;
  }
  return BatchTaskState::waiting;
}

}  // namespace

// ---- orders ----

void BatchOrders::set(const BatchDeed& deed) {
  const std::lock_guard lock(mutex_);
  for (std::size_t g = 0; g < deed.gpus.size(); ++g) {
    if (!deed.gpus[g].leave) continue;
    const exec::Withdrawn one{static_cast<int>(g), deed.gpus[g].stop};
    if (std::ranges::count(told_, one) > 0) continue;
    told_.push_back(one);
    fresh_.push_back(one);
  }
}

std::vector<exec::Withdrawn> BatchOrders::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

void BatchOrders::repeat() {
  const std::lock_guard lock(mutex_);
  fresh_ = told_;
}

// ---- opening ----

std::string BatchWork::path(const char* name) const {
  return run_path(doors_.state_dir, deed_.key, name);
}

bool BatchWork::has_begun(const BatchDeed& deed, const BatchDoors& doors) {
  // The mark stays when the journal is lost: tasks may be running all the same.
  const auto there = [&](const char* name) {
    return doors.doors.files.exists(run_path(doors.state_dir, deed.key, name));
  };
  return there("run.journal") || there("run.journal.open");
}

void BatchWork::forget(const std::string& key, Files& files, const std::string& state_dir) {
  for (const char* name :
       {"tasks.csv", "schedule.json", "run.journal", "run.journal.open", "result.json"})
    static_cast<void>(files.remove(run_path(state_dir, key, name)));
}

Result<std::unique_ptr<BatchWork>> BatchWork::open(const BatchDeed& deed, BatchDoors doors) {
  std::unique_ptr<BatchWork> work(new BatchWork(deed, std::move(doors)));
  Files& files = work->doors_.doors.files;
  const std::string result = work->path("result.json");
  if (files.exists(result)) {
    const auto text = TRY(files.read(result));
    work->result_ = TRY(parse_batch_run(result, text));
    work->over_ = true;
    return work;
  }
  TRY(work->prepare());
  TRY(work->go_on());
  return work;
}

// The schedule is made once: a run that goes on has that of its beginning.
Result<void> BatchWork::prepare() {
  Files& files = doors_.doors.files;
  TRY(files.make_directories(path("logs")));
  if (!files.exists(path("schedule.json"))) TRY(write_script());
  script_ = TRY(read_script());
  return carry::give_commands(script_, "");
}

Result<void> BatchWork::write_script() const {
  const auto problem = TRY(problem_of_run(deed_, doors_.catalogue));
  const auto chosen = TRY(decide::choose_scheduler("batch", kScheduler));
  const auto made = TRY(decide::make_schedule(chosen, problem, {.budget = doors_.budget}, {}));
  if (!made.plan)
    return failed(
        {ErrorCode::infeasible, decide::reasons_text("there is no schedule:", made.refusals), ""});
  Files& files = doors_.doors.files;
  TRY(files.write_atomic(path("tasks.csv"), forms::tasks_csv(problem)));
  return files.write_atomic(path("schedule.json"), forms::schedule_json(**made.plan));
}

Result<exec::Script> BatchWork::read_script() const {
  const auto gpus = TRY(models_of(deed_, doors_.catalogue));
  const auto tasks = TRY(doors_.doors.files.read(path("tasks.csv")));
  const auto text = TRY(doors_.doors.files.read(path("schedule.json")));
  auto problem = TRY(forms::parse_tasks(path("tasks.csv"), tasks, gpus.models, gpus.gpus));
  auto schedule = TRY(forms::parse_schedule(path("schedule.json"), text));
  problem.reconfigurer = schedule.reconfigurer;
  const auto verdict = verify::judge(problem, std::move(schedule));
  if (!verdict)
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("the schedule is broken:", verdict.error().violations),
                   path("schedule.json")});
  return carry::make_script(problem, *verdict, {gpus.devices, {}});
}

Result<void> BatchWork::go_on() {
  const auto may_begin = [this]() -> Result<void> {
    const auto node = TRY(device::read_node(doors_.doors.driver));
    const auto found = carry::blockers(script_, node, doors_.catalogue);
    if (found.empty()) return {};
    return failed({ErrorCode::in_use,
                   fmt::format("instances that the batch did not make are in its way: {}",
                               joined(found, ", ")),
                   ""});
  };
  session_ = TRY(exec::open_session(script_, doors_.doors,
                                    {.journal = path("run.journal"),
                                     .run = "agent-" + deed_.key + doors_.tag,
                                     .log_dir = path("logs"),
                                     .find = doors_.find,
                                     .may_begin = may_begin}));
  opened_ns_ = doors_.doors.clock.now_ns();
  opened_ms_ = doors_.wall_ms();
  take_failures();
  exec::Options options{.retries = deed_.retries};
  options.grace = static_cast<Nanos>(deed_.grace_s * static_cast<double>(exec::kSecond));
  executor_ = std::make_unique<exec::BatchExecutor>(script_, options, session_.past);
  return {};
}

// A task that has failed for good before a kill is not tried again after it.
void BatchWork::take_failures() {
  const auto records = exec::records_of(path("run.journal"), session_.settings.journal->found());
  if (!records || session_.past.tasks.empty()) return;
  std::map<std::string, const exec::Record*> last;
  std::map<std::string, int> failures;
  for (const exec::Record& record : *records) {
    if (record.kind != exec::Record::Kind::start && record.kind != exec::Record::Kind::end)
      continue;
    last[record.task] = &record;
    if (record.kind == exec::Record::Kind::end && record.in_time && record.status > 0)
      ++failures[record.task];
  }
  for (std::size_t t = 0; t < script_.tasks.size(); ++t) {
    const auto found = last.find(script_.tasks[t].name);
    if (found == last.end() || found->second->kind != exec::Record::Kind::end) continue;
    if (failures[found->first] > deed_.retries)
      session_.past.tasks[t].failed = found->second->status;
  }
}

// ---- what is told ----

BatchRunNow BatchWork::now() const {
  if (over_) return result_;
  BatchRunNow now{.key = deed_.key};
  const auto at_ms = [&](Nanos time) {
    return opened_ms_ + (session_.settings.origin + time - opened_ns_) / kNanosInMs;
  };
  const exec::RunReport& report = executor_->report();
  const Nanos elapsed = doors_.doors.clock.now_ns() - session_.settings.origin;
  for (std::size_t t = 0; t < script_.tasks.size(); ++t) {
    const exec::TaskRun& run = report.tasks[t];
    const exec::ScriptTask& planned = script_.tasks[t];
    const exec::Visit& visit = script_.visits[at(planned.visit)];
    BatchTask& task = now.tasks.emplace_back();
    task.batch = deed_.batch;
    task.name = planned.name;
    task.state = state_of(run);
    task.reason = run.reason;
    task.attempts = run.attempts;
    const bool not_run = run.status == exec::TaskStatus::not_run;
    if (run.status == exec::TaskStatus::skipped || (not_run && run.attempts == 0))
      continue;  // it has no place any more
    task.gpu_uuid = deed_.gpus[at(visit.gpu)].uuid;
    task.profile = visit.place.profile;
    task.start = visit.place.start;
    const Nanos lasts = planned.planned.end - planned.planned.begin;
    const bool began = run.status != exec::TaskStatus::pending;
    const Nanos begin = began ? run.begin : std::max(planned.planned.begin, elapsed);
    task.begin_ms = at_ms(begin);
    task.end_ms = is_over(task.state) || not_run
                      ? std::max(at_ms(run.end), task.begin_ms)
                      : at_ms(std::max(begin + lasts, began ? elapsed : 0));
  }
  for (const std::string& left : report.left) now.left.push_back(left);
  for (std::size_t g = 0; g < deed_.gpus.size(); ++g)
    if (executor_->has_left(static_cast<int>(g))) now.returned.push_back(deed_.gpus[g].uuid);
  return now;
}

Result<void> BatchWork::close() {
  BatchRunNow result = now();
  result.over = true;
  TRY(doors_.doors.files.write_atomic(path("result.json"), batch_run_json(result)));
  result_ = std::move(result);
  over_ = true;
  TRY(exec::close_session(session_, executor_->report(), doors_.doors));
  return exec::end_session(session_, executor_->report(), doors_.doors.files);
}

}  // namespace partita::control
