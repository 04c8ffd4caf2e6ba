// The brain of one service behind the gateway: which requests are let in, which wait, and which
// worker gets which batch when. A pure state machine around plan::Dispatcher and the admission of
// plan/admission.h, which the simulator drives too; no clock, no socket, no memory of tensors.
// Single-threaded.
//
// A request is one or more items (rows); items are what batches are made of. The owner calls
// admit() when the head of a request is there and reserves slots; enqueue() when its body is; then
// step() after every event and at wake_at. Times are nanoseconds on the owner's clock.
//
// Order: by the time at which an item would have come if it had the usual SLO and priority, so a
// shorter deadline or a priority of p goes before what came up to that much earlier (p SLOs), and
// nothing waits for ever.
//
// Harm stays with who does it. Rows of a batch that failed, or whose worker died or hung, run again
// alone: one that fails alone has failed by itself, and one that was there when kMostDeaths workers
// died is refused. While such rows are under suspicion, and their sender is not known to be well,
// one worker at least is kept from them;
// the last one of several, from all that such a sender sends.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/admission.h"

namespace partita::serve {

using plan::Nanos;
using RequestId = std::uint64_t;
using WorkerId = std::uint64_t;
using BatchId = std::uint64_t;

inline constexpr int kMostDeaths = 2;   // of workers, with a request in flight: then it is refused
inline constexpr int kPatience = 2;     // SLOs that a request is held where no worker takes it
inline constexpr int kMaxPriority = 8;  // and -kMaxPriority
inline constexpr int kMaxItems = 4096;  // of a request
using plan::kDefaultQueueLimit;

struct ServiceSettings {
  Nanos slo = 0;                         // > 0
  int queue_limit = kDefaultQueueLimit;  // items that may wait
  int planned_workers = 0;               // 0: nobody knows
  bool shed = true;  // refuse at once what is predicted to end after its deadline
  // Batches take about as long as was predicted. Streams of tokens do not: nothing is shed then,
  // and no batch is overdue.
  bool predictable = true;
  bool operator==(const ServiceSettings&) const = default;
};

// What a worker that is ready offers. Workers of one device are one member of the pool.
struct WorkerOffer {
  std::string device;
  profile::BatchCurve curve;  // execution time by batch; its end is the largest batch
  int at_once = 1;            // batches that it runs beside one another
};

struct Wish {
  int items = 1;
  Nanos arrived = 0;
  std::optional<Nanos> deadline = {};  // on the owner's clock; none: arrived + slo
  int priority = 0;                    // higher goes first
  bool idempotent = true;              // may run again when its worker dies under it
  bool again = false;                  // was let in already, with other wishes: not offered anew
  bool trusted = true;                 // its sender is known to be well
  bool alone = false;                  // shares no batch with others
  bool doubted = false;                // its sender may have ended a worker
  // On this worker alone, which has the state of its sequence: in order, not idempotent, one row,
  // together with steps of other sequences.
  std::optional<WorkerId> worker = {};
  std::uint64_t sequence = 0;
  bool operator==(const Wish&) const = default;
};

enum class Refusal : std::uint8_t { none, no_worker, queue_full, predicted_miss, too_many_items };
// Refused by the owner and not by admit().
enum class OwnerRefusal : std::uint8_t {
  no_slot,  // let in, but there was no memory for it
  slowed,   // before it was asked for
  share,    // its sender has had its part of what is too little
  at_door,  // by the door itself, before anybody asked to let it in
};
struct Admission {
  Refusal refusal = Refusal::none;
  Nanos retry_after = 0;       // refused: when there should be room
  Nanos predicted_finish = 0;  // when it should be done
};

enum class Outcome : std::uint8_t {
  done,
  failed,   // the worker said so, or died under it and it must not run again
  expired,  // its own deadline passed while it waited, or kPatience SLOs
  harmful,  // kMostDeaths workers died with it in flight
};
struct Finished {
  RequestId request = 0;
  Outcome outcome = Outcome::done;
  bool operator==(const Finished&) const = default;
};
struct Item {
  RequestId request = 0;
  std::uint32_t index = 0;  // of the request's items
  bool operator==(const Item&) const = default;
};
struct Batch {
  BatchId id = 0;
  WorkerId worker = 0;
  Nanos deadline = 0;  // of its most urgent item
  std::vector<Item> items = {};
};
struct Outputs {
  std::vector<Batch> run = {};
  std::vector<Finished> finished = {};
  std::vector<WorkerId> drain = {};  // DRAIN may be sent: nothing runs there any more
  Nanos wake_at = plan::kForever;
};

// How late wake-ups are counted by: up to each of these, ascending.
inline constexpr std::array<Nanos, 8> kLatenessBounds = {
    50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000, 10'000'000, plan::kForever};

// How a service does, for metrics and /stats. Items unless it says requests.
struct ServiceCounters {
  long offered = 0, refused_full = 0, refused_miss = 0, refused_worker = 0;  // requests
  long completed = 0, failed = 0, expired = 0, cancelled = 0;                // requests
  long in_slo = 0;                                          // requests, of completed
  long refused_slowed = 0, refused_share = 0, harmful = 0;  // requests
  long batches = 0, items = 0;
  long requeued = 0, rerun = 0;  // items: their worker died or hung; their batch failed
  Nanos queued = 0;              // sum over items until their batch began
  Nanos lateness = 0;            // sum over wake-ups: how late step() came
  long wakes = 0;
  std::array<long, kLatenessBounds.size()> wakes_within = {};  // cumulative
};

class ServiceBrain {
 public:
  explicit ServiceBrain(ServiceSettings settings);

