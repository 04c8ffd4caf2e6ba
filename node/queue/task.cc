#include "queue/task.h"

namespace partita::queue {

const char* to_string(State state) {
  switch (state) {
    case State::waiting:
      return "waiting";
    case State::held:
      return "held";
    case State::starting:
      return "starting";
    case State::running:
      return "running";
    case State::done:
      return "done";
    case State::failed:
      return "failed";
    case State::cancelled:
      return "cancelled";
    case State::skipped:
      break;
  }
  return "skipped";
}

bool is_over(State state) { return state >= State::done; }

}  // namespace partita::queue
