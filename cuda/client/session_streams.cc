// Streams and events of the session. What is known to be finished is not asked again: every
// operation has a number, and an answer says up to which one its stream is done.
#include <algorithm>

#include "client/session.h"

namespace partita::remote::client {
namespace {

struct OwnStream {
  std::uint64_t stream = 0, generation = 0;
};
thread_local OwnStream own_stream;  // cudaStreamPerThread

}  // namespace

// The number of the stream at the server: the legacy one is 0.
Got<std::uint64_t> Session::resolved(const Lock& lock, std::uint64_t stream) {
  if (stream == 0 || stream == kLegacyStream) {
    for (auto& [id, capture] : captures_) {
      const Stream* origin = find(capture.origin);
      if (origin == nullptr || (origin->flags & kNonBlocking) != 0) continue;
      capture.broken = true;  // the default stream would wait for what is only recorded
      return refused(kCaptureImplicit);
    }
    return 0;
  }
  if (stream == kPerThreadStream) {
    if (own_stream.generation != generation_) {
      own_stream = {++next_handle_, generation_};
      streams_[own_stream.stream] = {};
      const Status status = link_->post(lock, StreamCreate{.stream = {own_stream.stream}});
      if (status != kOk) return refused(status);
    }
    return own_stream.stream;
  }
  if (!streams_.contains(stream)) return refused(kInvalidHandle);
  return stream;
}

Session::Stream* Session::find(std::uint64_t stream) {
  if (stream == 0) return &legacy_;
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

std::uint64_t Session::note_work(std::uint64_t stream) {
  ++operations_;
  if (Stream* found = find(stream)) found->last = operations_;
  return operations_;
}

void Session::note_finished(std::uint64_t stream, std::uint64_t number) {
  if (Stream* found = find(stream)) found->finished = std::max(found->finished, number);
}

void Session::note_all_finished(std::uint64_t number) {
  all_finished_ = std::max(all_finished_, number);
}

bool Session::idle() const {
  const auto busy = [this](const Stream& stream) {
    return stream.last > stream.finished && stream.last > all_finished_;
  };
  if (busy(legacy_)) return false;
  return std::none_of(streams_.begin(), streams_.end(),
                      [&](const auto& entry) { return busy(entry.second); });
}

bool Session::is_finished(const Event& event) {
  if (event.finished || event.recorded == 0 || event.recorded <= all_finished_) return true;
  const Stream* stream = find(event.stream);
  return stream != nullptr && event.recorded <= stream->finished;
}

Got<std::uint64_t> Session::create_stream(std::uint32_t flags, std::int32_t priority) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  if ((flags & ~std::uint32_t{kNonBlocking}) != 0) return refused(kInvalidValue);
  const std::uint64_t stream = ++next_handle_;
  const Status status =
      link_->post(lock, StreamCreate{.stream = {stream}, .flags = flags, .priority = priority});
  if (status != kOk) return refused(status);
  streams_[stream] = {.flags = flags, .priority = priority};
  return stream;
}

Status Session::destroy_stream(std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return kInvalidHandle;
  // Its work goes on and is finished when everything is.
  if (found->second.last > found->second.finished)
    legacy_.last = std::max(legacy_.last, found->second.last);
  streams_.erase(found);
  return link_->post(lock, StreamDestroy{.stream = {stream}});
}

Status Session::synchronise() {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  if (!captures_.empty()) return kCaptureUnsupported;
  if (idle()) return device_turn_ ? show_program(lock) : link_->failure();
  const std::uint64_t number = operations_;
  const std::size_t late = arena_->late();
  const std::uint64_t generation = generation_;
  const Answer answer = link_->call(lock, Fence{}, Cause::device_sync);
  lock.lock();
  if (answer.status != kOk || generation != generation_) return answer.status;
  note_all_finished(number);
  arena_->recycle(late);
  return show_program(lock);
}

template <class Operation>
Status Session::ask_stream(Lock& lock, const Operation& operation, Cause cause) {
  const std::uint64_t stream = operation.stream.value;
  const Stream* found = find(stream);
  if (found->last <= found->finished || found->last <= all_finished_)
    return device_turn_ ? show_program(lock) : link_->failure();
  const std::uint64_t number = found->last;
  const Answer answer = link_->call(lock, operation, cause);
  lock.lock();
  if (answer.status != kOk) return answer.status;
  note_finished(stream, number);
  return show_program(lock);
}

Status Session::synchronise_stream(std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (Capture* capture = capture_at(*real)) {
    capture->broken = true;
    return kCaptureUnsupported;
  }
  return ask_stream(lock, StreamSync{.stream = {*real}}, Cause::stream_sync);
}

Status Session::query_stream(std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  return ask_stream(lock, StreamQuery{.stream = {*real}}, Cause::query);
}

Status Session::wait_event(std::uint64_t stream, std::uint64_t event) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  if (found->second.capture != 0) {
    if (!captures_.contains(found->second.capture)) return kCapturedEvent;
    find(*real)->capture = found->second.capture;  // joins
  } else {
    if (is_finished(found->second)) return link_->failure();
    note_work(*real);
  }
  return link_->post(lock, StreamWaitEvent{.stream = {*real}, .event = {event}});
}

