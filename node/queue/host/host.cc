#include "queue/host/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace partita::queue {
namespace {

constexpr Nanos kRetryKeep = 1'000'000'000;
constexpr double kNanosPerSecond = 1e9;

}  // namespace

Result<std::unique_ptr<Host>> Host::open(const Config& config, const HostDoors& doors, Nanos now) {
  const Loaded loaded = TRY(doors.store.load());
  const auto seen = TRY(doors.instances.look());
  const plan::BatchProblem gpus{{}, config.models, config.gpus, config.reconfigurer};
  const auto forest = TRY(planners::batch::make_whole_forest(gpus));
  const std::vector<Spot> spots = spots_of(forest, gpus, config.indices);
  std::vector<FoundInstance> found;
  for (const Place& place : seen.ours) {
    if (const int node = node_at(spots, place); node >= 0) found.push_back({node, place.device});
  }
  auto queue = TRY(Queue::create(config, loaded, found, now));
  auto host = std::unique_ptr<Host>(new Host(std::move(queue), spots, doors));
  for (const Task& task : loaded.tasks) {
    if (task.state != State::starting && task.state != State::running) continue;
    Event event = doors.attempts.recover(task);
    const auto* const ended = std::get_if<Ended>(&event);
    const bool failed = ended != nullptr && ended->status && host->is_failure(event);
    (failed ? host->failed_ : host->events_).push_back(std::move(event));
  }
  host->saw(seen);
  return host;
}

// ---- what people ask

Result<Task> Host::find(long task) const {
  if (const auto live = queue_.tasks().find(task); live != queue_.tasks().end())
    return live->second;
  auto kept = TRY(doors_.store.task(task));
  if (!kept)
    return failed({ErrorCode::not_found, fmt::format("there is no task {}", task), "task"});
  return *std::move(kept);
}

Result<std::vector<Task>> Host::submit(const Spec& spec, Nanos now) {
  if (stuck_ && !flush())
    return failed({ErrorCode::environment, "nothing is taken in now: " + trouble_, ""});
  std::map<long, State> ended;
  for (const Dependency& one : spec.after) {
    const auto before = find(one.task);
    if (before && is_over(before->state)) ended[one.task] = before->state;
    if (!before && before.error().code != ErrorCode::not_found) return failed(before.error());
  }
  auto tasks = TRY(queue_.admit(spec, now, ended));
  Keep keep;
  keep.tasks = tasks;
  if (auto kept = doors_.store.keep(keep); !kept) {
    return failed({ErrorCode::environment,
                   "the task is not taken in, since it cannot be kept: " + to_string(kept.error()),
                   ""});
  }
  events_.emplace_back(Arrived{tasks});
  // The brain knows of it before the next one is admitted.
  if (!stuck_) turn(now);
  return tasks;
}

Result<void> Host::ask(const Asked& asked, Nanos now) {
  if (stuck_ && !flush())
    return failed({ErrorCode::environment, "nothing can be changed now: " + trouble_, ""});
  const auto task = TRY(find(asked.task));
  TRY(can(task, asked));
  events_.emplace_back(asked);
  turn(now);
  if (!stuck_) return {};
  return failed(
      {ErrorCode::environment,
       "it will be done once it can be kept, and is not if the queue ends before: " + trouble_,
       ""});
}

Shown Host::shown(const Task& task, Nanos now) const {
  Shown shown{.task = task};
  shown.why = why_waiting(queue_, task, now);
  const double now_s = static_cast<double>(now) / kNanosPerSecond;
  const auto from_now = [now](Nanos time) {
    return static_cast<double>(time - now) / kNanosPerSecond;
  };
  if (task.state == State::waiting) {
    if (const auto later = queue_.hours().later(task.id)) {
      shown.begins_in_s = later->begin_s - now_s;
      shown.ends_in_s = later->end_s - now_s;
    }
    if (const auto expected = queue_.planner().expected(task.id)) {
      shown.begins_in_s = from_now(expected->begin);
      shown.ends_in_s = from_now(expected->end);
    }
  } else if (queue_.planner().machine().runs(task.id)) {
    shown.ends_in_s = from_now(queue_.planner().machine().expected_end(task.id, now));
  }
  shown.deadline = deadline_of(task, shown.ends_in_s, now_s);
  return shown;
}

