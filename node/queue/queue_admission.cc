// What may come into the queue.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "hw/catalogue.h"
#include "queue/queue.h"

namespace partita::queue {
namespace {

tl::unexpected<Error> over(const std::string& what) {
  return failed({ErrorCode::limit, what, "count"});
}

Result<void> check_numbers(const Spec& spec) {
  if (spec.command.empty()) return bad_input("command", "what is to run?");
  if (spec.command.size() > kMaxCommand)
    return bad_input("command", fmt::format("has at most {} bytes", kMaxCommand));
  if (spec.count < 1 || spec.count > kMaxArray)
    return bad_input("count", fmt::format("is between 1 and {}", kMaxArray));
  if (spec.retries < 0 || spec.retries > kMaxRetries)
    return bad_input("retries", fmt::format("is between 0 and {}", kMaxRetries));
  if (std::abs(spec.priority) > kMaxPriority)
    return bad_input("priority", fmt::format("is between -{0} and {0}", kMaxPriority));
  if (spec.flexible && !spec.deadline_s)
    return bad_input("flexible", "needs a deadline: until when may it wait?");
  if (spec.gpus < 1 || spec.gpus > kMaxGpus)
    return bad_input("gpus", fmt::format("is between 1 and {}", kMaxGpus));
  return {};
}

// The most instances of one of its profiles that these GPUs have at once.
int most_at_once(const Spec& spec, const Config& config) {
  int most = 0;
  for (std::size_t m = 0; m < config.models.size(); ++m) {
    const auto gpus = std::ranges::count(config.gpus, static_cast<int>(m));
    for (const int profile : profiles_for(spec, config.models[m])) {
      const int each = config.models[m].profiles[at(profile)].max_instances;
      most = std::max(most, each * static_cast<int>(gpus));
    }
  }
  return most;
}

// Times of sizes that other boards have are left alone: one submission serves several nodes.
Result<void> check_times(const Spec& spec, const Config& config) {
  const auto has = [](const hw::GpuModel& model, int gpcs) {
    return std::ranges::count(model.profiles, gpcs, &hw::MigProfile::gpcs) > 0;
  };
  for (const KnownTime& known : spec.times) {
    const auto any = [&](const std::vector<hw::GpuModel>& models) {
      return std::ranges::any_of(models, [&](const auto& one) { return has(one, known.gpcs); });
    };
    if (known.gpcs != 0 && !any(config.models) && !any(hw::builtin_catalogue().gpus))
      return bad_input("times", fmt::format("no GPU has an instance of {} slices", known.gpcs));
  }
  return {};
}

}  // namespace

const Quota* quota_of(const Config& config, const std::string& user) {
  auto found = config.quotas.find(user);
  if (found == config.quotas.end()) found = config.quotas.find("");
  return found == config.quotas.end() ? nullptr : &found->second;
}

int most_tasks_of(const Config& config, const std::string& user) {
  auto found = config.most_tasks.find(user);
  if (found == config.most_tasks.end()) found = config.most_tasks.find("");
  return found == config.most_tasks.end() ? kMostOfUser : found->second;
}

Result<std::vector<Task>> Queue::admit(const Spec& spec, Nanos now,
                                       const std::map<long, State>& ended) const {
  TRY(check_numbers(spec));
  bool fits = false;
  for (const hw::GpuModel& model : config_.models)
    fits = fits || !profiles_for(spec, model).empty();
  if (!fits)
    return bad_input("profiles", "no instance of these GPUs has that profile and that much memory");
  if (spec.gpus > most_at_once(spec, config_))
    return bad_input("gpus", fmt::format("these GPUs have at most {} of its instances at once",
                                         most_at_once(spec, config_)));
  TRY(check_times(spec, config_));
  if (config_.cpus > 0 && spec.cpus > config_.cpus)
    return bad_input("cpus",
                     fmt::format("{} are asked for, and {} may be used", spec.cpus, config_.cpus));
  if (config_.ram_gib > 0 && spec.ram_gib > config_.ram_gib)
    return bad_input("ram_gib", fmt::format("{} are asked for, and {} may be used", spec.ram_gib,
                                            config_.ram_gib));
  std::string never;  // why its turn cannot come
  for (const Dependency& one : spec.after) {
    if (tasks_.contains(one.task)) continue;
    const auto before = ended.find(one.task);
    if (before == ended.end())
      return bad_input("after", fmt::format("there is no task {}", one.task));
    if (!one.met_by(before->second)) never = ended_otherwise(one.task, before->second);
  }
  if (tasks_.size() + at(spec.count) > kMaxOpenTasks)
    return over(
        fmt::format("the queue takes {} tasks, and {} wait or run", kMaxOpenTasks, tasks_.size()));
  const auto own = open_.find(spec.user);
  const int has = own == open_.end() ? 0 : own->second;
  if (const int most = most_tasks_of(config_, spec.user); has + spec.count > most)
    return over(fmt::format("{} may have {} tasks here that have not ended, and has {}", spec.user,
                            most, has));
  const Quota* quota = quota_of(config_, spec.user);
  if (quota != nullptr && spec.gpus > quota->running)
    return over(fmt::format("{} may have {} instances at once", spec.user, quota->running));
  std::vector<Task> tasks;
  for (int i = 0; i < spec.count; ++i) {
    Task task{.id = last_id_ + 1 + i, .spec = spec};
    task.array = spec.count > 1 ? last_id_ + 1 : 0;
    task.index = i;
    task.submitted_ms = now / 1'000'000;
    task.state = spec.held ? State::held : State::waiting;
    if (!never.empty()) task.state = State::skipped;
    if (!never.empty()) task.ended_ms = task.submitted_ms;
    task.reason = never;
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Result<void> can(const Task& task, const Asked& asked) {
  const State state = task.state;
  const auto refused = [&](const char* what) {
    return bad_input("task", fmt::format("task {} is {}: {}", asked.task, to_string(state), what));
  };
  if (is_over(state)) return refused("it is over");
  if (asked.what == Asked::What::hold && (state == State::starting || state == State::running))
    return refused("only what waits can be held");
  if (asked.what == Asked::What::release && state != State::held) return refused("it is not held");
  return {};
}

}  // namespace partita::queue
