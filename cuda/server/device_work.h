// DeviceWork: the device of a session, and what is to be done once something there has happened.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "server/outbox.h"

namespace partita::remote::server {

class DeviceWork {
 public:
  DeviceWork(std::unique_ptr<DeviceBackend> backend, Outbox& out, const SessionLimits& limits);
  ~DeviceWork();
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  DeviceBackend& backend() { return *backend_; }
  Status dead() const { return dead_; }  // nothing runs any more; 0: it lives
  // More is enqueued than the limit.
  bool full() const { return queued_ > limits_.queued; }

  // A tag for a completion. `often`: until forget().
  std::uint64_t wait_for(std::function<void(Completed&)> run, bool often = false);
  void forget(std::uint64_t tag) { waiters_.erase(tag); }
  void watch(ObjectKind kind, Id id, std::function<void()> then);
  // Runs `then` once everything that was enqueued by now has finished.
  void fence(std::function<void()> then);
  // Whether it would run at once.
  bool finished();
  // Asked again and again, until it says that what somebody waits for is there; it ends with the
  // session. Of what no completion tells.
  void look_for(std::function<bool()> is_there);
  // Non-blocking streams of the backend, also those being destroyed: fences wait for them, too.
  void add_lively(Id stream) { lively_.insert(stream); }
  void remove_lively(Id stream) { lively_.erase(stream); }

  // The answer to a sync operation that waits for an object's work, or asks for it.
  template <class Op>
  Reply<Op> when_finished(ObjectKind kind, Id id);
  template <class Op>
  Reply<Op> whether_finished(ObjectKind kind, Id id);

  // Hears what has ended; whether something had.
  bool poll();
  bool idle() const { return waiters_.empty() && looked_for_.empty(); }
  std::optional<Nanos> again() const { return again_; }

 private:
  struct Waiter {
    std::function<void(Completed&)> run;
    bool often = false;
  };
  void complete(Completed& completed);
  template <class Op>
  Reply<Op> answer_once_finished(ObjectKind kind, Id id);

  Outbox& out_;
  const SessionLimits& limits_;
  Status dead_ = 0;
  std::uint64_t next_tag_ = 1;
  std::map<std::uint64_t, Waiter> waiters_ = {};
  std::vector<std::function<bool()>> looked_for_ = {};
  std::set<Id> lively_ = {};
  std::optional<Nanos> again_ = {};
  std::deque<Completed> arrived_ = {};
  std::size_t queued_ = 0;  // by the backend
  std::unique_ptr<DeviceBackend> backend_;
};

// Tags of waiters: those of a graph's nodes are forgotten with the last that may launch it.
struct Tags {
  explicit Tags(DeviceWork& work) : of(work) {}
  ~Tags() {
    for (const std::uint64_t tag : tags) of.forget(tag);
  }
  Tags(const Tags&) = delete;
  Tags& operator=(const Tags&) = delete;
  DeviceWork& of;
  std::vector<std::uint64_t> tags = {};
};

template <class Op>
Reply<Op> DeviceWork::when_finished(ObjectKind kind, Id id) {
  backend_->request_ended(false);
  return answer_once_finished<Op>(kind, id);
}

template <class Op>
Reply<Op> DeviceWork::answer_once_finished(ObjectKind kind, Id id) {
  if (backend_->finished(kind, id)) {
    poll();  // what it left behind comes first
    if (dead_ != 0) return refuse(dead_, {});
    return NoReply{};
  }
  watch(kind, id, [this, request = out_.owe<Op>()] { out_.settle<Op>(request, dead_); });
  return std::nullopt;
}

template <class Op>
Reply<Op> DeviceWork::whether_finished(ObjectKind kind, Id id) {
  if (!backend_->finished(kind, id)) return refuse(kNotReady, {});
  if (finished()) backend_->request_ended(false);  // it may ask about an earlier part of a request
  return answer_once_finished<Op>(kind, id);
}

}  // namespace partita::remote::server
