// Whose turn it is. Users of one priority take turns, in their shares, so that who comes with one
// task does not wait behind all tasks of who came with many: start-time fair queueing by the number
// of tasks. A turn that was given stays, whatever becomes of the task. Pure.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "queue/task.h"

namespace partita::queue {

class Turns {
 public:
  // The task's turn, given now if it has none: one behind its user's last, and not before the task
  // that began last. Lower comes first; of a higher priority all come before those of a lower one.
  long give(const Task& task, double share);
  long of(long task) const;  // 0 where none was given

  void wait(const Task& task);  // it has a turn
  void wait_no_more(const Task& task);
  void began(const Task& task);
  void forget(long task) { turn_.erase(task); }

  // Ids of all that waits in the order of their turns, as long as it is said to go on.
  enum class Go { on, past_user, no_further };
  void each(const std::function<Go(long)>& visit) const;

 private:
  using Waiting = std::set<std::pair<long, long>>;  // turn and id
  struct Level {
    long now = 0;                      // of what began last
    std::map<std::string, long> last;  // that a user has
  };
  std::map<std::string, Waiting> waiting_;  // by user
  std::map<long, long> turn_;
  std::map<int, Level> levels_;  // by priority
};

}  // namespace partita::queue
