#include "control/sim/sim_batches.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/parse_number.h"
#include "base/rng.h"
#include "control/sim/sim_node.h"

namespace partita::control {
namespace {

constexpr std::int64_t kNanosInSecond = 1'000'000'000;
constexpr std::int64_t kStopNs = 2 * kNanosInSecond;    // from being asked to end to the end
constexpr std::int64_t kRetryNs = 10 * kNanosInSecond;  // after a run could not go on
constexpr int kStopped = 143;
constexpr long kSimBudget = 20'000;  // search steps: weeks in seconds, not the best schedules

}  // namespace

// Processes of which some calls are answered otherwise.
class SimBatches::PassedOn : public Processes {
 public:
  explicit PassedOn(Processes& inner) : passed_on_(inner) {}
  PassedOn(const PassedOn&) = delete;  // who derives from one would pass on past it
  PassedOn& operator=(const PassedOn&) = delete;
  Result<Pid> start(const ProcessSpec& spec) override { return passed_on_.start(spec); }
  std::vector<ProcessExit> exited() override { return passed_on_.exited(); }
  Result<void> stop(Pid pid, StopSignal signal) override { return passed_on_.stop(pid, signal); }
  bool alive(Pid pid) override { return passed_on_.alive(pid); }
  std::string identity(Pid pid) override { return passed_on_.identity(pid); }
  Result<void> adopt(Pid pid, const std::string& identity) override {
    return passed_on_.adopt(pid, identity);
  }
  std::map<Pid, std::string> find(const std::string& variable) override {
    return passed_on_.find(variable);
  }
  void end_family(const std::string& variable, const std::string& value) override {
    passed_on_.end_family(variable, value);
  }

 private:
  Processes& passed_on_;
};

// The processes of tasks as an executor sees them. Keeps what their shells would: who was asked to
// end, the exit statuses in files, and the MIG devices that they hold.
class SimBatches::Tasks final : public PassedOn {
 public:
  Tasks(SimProcesses& inner, SimNode& node) : PassedOn(inner), inner_(inner), node_(node) {}

  Result<Pid> start(const ProcessSpec& spec) override { return start_of(spec, 0); }
  Result<Pid> start_of(const ProcessSpec& spec, long batch) {
    const Pid pid = TRY(inner_.start(spec));
    owner_[pid] = spec.environment.at("PARTITA_RUN");
    Alive& one = alive_[pid];
    one.batch = batch;
    one.run = spec.environment.at("PARTITA_RUN");
    one.task = spec.environment.at("PARTITA_TASK");
    one.attempt = parse_number<int>(spec.environment.at("PARTITA_ATTEMPT")).value();
    one.status_file = spec.argv.back();
    one.device = spec.environment.at("CUDA_VISIBLE_DEVICES");
    node_.boards().hold(one.device, pid, "task");
    return pid;
  }
  std::vector<ProcessExit> exited() override { return {}; }
  // Those of a run; those of other runs are kept for them.
  std::vector<ProcessExit> exited_of(const std::string& run) {
    pull();
    std::vector<ProcessExit> mine;
    std::erase_if(exits_, [&](const ProcessExit& exit) {
      if (owner_[exit.pid] != run) return false;
      mine.push_back(exit);
      return true;
    });
    return mine;
  }
  void pull() {
    for (const ProcessExit& exit : inner_.exited()) exits_.push_back(exit);
  }
  void forget_exits() { exits_.clear(); }
  Result<void> stop(Pid pid, StopSignal signal) override {
    if (const auto found = alive_.find(pid); found != alive_.end() && inner_.alive(pid))
      found->second.stopped = true;
    return inner_.stop(pid, signal);
  }

  struct Alive {
    long batch = 0;
    std::string run, task, device, status_file;
    int attempt = 0;
    bool stopped = false;
  };
  // Those that have ended since this was asked last; they hold nothing any more.
  std::vector<Alive> gone(bool with_status) {
    std::vector<Alive> gone;
    for (auto it = alive_.begin(); it != alive_.end();) {
      if (inner_.alive(it->first)) {
        ++it;
        continue;
      }
      node_.boards().let_go(it->first);
      const Alive& one = it->second;
      if (with_status)
        node_.disk()[one.status_file] = fmt::format("{} {}\n", one.run, one.stopped ? kStopped : 0);
      gone.push_back(one);
      it = alive_.erase(it);
    }
    return gone;
  }
  exec::Attempts attempts(const std::string& run) {
    exec::Attempts found;
    for (const auto& [pid, one] : alive_)
      if (one.run == run && inner_.alive(pid)) found[{one.task, one.attempt}] = pid;
    return found;
  }
  std::vector<std::pair<std::string, std::string>> running() const {
    std::vector<std::pair<std::string, std::string>> running;
    for (const auto& [pid, one] : alive_)
      if (inner_.alive(pid)) running.emplace_back(one.device, one.run + "/" + one.task);
    return running;
  }
  void crash_all() {
    for (const auto& [pid, one] : alive_) inner_.crash(pid, 1);
    gone(false);
  }

 private:
  SimProcesses& inner_;
  SimNode& node_;
  std::map<Pid, Alive> alive_;
  std::map<Pid, std::string> owner_;  // the run of each
  std::vector<ProcessExit> exits_;    // that nobody has been told of
};

// The same for one run.
class SimBatches::TasksOfRun final : public PassedOn {
 public:
  TasksOfRun(Tasks& all, std::string run, long batch)
      : PassedOn(static_cast<Processes&>(all)), all_(all), run_(std::move(run)), batch_(batch) {}
  Result<Pid> start(const ProcessSpec& spec) override { return all_.start_of(spec, batch_); }
  std::vector<ProcessExit> exited() override { return all_.exited_of(run_); }

