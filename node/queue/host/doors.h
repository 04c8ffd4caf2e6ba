// The two doors of a queue's host: processes of attempts, and instances. Real ones: attempts.h and
// instances.h; simulated ones in tests and benchmarks.
#pragma once

#include <optional>
#include <vector>

#include "hw/telemetry/sample.h"
#include "queue/queue.h"

namespace partita::queue {

class AttemptDoor {
 public:
  virtual ~AttemptDoor() = default;
  // Starts the attempt of a task that is on disk as starting. An error: it was not, and never is.
  virtual Result<Began> start(const Task& task) = 0;
  // What became of an attempt that an earlier process of the queue was starting or watching: Began
  // (it runs, and is watched from now on), Ended, or NotBegun, and then it can never begin. Of an
  // attempt that has ended no process is left, wherever it went.
  virtual Event recover(const Task& task) = 0;
  // Ended and Saved, each once, since the last call.
  virtual std::vector<Event> ended() = 0;
  virtual void stop(Pid pid, StopSignal signal) = 0;
  // Runs its checkpoint command; Saved comes once it ends, unless it is killed by stop_save(). One
  // that an earlier process of the queue began is killed by recover().
  virtual void save(const Task& task) = 0;
  virtual void stop_save(long task) = 0;
};

// Calls may take as long as the driver does; they come from one thread at a time.
class InstanceDoor {
 public:
  virtual ~InstanceDoor() = default;
  // Makes the instance, or says which is there already by our name; its UUID.
  virtual Result<std::string> create(const Place& place) = 0;
  virtual Result<void> destroy(const Place& place) = 0;
  // Ours that are there, and places that others have.
  struct Seen {
    std::vector<Place> ours, others;
  };
  virtual Result<Seen> look() = 0;
  // What the GPUs say of themselves at a time.
  virtual Result<telemetry::Sample> sample(Seconds) {
    return failed({ErrorCode::not_supported, "nothing is measured", ""});
  }
};

}  // namespace partita::queue
