#include "lanes/graph_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/spin.h"

namespace partita::exec {
namespace {

tl::unexpected<Error> no_units() {
  return bad_input("masks", "a kernel is given no units though nothing runs");
}

tl::unexpected<Error> named(const GraphTask& task, Error error) {
  error.context = task.name + ": " + error.context;
  return failed(std::move(error));
}

// How long a unit runs one kernel after another before the driver hears of it, as long as a batch
// of work-groups: others that share the driver wait no longer.
constexpr std::int64_t kInPlaceNs = 100'000;
// How long the kernels last, by those before them, that it takes at a time: what waits for the
// first of them waits so much longer.
constexpr std::int64_t kTogetherNs = 2'000;
constexpr std::size_t kMostTogether = 16;

// The kernels that a unit runs itself, in order.
struct Own {
  std::array<int, kMostTogether> tasks = {};
  std::size_t count = 0;
  void add(int task) { tasks[count++] = task; }
};

// Who queues kernels from a work-group: on which lane of the driver's it runs, and how many kernels
// it may run there itself.
struct Group {
  int lane = -1;
  std::size_t most = 0;
};

// A kernel that is queued or runs.
struct Progress {
  std::atomic<std::int64_t> left = 0;  // work-groups
  std::atomic<bool> begun = false;
  int told_before = -1;  // the task that told its end before this one did
  int lane = -1;         // the driver's
};

// A kernel that is queued on a GPU, and the event behind it.
struct Watched {
  int task = -1, event = -1;
};

// One run. Kernels are queued by whoever has just ended a task, one thread at a time, so that no
// message goes from one to another: the unit that ran the last work-group (where the driver is open
// to those), a thread of the CPU; the calling thread begins, makes lanes anew and waits for the
// end. Ends are put into a list without a lock; who queues settles them, and does not leave while
// there are any that nobody waits to settle. The lock is open while the driver is called.
// A unit that has just ended a kernel runs the next one of its lane itself, where that has one
// work-group, may begin now and nothing else is queued on the lane or its units: two cores would
// else hand each other what takes them longer than a small kernel lasts. Where its last ones were
// short it takes several at a time, since what all units share of the run comes from another core's
// cache at each turn.
class Run {
 public:
  Run(const TaskGraph& graph, device::LaneDriver& driver, Clock& clock,
      const GraphSettings& settings, const device::LaneDriverInfo& info)
      : tasks_(graph.tasks()),
        driver_(driver),
        clock_(clock),
        settings_(settings),
        on_gpu_(driver.memory() != nullptr),
        progress_(tasks_.size()),
        brain_(graph, settings.mask,
               {info.topology.units(), most_lanes(info, on_gpu_), settings.ahead}) {
    run_.tasks.resize(tasks_.size());
    will_end_.resize(tasks_.size());
  }

  Result<GraphRun> go() {
    std::vector<std::jthread> threads;
    try {
      for (int i = 0; i < settings_.cpu_threads; ++i) threads.emplace_back([this, i] { work(i); });
    } catch (const std::system_error& error) {
      const std::lock_guard lock(mutex_);
      error_ = Error{ErrorCode::environment,
                     fmt::format("the system gives no more threads: {}", error.what()),
                     fmt::format("thread {} of {}", threads.size() + 1, settings_.cpu_threads)};
      workers_.notify_all();
    }
    launch_all();
    threads.clear();
    for (const int lane : lanes_)
      if (const auto idle = driver_.synchronise(lane); !idle && !error_) error_ = idle.error();
    for (const int lane : lanes_) static_cast<void>(driver_.destroy_lane(lane));
    if (error_) return failed(*error_);
    run_.dependencies = brain_.dependencies();
    run_.lanes = brain_.lanes();
    return std::move(run_);
  }

 private:
  // As many as there are events for, two for each kernel of a GPU.
  static int most_lanes(const device::LaneDriverInfo& info, bool on_gpu) {
    const int watched = std::max(1, info.max_events / (2 * kMostQueued));
    return on_gpu ? std::min(info.max_lanes, watched) : info.max_lanes;
  }

  bool over() const { return brain_.done() || (error_ && active_ == 0); }

  // A task will end, or has.
  void set_active(int task, bool active) {
    active_ += static_cast<int>(active) - static_cast<int>(will_end_[at(task)]);
    will_end_[at(task)] = active;
  }

  void ended(int task) {
    set_active(task, false);
    brain_.ended(task);
  }

