// Batches beside services, as loop_work.h says: who gets which GPU, and what is left of each batch.
// The rule: GPUs of policy.batch.gpus are the batches'. With policy.batch.idle they are also lent
// whole GPUs on which no service has an instance, while the node is as planned. Plans leave lent
// GPUs alone where they can; where they cannot, one is wanted back: nothing new begins there,
// what runs has give_back_s to end, and a change waits until the batch has left.
#include <fmt/format.h>

#include <algorithm>

#include "control/loop_work.h"
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

Result<std::vector<plan::Task>> Loop::Work::tasks_of(const std::string& text) const {
  const BatchSettings& policy = world_.settings.batch;
  std::vector<hw::GpuModel> models;
  std::vector<int> gpus;
  for (const device::GpuState& gpu : state_.gpus) {
    const bool candidate = policy.idle || std::ranges::count(policy.gpus, gpu.index) > 0;
    const hw::GpuModel* model = world_.catalogue.find(gpu.model);
    if (!candidate || !gpu.mig_capable || model == nullptr) continue;
    if (std::ranges::count(models, model->name, &hw::GpuModel::name) > 0) continue;
    gpus.push_back(static_cast<int>(models.size()));
    models.push_back(*model);
  }
  if (models.empty()) return refused_now("this node has no GPU that could be cut for batches");
  auto problem = forms::parse_tasks("tasks", text, models, gpus);
  if (!problem) return failed(problem.error());
  return std::move(problem->tasks);
}

Reply Loop::Work::of_batches(const SubmitTasks& request, const std::string& user) {
  const BatchSettings& policy = world_.settings.batch;
  if (policy.gpus.empty() && !policy.idle)
    return refused_now("no GPU is for batches: name some under policy.batch.gpus, or set idle");
  if (!carries_batches_)
    return refused_now(
        "this agent carries out no batches; `partita batch run` does, on a node "
        "without an agent");
  if (mode() == Mode::observe)
    return refused_now("the agent only observes: set the mode automatic or approve first");
  if (!node_known_) return refused_now("the node cannot be read now");
  if (memory_.batch.size() >= kMostBatches)
    return refused_now(
        fmt::format("{} batches are not over; hand it in when some are", kMostBatches));
  std::size_t text = request.text.size();
  for (const BatchKept& one : memory_.batch) text += one.text.size();
  if (text > kMostBatchText)
    return refused_now(
        fmt::format("batches that are not over may have {} KiB together; hand it in "
                    "when some are",
                    kMostBatchText / 1024));
  const auto tasks = tasks_of(request.text);
  if (!tasks) return failed(tasks.error());
  if (tasks->empty()) return bad_input("tasks", "there is no task");
  if (tasks->size() > kMostBatchTasks)
    return bad_input("tasks", fmt::format("a batch has at most {} tasks", kMostBatchTasks));
  for (const plan::Task& one : *tasks)
    if (one.command.empty())
      return bad_input(
          fmt::format("tasks:{}", one.line),
          fmt::format("task '{}' has no command, so there is nothing to run", one.name));
  BatchKept batch{.number = ++memory_.batches, .user = user, .text = request.text};
  batch.received_ms = now_;
  const std::string sentence =
      fmt::format("batch {}: {} {} taken; it begins when a GPU is free for batches", batch.number,
                  tasks->size(), tasks->size() == 1 ? "task is" : "tasks are");
  record(history::EventKind::desired,
         {.user = user,
          .cause = fmt::format("{} handed in batch {}", user, batch.number),
          .detail = fmt::format("{} tasks", tasks->size()),
          .documents = {{"tasks", request.text}}});
  memory_.batch.push_back(std::move(batch));
  return Receipt{0, sentence};
}

