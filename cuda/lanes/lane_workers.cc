#include "lanes/lane_workers.h"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/check.h"

namespace partita::exec {
namespace {

class WorkersRun {
 public:
  WorkersRun(const std::vector<LaneWorker>& workers, device::LaneDriver& driver, Clock& clock,
             int requests)
      : workers_(workers),
        driver_(driver),
        clock_(clock),
        requests_(requests),
        missing_(workers.size()),
        lanes_(workers.size()) {
    run_.workers.resize(workers.size());
  }

  Result<LaneWorkersRun> go() {
    make_lanes();
    const std::int64_t begin = clock_.now_ns();
    if (!error_) {
      std::vector<std::jthread> threads;
      try {
        for (std::size_t w = 0; w < workers_.size(); ++w)
          threads.emplace_back([this, w] { serve(w); });
      } catch (const std::system_error& error) {
        note(Result<void>(environment_error("thread of a worker", error.what())));
      }
    }
    run_.wall_ns = clock_.now_ns() - begin;
    for (const auto& lanes : lanes_) {
      for (const auto& [mask, lane] : lanes) {
        note(driver_.synchronise(lane));
        note(driver_.destroy_lane(lane));
        ++run_.lanes;
      }
    }
    if (error_) return failed(*error_);
    return std::move(run_);
  }

 private:
  // Whether the call succeeded; the first error of all workers is kept.
  template <class T>
  bool note(const Result<T>& result) {
    if (result) return true;
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = result.error();
    failed_ = true;
    return false;
  }

  void make_lanes() {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      for (const LaneStep& step : workers_[w].steps) {
        if (lanes_[w].contains(step.mask)) continue;
        const Result<int> lane = driver_.create_lane(workers_[w].masks.at(step.mask));
        if (!note(lane)) return;
        lanes_[w].emplace(step.mask, *lane);
      }
    }
  }

  void serve(std::size_t w) {
    LaneWorkerRun& mine = run_.workers[w];
    for (int served = 0; missing_ > 0 && !failed_; ++served) {
      const bool counts = served < requests_;
      const std::int64_t begin = clock_.now_ns();
      if (!request(w, counts ? &mine : nullptr)) return;
      if (!counts) continue;
      mine.latency_ns.push_back(clock_.now_ns() - begin);
      if (served + 1 == requests_) --missing_;
    }
  }

  bool request(std::size_t w, LaneWorkerRun* counted) {
    std::optional<int> before;
    for (const LaneStep& step : workers_[w].steps) {
      const int lane = lanes_[w].at(step.mask);
      if (before && *before != lane && !follow(lane, *before, counted)) return false;
      const auto launched = with_room(lane, [&] { return driver_.launch(lane, step.kernel); });
      if (!note(launched)) return false;
      before = lane;
    }
    return !before || note(driver_.synchronise(*before));
  }

  // What comes next on `lane` comes after all that is on `before`.
  bool follow(int lane, int before, LaneWorkerRun* counted) {
    const auto event = with_room(before, [&] { return driver_.record_event(before); });
    if (!note(event)) return false;
    const auto waits = with_room(lane, [&] { return driver_.wait_event(lane, *event); });
    const auto forgotten = driver_.destroy_event(*event);
    if (!note(waits) || !note(forgotten)) return false;
    if (counted != nullptr) {
      ++counted->switches;
      counted->waits += *waits;
    }
    return true;
  }

  // A call that queues something; a lane that is at its limit is emptied first.
  template <class Call>
  auto with_room(int lane, Call call) -> decltype(call()) {
    auto result = call();
    if (result || result.error().code != ErrorCode::limit) return result;
    if (auto emptied = driver_.synchronise(lane); !emptied) return failed(emptied.error());
    return call();
  }

  const std::vector<LaneWorker>& workers_;
  device::LaneDriver& driver_;
  Clock& clock_;
  const int requests_;
  std::atomic<std::size_t> missing_;  // workers that have not run all their requests
  std::atomic<bool> failed_ = false;
  std::vector<std::map<std::size_t, int>> lanes_;  // per worker, by mask
  std::mutex mutex_;                               // of error_
  std::optional<Error> error_;
  LaneWorkersRun run_;
};

}  // namespace

Result<LaneWorkersRun> run_workers(const std::vector<LaneWorker>& workers,
                                   device::LaneDriver& driver, Clock& clock, int requests) {
  CHECK(requests >= 1);
  return WorkersRun(workers, driver, clock, requests).go();
}

}  // namespace partita::exec
