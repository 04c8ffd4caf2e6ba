#include "exec/task_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>

#include "base/check.h"

namespace partita::exec {
namespace {

std::size_t at(int task) { return static_cast<std::size_t>(task); }

// The names along a cycle among the tasks that are left, each before the next.
std::string cycle_text(const std::vector<GraphTask>& tasks, const std::vector<int>& missing) {
  int task = 0;
  while (missing[at(task)] == 0) ++task;
  std::vector<int> path;
  std::vector<char> seen(tasks.size());
  while (!seen[at(task)]) {
    seen[at(task)] = 1;
    path.push_back(task);
    task = *std::ranges::find_if(tasks[at(task)].after,
                                 [&](int before) { return missing[at(before)] > 0; });
  }
  std::vector<std::string> names;
  for (auto from = std::ranges::find(path, task); from != path.end(); ++from)
    names.push_back(tasks[at(*from)].name);
  names.push_back(tasks[at(task)].name);
  std::ranges::reverse(names);
  return fmt::format("{}", fmt::join(names, " -> "));
}

// One run. The calling thread launches on lanes; kernels tell their end from their last work-group;
// threads of the CPU take tasks from a queue. All share one lock.
class Run {
 public:
  Run(const TaskGraph& graph, device::LaneDriver& driver, Clock& clock,
      const GraphSettings& settings)
      : tasks_(graph.tasks()),
        driver_(driver),
        clock_(clock),
        settings_(settings),
        after_(tasks_.size()),
        missing_(tasks_.size()) {
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      missing_[t] = static_cast<int>(tasks_[t].after.size());
      for (const int before : tasks_[t].after) after_[at(before)].push_back(static_cast<int>(t));
    }
    run_.tasks.resize(tasks_.size());
  }

  Result<GraphRun> go() {
    const Result<device::LaneDriverInfo> info = driver_.info();
    if (!info) return failed(info.error());
    running_.resize(static_cast<std::size_t>(info->topology.units()));
    left_ = tasks_.size();
    for (std::size_t t = 0; t < tasks_.size(); ++t)
      if (missing_[t] == 0) ready(static_cast<int>(t));
    std::vector<std::jthread> threads;
    for (int i = 0; i < settings_.cpu_threads; ++i) threads.emplace_back([this] { work(); });
    launch_all();
    threads.clear();
    for (const auto& [lane, mask] : lanes_) static_cast<void>(driver_.synchronise(lane));
    for (const auto& [lane, mask] : lanes_) static_cast<void>(driver_.destroy_lane(lane));
    if (error_) return failed(*error_);
    run_.lanes = static_cast<int>(lanes_.size());
    return std::move(run_);
  }

 private:
  // Under the lock, or before there are threads.
  void ready(int task) {
    const bool lane = std::holds_alternative<LaneWork>(tasks_[at(task)].work);
    (lane ? lane_ready_ : cpu_ready_).push_back(task);
  }

  bool over() const { return left_ == 0 || (error_ && active_ == 0); }