  // By whoever ran the tasks, which have ended in that order, or the last work-group of them; the
  // tasks for it to run next.
  Own tell_ends(const Own& ended, std::optional<Group> group) {
    for (std::size_t i = 1; i < ended.count; ++i)
      progress_[at(ended.tasks[i])].told_before = ended.tasks[i - 1];
    int& before = progress_[at(ended.tasks[0])].told_before;
    before = told_.load();
    while (!told_.compare_exchange_weak(before, ended.tasks[ended.count - 1])) {
    }
    if (driver_.open_to_groups()) return drive(group);
    launcher_.raise();
    return {};
  }

  // Kernels that told their end have ended, in that order.
  void settle() {
    told_now_.clear();
    for (int task = told_.exchange(-1); task >= 0; task = progress_[at(task)].told_before)
      told_now_.push_back(task);
    for (const int task : std::views::reverse(told_now_)) ended(task);
  }

  void work(int thread) {
    std::unique_lock lock(mutex_);
    while (!over()) {
      const std::optional<int> task = error_ ? std::nullopt : brain_.next_cpu();
      if (!task) {
        workers_.wait(lock, [this] { return over() || (brain_.cpu_ready() && !error_); });
        continue;
      }
      set_active(*task, true);
      GraphTaskRun& mine = run_.tasks[at(*task)];
      mine.thread = thread;
      mine.begin_ns = clock_.now_ns();
      lock.unlock();
      std::get<CpuWork>(tasks_[at(*task)].work).run();
      mine.end_ns = clock_.now_ns();
      tell_ends({{*task}, 1}, std::nullopt);
      lock.lock();
    }
  }

  void launch_all() {
    while (true) {
      drive(std::nullopt);
      if (const std::lock_guard lock(mutex_); over()) return;
      if (watched_.empty())
        launcher_.wait();
      else if (!spin_until([this] { return look(); }))
        std::this_thread::yield();
    }
  }

  // Whether kernels of the GPU have ended since, or it is lost with all that are on it.
  bool look() {
    std::set<int> busy;  // lanes, whose kernels end in order
    std::vector<Watched> left;
    for (const Watched& one : watched_) {
      const int lane = progress_[at(one.task)].lane;
      const Result<bool> ended =
          busy.contains(lane) ? Result<bool>(false) : driver_.event_finished(one.event);
      if (!ended) return lose(ended.error());
      if (*ended) {
        static_cast<void>(driver_.destroy_event(one.event));
        end_on_gpu(one.task, lane);
      } else {
        busy.insert(lane);
        left.push_back(one);
      }
    }
    const bool any = left.size() < watched_.size();
    watched_ = std::move(left);
    return any;
  }

  void end_on_gpu(int task, int lane) {
    GraphTaskRun& mine = run_.tasks[at(task)];
    mine.end_ns = clock_.now_ns();
    for (const int before : tasks_[at(task)].after)
      mine.begin_ns = std::max(mine.begin_ns, run_.tasks[at(before)].end_ns);
    std::int64_t& last = last_end_[lane];
    mine.begin_ns = std::min(std::max(mine.begin_ns, last), mine.end_ns);
    last = mine.end_ns;
    const auto& behind = std::get<LaneWork>(tasks_[at(task)].work).gpu->behind;
    const auto queued = behind ? on_lane(behind, lane) : Result<void>{};
    if (const std::lock_guard lock(mutex_); !queued && !error_) error_ = queued.error();
    tell_ends({{task}, 1}, std::nullopt);
  }

  bool lose(Error error) {
    std::string names;
    for (const Watched& one : watched_)
      names += (names.empty() ? "" : ", ") + tasks_[at(one.task)].name;
    error.context = names + ": " + error.context;
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    for (const Watched& one : watched_) set_active(one.task, false);
    watched_.clear();
    return true;
  }

  // Once more where the lane had no room for it.
  Result<void> on_lane(const OnLane& queue, int lane) {
    auto queued = queue(driver_, lane);
    if (queued || queued.error().code != ErrorCode::limit) return queued;
    TRY(driver_.synchronise(lane));
    return queue(driver_, lane);
  }

  // Whether nobody else queues kernels. A unit waits awake for its turn, in which it most often
  // finds its next kernel; who does not get one leaves what it told to who has it.
  bool take_turn(bool waits) {
    const auto taken = [this] { return !driving_.load() && !driving_.exchange(true); };
    if (taken()) return true;
    if (!waits) return false;
    ++waiting_;
    const bool turn = spin_until(taken);
    --waiting_;
    return turn || taken();  // who leaves sees that nobody waits, or has left before
  }

