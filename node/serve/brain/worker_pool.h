// The workers of a service: which of them take batches, what each runs, and how long that takes.
// Times are predicted by the curves that workers offer, times the drift: execution time over what
// was predicted, smoothed. Pure. Single-threaded.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/dispatcher.h"
#include "serve/brain/service.h"
#include "serve/brain/waiting_room.h"

namespace partita::serve {

class WorkerPool {
 public:
  // The settings are the owner's and outlive the pool.
  explicit WorkerPool(const ServiceSettings& settings) : settings_(settings) {}

  // ---- who is there. After each of these that says true: arrange().
  void join(WorkerId worker, WorkerOffer offer);
  bool suspend(WorkerId worker, bool suspended);  // whether that changes anything
  bool leave(WorkerId worker);
  // It is gone, or it hangs and is suspended. What it ran, in the order in which it began.
  std::vector<Waiting> lose(WorkerId worker);
  std::vector<Waiting> take_back(WorkerId worker);
  // The members that the usable workers are, those of one device one member, and how many of each
  // one's processes are busy. From here on what is idle counts by these members.
  struct Members {
    std::vector<plan::PoolMember> members = {};
    std::vector<int> busy = {};
  };
  Members arrange();

  bool has(WorkerId worker) const { return workers_.contains(worker); }
  bool usable(WorkerId worker) const;  // ready and not leaving
  bool idle(WorkerId worker) const;    // usable, and runs nothing
  const profile::BatchCurve& curve(WorkerId worker) const {
    return workers_.at(worker).offer.curve;
  }
  int size() const { return usable_; }                   // usable ones, when it was arranged
  double capacity_rps() const { return capacity_rps_; }  // of full batches on them
  bool last_is_kept() const;                             // one is left of several, or none

  // ---- batches
  BatchId begin(Nanos now, WorkerId worker, Nanos predicted, std::vector<Waiting> items);
  struct Ended {
    int member = -1;  // whose process is idle now; -1: no member's
    std::vector<Waiting> items = {};
  };
  std::optional<Ended> end(Nanos now, BatchId batch);  // none: nobody runs it
  std::optional<WorkerId> first_idle() const;          // of the first member that has one
  WorkerId take_idle(int member);                      // the one idle for longest
  template <class Do>
  void each_batch(Do&& look) const {
    for (const auto& [id, running] : batches_) look(id, running.items);
  }
  int running() const { return static_cast<int>(batches_.size()); }
  std::vector<WorkerId> overdue(Nanos now, Nanos grace) const;  // batch late by more than grace
  Nanos first_overdue(Nanos grace) const;                       // when the next one will be
  // Those that were leaving and run nothing any more; each once.
  std::vector<WorkerId> drained() { return std::exchange(drained_, {}); }

  // ---- predictions
  double drift() const { return drift_; }
  Nanos spare() const;  // of the SLO beside the longest batch
  // When the last of so many items in the queue should be done, behind so many that run alone
  // (plan/admission.h). Some worker is usable.
  Nanos predicted_finish(Nanos now, long items, int alone, const plan::Pressure& pressure) const;
  // Of the smallest batch that can hold so many, on the fastest worker; 0: there is none.
  Nanos least_time(int items) const;
  // When a step that joins so many that wait for its worker should be done.
  Nanos predicted_step(Nanos now, WorkerId worker, int waiting) const;

 private:
  struct Worker {
    WorkerOffer offer;
    bool leaving = false, suspended = false;
    int member = -1;  // of the pool; -1: gets nothing
    std::set<BatchId> batches = {};
    bool usable() const { return !leaving && !suspended; }
  };
  struct Running {
    WorkerId worker = 0;
    Nanos begun = 0, predicted = 0;
    std::vector<Waiting> items = {};
  };
  std::vector<Waiting> take_batches(Worker& worker);
  Nanos end_of(const Running& running) const;

  const ServiceSettings& settings_;
  std::map<WorkerId, Worker> workers_;
  std::vector<std::deque<WorkerId>> idle_;  // by member, the longest idle first
  std::map<BatchId, Running> batches_;
  std::vector<WorkerId> drained_;
  BatchId next_batch_ = 1;
  std::size_t most_ = 0;  // that were there at the same time
  int usable_ = 0;
  double capacity_rps_ = 0;
  Nanos longest_ = 0;  // full batch
  double drift_ = 1;
};

// Where the items of a request run: batch, and index in the batch.
std::vector<std::pair<BatchId, std::uint32_t>> items_of(const WorkerPool& pool, RequestId request);

}  // namespace partita::serve
