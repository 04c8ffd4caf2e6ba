// Pulse: the beats of a worker, from a thread of its own, so that they come during long batches
// too. They stop where the worker hangs: the loop says when it begins something that must end
// (a batch, warming up) and by when; while that is overdue the pulse is silent, and whoever
// supervises sees a hung worker although its process and this thread live.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "serve/worker/link_sender.h"

namespace partita::serve {

class Pulse {
 public:
  Pulse();
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // Where beats go from now on; null: nowhere.
  void send_to(std::shared_ptr<LinkSender> link);
  // The loop works on something that ends by then (CLOCK_MONOTONIC); 0: it waits for work.
  void busy_until(std::int64_t overdue_ns) { overdue_ = overdue_ns; }

 private:
  void beat();

  std::atomic<std::int64_t> overdue_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<LinkSender> link_;
  bool ending_ = false;
  std::jthread thread_;
};

}  // namespace partita::serve
