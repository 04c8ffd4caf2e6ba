// What people ask of a queue, by the names of rows of the table of operations (api/operations.h):
// the queue's socket and an agent's API answer by it. One thread at a time, the host's.
#pragma once

#include <functional>
#include <string>

#include "queue/host/host.h"

namespace partita::queue {

inline constexpr std::size_t kMaxSubmission = 1u << 20;  // bytes
inline constexpr std::size_t kMaxLog = 1u << 20;

struct Call {
  std::string name;       // "queue_submit"
  long task = 0;          // of the path
  Page page = {};         // of queue_tasks
  std::string user = {};  // whose a submission is that does not say so
  std::string body = {};
};

class Calls {
 public:
  struct Doors {
    Host& host;
    std::function<Nanos()> now;
    std::function<std::string(long task)> log_path;
    std::function<void()> changed;  // called once something was asked, before it is answered
  };
  explicit Calls(Doors doors) : doors_(std::move(doors)) {}

  // The document, or of queue_log the end of what the task printed, at most kMaxLog bytes.
  Result<std::string> answer(const Call& call);

 private:
  Result<std::string> submit(const Call& call);
  Result<std::string> show(long task);
  Result<std::string> change(const Call& call);

  Doors doors_;
};

}  // namespace partita::queue