Result<Shown> Host::show(long task, Nanos now) const {
  const auto found = TRY(find(task));
  return shown(found, now);
}

Result<std::vector<Shown>> Host::list(const Page& page, Nanos now) const {
  std::vector<Shown> tasks;
  if (page.all) {
    const auto ended = TRY(doors_.store.ended({kListed, page.after, page.most}));
    for (const Task& task : ended)
      tasks.push_back({.task = task, .deadline = deadline_of(task, std::nullopt, 0)});
  }
  long left = page.most;
  const auto end = queue_.tasks().end();
  for (auto one = queue_.tasks().upper_bound(page.after); one != end && left > 0; ++one, --left)
    tasks.push_back(shown(one->second, now));
  std::ranges::sort(tasks, {}, [](const Shown& one) { return one.task.id; });
  if (std::ssize(tasks) > page.most) tasks.resize(static_cast<std::size_t>(page.most));
  return tasks;
}

// ---- what it does

std::optional<Nanos> Host::turn(Nanos now) {
  now_ = std::max(now_, now);
  for (Event& event : doors_.attempts.ended())
    (is_failure(event) ? failed_ : events_).push_back(std::move(event));
  if (stuck_ && !flush()) return now_ + kRetryKeep;
  // What is started may fail at once, which the brain should hear of.
  std::optional<Nanos> wake;
  for (int round = 0; round < 8; ++round) {
    Outputs outputs = queue_.step(now_, std::exchange(events_, {}));
    wake = outputs.wake;
    measure(outputs);
    stuck_ = std::move(outputs);
    if (!flush()) return now_ + kRetryKeep;
    if (events_.empty()) break;
  }
  if (!events_.empty()) return now_;
  return wake;
}

// But for those that were asked to end.
bool Host::is_failure(const Event& event) const {
  const auto* const ended = std::get_if<Ended>(&event);
  return ended != nullptr && ended->status != 0 && queue_.tasks().at(ended->task).ending.empty();
}

// What attempts have taken that ended, and where those stand that begin.
void Host::measure(Outputs& outputs) {
  const auto all = [&](const std::vector<Place>& places) {
    std::optional<double> sum = 0;
    for (const Place& place : places) {
      const auto joules = doors_.joules ? doors_.joules(place.device) : std::nullopt;
      sum = sum && joules ? std::optional(*sum + *joules) : std::nullopt;
    }
    return sum;
  };
  for (Run& run : outputs.keep.runs) {
    const auto before = joules_before_.find(run.task);
    if (before == joules_before_.end()) continue;  // it began under an earlier process of the queue
    const auto now = all(run.places);
    if (now && before->second && *now > *before->second) run.energy_j = *now - *before->second;
    if (const auto of =
            doors_.host_joules ? doors_.host_joules(run.task, run.attempt) : std::nullopt) {
      run.host_energy_j = of->joules;
      run.host_idle_j = of->idle_joules;
    }
    const auto task = std::ranges::find(outputs.keep.tasks, run.task, &Task::id);
    if (task != outputs.keep.tasks.end()) price(*task, run);
    joules_before_.erase(before);
  }
  for (const Action& action : outputs.actions) {
    const auto* start = std::get_if<StartTask>(&action);
    if (start != nullptr) joules_before_[start->task.id] = all(start->task.places);
  }
}

