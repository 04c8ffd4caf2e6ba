#include "serve/brain/waiting_room.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::serve {

void WaitingRoom::insert(Items& items, const Waiting& waiting) {
  items.insert(std::ranges::upper_bound(items, waiting.key, {}, &Waiting::key), waiting);
}

void WaitingRoom::add(const Waiting& waiting) {
  insert(queue_, waiting);
  if (dispatcher_) dispatcher_->arrive(waiting.key);
}

void WaitingRoom::remove(std::size_t position) {
  queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(position));
  if (dispatcher_) dispatcher_->withdraw(position);
}

void WaitingRoom::take_out(RequestId request, std::optional<WorkerId> worker) {
  const auto its = [&](const Waiting& waiting) { return waiting.item.request == request; };
  if (worker) {
    const auto found = steps_.find(*worker);
    if (found != steps_.end()) std::erase_if(found->second, its);
    return;
  }
  std::erase_if(alone_, its);
  for (std::size_t i = queue_.size(); i-- > 0;)
    if (its(queue_[i])) remove(i);
}

void WaitingRoom::open(std::vector<plan::PoolMember> members, const std::vector<int>& busy,
                       Nanos slo) {
  if (!dispatcher_) {
    dispatcher_.emplace(plan::pooled_policy(members, slo));
    for (const Waiting& waiting : queue_) dispatcher_->arrive(waiting.key);
  }
  dispatcher_->change_members(std::move(members), busy);
}

plan::Dispatcher::Decision WaitingRoom::next(Nanos now) {
  return dispatcher_ ? dispatcher_->step(now) : plan::Dispatcher::Decision{};
}

std::vector<Waiting> WaitingRoom::take(int items) {
  std::vector<Waiting> taken;
  for (int i = 0; i < items; ++i) {
    CHECK(queue_.front().key == dispatcher_->dispatched()[at(i)]);
    taken.push_back(queue_.front());
    queue_.pop_front();
  }
  return taken;
}

std::size_t WaitingRoom::before(Nanos key) const {
  const auto after = std::ranges::upper_bound(queue_, key, {}, &Waiting::key);
  return static_cast<std::size_t>(after - queue_.begin());
}

Waiting WaitingRoom::take_alone(std::size_t position) {
  const Waiting waiting = alone_[position];
  alone_.erase(alone_.begin() + static_cast<std::ptrdiff_t>(position));
  return waiting;
}

int WaitingRoom::steps_of(WorkerId worker) const {
  const auto found = steps_.find(worker);
  return found == steps_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<Waiting> WaitingRoom::take_all_steps(WorkerId worker) {
  const auto had = steps_.extract(worker);
  return had ? std::vector<Waiting>(had.mapped().begin(), had.mapped().end())
             : std::vector<Waiting>();
}

int WaitingRoom::size() const {
  std::size_t all = 0;
  each_queue([&](const Items& items) { all += items.size(); });
  return static_cast<int>(all);
}

}  // namespace partita::serve
