#include "server/device_work.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace partita::remote::server {
namespace {

constexpr Nanos kThrottle = std::chrono::microseconds(200);
constexpr Nanos kLookAgain = std::chrono::microseconds(50);

}  // namespace

DeviceWork::DeviceWork(std::unique_ptr<DeviceBackend> backend, Outbox& out,
                       const SessionLimits& limits)
    : out_(out), limits_(limits), backend_(std::move(backend)) {}

// What waiters hold may want to forget waiters: they go while the map is there, and after what
// runs.
DeviceWork::~DeviceWork() {
  backend_.reset();
  const auto gone = std::exchange(waiters_, {});
  const auto not_seen = std::exchange(looked_for_, {});
}

std::uint64_t DeviceWork::wait_for(std::function<void(Completed&)> run, bool often) {
  const std::uint64_t tag = next_tag_++;
  waiters_.emplace(tag, Waiter{std::move(run), often});
  return tag;
}

void DeviceWork::watch(ObjectKind kind, Id id, std::function<void()> then) {
  backend_->watch(kind, id, wait_for([then = std::move(then)](Completed&) { then(); }));
}

void DeviceWork::fence(std::function<void()> then) {
  const auto left = std::make_shared<std::size_t>(1);
  const auto one = [left, then = std::move(then)] {
    if (--*left == 0) then();
  };
  std::vector<Id> streams(lively_.begin(), lively_.end());
  streams.push_back(kDefaultStream);
  for (const Id id : streams) {
    if (backend_->finished(ObjectKind::stream, id)) continue;
    ++*left;
    watch(ObjectKind::stream, id, one);
  }
  if (*left == 1) poll();  // what they left behind comes first
  one();
}

bool DeviceWork::finished() {
  return backend_->finished(ObjectKind::stream, kDefaultStream) &&
         std::ranges::all_of(lively_,
                             [&](Id id) { return backend_->finished(ObjectKind::stream, id); });
}

void DeviceWork::look_for(std::function<bool()> is_there) {
  if (!is_there()) looked_for_.push_back(std::move(is_there));
}

bool DeviceWork::poll() {
  if (out_.ended()) return false;
  DeviceBackend::Polled polled = backend_->poll();
  again_ = polled.again;
  queued_ = polled.queued;
  if (full()) again_ = std::min(again_.value_or(kThrottle), kThrottle);
  for (Completed& completed : polled.completed) arrived_.push_back(std::move(completed));
  while (!arrived_.empty()) {  // what completes may poll again
    Completed first = std::move(arrived_.front());
    arrived_.pop_front();
    complete(first);
  }
  auto looked_for = std::exchange(looked_for_, {});  // what is seen may look for more
  const auto seen = std::erase_if(looked_for, [](const auto& is_there) { return is_there(); });
  looked_for_.insert(looked_for_.end(), std::make_move_iterator(looked_for.begin()),
                     std::make_move_iterator(looked_for.end()));
  if (!looked_for_.empty()) again_ = std::min(again_.value_or(kLookAgain), kLookAgain);
  return !polled.completed.empty() || seen > 0;
}

void DeviceWork::complete(Completed& completed) {
  switch (completed.kind) {
    case Completed::Kind::fault:
      if (dead_ == 0) dead_ = completed.status;
      if (out_.sticky == 0) out_.sticky = completed.status;
      return out_.say(kFault, completed.text);
    case Completed::Kind::found:
      return out_.say(kFault, completed.text);
    case Completed::Kind::noted:
      return out_.say(kToError, completed.text);
    case Completed::Kind::printed:
      return out_.say(kToOutput, completed.text);
    default:
      break;
  }
  const auto found = waiters_.find(completed.tag);
  if (found == waiters_.end()) {
    if (completed.kind == Completed::Kind::held) backend_->resume(completed.hold);
    return;
  }
  const std::function<void(Completed&)> run = found->second.run;
  if (!found->second.often) waiters_.erase(found);
  run(completed);
}

}  // namespace partita::remote::server
