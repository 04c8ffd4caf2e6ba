// DriverThread: driver operations on a thread of their own, one at a time. Owned and used by one
// other thread; nobody else may call the driver meanwhile. Its end waits for the operation under
// way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "act/batch/operation.h"

namespace partita::exec {

class DriverThread {
 public:
  explicit DriverThread(device::NodeDriver& driver);
  // None may be under way.
  void begin(Operation operation);
  // What came of it, once.
  std::optional<Outcome> answer();
  // Returns after that time, or as soon as there is an answer.
  void wait(std::chrono::nanoseconds at_most);

 private:
  void work(const std::stop_token& stop);

  device::NodeDriver& driver_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Operation> asked_;
  std::optional<Outcome> answer_;
  std::jthread thread_;  // last: it uses all the others
};

}  // namespace partita::exec
