#include "client/streams.h"

#include <algorithm>

#include "client/session.h"

namespace partita::remote::client {
namespace {

struct OwnStream {
  std::uint64_t stream = 0, generation = 0;
};
thread_local OwnStream own_stream;       // cudaStreamPerThread
constexpr std::size_t kOwnStreams = 64;  // left to threads and to ourselves

}  // namespace

// --- streams

Got<std::uint64_t> Streams::resolved(const Lock& lock, std::uint64_t stream) {
  if (stream == 0 || stream == kLegacyStream) {
    if (all_.captures.break_blocking()) return refused(kCaptureImplicit);
    return 0;
  }
  if (stream == kPerThreadStream) {
    if (own_stream.generation != core_.generation) {
      own_stream = {core_.new_handle(), core_.generation};
      streams_[own_stream.stream] = {};
      const Status status = core_.link->post(lock, StreamCreate{.stream = {own_stream.stream}});
      if (status != kOk) return refused(status);
    }
    return own_stream.stream;
  }
  if (!streams_.contains(stream)) return refused(kInvalidHandle);
  return stream;
}

Streams::Stream* Streams::find(std::uint64_t stream) {
  if (stream == 0) return &legacy_;
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

std::uint64_t Streams::note_work(std::uint64_t stream) {
  ++operations_;
  if (Stream* found = find(stream)) found->last = operations_;
  return operations_;
}

void Streams::note_finished(std::uint64_t stream, std::uint64_t number) {
  if (Stream* found = find(stream)) found->finished = std::max(found->finished, number);
}

bool Streams::has_finished(std::uint64_t stream, std::uint64_t number) {
  if (number <= all_finished_) return true;
  const Stream* found = find(stream);
  return found != nullptr && number <= found->finished;
}

void Streams::note_write(std::uint64_t stream) {
  if (Stream* found = find(stream)) found->writes = found->last;
}

void Streams::note_wait(std::uint64_t stream) {
  if (Stream* found = find(stream)) found->waited = found->last;
}

bool Streams::writes() const {
  return is_unfinished(legacy_, legacy_.writes) ||
         std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
           return is_unfinished(entry.second, entry.second.writes);
         });
}

bool Streams::is_behind_writes(std::uint64_t stream) {
  const Stream* const at = find(stream);
  if (!writes() || at == nullptr) return false;
  const bool blocking = (at->flags & kNonBlocking) == 0;
  return stream == 0 || is_unfinished(*at, at->writes) || is_unfinished(*at, at->waited) ||
         (blocking && is_unfinished(legacy_, legacy_.last));
}

bool Streams::idle() const {
  const auto busy = [this](const Stream& stream) { return is_unfinished(stream, stream.last); };
  if (busy(legacy_)) return false;
  return std::none_of(streams_.begin(), streams_.end(),
                      [&](const auto& entry) { return busy(entry.second); });
}

void Streams::leave_capture(std::uint64_t capture) {
  for (auto& [handle, one] : streams_)
    if (one.capture == capture) one.capture = 0;
}

void Streams::clear() {
  operations_ = all_finished_ = 0;
  legacy_ = {};
  streams_.clear();
}

Got<std::uint64_t> Streams::create(std::uint32_t flags, std::int32_t priority) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if ((flags & ~std::uint32_t{kNonBlocking}) != 0) return refused(kInvalidValue);
  if (streams_.size() >= kMostStreams - kOwnStreams) return refused(kMemoryAllocation);
  const std::uint64_t stream = core_.new_handle();
  const Status status = core_.link->post(
      lock, StreamCreate{.stream = {stream}, .flags = flags, .priority = priority});
  if (status != kOk) return refused(status);
  streams_[stream] = {.flags = flags, .priority = priority, .device = current_device()};
  return stream;
}

Status Streams::destroy(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return kInvalidHandle;
  // Its work goes on and is finished when everything is.
  if (found->second.last > found->second.finished)
    legacy_.last = std::max(legacy_.last, found->second.last);
  if (is_unfinished(found->second, found->second.writes))
    legacy_.writes = std::max(legacy_.writes, found->second.writes);
  streams_.erase(found);
  return core_.link->post(lock, StreamDestroy{.stream = {stream}});
}

