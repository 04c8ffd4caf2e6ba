#include "queue/turns.h"

#include <algorithm>
#include <cmath>

namespace partita::queue {
namespace {

constexpr long kTurn = 1000;            // between two tasks of a user to whom a share of 1 is due
constexpr long kTurnsOfOne = 1L << 50;  // more than all turns of one priority
constexpr double kLeast = 1e-3, kMost = 1e3;  // shares

}  // namespace

long Turns::give(const Task& task, double share) {
  const auto [turn, fresh] = turn_.try_emplace(task.id);
  if (!fresh) return turn->second;
  Level& level = levels_[task.spec.priority];
  long& last = level.last.try_emplace(task.spec.user, level.now - kTurn).first->second;
  last = std::max(level.now, last + std::lround(kTurn / std::clamp(share, kLeast, kMost)));
  return turn->second = last - task.spec.priority * kTurnsOfOne;
}

long Turns::of(long task) const {
  const auto found = turn_.find(task);
  return found == turn_.end() ? 0 : found->second;
}

void Turns::wait(const Task& task) { waiting_[task.spec.user].emplace(of(task.id), task.id); }

void Turns::wait_no_more(const Task& task) {
  const auto own = waiting_.find(task.spec.user);
  if (own == waiting_.end()) return;
  own->second.erase({of(task.id), task.id});
  if (own->second.empty()) waiting_.erase(own);
}

void Turns::began(const Task& task) {
  wait_no_more(task);
  long& now = levels_[task.spec.priority].now;
  now = std::max(now, of(task.id) + task.spec.priority * kTurnsOfOne);
}

void Turns::each(const std::function<Go(long)>& visit) const {
  std::map<std::pair<long, long>, const Waiting*> heads;
  for (const auto& [user, own] : waiting_) heads.emplace(*own.begin(), &own);
  while (!heads.empty()) {
    const auto [head, own] = *heads.begin();
    heads.erase(heads.begin());
    const Go go = visit(head.second);
    if (go == Go::no_further) return;
    if (go == Go::past_user) continue;
    if (const auto next = own->upper_bound(head); next != own->end()) heads.emplace(*next, own);
  }
}

}  // namespace partita::queue