  // Queues what may be queued, unless somebody does, who then sees what has been told meanwhile.
  // For a work-group that calls, the tasks for it to run next.
  Own drive(std::optional<Group> group) {
    Own own;
    bool turn = take_turn(group.has_value());
    while (turn) {
      std::unique_lock lock(mutex_);
      do settle();
      while (queue_next(lock, group));
      take_more(group);
      if (brain_.cpu_ready() || over()) workers_.notify_all();
      const bool calls = over() || postponed_;
      lock.unlock();
      if (own_.count > 0) own = std::exchange(own_, {}), group->most = 0;
      driving_ = false;
      if (calls) launcher_.raise();  // it may queue now
      turn = told_.load() >= 0 && waiting_ == 0 && take_turn(false);
    }
    return own;
  }

  // Whether the unit that has just run the last work-group on that lane may go on with it.
  bool in_place(const Enqueued& next, int lane) const {
    return !next.fresh && !next.waits && lanes_[at(next.lane)] == lane &&
           !recorded_[at(next.lane)] &&
           std::get<LaneWork>(tasks_[at(next.task)].work).groups == 1 &&
           brain_.may_begin(next.task) && brain_.alone_on_units(next.task);
  }

  // More kernels for the unit that has one, where every unit has one.
  void take_more(const std::optional<Group>& group) {
    while (!error_ && own_.count > 0 && own_.count < group->most) {
      const GraphTaskRun& first = run_.tasks[at(own_.tasks[0])];
      const auto task = brain_.next_behind(first.lane);
      if (!task) return;
      begin(*task, first.lane, first.mask);
      own_.add(*task);
    }
  }

  // The next kernel, where there is one. A work-group may not make a lane anew: the one that runs
  // it may be on it. One kernel it may run itself.
  bool queue_next(std::unique_lock<QuickMutex>& lock, const std::optional<Group>& group) {
    if (error_) return false;
    const auto next = postponed_ ? std::exchange(postponed_, {}) : brain_.next_kernel();
    if (!next) {
      if (brain_.stuck()) error_ = no_units().value();
      return false;
    }
    if (group && next->fresh && at(next->lane) < lanes_.size()) {
      postponed_ = next;
      return false;
    }
    if (group && own_.count == 0 && group->most > 0 && in_place(*next, group->lane)) {
      begin(next->task, next->lane, next->mask);
      own_.add(next->task);
      return true;
    }
    if (const auto launched = launch(lock, *next); !launched) {
      error_ = named(tasks_[at(next->task)], launched.error()).value();
      set_active(next->task, false);  // it may have run all the same, and have ended
    }
    return true;
  }

  void begin(int task, int lane, const hw::UnitMask& mask) {
    set_active(task, true);
    GraphTaskRun& mine = run_.tasks[at(task)];
    mine.mask = mask;
    mine.lane = lane;
  }

  Result<void> launch(std::unique_lock<QuickMutex>& lock, const Enqueued& next) {
    begin(next.task, next.lane, next.mask);
    lock.unlock();
    const Result<bool> over = queue(next);
    lock.lock();
    if (!over) return failed(over.error());
    if (*over) brain_.skipped_wait();
    return {};
  }

  // Makes the lane, lets it wait and launches the kernel; whether the wait was for what is over.
  Result<bool> queue(const Enqueued& next) {
    if (next.fresh) {
      if (auto made = make_lane(next); !made) return failed(made.error());
    }
    const int lane = lanes_[at(next.lane)];
    bool over = false;
    if (next.waits) {
      const Result<int> event = driver_.record_event(lanes_[at(*next.waits)]);
      if (!event) return failed(event.error());
      recorded_[at(*next.waits)] = true;
      const Result<bool> waits = driver_.wait_event(lane, *event);
      static_cast<void>(driver_.destroy_event(*event));
      if (!waits) return failed(waits.error());
      over = !*waits;
    }
    const auto& work = std::get<LaneWork>(tasks_[at(next.task)].work);
    progress_[at(next.task)].left = work.groups;
    progress_[at(next.task)].lane = lane;
    recorded_[at(next.lane)] = false;
    if (on_gpu_) {
      run_.tasks[at(next.task)].begin_ns = clock_.now_ns();
      TRY(on_lane(work.gpu->queue, lane));
      watched_.push_back({next.task, TRY(driver_.record_event(lane))});
      return over;
    }
    // Small enough for a std::function to hold it itself.
    const auto group = [this, task = next.task](std::int64_t number) { run_group(task, number); };
    if (auto launched = driver_.launch(lane, {work.groups, device::HostKernel{group}}); !launched)
      return failed(launched.error());
    return over;
  }