const std::vector<BatchNames>& Loop::Work::names_of(const BatchKept& batch) {
  const auto [place, fresh] = names_.try_emplace(batch.number);
  if (!fresh) return place->second;
  auto tasks = tasks_of(batch.text);
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

Reply Loop::Work::of_batches(const CancelBatch& request, const std::string& user) {
  const auto batch = unfinished_batch(request.batch);
  if (!batch) return failed(batch.error());
  BatchKept* found = *batch;
  if (found == nullptr)
    return Receipt{0, fmt::format("batch {} is over, nothing of it runs", request.batch)};
  if (!found->cancelled_by.empty())
    return Receipt{0, fmt::format("batch {} is being stopped already: {} cancelled it",
                                  request.batch, found->cancelled_by)};
  found->cancelled_by = user;
  found->cancelled_ms = now_;
  const bool runs = !found->gpus.empty();
  record(history::EventKind::desired,
         {.user = user,
          .cause = fmt::format("{} cancelled batch {}", user, request.batch),
          .detail = request.why});
  if (!runs) cancel_rest(*found, {});
  end_batches();
  return Receipt{0, fmt::format("batch {} is cancelled; {}", request.batch,
                                runs ? "what runs of it is stopped, then its GPUs are free"
                                     : "it had no GPU")};
}

// ---- a break ----

Result<BatchKept*> Loop::Work::unfinished_batch(long number) {
  const auto found = std::ranges::find(memory_.batch, number, &BatchKept::number);
  if (found != memory_.batch.end()) return &*found;
  if (number >= 1 && number <= memory_.batches) return nullptr;
  return failed({ErrorCode::not_found, fmt::format("there is no batch {}", number), ""});
}

Reply Loop::Work::of_batches(const PauseBatch& request, const std::string& user) {
  const auto batch = unfinished_batch(request.batch);
  if (!batch) return failed(batch.error());
  if (*batch == nullptr || !(*batch)->cancelled_by.empty())
    return refused_now(fmt::format("batch {} is over or being stopped", request.batch));
  if (!(*batch)->paused_by.empty())
    return Receipt{0, fmt::format("batch {} is paused already, by {}", request.batch,
                                  (*batch)->paused_by)};
  (*batch)->paused_by = user;
  record(history::EventKind::desired,
         {.user = user,
          .cause = fmt::format("{} paused batch {}", user, request.batch),
          .detail = request.why});
  return Receipt{0, fmt::format("batch {} is paused; what runs goes on, nothing new begins",
                                request.batch)};
}

Reply Loop::Work::of_batches(const ResumeBatch& request, const std::string& user) {
  const auto batch = unfinished_batch(request.batch);
  if (!batch) return failed(batch.error());
  if (*batch == nullptr) return refused_now(fmt::format("batch {} is over", request.batch));
  if ((*batch)->paused_by.empty())
    return Receipt{0, fmt::format("batch {} is not paused", request.batch)};
  (*batch)->paused_by.clear();
  record(history::EventKind::desired,
         {.user = user,
          .cause = fmt::format("{} resumed batch {}", user, request.batch),
          .detail = request.why});
  return Receipt{0, fmt::format("batch {} goes on", request.batch)};
}

// What has not come to its end never will. `run`: its tasks in the run that is over, if any.
void Loop::Work::cancel_rest(BatchKept& batch, const std::vector<BatchTask>& run) {
  for (const BatchNames& name : names_of(batch)) {
    if (std::ranges::count(batch.over, name.name, &BatchTask::name) > 0) continue;
    const auto ran = std::ranges::find(run, name.name, &BatchTask::name);
    BatchTask& task = batch.over.emplace_back(ran == run.end() ? BatchTask{} : *ran);
    task.batch = batch.number;
    task.name = name.name;
    task.state = BatchTaskState::cancelled;
    if (task.end_ms == 0 || task.end_ms > now_) task.end_ms = now_;
    task.reason = batch.cancelled_by + " cancelled the batch";
  }
}

// ---- what became of runs ----

void Loop::Work::hear_batches(const Seen& seen) {
  carries_batches_ = seen.batches.has_value();
  runs_ = seen.batches.value_or(std::vector<BatchRunNow>{});
  for (const BatchRunNow& run : runs_) {
    const auto found = std::ranges::find_if(memory_.batch, [&](const BatchKept& one) {
      return !one.gpus.empty() && batch_key(one) == run.key;
    });
    if (found == memory_.batch.end()) continue;
    if (!run.error.empty())
      tell(NoticeKind::other, "batch:" + run.key, "",
           fmt::format("batch {}: {}", found->number, run.error));
    if (run.over && node_known_) {
      end_run(*found, run);
      continue;
    }
    for (const std::string& uuid : run.returned)
      if (has(found->gpus, uuid) && !has(found->returned, uuid)) found->returned.push_back(uuid);
  }
  end_batches();
}

void Loop::Work::end_batches() {
  std::erase_if(memory_.batch, [&](const BatchKept& one) {
    const auto& names = names_of(one);
    const bool unreadable = names.empty() && one.cancelled_by.empty();
    if (!one.gpus.empty() || unreadable || one.over.size() < names.size()) return false;
    end_batch(one);
    return true;
  });
}

void Loop::Work::end_run(BatchKept& batch, const BatchRunNow& run) {
  bool some = false;
  std::string why = run.error;
  for (const BatchTask& task : run.tasks) {
    const device::GpuState* gpu = state_.find(task.gpu_uuid);
    const OutGpu* out = out_of(task.gpu_uuid);
    const bool unwell = gpu == nullptr || gpu->lost || (out != nullptr && !out->by_person);
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
    tell(NoticeKind::other, "left:" + left, "", "a batch could not clear up: " + left);
  const bool given_back =
      !batch.returned.empty() || !batch.paused_by.empty() || std::ranges::any_of(batch.gpus, [&](const std::string& uuid) {
        return wanted_back_since_.contains(uuid);
      });
  for (const std::string& uuid : batch.gpus) wanted_back_since_.erase(uuid);
  batch.gpus.clear();
  batch.returned.clear();
  batch.barren = some || given_back ? 0 : batch.barren + 1;
  if (batch.barren > 0)
    batch.not_before_ms = now_ + static_cast<std::int64_t>(1000 * kBarrenPauseS *
                                                           static_cast<double>(1 << batch.barren));
  const std::vector<std::string> left =
      skip_after_failures(names_of(batch), batch.over, batch.number, now_);
  if (!batch.cancelled_by.empty()) return cancel_rest(batch, run.tasks);
  if (batch.barren < kMostBarrenRuns) return;
  for (const std::string& name : left) {
    BatchTask& task = batch.over.emplace_back();
    task.batch = batch.number;
    task.name = name;
    task.state = BatchTaskState::failed;
    task.end_ms = now_;
    task.reason = why.empty() ? "it could not be run" : why;
  }
}

void Loop::Work::end_batch(const BatchKept& batch) {
  BatchPast past{.number = batch.number, .user = batch.user, .received_ms = batch.received_ms};
  past.ended_ms = now_;
  past.cancelled_by = batch.cancelled_by;
  for (const BatchTask& task : batch.over)
    ++(task.state == BatchTaskState::done        ? past.done
       : task.state == BatchTaskState::cancelled ? past.cancelled
                                                 : past.failed);
  const bool cancelled = !batch.cancelled_by.empty();
  const bool all = static_cast<std::size_t>(past.done) == batch.over.size();
  record(history::EventKind::notice,
         {.user = cancelled ? batch.cancelled_by : batch.user,
          .cause = fmt::format("batch {} is over", batch.number),
          .outcome = all ? history::Outcome::succeeded : history::Outcome::failed,
          .detail = fmt::format("{} of {} tasks are done{}", past.done, batch.over.size(),
                                cancelled ? ", it was cancelled" : "")});
  if (past.failed > 0)
    tell(NoticeKind::other, fmt::format("batch:{}", batch.number), "",
         fmt::format("batch {}: {} of {} tasks did not finish", batch.number, past.failed,
                     batch.over.size()));
  memory_.tasks_done += past.done;
  memory_.tasks_failed += past.failed;
  memory_.tasks_cancelled += past.cancelled;
  const auto shorten = [](auto& list, std::size_t most) {
    if (list.size() > most)
      list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(most));
  };
  memory_.past_tasks.insert(memory_.past_tasks.end(), batch.over.begin(), batch.over.end());
  shorten(memory_.past_tasks, kMostPastTasks);
  memory_.past_batches.push_back(std::move(past));
  shorten(memory_.past_batches, kMostPastBatches);
  names_.erase(batch.number);
}

// ---- which GPUs ----

bool Loop::Work::is_lent(const std::string& uuid) const {
  return std::ranges::any_of(memory_.batch, [&](const BatchKept& one) {
    return has(one.gpus, uuid) && !has(one.returned, uuid);
  });
}

GpuUse Loop::Work::without_lent() const {
  GpuUse use = use_;
  std::erase_if(use.usable, [&](const GpuUse::Gpu& gpu) { return is_lent(gpu.uuid); });
  return use;
}

bool Loop::Work::may_be_lent(const std::string& uuid) const {
  const device::GpuState* gpu = state_.find(uuid);
  const bool fit = gpu != nullptr && !uuid.empty() && !gpu->lost && gpu->mig_enabled &&
                   gpu->mig_pending && gpu->instances.empty() &&
                   world_.catalogue.find(gpu->model) != nullptr;
  if (!fit || is_lent(uuid)) return false;
  if (std::ranges::count(memory_.out, uuid, &OutGpu::uuid) > 0) return false;
  if (std::ranges::count(use_.batch, uuid, &GpuUse::Gpu::uuid) > 0) return true;
  if (!world_.settings.batch.idle || !use_.is_usable(uuid)) return false;
  if (!memory_.target) return services_.empty();
  return memory_.target->done && must_replan().empty() && !target_uses(*memory_.target, uuid) &&
         !(memory_.proposal && target_uses(*memory_.proposal, uuid));
}

bool Loop::Work::wanted_back(const std::string& uuid) const {
  const device::GpuState* gpu = state_.find(uuid);
  if (gpu == nullptr || gpu->lost) return true;
  if (std::ranges::count(memory_.out, uuid, &OutGpu::uuid) > 0) return true;
  if (std::ranges::count(use_.batch, uuid, &GpuUse::Gpu::uuid) > 0) return false;
  if (!world_.settings.batch.idle) return true;
  return memory_.target && target_uses(*memory_.target, uuid);
}

// True where GPUs have to be waited for; then `doing_` says so.
bool Loop::Work::waits_for_batches(const actuate::Wanted& wanted) {
  for (const actuate::WantedGpu& gpu : wanted.gpus) {
    if (gpu.instances.empty() || !is_lent(gpu.uuid)) continue;
    doing_ = fmt::format("waits until a batch has left gpu {}", gpu.index);
    return true;
  }
  return false;
}

// A change does not touch GPUs that are lent and stay so.
actuate::Wanted Loop::Work::wanted_now(const Target& target,
                                       const plan::Judged<plan::ServingPlan>& plan) const {
  actuate::Wanted wanted = wanted_of_target(use_, plan, target);
  std::erase_if(wanted.gpus, [&](const actuate::WantedGpu& gpu) {
    return gpu.instances.empty() && is_lent(gpu.uuid);
  });
  return wanted;
}

void Loop::Work::lend() {
  const bool may_begin = node_known_ && carries_batches_ && !under_ && mode() != Mode::observe;
  for (BatchKept& batch : memory_.batch) {
    if (!may_begin || !batch.gpus.empty() || now_ < batch.not_before_ms) continue;
    if (!batch.cancelled_by.empty() || !batch.paused_by.empty()) continue;
    const std::size_t tasks = names_of(batch).size();
    if (tasks <= batch.over.size()) continue;
    std::vector<std::string> free;
    for (const device::GpuState& gpu : state_.gpus)
      if (free.size() < tasks - batch.over.size() && may_be_lent(gpu.uuid))
        free.push_back(gpu.uuid);
    if (free.empty()) continue;
    batch.gpus = std::move(free);
    ++batch.run;
    record(history::EventKind::notice,
           {.user = batch.user,
            .cause = fmt::format("batch {} begins", batch.number),
            .detail = fmt::format("run {} of it, {} tasks on {} GPUs", batch.run,
                                  tasks - batch.over.size(), batch.gpus.size())});
  }
  tell_runs();
}

void Loop::Work::tell_runs() {
  const BatchSettings& policy = world_.settings.batch;
  for (const BatchKept& batch : memory_.batch) {
    if (batch.gpus.empty()) continue;
    BatchDeed deed{.key = batch_key(batch), .batch = batch.number, .tasks = batch.text};
    for (const BatchTask& task : batch.over) deed.over.push_back(task.name);
    deed.waited_ms = now_ - batch.received_ms;
    deed.retries = policy.retries;
    deed.grace_s = policy.grace_s;
    for (const std::string& uuid : batch.gpus) {
      BatchGpu& one = deed.gpus.emplace_back(BatchGpu{.uuid = uuid});
      if (const device::GpuState* gpu = state_.find(uuid)) {
        one.index = gpu->index;
        one.model = gpu->model;
      }
      if (!batch.cancelled_by.empty() || has(batch.returned, uuid)) {
        one.leave = one.stop = true;
        continue;
      }
      one.leave = node_known_ ? wanted_back(uuid) : wanted_back_since_.contains(uuid);
      if (!one.leave) {
        wanted_back_since_.erase(uuid);
        // Paused: as if it were wanted back, but without an end to what runs.
        one.leave = !batch.paused_by.empty();
        continue;
      }
      const std::int64_t since = wanted_back_since_.try_emplace(uuid, now_).first->second;
      const std::int64_t stop = since + static_cast<std::int64_t>(policy.give_back_s * 1000);
      one.stop = now_ >= stop;
      if (!one.stop) wake_ms_ = std::min(wake_ms_, stop);
    }
    deeds_.batches.push_back(std::move(deed));
  }
}

// ---- what is shown ----

BatchInfo Loop::Work::info_of(const BatchKept& batch) {
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
  for (const BatchNames& name : names_of(batch)) {
    const auto found = known.find(name.name);
    BatchTask task = found == known.end() ? BatchTask{} : *found->second;
    task.batch = batch.number;
    task.name = name.name;
    // One that was stopped waits for a place again.
    if (task.state == BatchTaskState::waiting && task.end_ms > 0 && task.end_ms <= now_)
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

// Newest first.
std::vector<BatchInfo> Loop::Work::batch_list() {
  std::vector<BatchInfo> list;
  for (const BatchKept& batch : memory_.batch) list.push_back(info_of(batch));
  for (const BatchPast& batch : memory_.past_batches) {
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
    for (const BatchTask& task : memory_.past_tasks)
      if (task.batch == batch.number) info.tasks.push_back(task);
  }
  std::ranges::stable_sort(list, std::greater{}, &BatchInfo::number);
  return list;
}

BatchNow Loop::Work::batch_now() const {
  BatchNow now;
  for (const BatchKept& batch : memory_.batch) {
    const auto info = std::ranges::find(*batches_, batch.number, &BatchInfo::number);
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
  if (const auto known = energy_.draws().find(kBatchTenant); known != energy_.draws().end()) {
    now.watts = known->second.watts;
    now.energy_j = known->second.joules;
  }
  now.done += static_cast<int>(memory_.tasks_done);
  now.failed += static_cast<int>(memory_.tasks_failed);
  now.cancelled += static_cast<int>(memory_.tasks_cancelled);
  const auto& past = memory_.past_tasks;
  for (auto task = past.rbegin(); task != past.rend() && now.tasks.size() < kMostShownTasks; ++task)
    now.tasks.push_back(*task);
  return now;
}

}  // namespace partita::control
