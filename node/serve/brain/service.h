// What goes into the brain of one service behind the gateway and comes out of it: workers that
// offer themselves, requests and what they wish, batches to run, how requests end. Values only.
//
// A request is one or more items (rows); items are what batches are made of. Times are nanoseconds
// on the owner's clock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
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
  std::optional<Nanos> done_by = {};   // let in by this instead; its place and end stay as they are
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

// One that was refused for this reason is counted elsewhere.
inline void uncount(ServiceCounters& counters, Refusal why) {
  long& refused = why == Refusal::no_worker        ? counters.refused_worker
                  : why == Refusal::predicted_miss ? counters.refused_miss
                                                   : counters.refused_full;
  if (refused == 0) return;
  --refused;
  --counters.offered;
}

}  // namespace partita::serve