  void configure(const ServiceSettings& settings);

  // ---- workers
  void join(WorkerId worker, WorkerOffer offer);  // it is ready
  // It is silent: no batch for it until it is heard again; what it runs may still end.
  void suspend(WorkerId worker);
  void resume(WorkerId worker);
  // No batch for it any more; drained once idle. Steps of sequences wait for it until they move or
  // fail.
  void leave(WorkerId worker);
  // The steps of this sequence that wait for `from` wait for `to`, which has its state now.
  void move_steps(std::uint64_t sequence, WorkerId from, WorkerId to);
  void fail_steps(Nanos now, std::uint64_t sequence, WorkerId worker);
  // Its connection is gone. Its items run again, alone: idempotent ones of requests that were not
  // in flight at kMostDeaths deaths; the others end at the next step().
  void lose(Nanos now, WorkerId worker);
  // It hangs: suspended, and its items as if it were gone. What it says of its batches is ignored.
  void take_back(Nanos now, WorkerId worker);

  // ---- requests
  // Whether the request would be let in now. Counts it as offered, once.
  Admission admit(Nanos now, const Wish& wish);
  // Counts what the owner refused by itself. Only `no_slot` was let in, and so offered, before;
  // `again`: so was this one.
  void refused(OwnerRefusal why, bool again = false);
  void enqueue(Nanos now, RequestId request, const Wish& wish);
  // Its sender may have ended a worker.
  void doubt(RequestId request);
  // The client has gone. Items that wait are taken out; those that run are named, so that their
  // worker can be told: (batch, index in the batch). The request is not among Finished.
  std::vector<std::pair<BatchId, std::uint32_t>> cancel(RequestId request);
  // A batch has ended; failed[i] of its item i. Where others were in it, who failed runs again
  // alone. Unknown batches are ignored.
  void done(Nanos now, BatchId batch, std::span<const bool> failed);
  // Items of a request that are in no batch at the moment keep their slots: the owner frees a
  // request's slots when it is finished, or when it was cancelled and running(request) is false.
  bool running(RequestId request) const;

  Outputs step(Nanos now);