 private:
  Tasks& all_;
  const std::string run_;
  const long batch_;
};

SimBatches::SimBatches(SimNode& node, std::uint64_t seed)
    : node_(node),
      seed_(seed),
      processes_(std::make_unique<SimProcesses>(
          node.doors().clock, [this](const ProcessSpec& spec) { return behaviour(spec); })),
      tasks_(std::make_unique<Tasks>(*processes_, node)) {}

SimBatches::~SimBatches() = default;

// About as long as planned: real tasks know no plan.
SimBehaviour SimBatches::behaviour(const ProcessSpec& spec) {
  SimBehaviour does{.run_ns = kNanosInSecond, .stop_ns = kStopNs};
  const std::string& name = spec.environment.at("PARTITA_TASK");
  for (const auto& [key, run] : runs_) {
    if (run->work == nullptr ||
        run->work->settings().paths.run != spec.environment.at("PARTITA_RUN"))
      continue;
    for (const exec::ScriptTask& task : run->work->script().tasks) {
      if (task.name != name) continue;
      Rng rng(seed_ ^ text_hash(key + name));
      does.run_ns = static_cast<std::int64_t>(
          static_cast<double>(task.planned.end - task.planned.begin) * (0.8 + 0.4 * rng.uniform()));
    }
    ++begun_[fmt::format("{}/{}", run->deed.batch, name)];
  }
  return does;
}

BatchDoors SimBatches::doors(Processes& tasks) const {
  AgentDoors node = node_.doors();
  return {{node_.batch_driver(), tasks, node.files, node.clock},
          node.state_dir,
          node.wall_ms,
          node_.catalogue(),
          [this](const std::string& run) { return tasks_->attempts(run); },
          kSimBudget};
}

void SimBatches::carry(const std::vector<BatchDeed>& deeds) {
  std::map<std::string, std::unique_ptr<Run>> wanted;
  for (const BatchDeed& deed : deeds) {
    const auto found = runs_.find(deed.key);
    auto run = found != runs_.end() ? std::move(found->second) : std::make_unique<Run>();
    if (found != runs_.end()) runs_.erase(found);
    if (run->deed.key.empty()) {
      run->deed = deed;
      run->tasks = std::make_unique<TasksOfRun>(*tasks_, "agent-" + deed.key, deed.batch);
    }
    run->now.key = deed.key;
    run->orders.set(deed);
    wanted[deed.key] = std::move(run);
  }
  const BatchDoors at = doors(*tasks_);
  for (const auto& [key, run] : runs_)
    if (run->now.over) BatchWork::forget(key, at.doors.files, at.state_dir);
  runs_ = std::move(wanted);
}

std::vector<BatchRunNow> SimBatches::runs() const {
  std::vector<BatchRunNow> runs;
  for (const auto& [key, run] : runs_)
    runs.push_back(run->work && run->steps ? run->work->now() : run->now);
  return runs;
}

void SimBatches::open(Run& run) {
  run.retry_ns.reset();
  const BatchDoors at = doors(*run.tasks);
  auto work = BatchWork::open(run.deed, at);
  if (!work) {
    run.now.error = to_string(work.error());
    run.now.over = !BatchWork::has_begun(run.deed, at);
    news_ = news_ || run.now.over;
    run.retry_ns = node_.now_ns() + kRetryNs;
    return;
  }
  run.work = *std::move(work);
  run.now = run.work->now();
  if (run.work->over()) {
    news_ = true;
    return;
  }
  run.orders.repeat();
  run.work->settings().withdrawn = [&run] { return run.orders.take(); };
  run.steps = std::make_unique<exec::SteppedRun>(run.work->executor(), run.work->script(),
                                                 run.work->doors(), run.work->settings());
}

void SimBatches::carry_on(Run& run) {
  if (run.now.over || (run.retry_ns && node_.now_ns() < *run.retry_ns)) return;
  if (!run.steps) open(run);
  if (!run.steps) return;
  run.wake_ns = run.steps->step();
  std::size_t returned = 0;
  for (std::size_t g = 0; g < run.deed.gpus.size(); ++g)
    returned += run.work->executor().has_left(static_cast<int>(g)) ? 1 : 0;
  if (std::exchange(run.returned, returned) < returned) news_ = true;
  if (!run.work->executor().finished()) return;
  if (auto closed = run.work->close(); !closed && !run.work->over()) {
    run.steps.reset();
    run.work.reset();
    run.retry_ns = node_.now_ns() + kRetryNs;
    return;
  }
  run.now = run.work->now();
  run.steps.reset();
  news_ = true;
}

void SimBatches::settle_tasks() {
  for (const Tasks::Alive& one : tasks_->gone(true)) {
    if (!one.stopped) ++ended_[fmt::format("{}/{}", one.batch, one.task)];
  }
}

std::vector<std::pair<std::string, std::string>> SimBatches::running() const {
  return tasks_->running();
}

std::optional<std::int64_t> SimBatches::step() {
  settle_tasks();
  tasks_->pull();
  for (const auto& [key, run] : runs_) carry_on(*run);
  std::optional<std::int64_t> next = processes_->next_end_ns();
  const auto consider = [&](std::optional<std::int64_t> at) {
    if (at) next = std::min(next.value_or(*at), *at);
  };
  for (const auto& [key, run] : runs_) {
    if (run->now.over) continue;
    consider(run->retry_ns);
    if (run->steps) consider(run->wake_ns);
  }
  return next;
}

void SimBatches::drop() {
  runs_.clear();
  tasks_->forget_exits();
  processes_->orphan_all();
}

void SimBatches::reboot() {
  settle_tasks();
  drop();
  tasks_->crash_all();
}

}  // namespace partita::control
