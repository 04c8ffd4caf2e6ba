#include "serve/gateway/sequences.h"

#include <algorithm>

#include "base/check.h"

namespace partita::serve {

void Sequences::join(WorkerId worker) { by_load_.insert({load_[worker], worker}); }

void Sequences::leave(WorkerId worker) {
  const auto load = load_.find(worker);
  if (load == load_.end()) return;
  by_load_.erase({load->second, worker});
  if (load->second == 0) load_.erase(load);
}

void Sequences::count(WorkerId worker, int more) {
  int& load = load_[worker];
  const bool may_get_more = by_load_.erase({load, worker}) > 0;
  load += more;
  if (may_get_more)
    by_load_.insert({load, worker});
  else if (load == 0)
    load_.erase(worker);
}

const Sequences::Sequence* Sequences::find(const SequenceName& name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

Sequences::Room Sequences::room(const SequenceName& name) const {
  const Sequence* const here = find(name);
  if (here != nullptr && here->state == State::live) return Room::enough;
  if (live_.size() >= kMostSequences) return Room::full;
  const auto known = by_client_.find(name.first);
  const std::size_t has = known == by_client_.end() ? 0 : known->second;
  const std::size_t share = kClientSequenceShare * (kMostSequences - live_.size());
  return has < std::min(kMostClientSequences, share) ? Room::enough : Room::client_has_most;
}

void Sequences::touch(Sequence& sequence, Nanos now) {
  sequence.used = now;
  auto& list = sequence.state == State::live ? live_ : over_;
  list.splice(list.end(), list, sequence.place);
}

void Sequences::step(const SequenceName& name, WorkerId worker, std::uint64_t number, Nanos now) {
  auto entry = all_.find(name);
  if (entry != all_.end() && entry->second.number != number) {
    end(name);
    entry = all_.end();
  }
  if (entry == all_.end()) {
    entry = all_.emplace(name, Sequence{.worker = worker, .number = number}).first;
    entry->second.place = live_.insert(live_.end(), name);
    ++by_client_[name.first];
    count(worker, 1);
  }
  ++entry->second.under_way;
  touch(entry->second, now);
}

void Sequences::step_over(const SequenceName& name, std::uint64_t number, Nanos now) {
  const auto entry = all_.find(name);
  if (entry == all_.end() || entry->second.number != number) return;
  --entry->second.under_way;
  if (entry->second.state == State::live) touch(entry->second, now);
}

// What it had is free again; it is remembered among those that are over.
void Sequences::stop(Entry entry, State state, Nanos now) {
  Sequence& sequence = entry->second;
  if (sequence.state == State::live) {
    const auto client = by_client_.find(entry->first.first);
    if (--client->second == 0) by_client_.erase(client);
    count(sequence.worker, -1);
    over_.splice(over_.end(), live_, sequence.place);
  }
  sequence.state = state;
  sequence.moves_from.reset();
  sequence.used = now;
  if (over_.size() <= kMostSequences) return;
  all_.erase(over_.front());
  over_.pop_front();
}

void Sequences::end(const SequenceName& name) {
  const auto entry = all_.find(name);
  if (entry == all_.end()) return;
  stop(entry, State::lost, entry->second.used);
  over_.erase(entry->second.place);
  all_.erase(entry);
}

void Sequences::move(const SequenceName& name, WorkerId to) {
  Sequence& sequence = all_.at(name);
  CHECK(sequence.state == State::live);
  sequence.moves_from = sequence.holder();
  count(sequence.worker, -1);
  sequence.worker = to;
  count(to, 1);
}

void Sequences::moved(const SequenceName& name) { all_.at(name).moves_from.reset(); }

std::vector<SequenceName> Sequences::held_by(WorkerId worker) const {
  std::vector<SequenceName> names;
  for (const auto& [name, sequence] : all_)
    if (sequence.state == State::live && sequence.holder() == worker) names.push_back(name);
  return names;
}

void Sequences::lose(const SequenceName& name, Nanos now) {
  const auto entry = all_.find(name);
  if (entry != all_.end() && entry->second.state == State::live) stop(entry, State::lost, now);
}

std::vector<std::pair<WorkerId, std::uint64_t>> Sequences::expire(Nanos now) {
  std::vector<std::pair<WorkerId, std::uint64_t>> ended;
  while (!live_.empty()) {
    const auto entry = all_.find(live_.front());
    Sequence& sequence = entry->second;
    if (now - sequence.used <= kSequenceIdle) break;
    if (sequence.under_way > 0 || sequence.moves_from) {
      touch(sequence, now);
      continue;
    }
    ended.emplace_back(sequence.worker, sequence.number);
    stop(entry, State::idle, now);
  }
  while (!over_.empty() && now - all_.at(over_.front()).used > kSequenceIdle) {
    all_.erase(over_.front());
    over_.pop_front();
  }
  return ended;
}

}  // namespace partita::serve
