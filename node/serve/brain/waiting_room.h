// Where items wait for a worker: in the queue, of which the dispatcher makes batches; alone, before
// the queue; or, as steps, for the one worker that has the state of their sequence. Each by key,
// behind those of the same key. Knows which request an item is of, and nothing else of it. Pure.
// Single-threaded.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "plan/dispatcher.h"
#include "serve/brain/service.h"

namespace partita::serve {

struct Waiting {
  Nanos key = 0;      // its place in the order
  Nanos arrived = 0;  // when it joined
  Item item = {};
};

class WaitingRoom {
 public:
  using Items = std::deque<Waiting>;

  void add(const Waiting& waiting);
  void add_alone(const Waiting& waiting) { insert(alone_, waiting); }
  void add_step(WorkerId worker, const Waiting& waiting) { insert(steps_[worker], waiting); }
  // What waits of this request: steps for that worker, or else all but steps.
  void take_out(RequestId request, std::optional<WorkerId> worker);

  // ---- the queue, of which batches are made while it is open
  bool is_open() const { return dispatcher_.has_value(); }
  // For these members, of which busy[m] processes run a batch now; keeps its pace if it was open.
  void open(std::vector<plan::PoolMember> members, const std::vector<int>& busy, Nanos slo);
  void close() { dispatcher_.reset(); }
  void completed(int member) { dispatcher_->complete(member); }  // a batch of this member's
  // What Dispatcher::step() says; the items that it dispatched are to be taken then.
  plan::Dispatcher::Decision next(Nanos now);
  std::vector<Waiting> take(int items);
  std::size_t before(Nanos key) const;  // how many are in front of a newcomer with this key
  // Those that `is_doubted` run alone from now on.
  template <class Doubted>
  void set_apart(Doubted&& is_doubted) {
    for (std::size_t i = queue_.size(); i-- > 0;) {
      if (!is_doubted(queue_[i])) continue;
      add_alone(queue_[i]);
      remove(i);
    }
  }

  // ---- what runs alone
  const Items& alone() const { return alone_; }
  Waiting take_alone(std::size_t position);

  // ---- steps
  const std::map<WorkerId, Items>& steps() const { return steps_; }
  int steps_of(WorkerId worker) const;
  // The first `most` of this worker's steps that `goes`, which is asked about each in turn.
  template <class Goes>
  std::vector<Waiting> take_steps(WorkerId worker, std::size_t most, Goes&& goes) {
    std::vector<Waiting> taken;
    const auto found = steps_.find(worker);
    if (found == steps_.end()) return taken;
    Items stay;
    Items& waiting = found->second;
    for (; !waiting.empty() && taken.size() < most; waiting.pop_front()) {
      if (goes(waiting.front()))
        taken.push_back(waiting.front());
      else
        stay.push_back(waiting.front());
    }
    waiting.insert(waiting.begin(), stay.begin(), stay.end());
    return taken;
  }
  // All of them; the worker is forgotten.
  std::vector<Waiting> take_all_steps(WorkerId worker);

  int size() const;
  // What runs alone, the queue, each worker's steps.
  template <class Do>
  void each_queue(Do&& look) const {
    look(alone_);
    look(queue_);
    for (const auto& [worker, waiting] : steps_) look(waiting);
  }

 private:
  static void insert(Items& items, const Waiting& waiting);
  void remove(std::size_t position);  // of the queue

  Items queue_;  // the dispatcher holds the same keys
  Items alone_;
  std::map<WorkerId, Items> steps_;
  std::optional<plan::Dispatcher> dispatcher_;
};

}  // namespace partita::serve
