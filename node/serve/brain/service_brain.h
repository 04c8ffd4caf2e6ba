// The brain of one service behind the gateway: which requests are let in, which wait, and which
// worker gets which batch when. A pure state machine around plan::Dispatcher and the admission of
// plan/admission.h, which the simulator drives too; no clock, no socket, no memory of tensors.
// Single-threaded. Joins what its parts know: the pool (workers and batches), the room (what
// waits), the book (requests).
//
// The owner calls admit() when the head of a request is there and reserves slots; enqueue() when
// its body is; then step() after every event and at wake_at.
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

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/admission.h"
#include "serve/brain/request_book.h"
#include "serve/brain/service.h"
#include "serve/brain/waiting_room.h"
#include "serve/brain/worker_pool.h"

namespace partita::serve {

class ServiceBrain {
 public:
  explicit ServiceBrain(ServiceSettings settings);

  void configure(const ServiceSettings& settings);

  // ---- workers
  void join(WorkerId worker, WorkerOffer offer);  // it is ready
  // It is silent: no batch for it until it is heard again; what it runs may still end.
  void suspend(WorkerId worker, bool suspended);
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
  // So many items come, or would have, had they not been refused before: all of them press.
  void note_arrivals(Nanos now, int items);
  // Of a request of so many items, behind all that wait and `coming` still to come; nothing
  // where none is refused for being late, or there is no worker.
  std::optional<plan::Foreseen> foresee(Nanos now, long coming, int items) const;
  // Whether the request would be let in now. Counts it as offered, once.
  Admission admit(Nanos now, const Wish& wish);
  // Counts what the owner refused by itself. Only `no_slot` was let in, and so offered, before;
  // `again`: so was this one.
  void refused(OwnerRefusal why, bool again = false);
  void enqueue(Nanos now, RequestId request, const Wish& wish);
  // One that was let in ended without being enqueued; none: its client has gone.
  void ended_outside(Nanos now, const Wish& wish, std::optional<Outcome> outcome);
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
  bool running(RequestId request) const { return book_.running(request); }

  // Another node has one that was refused, and counts it.
  friend void uncount(ServiceBrain& brain, Refusal why) {
    serve::uncount(brain.book_.counters(), why);
  }

  Outputs step(Nanos now);

  int queued() const { return room_.size(); }
  const WorkerPool& pool() const { return pool_; }
  double depth() const;  // rows that may wait and be in time; 0: nothing is shed
  const ServiceCounters& counters() const { return book_.counters(); }

 private:
  Nanos predicted_finish(Nanos now, const Wish& wish, const plan::Pressure& pressure) const;
  void rebuild();
  void hold_suspects();
  void start_alone(Nanos now, std::vector<Batch>& run);
  void start_steps(Nanos now, std::vector<Batch>& run);
  Batch begin_batch(Nanos now, WorkerId worker, Nanos predicted, std::vector<Waiting> items);

  ServiceSettings settings_;
  WaitingRoom room_;  // open while some worker is ready
  RequestBook book_{settings_, room_};
  WorkerPool pool_{settings_};
  plan::RecentRate rate_;  // of items
  plan::Arrears arrears_;
  Nanos asked_ = plan::kForever;
};

inline void uncount(ServiceBrain& brain, Refusal why);

}  // namespace partita::serve