Status Streams::synchronise() {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (all_.captures.any()) return kCaptureUnsupported;
  if (idle()) return all_.managed.ended(lock);
  const std::uint64_t number = operations_;
  const std::size_t late = all_.memory.arena().late();
  const std::uint64_t generation = core_.generation;
  if (const Status status = all_.managed.begin_wait(lock); status != kOk) return status;
  const Answer answer = core_.link->call(lock, Fence{}, Cause::device_sync);
  lock.lock();
  if (answer.status != kOk || generation != core_.generation) return answer.status;
  all_finished_ = std::max(all_finished_, number);
  all_.memory.arena().recycle(late);
  return all_.managed.end_work(lock);
}

template <class Operation>
Status Streams::ask(Lock& lock, const Operation& operation, Cause cause) {
  const std::uint64_t stream = operation.stream.value;
  const Stream* found = find(stream);
  if (found->last <= found->finished || found->last <= all_finished_)
    return all_.managed.ended(lock);
  const std::uint64_t number = found->last;
  if (const Status status = all_.managed.begin_wait(lock); status != kOk) return status;
  const Answer answer = core_.link->call(lock, operation, cause);
  lock.lock();
  if (answer.status != kOk) return answer.status;
  note_finished(stream, number);
  return all_.managed.end_work(lock);
}

Status Streams::synchronise(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  if (Captures::Capture* capture = all_.captures.at(*real)) {
    capture->broken = true;
    return kCaptureUnsupported;
  }
  return ask(lock, StreamSync{.stream = {*real}}, Cause::stream_sync);
}

Status Streams::query(std::uint64_t stream) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = resolved(lock, stream);
  if (!real) return real.error();
  return ask(lock, StreamQuery{.stream = {*real}}, Cause::query);
}

template <class T>
Got<T> Streams::of_stream(std::uint64_t stream, T Stream::*member) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto real = resolved(lock, stream);
  if (!real) return refused(real.error());
  return find(*real)->*member;
}

Got<std::uint32_t> Streams::flags(std::uint64_t stream) {
  return of_stream(stream, &Stream::flags);
}

Got<std::int32_t> Streams::priority(std::uint64_t stream) {
  return of_stream(stream, &Stream::priority);
}

Got<int> Streams::device(std::uint64_t stream) {
  if (stream <= kPerThreadStream) return current_device();
  return of_stream(stream, &Stream::device);
}

// --- events

bool Events::is_finished(const Event& event) {
  return event.finished || event.recorded == 0 ||
         all_.streams.has_finished(event.stream, event.recorded);
}

Got<std::uint64_t> Events::create(std::uint32_t flags) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const std::uint64_t event = core_.new_handle();
  const Status status = core_.link->post(lock, EventCreate{.event = {event}, .flags = flags});
  if (status != kOk) return refused(status);
  events_[event] = {.flags = flags};
  return event;
}

Status Events::destroy(std::uint64_t event) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (events_.erase(event) == 0) return kInvalidHandle;
  return core_.link->post(lock, EventDestroy{.event = {event}});
}

Status Events::check_node(std::uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidValue;
  return found->second.shared ? kNotSupported : kOk;
}

bool Events::is_due(std::uint64_t event) {
  const auto found = events_.find(event);
  return found != events_.end() && !is_finished(found->second);
}

bool Events::note_record(std::uint64_t event, std::uint64_t stream, bool last) {
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  found->second.stream = stream;
  found->second.recorded = all_.streams.find(stream)->last;
  found->second.finished = false;
  found->second.inside = !last;
  found->second.capture = 0;
  return true;
}

Status Events::capture_node(const Lock& lock, std::uint64_t event, std::uint64_t stream,
                            bool records) {
  Captures::Capture* const capture = all_.captures.at(stream);
  if (capture == nullptr) return kInvalidValue;
  if (const Status status = check_node(event); status != kOk) return status;
  capture->copies.events.push_back({event, records, capture->copies.out.size()});
  if (records)
    return core_.link->post(lock,
                            EventRecord{.event = {event}, .stream = {stream}, .flags = kExternal});
  return core_.link->post(
      lock, StreamWaitEvent{.stream = {stream}, .event = {event}, .flags = kExternal});
}

