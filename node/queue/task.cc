#include "queue/task.h"

#include <fmt/format.h>

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

std::string ended_otherwise(long task, State state) {
  return fmt::format("task {}, which it waits for, ended as {}", task, to_string(state));
}

bool Dependency::met_by(State ended) const {
  if (kind == Kind::any) return true;
  return (kind == Kind::ok) == (ended == State::done);
}

}  // namespace partita::queue