template <class T>
Got<T> Session::of_stream(std::uint64_t stream, T Stream::*member) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto real = resolved(lock, stream);
  if (!real) return refused(real.error());
  return find(*real)->*member;
}

Got<std::uint32_t> Session::stream_flags(std::uint64_t stream) {
  return of_stream(stream, &Stream::flags);
}

Got<std::int32_t> Session::stream_priority(std::uint64_t stream) {
  return of_stream(stream, &Stream::priority);
}

Got<std::uint64_t> Session::create_event(std::uint32_t flags) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const std::uint64_t event = ++next_handle_;
  const Status status = link_->post(lock, EventCreate{.event = {event}, .flags = flags});
  if (status != kOk) return refused(status);
  events_[event] = {.flags = flags};
  return event;
}

Status Session::destroy_event(std::uint64_t event) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  if (events_.erase(event) == 0) return kInvalidHandle;
  return link_->post(lock, EventDestroy{.event = {event}});
}

Status Session::record_event(std::uint64_t event, std::uint64_t stream) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  const Stream* on = find(*real);
  found->second.capture = on->capture;
  if (on->capture == 0) {
    found->second.stream = *real;
    found->second.recorded = note_work(*real);
    found->second.finished = false;
  }
  return link_->post(lock, EventRecord{.event = {event}, .stream = {*real}});
}

template <class Message>
Status Session::ask_event(std::uint64_t event, Cause cause) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  if (found->second.capture != 0) return kCapturedEvent;
  if (is_finished(found->second)) return device_turn_ ? show_program(lock) : link_->failure();
  const std::uint64_t number = found->second.recorded, stream = found->second.stream;
  const Answer answer = link_->call(lock, Message{.event = {event}}, cause);
  lock.lock();
  if (answer.status != kOk) return answer.status;
  note_finished(stream, number);
  return show_program(lock);
}

Status Session::synchronise_event(std::uint64_t event) {
  return ask_event<EventSync>(event, Cause::event_sync);
}

Status Session::query_event(std::uint64_t event) {
  return ask_event<EventQuery>(event, Cause::query);
}

Got<std::uint64_t> Session::elapsed_ns(std::uint64_t from, std::uint64_t to) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  const auto first = events_.find(from), last = events_.find(to);
  if (first == events_.end() || last == events_.end()) return refused(kInvalidHandle);
  if (((first->second.flags | last->second.flags) & kNoTiming) != 0 ||
      first->second.recorded == 0 || last->second.recorded == 0)
    return refused(kInvalidHandle);
  const Answer answer = link_->call(lock, EventElapsed{.from = {from}, .to = {to}}, Cause::elapsed);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<EventElapsed::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  return reply->nanoseconds;
}

}  // namespace partita::remote::client