  void run_group(int task, std::int64_t number) {
    Progress& progress = progress_[at(task)];
    if (!progress.begun.exchange(true, std::memory_order_relaxed))
      run_.tasks[at(task)].begin_ns = clock_.now_ns();
    std::get<LaneWork>(tasks_[at(task)].work).run(number);
    if (progress.left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::int64_t now = run_.tasks[at(task)].end_ns = clock_.now_ns();
    const std::int64_t until = now + kInPlaceNs;
    Own own{{task}, 1};
    Group group{progress.lane, 1};
    while ((own = tell_ends(own, group)).count > 0) {
      const std::int64_t begun = now = clock_.now_ns();
      for (std::size_t i = 0; i < own.count; ++i) {
        run_.tasks[at(own.tasks[i])].begin_ns = now;
        std::get<LaneWork>(tasks_[at(own.tasks[i])].work).run(0);
        run_.tasks[at(own.tasks[i])].end_ns = now = clock_.now_ns();
      }
      const auto count = static_cast<std::int64_t>(own.count);
      const std::int64_t most = kTogetherNs * count / std::max<std::int64_t>(1, now - begun);
      group.most = now < until
                       ? std::clamp<std::size_t>(static_cast<std::size_t>(most), 1, kMostTogether)
                       : 0;
    }
  }

  Result<void> make_lane(const Enqueued& next) {
    const bool old = at(next.lane) < lanes_.size();
    if (old) {
      // Its last kernel has told its end, the driver may not have noticed yet.
      if (auto idle = driver_.synchronise(lanes_[at(next.lane)]); !idle) return idle;
      if (auto gone = driver_.destroy_lane(lanes_[at(next.lane)]); !gone) return gone;
    }
    const Result<int> lane = driver_.create_lane(next.mask);
    if (!lane) {
      if (old) {
        lanes_.erase(lanes_.begin() + next.lane);
        recorded_.erase(recorded_.begin() + next.lane);
      }
      return failed(lane.error());
    }
    if (!old) lanes_.push_back(*lane), recorded_.push_back(false);
    lanes_[at(next.lane)] = *lane;
    return {};
  }

  const std::vector<GraphTask>& tasks_;
  device::LaneDriver& driver_;
  Clock& clock_;
  const GraphSettings& settings_;
  const bool on_gpu_;
  std::vector<Watched> watched_;          // of the calling thread, as they were queued
  std::map<int, std::int64_t> last_end_;  // of a lane of the driver's, on a GPU
  std::vector<int> lanes_;             // the driver's, by the brain's; of who queues
  std::vector<bool> recorded_;         // of each: an event is behind its last kernel
  std::vector<Progress> progress_;     // by task
  std::atomic<int> told_ = -1;         // the last task that told its end and is not settled
  std::atomic<bool> driving_ = false;  // somebody queues kernels
  std::atomic<int> waiting_ = 0;       // units that wait for that to end
  Wake launcher_;                      // the calling thread has something to do
  QuickMutex mutex_;                   // of everything below; work-groups note times without it
  std::condition_variable_any workers_;
  GraphBrain brain_;
  std::vector<int> told_now_;
  std::vector<bool> will_end_;
  int active_ = 0;  // tasks that will end
  Own own_;         // of the unit that queues
  std::optional<Enqueued> postponed_;  // for the calling thread
  std::optional<Error> error_;
  GraphRun run_;
};

// The order of a graph whose tasks all have something to run.
Result<std::vector<int>> runnable(const TaskGraph& graph, bool on_gpu) {
  for (const GraphTask& task : graph.tasks()) {
    const auto* lane = std::get_if<LaneWork>(&task.work);
    const bool callable =
        lane ? lane->groups >= 1 && (on_gpu ? lane->gpu != nullptr : lane->run != nullptr)
             : std::get<CpuWork>(task.work).run != nullptr;
    if (!callable) return bad_input(task.name, "has nothing to run");
  }
  return graph.order();
}

// One run in virtual time.
class VirtualRun {
 public:
  VirtualRun(const TaskGraph& graph, const VirtualTime& machine, const GraphSettings& settings)
      : machine_(machine),
        brain_(graph, settings.mask, {machine.units, kVirtualLanes, settings.ahead}) {
    run_.tasks.resize(graph.tasks().size());
    for (int i = 0; i < settings.cpu_threads; ++i) threads_.insert(i);
  }