// Says money and carbon of what an attempt took, and what its waiting for hours saved.
void Host::price(const Task& task, Run& run) const {
  const plan::Tariff& tariff = queue_.hours().tariff();
  const double began_s = static_cast<double>(run.began_ms) / 1e3;
  const double took_s = static_cast<double>(run.ended_ms - run.began_ms) / 1e3;
  if (!run.energy_j || tariff.empty() || took_s <= 0) return;
  const double joules = *run.energy_j + run.host_energy_j.value_or(0);
  const auto then = plan::bill(joules, plan::mean_rate(tariff, began_s, began_s + took_s));
  run.cost = then.cost;
  run.co2_g = then.co2_g;
  if (!task.spec.flexible) return;
  const double came_s = static_cast<double>(task.submitted_ms) / 1e3;
  const auto at_once = plan::bill(joules, plan::mean_rate(tariff, came_s, came_s + took_s));
  if (then.cost && at_once.cost) run.saved_cost = *at_once.cost - *then.cost;
  if (then.co2_g && at_once.co2_g) run.saved_co2_g = *at_once.co2_g - *then.co2_g;
}

// Puts the outputs on disk, then performs them.
bool Host::flush() {
  if (auto kept = doors_.store.keep(stuck_->keep); !kept) {
    trouble_ = to_string(kept.error());
    return false;
  }
  trouble_.clear();
  const Outputs outputs = std::move(*stuck_);
  stuck_.reset();
  for (const Action& action : outputs.actions) perform(action, now_);
  return true;
}

void Host::perform(const Action& action, Nanos) {
  if (const auto* create = std::get_if<Create>(&action)) {
    calls_.push_back({create->node, true, place_of(spots_, queue_.devices(), create->node)});
  } else if (const auto* destroy = std::get_if<Destroy>(&action)) {
    calls_.push_back({destroy->node, false, place_of(spots_, queue_.devices(), destroy->node)});
  } else if (const auto* start = std::get_if<StartTask>(&action)) {
    auto began = doors_.attempts.start(start->task);
    if (began) {
      events_.emplace_back(*std::move(began));
    } else {
      events_.emplace_back(NotBegun{start->task.id, to_string(began.error()), true});
    }
  } else if (const auto* stop = std::get_if<StopTask>(&action)) {
    doors_.attempts.stop(stop->pid, stop->signal);
  } else if (const auto* save = std::get_if<SaveTask>(&action)) {
    doors_.attempts.save(save->task);
  } else if (const auto* halt = std::get_if<StopSave>(&action)) {
    doors_.attempts.stop_save(halt->task);
  }
}

std::optional<Host::Call> Host::next_call() {
  if (calls_.empty()) return std::nullopt;
  const Call call = calls_.front();
  calls_.pop_front();
  return call;
}

void Host::call_done(const Call& call, const Result<std::string>& device, Nanos now) {
  Changed changed{.change = {call.create ? LiveOp::create : LiveOp::destroy, call.node},
                  .device = device ? *device : ""};
  if (!device) changed.error = device.error();
  events_.emplace_back(std::move(changed));
  now_ = std::max(now_, now);
}

void Host::saw(const Result<InstanceDoor::Seen>& seen) {
  if (seen) {
    others(seen->others);
    std::set<int> there;
    for (const Place& place : seen->ours) there.insert(node_at(spots_, place));
    for (const auto& [node, device] : queue_.devices())
      if (!there.contains(node)) events_.emplace_back(Gone{node});
  }
  std::ranges::move(std::exchange(failed_, {}), std::back_inserter(events_));
}

void Host::others(const std::vector<Place>& places) {
  std::set<int> closed;
  for (const Place& place : places) {
    if (const int node = node_at(spots_, place); node >= 0) closed.insert(node);
  }
  for (const int node : closed_) {
    if (!closed.contains(node)) events_.emplace_back(Closed{node, false});
  }
  for (const int node : closed) {
    if (!closed_.contains(node)) events_.emplace_back(Closed{node, true});
  }
  closed_ = std::move(closed);
}

}  // namespace partita::queue
