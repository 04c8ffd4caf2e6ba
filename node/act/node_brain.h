// NodeBrain: the brain that changes a node. Single-threaded and without doors, clocks and sleeps:
// step(now, events) -> actions; whoever runs it (node_run.h) performs what is asked and reports
// what comes of it, as the runners of the batch executor do. Asks one thing at a time, because each
// record of the journal must be durable before what it announces is done.
//
// Being interrupted is an event like others: the step under way is ended, nothing is left half
// made, segments that were taken off devices that are still there go back to them, the journal says
// what is not done, and error() is interrupted_error().
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "act/apply.h"
#include "act/talk.h"

namespace partita::actuate {

struct Answered {
  Answer answer;  // to the question of the last step
};
struct Interrupted {};  // somebody wants the change to end
using NodeEvent = std::variant<Answered, Interrupted>;

struct NodeActions {
  std::vector<ApplyEvent> tell;  // first; they refer to the brain
  std::optional<Question> ask;   // nothing: time has to pass
};

class NodeBrain {
 public:
  // Applies `wanted`. `known` is the journal as it is.
  NodeBrain(Wanted wanted, ApplyOptions options, JournalState known,
            const hw::Catalogue& catalogue);
  // Takes the segments off devices and waits until nobody holds them.
  NodeBrain(std::vector<std::string> devices, Seconds timeout, const hw::Catalogue& catalogue);
  ~NodeBrain();

  NodeActions step(std::int64_t now, const std::vector<NodeEvent>& events);
  bool finished() const;
  // When to step at the latest, though nothing happened.
  std::optional<std::int64_t> next_wake() const;
  // Once finished.
  Result<ApplyReport> result() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace partita::actuate
