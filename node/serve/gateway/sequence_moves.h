// States of sequences on their way from workers that leave to those that go on. The gateway is the
// fence: once a worker leaves no step of its sequences begins there, and none begins elsewhere
// before all of the state is there. The old worker has it until then, so that a new one may die
// meanwhile. Parts go when they are asked for, a few sequences at a time: what is on its way is
// bounded, whatever the states' size. Decides and sends; owns no connection. Single-threaded.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "serve/gateway/sequences.h"
#include "serve/wire/frames.h"

namespace partita::serve {

inline constexpr std::size_t kMovesAtOnce = 32;  // of a service

class SequenceMoves {
 public:
  using Send = std::function<void(WorkerId, const Frame&)>;
  struct Ground {  // what it works on, of one service
    Sequences& sequences;
    ServiceBrain& brain;
    const Send& send;
    Nanos now = 0;
  };
  struct Totals {
    long moved = 0, lost = 0;
  };

  // All of this worker's sequences, whose steps wait at the brain. It takes no new ones any more.
  void leave(const Ground& ground, WorkerId worker);
  // It is gone, or hangs: who goes on with one of its sequences hears that. Waiting steps of those
  // fail, but for the ones that the brain fails with their worker.
  void lose(const Ground& ground, WorkerId worker);
  void hear(const Ground& ground, WorkerId worker, const StatePart& part);
  void hear(const Ground& ground, WorkerId worker, const FetchState& wanted);
  // DRAIN may be sent to it as soon as nothing moves from it.
  void drain(const Ground& ground, WorkerId worker);
  const Totals& totals() const { return totals_; }

 private:
  struct Transfer {
    SequenceName name;
    WorkerId from = 0, to = 0;
    std::uint64_t total = 0;
  };
  using Entry = std::map<std::uint64_t, Transfer>::iterator;
  void go_on(const Ground& ground);
  void start(const Ground& ground, const SequenceName& name, WorkerId from);
  void restart(const Ground& ground, Entry entry);
  void arrived(const Ground& ground, Entry entry);
  void give_up(const Ground& ground, const SequenceName& name, WorkerId from);
  bool moves_from(WorkerId worker) const;

  std::map<WorkerId, std::deque<SequenceName>> waiting_;  // by where they are
  std::map<std::uint64_t, Transfer> under_way_;           // by their numbers
  std::set<WorkerId> drain_later_;
  Totals totals_;
};

// Of those that get batches the one that has the fewest sequences.
std::optional<WorkerId> fewest(const Sequences& sequences, const ServiceBrain& brain);

}  // namespace partita::serve
