// The worker's side of the link: connects, says what it is, warms up, runs batches until it is told
// to end. When the gateway goes away it keeps its model and connects again every kRetryNs, without
// warming up again. Batches run on the calling thread, one after the other: a hand-over to another
// thread would cost more than the rest of the hop. So a CANCEL of a batch of tensors comes too late
// by construction and is ignored. One other thread beats (pulse.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "serve/worker/engine.h"
#include "serve/worker/streams.h"

namespace partita::serve {

inline constexpr std::int64_t kRetryNs = 20'000'000;
inline constexpr std::int64_t kWarmUpLimit = 600'000'000'000;  // then it counts as hung
inline constexpr std::int64_t kHangFloor = 5'000'000'000;      // a batch may take as long as this,
inline constexpr int kHangFactor = 20;                         // or as many times what was measured
inline constexpr std::int64_t kLoadLimit = 60'000'000'000;     // and of a set so much longer
inline constexpr std::int64_t kLeaveLimit = 60'000'000'000;    // from LEAVING to DRAIN

struct WorkerSeat {
  std::string link;     // the gateway's socket
  std::string place;    // PARTITA_WORKER, or empty
  std::string service;  // whose requests it wants
};

struct LoopOptions {
  WorkerSeat seat;
  int leave_fd = -1;                                 // becomes readable when it is to end (SIGTERM)
  std::function<void(const std::string&)> say = {};  // hears what happens, a line each
};

// Until it is drained, or told to end without a gateway. An Error: the gateway refused it, the
// engine cannot warm up.
Result<void> run_worker(Engine& engine, const LoopOptions& options);
// The same for an openai model: requests run beside each other and can be cancelled.
Result<void> run_worker(Streams& streams, const LoopOptions& options);

}  // namespace partita::serve