Status Events::record(std::uint64_t event, std::uint64_t stream, bool node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  if (node) return capture_node(lock, event, *real, true);
  const Streams::Stream* on = all_.streams.find(*real);
  found->second.capture = on->capture;
  if (on->capture == 0) {
    found->second.stream = *real;
    found->second.recorded = all_.streams.note_work(*real);
    found->second.finished = found->second.inside = false;
  }
  const Status status = core_.link->post(lock, EventRecord{.event = {event}, .stream = {*real}});
  if (status != kOk || !found->second.shared) return status;
  return core_.link->call_held(lock, Ping{}, Cause::sharing).status;  // the server has it
}

Status Events::wait(std::uint64_t stream, std::uint64_t event, bool node) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  if (node) return capture_node(lock, event, *real, false);
  if (found->second.capture != 0) {
    if (!all_.captures.goes_on(found->second.capture)) return kCapturedEvent;
    all_.streams.find(*real)->capture = found->second.capture;  // joins
  } else {
    if (!found->second.shared && is_finished(found->second)) return core_.link->failure();
    all_.streams.note_work(*real);
    all_.streams.note_wait(*real);
  }
  return core_.link->post(lock, StreamWaitEvent{.stream = {*real}, .event = {event}});
}

template <class Message>
Status Events::ask(std::uint64_t event, Cause cause) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  if (found->second.capture != 0) return kCapturedEvent;
  if (!found->second.shared && is_finished(found->second)) return all_.managed.ended(lock);
  const bool shared = found->second.shared, inside = found->second.inside;
  const std::uint64_t number = found->second.recorded, stream = found->second.stream;
  if (const Status status = all_.managed.begin_wait(lock); status != kOk) return status;
  const Answer answer = core_.link->call(lock, Message{.event = {event}}, cause);
  lock.lock();
  if (answer.status != kOk) return answer.status;
  if (!shared && !inside) all_.streams.note_finished(stream, number);
  if (const auto same = events_.find(event); inside && same != events_.end())
    same->second.finished = same->second.finished || same->second.recorded == number;
  return all_.managed.end_work(lock);
}

Got<ShareKey> Events::share(std::uint64_t event) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto found = events_.find(event);
  if (found == events_.end() || (found->second.flags & kNoTiming) == 0)
    return refused(kInvalidHandle);
  const Answer answer = core_.link->call_held(lock, EventShare{.event = {event}}, Cause::sharing);
  if (answer.status != kOk) return refused(answer.status);
  found->second.shared = true;
  const auto reply = decode<EventShare::Reply>(answer.reply);
  return reply ? key_in(reply->key) : refused(kUnknown);
}

Got<std::uint64_t> Events::open(const ShareKey& key) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const std::uint64_t event = core_.new_handle();
  const Answer answer =
      core_.link->call_held(lock, EventOpen{.key = key, .event = {event}}, Cause::sharing);
  if (answer.status != kOk) return refused(answer.status);
  events_[event] = {.flags = kNoTiming, .shared = true};
  return event;
}

Status Events::synchronise(std::uint64_t event) { return ask<EventSync>(event, Cause::event_sync); }

Status Events::query(std::uint64_t event) { return ask<EventQuery>(event, Cause::query); }

Got<std::uint64_t> Events::elapsed_ns(std::uint64_t from, std::uint64_t to) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const auto first = events_.find(from), last = events_.find(to);
  if (first == events_.end() || last == events_.end()) return refused(kInvalidHandle);
  if (((first->second.flags | last->second.flags) & kNoTiming) != 0 ||
      first->second.recorded == 0 || last->second.recorded == 0)
    return refused(kInvalidHandle);
  const Answer answer =
      core_.link->call(lock, EventElapsed{.from = {from}, .to = {to}}, Cause::elapsed);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<EventElapsed::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  return reply->nanoseconds;
}

}  // namespace partita::remote::client
