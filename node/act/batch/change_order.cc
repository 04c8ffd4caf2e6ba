#include "act/batch/change_order.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/index.h"

namespace partita::exec {

ChangeOrder::ChangeOrder(const Script& script)
    : script_(script),
      gpus_(script.gpus.size()),
      create_(script.visits.size()),
      destroy_(script.visits.size()) {
  for (std::size_t g = 0; g < script.gpus.size(); ++g) {
    const std::vector<Change>& changes = script.gpus[g].changes;
    gpus_[g].done.resize(changes.size());
    for (std::size_t r = 0; r < changes.size(); ++r) {
      std::vector<ChangeId>& ids = changes[r].create ? create_ : destroy_;
      ids.at(partita::at(changes[r].visit)) = {static_cast<int>(g), static_cast<int>(r)};
      planned_left_ += changes[r].planned ? 1 : 0;
    }
  }
}

ChangeId ChangeOrder::id(int visit, bool create) const {
  return (create ? create_ : destroy_)[partita::at(visit)];
}

const Change& ChangeOrder::at(ChangeId id) const {
  return script_.gpus[partita::at(id.gpu)].changes[partita::at(id.rank)];
}

void ChangeOrder::ready(ChangeId id, Nanos not_before) {
  CHECK(!is_done(id));
  gpus_[partita::at(id.gpu)].ready[id.rank] = not_before;
}

void ChangeOrder::hurry(int gpu) { gpus_[partita::at(gpu)].hurried = true; }

void ChangeOrder::done(ChangeId id) {
  Gpu& gpu = gpus_[partita::at(id.gpu)];
  if (gpu.done[partita::at(id.rank)]) return;
  gpu.done[partita::at(id.rank)] = true;
  gpu.ready.erase(id.rank);
  planned_left_ -= at(id).planned ? 1 : 0;
  while (partita::at(gpu.first) < gpu.done.size() && gpu.done[partita::at(gpu.first)]) ++gpu.first;
}

bool ChangeOrder::is_done(ChangeId id) const {
  return gpus_[partita::at(id.gpu)].done[partita::at(id.rank)];
}

Nanos ChangeOrder::may_begin(int gpu, int rank, Nanos not_before) const {
  if (gpus_[partita::at(gpu)].hurried) return not_before;
  const std::optional<Planned>& planned = at({gpu, rank}).planned;
  if (!planned) return planned_left_ == 0 ? not_before : kForever;
  if (rank == gpus_[partita::at(gpu)].first) return not_before;
  // A nanosecond late: without differences, those planned earlier have begun by then.
  return std::max(not_before, planned->begin + 1);
}

std::optional<ChangeId> ChangeOrder::take(Nanos now) {
  std::optional<ChangeId> best;
  const auto planned = [&](ChangeId id) {
    const auto& times = at(id).planned;
    return std::tuple(times ? times->begin : kForever, id);
  };
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    for (const auto& [rank, not_before] : gpus_[g].ready) {
      const ChangeId id{static_cast<int>(g), rank};
      if (may_begin(id.gpu, rank, not_before) > now) continue;
      if (!best || planned(id) < planned(*best)) best = id;
      break;
    }
  }
  if (best) gpus_[partita::at(best->gpu)].ready.erase(best->rank);
  return best;
}

std::optional<Nanos> ChangeOrder::wake(Nanos now) const {
  Nanos next = kForever;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    for (const auto& [rank, not_before] : gpus_[g].ready) {
      const Nanos time = may_begin(static_cast<int>(g), rank, not_before);
      if (time > now) next = std::min(next, time);
    }
  }
  return next == kForever ? std::nullopt : std::optional(next);
}

}  // namespace partita::exec
