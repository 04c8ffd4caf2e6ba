// The requests of a service from when they join until they are finished or cancelled: how many
// items of each wait, run, failed, and at how many deaths of workers it was in flight. Keeps the
// accounts. Items that wait are in the room. Pure. Single-threaded.
//
// A request ends when none of its items runs any more and one of them failed for good, or all are
// done: items of a batch that failed, or whose worker died or hung, run again alone, if they may.
#pragma once

#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/brain/service.h"
#include "serve/brain/waiting_room.h"

namespace partita::serve {

// Which requests without a deadline of their own are held for kPatience SLOs only. Where nothing is
// shed one waits for its turn for as long as that takes, but a suspect that is kept from the last
// worker has no turn.
enum class Impatient : std::uint8_t { none, suspects, all };

class RequestBook {
 public:
  // The settings and the room are the owner's and outlive the book.
  RequestBook(const ServiceSettings& settings, WaitingRoom& room)
      : settings_(settings), room_(room) {}
  RequestBook(const RequestBook&) = delete;

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
  void add(Nanos now, RequestId id, const Wish& wish);
  const Request& of(const Waiting& waiting) const { return requests_.at(waiting.item.request); }
  bool running(RequestId id) const;
  // Its sender may have ended a worker. Whether it is there.
  bool doubt(RequestId id);
  // From here on this step, which is in no queue, waits for that worker.
  void move_step(const Waiting& step, WorkerId to);
  // What waits is taken out. Whether items of it run; what becomes of them is of no interest.
  bool cancel(RequestId id);

  // These begin to run together; the deadline of the most urgent one.
  Nanos begin(Nanos now, const std::vector<Waiting>& items);
  // They ran together to their end; failed[i] of the item i. Where others were in the batch, who
  // failed runs again alone.
  void ended(Nanos now, const std::vector<Waiting>& items, std::span<const bool> failed);
  // What was in flight when a worker died or hung: any of it may have been why.
  void run_again(Nanos now, const std::vector<Waiting>& under_way);
  // Steps that no worker takes any more.
  void fail(Nanos now, const std::vector<Waiting>& steps);
  // What has a deadline of its own and waits beyond it, and what no worker took for long.
  void expire(Nanos now, Impatient impatient);
  Nanos next_expiry(Impatient impatient) const;

  // How a request ended, in the counters.
  void count(Nanos now, const Wish& wish, Outcome outcome);
  std::vector<Finished> finished() { return std::exchange(finished_, {}); }  // each once
  ServiceCounters& counters() { return counters_; }
  const ServiceCounters& counters() const { return counters_; }

 private:
  Nanos patience_of(const Request& request, Impatient impatient) const;
  void settle(Nanos now, RequestId id);
  void finish(Nanos now, RequestId id, Outcome outcome);

  const ServiceSettings& settings_;
  WaitingRoom& room_;
  ServiceCounters counters_;
  std::unordered_map<RequestId, Request> requests_;  // looked up only
  std::set<std::pair<Nanos, RequestId>> deadlines_;  // of requests with one of their own
  std::vector<Finished> finished_;
};

}  // namespace partita::serve