  int queued() const;
  int running_batches() const;
  int workers() const;                 // ready and not leaving
  bool usable(WorkerId worker) const;  // one of them
  double capacity_rps() const;         // of full batches on them
  double depth() const;                // rows that may wait and be in time; 0: nothing is shed
  std::vector<WorkerId> overdue(Nanos now, Nanos grace) const;  // batch late by more than grace
  Nanos first_overdue(Nanos grace) const;                       // when the next one will be
  const ServiceCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    Nanos key = 0;      // the order of the queue, see above
    Nanos arrived = 0;  // when it joined
    Item item;
  };
  struct Worker {
    WorkerOffer offer;
    bool leaving = false, suspended = false;
    int member = -1;  // of the pool; -1: gets nothing
    std::set<BatchId> batches = {};
    std::deque<Waiting> steps = {};  // by key: of sequences that it has
    bool usable() const { return !leaving && !suspended; }
  };
  struct Running {
    WorkerId worker = 0;
    Nanos begun = 0, predicted = 0;
    std::vector<Waiting> items = {};
  };
  struct Request {
    Wish wish;
    int left = 0;     // items without a result
    int running = 0;  // of them, in a batch
    int deaths = 0;   // of workers, with it in flight
    bool failed = false;
    bool gone = false;  // cancelled
    bool suspect() const { return !wish.trusted && (deaths > 0 || wish.alone || wish.doubted); }
    bool harmful() const { return deaths >= kMostDeaths; }
  };

  Nanos key_of(const Wish& wish) const;
  Nanos predicted_finish(Nanos now, std::size_t position, int items,
                         const plan::Pressure& pressure) const;
  void note_arrivals(Nanos now, int items);
  void rebuild();
  bool last_is_kept() const;
  void hold_suspects();
  void insert(const Waiting& waiting);
  static void insert_by_key(std::deque<Waiting>& queue, const Waiting& waiting);
  std::vector<Waiting> take_batches(Worker& worker);
  void run_again(Nanos now, const std::vector<Waiting>& under_way);
  bool may_run(const Request& request) const;
  std::vector<Waiting> next_steps(std::deque<Waiting>& queue, std::size_t most);
  template <class Do>
  void each_queue(Do&& look) const;
  void fail_all_steps(Nanos now, Worker& worker);
  Nanos predicted_step(Nanos now, WorkerId worker) const;
  void start_steps(Nanos now, std::vector<Batch>& run);
  void start_singles(Nanos now, std::vector<Batch>& run);
  Batch begin_batch(Nanos now, WorkerId worker, Nanos predicted, std::vector<Waiting> items);
  Nanos patience_of(const Request& request) const;
  void take_out(RequestId request);
  void settle(Nanos now, RequestId id);
  void finish(Nanos now, RequestId id, Outcome outcome);
  void expire(Nanos now);
  Batch start(Nanos now, const plan::Dispatcher::Decision& decision);

  ServiceSettings settings_;
  ServiceCounters counters_;
  std::map<WorkerId, Worker> workers_;
  std::optional<plan::Dispatcher> dispatcher_;       // while some worker is ready
  std::vector<std::deque<WorkerId>> idle_;           // by member, the longest idle first
  std::deque<Waiting> queue_;                        // by key; the dispatcher holds the same keys
  std::deque<Waiting> singles_;                      // by key: what runs alone, before the queue
  std::unordered_map<RequestId, Request> requests_;  // looked up only
  std::map<BatchId, Running> batches_;
  std::set<std::pair<Nanos, RequestId>> deadlines_;  // of requests with one of their own
  std::vector<Finished> finished_;
  std::vector<WorkerId> drained_;
  BatchId next_batch_ = 1;
  std::size_t most_workers_ = 0;  // that were there at the same time
  plan::RecentRate rate_;         // of items
  plan::Arrears arrears_;
  double drift_ = 1;  // execution time over what was predicted, smoothed
  Nanos asked_ = plan::kForever;
};

}  // namespace partita::serve
