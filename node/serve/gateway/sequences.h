// Sequences of one service: requests that follow each other on a state that one worker keeps. Which
// worker has which, how many each has, and which client began them. Pure; times are the caller's
// and never run backwards. Whatever is done to one of them takes the time of a look-up. Limits: the
// constants; what has ended before its client said so is remembered for kSequenceIdle, so that who
// goes on with it hears why.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "serve/brain/service_brain.h"
#include "serve/front/backend.h"

namespace partita::serve {

// By the client that began it, which is a key or an address, and the id that it gave.
using SequenceName = std::pair<std::string, std::uint64_t>;

inline constexpr std::size_t kMostSequences = 65'536;       // of a service
inline constexpr std::size_t kMostClientSequences = 4'096;  // of a client, and
inline constexpr std::size_t kClientSequenceShare = 4;      // so many times those that are free

class Sequences {
 public:
  // lost: with its worker; idle: nobody went on with it.
  enum class State : std::uint8_t { live, lost, idle };
  struct Sequence {
    WorkerId worker = 0;
    std::uint64_t number = 0;  // as workers know it; never used for two
    State state = State::live;
    std::optional<WorkerId> moves_from = {};  // its state is still there, and so are its steps
    int under_way = 0;                        // steps
    Nanos used = 0;
    std::list<SequenceName>::iterator place = {};
    WorkerId holder() const { return moves_from.value_or(worker); }
  };
  enum class Room : std::uint8_t { enough, client_has_most, full };

  // That may get some, the one that has fewest first.
  const std::set<std::pair<int, WorkerId>>& workers() const { return by_load_; }
  void join(WorkerId worker);
  void leave(WorkerId worker);

  const Sequence* find(const SequenceName& name) const;
  std::size_t size() const { return live_.size(); }
  // For one that is not there yet.
  Room room(const SequenceName& name) const;
  std::uint64_t next_number() { return next_++; }
  // A step was let in: of the sequence that has this number, or begins with it; another one of the
  // same name is forgotten then.
  void step(const SequenceName& name, WorkerId worker, std::uint64_t number, Nanos now);
  void step_over(const SequenceName& name, std::uint64_t number, Nanos now);
  void end(const SequenceName& name);
  // From now on its worker is `to`; its state comes from where it was, until moved().
  void move(const SequenceName& name, WorkerId to);
  void moved(const SequenceName& name);
  std::vector<SequenceName> held_by(WorkerId worker) const;  // live ones
  void lose(const SequenceName& name, Nanos now);
  // Ends those that nobody went on with: where they were, and their numbers.
  std::vector<std::pair<WorkerId, std::uint64_t>> expire(Nanos now);

 private:
  using Entry = std::map<SequenceName, Sequence>::iterator;
  void count(WorkerId worker, int more);
  void stop(Entry entry, State state, Nanos now);
  void touch(Sequence& sequence, Nanos now);

  std::map<SequenceName, Sequence> all_;
  std::list<SequenceName> live_, over_;                        // the one used longest ago first
  std::map<std::string, std::size_t, std::less<>> by_client_;  // live ones
  std::map<WorkerId, int> load_;                               // of every worker that has some
  std::set<std::pair<int, WorkerId>> by_load_;                 // of those that may get more
  std::uint64_t next_ = 1;
};

}  // namespace partita::serve