  void ended(int task) {
    run_.tasks[at(task)].end_ns = clock_.now_ns();
    --left_;
    --active_;
    for (const int next : after_[at(task)])
      if (--missing_[at(next)] == 0 && !error_) ready(next);
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return over() || (!cpu_ready_.empty() && !error_); });
      if (over()) return;
      const int task = cpu_ready_.front();
      cpu_ready_.pop_front();
      ++active_;
      run_.tasks[at(task)].begin_ns = clock_.now_ns();
      lock.unlock();
      std::get<CpuWork>(tasks_[at(task)].work).run();
      lock.lock();
      ended(task);
    }
  }

  void launch_all() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return over() || (!lane_ready_.empty() && !error_); });
      if (over()) return;
      const int task = lane_ready_.front();
      lane_ready_.pop_front();
      ++active_;
      const auto launched = launch(lock, task);
      if (launched) continue;
      error_ = launched.error();
      error_->context = tasks_[at(task)].name + ": " + error_->context;
      --active_;
      changed_.notify_all();
    }
  }

  // The lock is open while the driver is called.
  Result<void> launch(std::unique_lock<std::mutex>& lock, int task) {
    const auto& work = std::get<LaneWork>(tasks_[at(task)].work);
    GraphTaskRun& mine = run_.tasks[at(task)];
    mine.mask = settings_.mask(work, running_);
    const std::optional<int> idle = idle_lane(mine.mask);
    lock.unlock();
    const Result<int> lane = idle ? Result<int>(*idle) : driver_.create_lane(mine.mask);
    lock.lock();
    if (!lane) return failed(lane.error());
    if (!idle) lanes_.emplace_back(*lane, mine.mask);
    busy_.push_back(*lane);
    use(mine.mask, 1);
    mine.begin_ns = clock_.now_ns();
    const auto left = std::make_shared<std::atomic<std::int64_t>>(work.groups);
    const auto group = [this, task, lane = *lane, left, &work](std::int64_t number) {
      work.run(number);
      if (left->fetch_sub(1, std::memory_order_acq_rel) == 1) kernel_ended(task, lane);
    };
    lock.unlock();
    const auto launched = driver_.launch(*lane, {work.groups, device::HostKernel{group}});
    lock.lock();
    if (!launched) use(mine.mask, -1);
    return launched;
  }

  void kernel_ended(int task, int lane) {
    const std::lock_guard lock(mutex_);
    use(run_.tasks[at(task)].mask, -1);
    std::erase(busy_, lane);
    ended(task);
  }

  void use(const hw::UnitMask& mask, int more) {
    for (std::size_t unit = 0; unit < running_.size(); ++unit)
      if (mask[unit]) running_[unit] += more;
  }

  std::optional<int> idle_lane(const hw::UnitMask& mask) const {
    for (const auto& [lane, its] : lanes_)
      if (its == mask && std::ranges::find(busy_, lane) == busy_.end()) return lane;
    return std::nullopt;
  }

  const std::vector<GraphTask>& tasks_;
  device::LaneDriver& driver_;
  Clock& clock_;
  const GraphSettings& settings_;
  std::vector<std::vector<int>> after_;  // per task those that wait for it
  std::vector<int> missing_;             // per task how many it waits for
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> cpu_ready_, lane_ready_;
  std::size_t left_ = 0, active_ = 0;
  std::vector<int> running_;                         // kernels per unit
  std::vector<std::pair<int, hw::UnitMask>> lanes_;  // made in this run
  std::vector<int> busy_;                            // lanes with a kernel
  std::optional<Error> error_;
  GraphRun run_;
};

}  // namespace

int TaskGraph::add(std::string name, Work work) {
  CHECK(tasks_.size() < kMaxGraphTasks);
  tasks_.push_back({std::move(name), std::move(work)});
  return static_cast<int>(tasks_.size()) - 1;
}

void TaskGraph::depend(int task, int before) {
  CHECK(task >= 0 && before >= 0 && at(task) < tasks_.size() && at(before) < tasks_.size());
  tasks_[at(task)].after.push_back(before);
}

Result<std::vector<int>> TaskGraph::order() const {
  std::vector<int> missing(tasks_.size());
  std::vector<std::vector<int>> after(tasks_.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    missing[t] = static_cast<int>(tasks_[t].after.size());
    for (const int before : tasks_[t].after) after[at(before)].push_back(static_cast<int>(t));
    if (missing[t] == 0) ready.push(static_cast<int>(t));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int next : after[at(order.back())])
      if (--missing[at(next)] == 0) ready.push(next);
  }
  if (order.size() == tasks_.size()) return order;
  return bad_input("graph", "tasks wait for each other: " + cycle_text(tasks_, missing));
}

Result<GraphRun> run_graph(const TaskGraph& graph, device::LaneDriver& driver, Clock& clock,
                           const GraphSettings& settings) {
  CHECK(settings.cpu_threads >= 1 && settings.mask != nullptr);
  if (const auto order = graph.order(); !order) return failed(order.error());
  for (const GraphTask& task : graph.tasks()) {
    const auto* lane = std::get_if<LaneWork>(&task.work);
    const bool callable = lane ? lane->run != nullptr && lane->groups >= 1
                               : std::get<CpuWork>(task.work).run != nullptr;
    if (!callable) return bad_input(task.name, "has nothing to run");
  }
  if (graph.tasks().empty()) return GraphRun{};
  return Run(graph, driver, clock, settings).go();
}

}  // namespace partita::exec
