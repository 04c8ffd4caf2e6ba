#include "control/host/batch_runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "act/batch/commands.h"

namespace partita::control {
namespace {

constexpr exec::Nanos kLook = exec::kSecond / 10;  // between two looks at how a run stands
constexpr std::chrono::seconds kRetry{5};          // after a run could not go on

}  // namespace

// One run. What its thread tells is under the mutex.
class BatchRunner::Run {
 public:
  Run(const BatchRunnerDoors& doors, BatchDeed deed, std::shared_ptr<device::NodeDriver> driver)
      : doors_(doors), deed_(std::move(deed)), driver_(std::move(driver)) {
    orders_.set(deed_);
    now_.key = deed_.key;
    thread_ = std::jthread([this](const std::stop_token& stop) { live(stop); });
  }

  void order(const BatchDeed& deed) { orders_.set(deed); }
  bool over() const {
    const std::lock_guard lock(mutex_);
    return now_.over;
  }
  BatchRunNow now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  void tell(BatchRunNow now) {
    const std::lock_guard lock(mutex_);
    now_ = std::move(now);
  }
  void tell_error(const Error& error) {
    const std::lock_guard lock(mutex_);
    now_.error = to_string(error);
  }

  void live(const std::stop_token& stop) {
    RealFiles files;
    RealClock clock;
    while (!stop.stop_requested()) {
      RealProcesses processes;
      const BatchDoors doors{{*driver_, processes, files, clock},
                             doors_.state_dir,
                             doors_.wall_ms,
                             doors_.catalogue,
                             exec::find_attempts,
                             0,
                             fmt::format("-{:x}-{}", clock.now_ns(), ::getpid())};
      auto work = BatchWork::open(deed_, doors);
      const bool done = work ? carry_on(**work, stop) : cannot(work.error(), doors);
      if (done) return;
      std::unique_lock lock(mutex_);
      pause_.wait_for(lock, stop, kRetry, [] { return false; });
    }
  }

  // Whether nothing is left to be done.
  bool cannot(const Error& error, const BatchDoors& doors) {
    tell_error(error);
    if (BatchWork::has_begun(deed_, doors)) return false;
    {
      const std::lock_guard lock(mutex_);
      now_.over = true;
    }
    if (doors_.wake) doors_.wake();
    return true;
  }

  bool carry_on(BatchWork& work, const std::stop_token& stop) {
    if (!work.over()) {
      exec::Nanos next = 0;
      exec::RunReport seen;
      orders_.repeat();
      work.settings().withdrawn = [this] { return orders_.take(); };
      work.settings().left_alone = [&] { return stop.stop_requested(); };
      work.settings().watch = [&](exec::Nanos now, const exec::RunReport& report) {
        if (now < next) return;
        next = now + kLook;
        if (next > kLook && report == seen) return;
        seen = report;
        tell(work.now());
        if (doors_.wake) doors_.wake();
      };
      const exec::RunEnd end =
          exec::run_real(work.executor(), work.script(), work.doors(), work.settings());
      if (stop.stop_requested() && !work.executor().finished()) return true;
      if (end.journal) {
        tell_error(*end.journal);
        return false;
      }
      if (auto closed = work.close(); !closed && !work.over()) {
        tell_error(closed.error());
        return false;
      }
    }
    tell(work.now());
    if (doors_.wake) doors_.wake();
    return true;
  }

  const BatchRunnerDoors& doors_;
  const BatchDeed deed_;
  std::shared_ptr<device::NodeDriver> driver_;
  BatchOrders orders_;
  mutable std::mutex mutex_;
  std::condition_variable_any pause_;
  BatchRunNow now_;
  std::jthread thread_;  // last: it uses all the others
};

BatchRunner::BatchRunner(BatchRunnerDoors doors) : doors_(std::move(doors)) {}
BatchRunner::~BatchRunner() = default;

void BatchRunner::carry(const std::vector<BatchDeed>& deeds) {
  std::map<std::string, std::unique_ptr<Run>> wanted;
  for (const BatchDeed& deed : deeds) {
    const auto found = runs_.find(deed.key);
    if (found != runs_.end()) {
      found->second->order(deed);
      wanted.insert(runs_.extract(found));
      continue;
    }
    auto driver = doors_.open_driver();
    if (!driver) continue;  // the loop says by itself that the node cannot be read
    wanted.emplace(deed.key, std::make_unique<Run>(doors_, deed, *std::move(driver)));
  }
  for (const auto& [key, run] : runs_) {
    if (!run->over()) continue;
    RealFiles files;
    BatchWork::forget(key, files, doors_.state_dir);
  }
  runs_ = std::move(wanted);
}

std::vector<BatchRunNow> BatchRunner::runs() const {
  std::vector<BatchRunNow> runs;
  for (const auto& [key, run] : runs_) runs.push_back(run->now());
  return runs;
}

}  // namespace partita::control