  Result<GraphRun> go() {
    while (true) {
      begin_all();
      if (brain_.done()) break;
      if (brain_.active() == 0) return no_units();
      const Ends ends = machine_.next();
      now_ = ends.time_ns;
      for (const int task : ends.tasks) end(task);
    }
    run_.dependencies = brain_.dependencies();
    run_.lanes = brain_.lanes();
    return std::move(run_);
  }

 private:
  void begin_all() {
    for (auto task = queued_.begin(); task != queued_.end();) {
      if (!brain_.may_begin(*task)) {
        ++task;
        continue;
      }
      begin(*task);
      task = queued_.erase(task);
    }
    while (!threads_.empty()) {
      const std::optional<int> task = brain_.next_cpu();
      if (!task) break;
      run_.tasks[at(*task)].thread = *threads_.begin();
      threads_.erase(threads_.begin());
      begin(*task);
    }
    while (const auto next = brain_.next_kernel()) {
      run_.tasks[at(next->task)].mask = next->mask;
      run_.tasks[at(next->task)].lane = next->lane;
      if (brain_.may_begin(next->task)) {
        begin(next->task);
      } else {
        queued_.push_back(next->task);
      }
    }
  }

  void begin(int task) {
    run_.tasks[at(task)].begin_ns = now_;
    machine_.begin(task, run_.tasks[at(task)].mask);
  }

  void end(int task) {
    run_.tasks[at(task)].end_ns = now_;
    if (const int thread = run_.tasks[at(task)].thread; thread >= 0) threads_.insert(thread);
    brain_.ended(task);
  }

  const VirtualTime& machine_;
  GraphBrain brain_;
  std::set<int> threads_;    // idle
  std::vector<int> queued_;  // kernels that wait on the device
  std::int64_t now_ = 0;
  GraphRun run_;
};

}  // namespace

Result<GraphRun> run_graph(const TaskGraph& graph, device::LaneDriver& driver, Clock& clock,
                           const GraphSettings& settings) {
  CHECK(settings.cpu_threads >= 1 && settings.mask != nullptr);
  const auto order = runnable(graph, driver.memory() != nullptr);
  if (!order) return failed(order.error());
  const Result<device::LaneDriverInfo> info = driver.info();
  if (!info) return failed(info.error());
  return Run(graph, driver, clock, settings, *info).go();
}

Result<GraphRun> run_sequentially(const TaskGraph& graph, Clock& clock, device::LaneDriver* gpu) {
  const auto order = TRY(runnable(graph, gpu != nullptr));
  int lane = -1;
  if (gpu != nullptr) {
    const auto info = TRY(gpu->info());
    lane = TRY(gpu->create_lane(hw::all_units(info.topology)));
  }
  const auto run_on = [&](const OnLane& queue) -> Result<void> {
    if (queue) TRY(queue(*gpu, lane));
    return gpu->synchronise(lane);
  };
  GraphRun run;
  run.tasks.resize(graph.tasks().size());
  for (const int task : order) {
    const Work& work = graph.tasks()[at(task)].work;
    const auto* kernel = std::get_if<LaneWork>(&work);
    GraphTaskRun& mine = run.tasks[at(task)];
    mine.thread = 0;
    mine.begin_ns = clock.now_ns();
    if (kernel != nullptr && gpu != nullptr) {
      if (auto ran = run_on(kernel->gpu->queue); !ran)
        return named(graph.tasks()[at(task)], ran.error());
    } else if (kernel != nullptr) {
      for (std::int64_t group = 0; group < kernel->groups; ++group) kernel->run(group);
    } else {
      std::get<CpuWork>(work).run();
    }
    mine.end_ns = clock.now_ns();
    if (kernel != nullptr && gpu != nullptr) TRY(run_on(kernel->gpu->behind));
  }
  if (gpu != nullptr) TRY(gpu->destroy_lane(lane));
  return run;
}

Result<GraphRun> simulate_graph(const TaskGraph& graph, const VirtualTime& machine,
                                const GraphSettings& settings) {
  CHECK(settings.cpu_threads >= 1 && settings.mask != nullptr);
  if (const auto order = graph.order(); !order) return failed(order.error());
  return VirtualRun(graph, machine, settings).go();
}

}  // namespace partita::exec
