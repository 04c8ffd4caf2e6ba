#include "serve/gateway/sequence_moves.h"

#include <algorithm>

namespace partita::serve {

std::optional<WorkerId> fewest(const Sequences& sequences, const ServiceBrain& brain) {
  for (const auto& [load, worker] : sequences.workers())
    if (brain.pool().usable(worker)) return worker;
  return std::nullopt;
}

void SequenceMoves::leave(const Ground& ground, WorkerId worker) {
  ground.sequences.leave(worker);
  for (const SequenceName& name : ground.sequences.held_by(worker))
    waiting_[worker].push_back(name);
  go_on(ground);
}

void SequenceMoves::give_up(const Ground& ground, const SequenceName& name, WorkerId from) {
  const std::uint64_t number = ground.sequences.find(name)->number;
  ground.sequences.lose(name, ground.now);
  ++totals_.lost;
  ground.brain.fail_steps(ground.now, number, from);
}

void SequenceMoves::start(const Ground& ground, const SequenceName& name, WorkerId from) {
  const Sequences::Sequence* const sequence = ground.sequences.find(name);
  if (sequence == nullptr || sequence->state != Sequences::State::live ||
      sequence->holder() != from)
    return;  // it has ended
  const std::optional<WorkerId> to = fewest(ground.sequences, ground.brain);
  if (!to) return give_up(ground, name, from);
  under_way_[sequence->number] = {.name = name, .from = from, .to = *to};
  ground.send(from, FetchState{.sequence = sequence->number});
  ground.sequences.move(name, *to);
}

void SequenceMoves::go_on(const Ground& ground) {
  while (!waiting_.empty() && under_way_.size() < kMovesAtOnce) {
    const auto here = waiting_.begin();
    const WorkerId from = here->first;
    const SequenceName name = here->second.front();
    here->second.pop_front();
    if (here->second.empty()) waiting_.erase(here);
    start(ground, name, from);
  }
  std::erase_if(drain_later_, [&](WorkerId worker) {
    if (moves_from(worker)) return false;
    ground.send(worker, Drain{});
    return true;
  });
}

bool SequenceMoves::moves_from(WorkerId worker) const {
  return waiting_.contains(worker) || std::ranges::any_of(under_way_, [&](const auto& one) {
           return one.second.from == worker;
         });
}

void SequenceMoves::drain(const Ground& ground, WorkerId worker) {
  drain_later_.insert(worker);
  go_on(ground);
}

void SequenceMoves::arrived(const Ground& ground, Entry entry) {
  const auto [number, transfer] = *entry;
  under_way_.erase(entry);
  const Sequences::Sequence* const sequence = ground.sequences.find(transfer.name);
  if (sequence != nullptr && sequence->number == number && sequence->moves_from) {
    ground.sequences.moved(transfer.name);
    ++totals_.moved;
  } else {
    ground.send(transfer.to, ForgetStates{{number}});
  }
  ground.brain.move_steps(number, transfer.from, transfer.to);
  go_on(ground);
}

void SequenceMoves::hear(const Ground& ground, WorkerId worker, const StatePart& part) {
  const auto found = under_way_.find(part.sequence);
  if (found == under_way_.end() || found->second.from != worker) return;
  found->second.total = part.total;
  if (part.total == 0) return arrived(ground, found);  // its first step has not run yet
  ground.send(found->second.to, part);
}

void SequenceMoves::hear(const Ground& ground, WorkerId worker, const FetchState& wanted) {
  const auto found = under_way_.find(wanted.sequence);
  if (found == under_way_.end() || found->second.to != worker) return;
  if (wanted.offset >= found->second.total) return arrived(ground, found);
  ground.send(found->second.from, wanted);
}

// Its new worker is gone, the old one still has the state.
void SequenceMoves::restart(const Ground& ground, Entry entry) {
  const auto [number, transfer] = *entry;
  under_way_.erase(entry);
  const Sequences::Sequence* const sequence = ground.sequences.find(transfer.name);
  if (sequence != nullptr && sequence->number == number)
    start(ground, transfer.name, transfer.from);
  else
    ground.brain.fail_steps(ground.now, number, transfer.from);
}

void SequenceMoves::lose(const Ground& ground, WorkerId worker) {
  ground.sequences.leave(worker);
  waiting_.erase(worker);
  drain_later_.erase(worker);
  for (const SequenceName& name : ground.sequences.held_by(worker)) {
    ground.sequences.lose(name, ground.now);
    ++totals_.lost;
  }
  for (auto next = under_way_.begin(); next != under_way_.end();) {
    const auto entry = next++;
    if (entry->second.from == worker) {
      ground.send(entry->second.to, ForgetStates{{entry->first}});
      under_way_.erase(entry);
    } else if (entry->second.to == worker) {
      restart(ground, entry);
    }
  }
  go_on(ground);
}

}  // namespace partita::serve
