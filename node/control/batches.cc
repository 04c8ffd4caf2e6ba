#include "control/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "forms/batch_forms.h"

namespace partita::control {
namespace {

constexpr int kMostBarrenRuns = 3;
constexpr double kBarrenPauseS = 30;  // doubles

tl::unexpected<Error> refused_now(const std::string& why) {
  return failed({ErrorCode::infeasible, why, ""});
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

}  // namespace

// ---- handing in ----

Result<std::vector<plan::Task>> Batches::tasks_of(const NodeView& node,
                                                  const std::string& text) const {
  const BatchSettings& policy = world_.settings.batch;
  std::vector<hw::GpuModel> models;
  std::vector<int> gpus;
  for (const device::GpuState& gpu : node.state.gpus) {
    const bool candidate = policy.idle || std::ranges::count(policy.gpus, gpu.index) > 0;
    const hw::GpuModel* model = world_.catalogue.find(gpu.model);
    if (!candidate || !gpu.mig_capable || model == nullptr) continue;
    if (std::ranges::count(models, model->name, &hw::GpuModel::name) > 0) continue;
    gpus.push_back(static_cast<int>(models.size()));
    models.push_back(*model);
  }
  if (models.empty()) return refused_now("this node has no GPU that could be cut for batches");
  auto problem = TRY(forms::parse_tasks("tasks", text, models, gpus));
  return std::move(problem.tasks);
}

Reply Batches::submit(const Ground& ground, const SubmitTasks& request, const std::string& user) {
  const BatchSettings& policy = world_.settings.batch;
  if (policy.gpus.empty() && !policy.idle)
    return refused_now("no GPU is for batches: name some under policy.batch.gpus, or set idle");
  if (!carried_out_)
    return refused_now(
        "this agent carries out no batches; `partita apply --tasks` does, on a node "
        "without an agent");
  if (ground.mode == Mode::observe)
    return refused_now("the agent only observes: set the mode automatic or approve first");
  if (!ground.node.known) return refused_now("the node cannot be read now");
  if (kept_.batch.size() >= kMostBatches)
    return refused_now(
        fmt::format("{} batches are not over; hand it in when some are", kMostBatches));
  std::size_t text = request.text.size();
  for (const BatchKept& one : kept_.batch) text += one.text.size();
  if (text > kMostBatchText)
    return refused_now(
        fmt::format("batches that are not over may have {} KiB together; hand it in "
                    "when some are",
                    kMostBatchText / 1024));
  const auto tasks = TRY(tasks_of(ground.node, request.text));
  if (tasks.empty()) return bad_input("tasks", "there is no task");
  if (tasks.size() > kMostBatchTasks)
    return bad_input("tasks", fmt::format("a batch has at most {} tasks", kMostBatchTasks));
  for (const plan::Task& one : tasks)
    if (one.command.empty())
      return bad_input(
          fmt::format("tasks:{}", one.line),
          fmt::format("task '{}' has no command, so there is nothing to run", one.name));
  BatchKept batch{.number = ++kept_.batches, .user = user, .text = request.text};
  batch.received_ms = ground.now_ms;
  const std::string sentence =
      fmt::format("batch {}: {} {} taken; it begins when a GPU is free for batches", batch.number,
                  tasks.size(), tasks.size() == 1 ? "task is" : "tasks are");
  report_.record(history::EventKind::desired,
                 {.user = user,
                  .cause = fmt::format("{} handed in batch {}", user, batch.number),
                  .detail = fmt::format("{} tasks", tasks.size()),
                  .documents = {{"tasks", request.text}}});
  kept_.batch.push_back(std::move(batch));
  return Receipt{0, sentence};
}

const std::vector<BatchNames>& Batches::names_of(const NodeView& node, const BatchKept& batch) {
  const auto [place, fresh] = names_.try_emplace(batch.number);
  if (!fresh) return place->second;
  auto tasks = tasks_of(node, batch.text);
  // Its GPUs may be gone meanwhile: then any that the catalogue knows will do for the names.
  for (const hw::GpuModel& model : world_.catalogue.gpus) {
    if (tasks) break;
    if (auto problem = forms::parse_tasks("tasks", batch.text, {model}, {0}))
      tasks = std::move(problem->tasks);
  }
  if (!tasks) {
    names_.erase(place);
    static const std::vector<BatchNames> none;
    return none;
  }
  for (plan::Task& one : *tasks) place->second.push_back({one.name, std::move(one.after)});
  return place->second;
}

// ---- calling back ----

Reply Batches::cancel(const Ground& ground, const CancelBatch& request, const std::string& user) {
  const auto batch = TRY(unfinished(request.batch));
  BatchKept* found = batch;
  if (found == nullptr)
    return Receipt{0, fmt::format("batch {} is over, nothing of it runs", request.batch)};
  if (!found->cancelled_by.empty())
    return Receipt{0, fmt::format("batch {} is being stopped already: {} cancelled it",
                                  request.batch, found->cancelled_by)};
  found->cancelled_by = user;
  found->cancelled_ms = ground.now_ms;
  const bool runs = !found->gpus.empty();
  report_.record(history::EventKind::desired,
                 {.user = user,
                  .cause = fmt::format("{} cancelled batch {}", user, request.batch),
                  .detail = request.why});
  if (!runs) cancel_rest(ground, *found, {});
  end_batches(ground);
  return Receipt{0, fmt::format("batch {} is cancelled; {}", request.batch,
                                runs ? "what runs of it is stopped, then its GPUs are free"
                                     : "it had no GPU")};
}

// ---- a break ----

Result<BatchKept*> Batches::unfinished(long number) {
  const auto found = std::ranges::find(kept_.batch, number, &BatchKept::number);
  if (found != kept_.batch.end()) return &*found;
  if (number >= 1 && number <= kept_.batches) return nullptr;
  return failed({ErrorCode::not_found, fmt::format("there is no batch {}", number), ""});
}

Reply Batches::pause(const PauseBatch& request, const std::string& user) {
  const auto batch = TRY(unfinished(request.batch));
  if (batch == nullptr || !batch->cancelled_by.empty())
    return refused_now(fmt::format("batch {} is over or being stopped", request.batch));
  if (!batch->paused_by.empty())
    return Receipt{
        0, fmt::format("batch {} is paused already, by {}", request.batch, batch->paused_by)};
  batch->paused_by = user;
  report_.record(history::EventKind::desired,
                 {.user = user,
                  .cause = fmt::format("{} paused batch {}", user, request.batch),
                  .detail = request.why});
  return Receipt{
      0, fmt::format("batch {} is paused; what runs goes on, nothing new begins", request.batch)};
}

Reply Batches::resume(const ResumeBatch& request, const std::string& user) {
  const auto batch = TRY(unfinished(request.batch));
  if (batch == nullptr) return refused_now(fmt::format("batch {} is over", request.batch));
  if (batch->paused_by.empty())
    return Receipt{0, fmt::format("batch {} is not paused", request.batch)};
  batch->paused_by.clear();
  report_.record(history::EventKind::desired,
                 {.user = user,
                  .cause = fmt::format("{} resumed batch {}", user, request.batch),
                  .detail = request.why});
  return Receipt{0, fmt::format("batch {} goes on", request.batch)};
}

// What has not come to its end never will. `run`: its tasks in the run that is over, if any.
void Batches::cancel_rest(const Ground& ground, BatchKept& batch,
                          const std::vector<BatchTask>& run) {
  for (const BatchNames& name : names_of(ground.node, batch)) {
    if (std::ranges::count(batch.over, name.name, &BatchTask::name) > 0) continue;
    const auto ran = std::ranges::find(run, name.name, &BatchTask::name);
    BatchTask& task = batch.over.emplace_back(ran == run.end() ? BatchTask{} : *ran);
    task.batch = batch.number;
    task.name = name.name;
    task.state = BatchTaskState::cancelled;
    if (task.end_ms == 0 || task.end_ms > ground.now_ms) task.end_ms = ground.now_ms;
    task.reason = batch.cancelled_by + " cancelled the batch";
  }
}

// ---- what became of runs ----

void Batches::hear(const Ground& ground, const std::optional<std::vector<BatchRunNow>>& runs) {
  carried_out_ = runs.has_value();
  runs_ = runs.value_or(std::vector<BatchRunNow>{});
  for (const BatchRunNow& run : runs_) {
    const auto found = std::ranges::find_if(kept_.batch, [&](const BatchKept& one) {
      return !one.gpus.empty() && batch_key(one) == run.key;
    });
    if (found == kept_.batch.end()) continue;
    if (!run.error.empty())
      report_.tell(NoticeKind::other, "batch:" + run.key, "",
                   fmt::format("batch {}: {}", found->number, run.error));
    if (run.over && ground.node.known) {
      end_run(ground, *found, run);
      continue;
    }
    for (const std::string& uuid : run.returned)
      if (has(found->gpus, uuid) && !has(found->returned, uuid)) found->returned.push_back(uuid);
  }
  end_batches(ground);
}

void Batches::end_batches(const Ground& ground) {
  std::erase_if(kept_.batch, [&](const BatchKept& one) {
    const auto& names = names_of(ground.node, one);
    const bool unreadable = names.empty() && one.cancelled_by.empty();
    if (!one.gpus.empty() || unreadable || one.over.size() < names.size()) return false;
    end_batch(one, ground.now_ms);
    return true;
  });
}

void Batches::end_run(const Ground& ground, BatchKept& batch, const BatchRunNow& run) {
  bool some = false;
  std::string why = run.error;
  for (const BatchTask& task : run.tasks) {
    const device::GpuState* gpu = ground.node.state.find(task.gpu_uuid);
    const auto out = std::ranges::find(ground.out, task.gpu_uuid, &OutGpu::uuid);
    const bool unwell = gpu == nullptr || gpu->lost || (out != ground.out.end() && !out->by_person);
    // What failed on a GPU that broke is tried elsewhere; what failed once its batch was cancelled
    // was stopped, though an agent that was killed in between cannot tell.
    const bool stopped = batch.cancelled_ms > 0 && task.end_ms >= batch.cancelled_ms;
    if (task.state == BatchTaskState::done ||
        (task.state == BatchTaskState::failed && !unwell && !stopped)) {
      batch.over.push_back(task);
      some = true;
    } else if (why.empty()) {
      why = task.reason;
    }
  }
  for (const std::string& left : run.left)
    report_.tell(NoticeKind::other, "left:" + left, "", "a batch could not clear up: " + left);
  const bool given_back = !batch.returned.empty() || !batch.paused_by.empty() ||
                          std::ranges::any_of(batch.gpus, [&](const std::string& uuid) {
                            return wanted_back_since_.contains(uuid);
                          });
  for (const std::string& uuid : batch.gpus) wanted_back_since_.erase(uuid);
  batch.gpus.clear();
  batch.returned.clear();
  batch.barren = some || given_back ? 0 : batch.barren + 1;
  if (batch.barren > 0)
    batch.not_before_ms =
        ground.now_ms +
        static_cast<std::int64_t>(1000 * kBarrenPauseS * static_cast<double>(1 << batch.barren));
  const std::vector<std::string> left =
      skip_after_failures(names_of(ground.node, batch), batch.over, batch.number, ground.now_ms);
  if (!batch.cancelled_by.empty()) return cancel_rest(ground, batch, run.tasks);
  if (batch.barren < kMostBarrenRuns) return;
  for (const std::string& name : left) {
    BatchTask& task = batch.over.emplace_back();
    task.batch = batch.number;
    task.name = name;
    task.state = BatchTaskState::failed;
    task.end_ms = ground.now_ms;
    task.reason = why.empty() ? "it could not be run" : why;
  }
}

void Batches::end_batch(const BatchKept& batch, std::int64_t now_ms) {
  BatchPast past{.number = batch.number, .user = batch.user, .received_ms = batch.received_ms};
  past.ended_ms = now_ms;
  past.cancelled_by = batch.cancelled_by;
  for (const BatchTask& task : batch.over)
    ++(task.state == BatchTaskState::done        ? past.done
       : task.state == BatchTaskState::cancelled ? past.cancelled
                                                 : past.failed);
  const bool cancelled = !batch.cancelled_by.empty();
  const bool all = static_cast<std::size_t>(past.done) == batch.over.size();
  report_.record(history::EventKind::notice,
                 {.user = cancelled ? batch.cancelled_by : batch.user,
                  .cause = fmt::format("batch {} is over", batch.number),
                  .outcome = all ? history::Outcome::succeeded : history::Outcome::failed,
                  .detail = fmt::format("{} of {} tasks are done{}", past.done, batch.over.size(),
                                        cancelled ? ", it was cancelled" : "")});
  if (past.failed > 0)
    report_.tell(NoticeKind::other, fmt::format("batch:{}", batch.number), "",
                 fmt::format("batch {}: {} of {} tasks did not finish", batch.number, past.failed,
                             batch.over.size()));
  kept_.tasks_done += past.done;
  kept_.tasks_failed += past.failed;
  kept_.tasks_cancelled += past.cancelled;
  const auto shorten = [](auto& list, std::size_t most) {
    if (list.size() > most)
      list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(most));
  };
  kept_.past_tasks.insert(kept_.past_tasks.end(), batch.over.begin(), batch.over.end());
  shorten(kept_.past_tasks, kMostPastTasks);
  kept_.past_batches.push_back(std::move(past));
  shorten(kept_.past_batches, kMostPastBatches);
  names_.erase(batch.number);
}

// ---- which GPUs ----

bool Batches::has_lent(const std::string& uuid) const {
  return std::ranges::any_of(kept_.batch, [&](const BatchKept& one) {
    return has(one.gpus, uuid) && !has(one.returned, uuid);
  });
}

std::set<std::string> Batches::lent() const {
  std::set<std::string> lent;
  for (const BatchKept& one : kept_.batch)
    for (const std::string& uuid : one.gpus)
      if (!has(one.returned, uuid)) lent.insert(uuid);
  return lent;
}

bool Batches::may_be_lent(const Ground& ground, const device::GpuState& gpu) const {
  const bool fit = !gpu.uuid.empty() && !gpu.lost && gpu.mig_enabled && gpu.mig_pending &&
                   gpu.instances.empty() && world_.catalogue.find(gpu.model) != nullptr;
  if (!fit || has_lent(gpu.uuid)) return false;
  if (std::ranges::count(ground.out, gpu.uuid, &OutGpu::uuid) > 0) return false;
  const GpuUse& use = ground.node.use;
  if (std::ranges::count(use.batch, gpu.uuid, &GpuUse::Gpu::uuid) > 0) return true;
  if (!world_.settings.batch.idle || !use.is_usable(gpu.uuid) || !ground.idles) return false;
  const PlansKept& plans = ground.plans;
  return !(plans.target && plans.target->uses(gpu.uuid)) &&
         !(plans.target && plans.proposal && plans.proposal->uses(gpu.uuid));
}

bool Batches::wanted_back(const Ground& ground, const std::string& uuid) const {
  const device::GpuState* gpu = ground.node.state.find(uuid);
  if (gpu == nullptr || gpu->lost) return true;
  if (std::ranges::count(ground.out, uuid, &OutGpu::uuid) > 0) return true;
  if (std::ranges::count(ground.node.use.batch, uuid, &GpuUse::Gpu::uuid) > 0) return false;
  if (!world_.settings.batch.idle) return true;
  return ground.plans.target && ground.plans.target->uses(uuid);
}

std::vector<BatchDeed> Batches::lend(const Ground& ground) {
  const bool may_begin =
      ground.may_begin && ground.node.known && carried_out_ && ground.mode != Mode::observe;
  for (BatchKept& batch : kept_.batch) {
    if (!may_begin || !batch.gpus.empty() || ground.now_ms < batch.not_before_ms) continue;
    if (!batch.cancelled_by.empty() || !batch.paused_by.empty()) continue;
    const std::size_t tasks = names_of(ground.node, batch).size();
    if (tasks <= batch.over.size()) continue;
    std::vector<std::string> free;
    for (const device::GpuState& gpu : ground.node.state.gpus)
      if (free.size() < tasks - batch.over.size() && may_be_lent(ground, gpu))
        free.push_back(gpu.uuid);
    if (free.empty()) continue;
    batch.gpus = std::move(free);
    ++batch.run;
    report_.record(history::EventKind::notice,
                   {.user = batch.user,
                    .cause = fmt::format("batch {} begins", batch.number),
                    .detail = fmt::format("run {} of it, {} tasks on {} GPUs", batch.run,
                                          tasks - batch.over.size(), batch.gpus.size())});
  }
  std::vector<BatchDeed> runs;
  for (const BatchKept& batch : kept_.batch)
    if (!batch.gpus.empty()) runs.push_back(run_of(ground, batch));
  return runs;
}

BatchDeed Batches::run_of(const Ground& ground, const BatchKept& batch) {
  BatchDeed deed{.key = batch_key(batch), .batch = batch.number, .tasks = batch.text};
  for (const BatchTask& task : batch.over) deed.over.push_back(task.name);
  deed.waited_ms = ground.now_ms - batch.received_ms;
  deed.retries = world_.settings.batch.retries;
  deed.grace_s = world_.settings.batch.grace_s;
  for (const std::string& uuid : batch.gpus) deed.gpus.push_back(gpu_of(ground, batch, uuid));
  return deed;
}

BatchGpu Batches::gpu_of(const Ground& ground, const BatchKept& batch, const std::string& uuid) {
  BatchGpu one{.uuid = uuid};
  if (const device::GpuState* gpu = ground.node.state.find(uuid)) {
    one.index = gpu->index;
    one.model = gpu->model;
  }
  if (!batch.cancelled_by.empty() || has(batch.returned, uuid)) {
    one.leave = one.stop = true;
    return one;
  }
  one.leave = ground.node.known ? wanted_back(ground, uuid) : wanted_back_since_.contains(uuid);
  if (!one.leave) {
    wanted_back_since_.erase(uuid);
    // Paused: as if it were wanted back, but without an end to what runs.
    one.leave = !batch.paused_by.empty();
    return one;
  }
  const std::int64_t since = wanted_back_since_.try_emplace(uuid, ground.now_ms).first->second;
  const std::int64_t stop =
      since + static_cast<std::int64_t>(world_.settings.batch.give_back_s * 1000);
  one.stop = ground.now_ms >= stop;
  if (!one.stop) report_.look_by(stop);
  return one;
}

// ---- what is shown ----

BatchInfo Batches::info_of(const NodeView& node, const BatchKept& batch, std::int64_t now_ms) {
  BatchInfo info{.number = batch.number, .user = batch.user, .received_ms = batch.received_ms};
  info.state = !batch.cancelled_by.empty() ? BatchState::cancelling
               : !batch.paused_by.empty()  ? BatchState::paused
               : batch.gpus.empty()        ? BatchState::waiting
                                           : BatchState::running;
  info.cancelled_by = batch.cancelled_by;
  info.paused_by = batch.paused_by;
  info.gpus = batch.gpus;
  std::erase_if(info.gpus, [&](const std::string& uuid) { return has(batch.returned, uuid); });
  std::map<std::string, const BatchTask*> known;
  for (const BatchRunNow& run : runs_)
    if (!batch.gpus.empty() && run.key == batch_key(batch))
      for (const BatchTask& task : run.tasks) known[task.name] = &task;
  for (const BatchTask& task : batch.over) known[task.name] = &task;
  for (const BatchNames& name : names_of(node, batch)) {
    const auto found = known.find(name.name);
    BatchTask task = found == known.end() ? BatchTask{} : *found->second;
    task.batch = batch.number;
    task.name = name.name;
    // One that was stopped waits for a place again.
    if (task.state == BatchTaskState::waiting && task.end_ms > 0 && task.end_ms <= now_ms)
      task.gpu_uuid.clear(), task.profile.clear(), task.start = 0, task.begin_ms = task.end_ms = 0;
    switch (task.state) {
      case BatchTaskState::waiting:
        ++info.waiting;
        break;
      case BatchTaskState::running:
        ++info.running;
        break;
      case BatchTaskState::done:
        ++info.done;
        break;
      case BatchTaskState::cancelled:
        ++info.cancelled;
        break;
      case BatchTaskState::failed:
      case BatchTaskState::skipped:
        ++info.failed;
    }
    if (!is_over(task.state) && task.end_ms > 0)
      info.ends_ms = std::max(info.ends_ms.value_or(0), task.end_ms);
    info.tasks.push_back(std::move(task));
  }
  return info;
}

std::vector<BatchInfo> Batches::list(const NodeView& node, std::int64_t now_ms) {
  std::vector<BatchInfo> list;
  for (const BatchKept& batch : kept_.batch) list.push_back(info_of(node, batch, now_ms));
  for (const BatchPast& batch : kept_.past_batches) {
    BatchInfo& info = list.emplace_back(BatchInfo{.number = batch.number, .user = batch.user});
    info.received_ms = batch.received_ms;
    info.ended_ms = batch.ended_ms;
    info.cancelled_by = batch.cancelled_by;
    info.done = batch.done;
    info.failed = batch.failed;
    info.cancelled = batch.cancelled;
    info.state = batch.cancelled > 0 ? BatchState::cancelled
                 : batch.failed > 0  ? BatchState::failed
                                     : BatchState::done;
    for (const BatchTask& task : kept_.past_tasks)
      if (task.batch == batch.number) info.tasks.push_back(task);
  }
  std::ranges::stable_sort(list, std::greater{}, &BatchInfo::number);
  return list;
}

BatchNow Batches::brief(const std::vector<BatchInfo>& listed,
                        const std::optional<Draw>& draw) const {
  BatchNow now;
  for (const BatchKept& batch : kept_.batch) {
    const auto info = std::ranges::find(listed, batch.number, &BatchInfo::number);
    now.gpus.insert(now.gpus.end(), info->gpus.begin(), info->gpus.end());
    now.waiting += info->waiting;
    now.running += info->running;
    now.done += info->done;
    now.failed += info->failed;
    now.cancelled += info->cancelled;
    if (info->ends_ms) now.ends_ms = std::max(now.ends_ms.value_or(0), *info->ends_ms);
    const auto room = std::min(kMostShownTasks - now.tasks.size(), info->tasks.size());
    now.tasks.insert(now.tasks.end(), info->tasks.begin(),
                     info->tasks.begin() + static_cast<std::ptrdiff_t>(room));
  }
  if (draw) {
    now.watts = draw->watts;
    now.energy_j = draw->joules;
  }
  now.done += static_cast<int>(kept_.tasks_done);
  now.failed += static_cast<int>(kept_.tasks_failed);
  now.cancelled += static_cast<int>(kept_.tasks_cancelled);
  const auto& past = kept_.past_tasks;
  for (auto task = past.rbegin(); task != past.rend() && now.tasks.size() < kMostShownTasks; ++task)
    now.tasks.push_back(*task);
  return now;
}

}  // namespace partita::control
