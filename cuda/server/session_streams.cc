// Streams, events and calls of the client's functions.
#include <fmt/format.h>

#include "server/session_core.h"

namespace partita::remote::server {

Session::Core::Stream* Session::Core::find(StreamHandle stream) {
  if (stream.value == 0) return &default_stream_;
  const auto found = streams_.find(stream.value);
  return found == streams_.end() ? nullptr : &found->second;
}

Session::Core::Event* Session::Core::find(EventHandle event) {
  const auto found = events_.find(event.value);
  return found == events_.end() ? nullptr : &found->second;
}

namespace {
tl::unexpected<Refused> no_stream(StreamHandle stream) {
  return refuse(kInvalidHandle, fmt::format("there is no stream {}", stream.value));
}
tl::unexpected<Refused> no_event(EventHandle event) {
  return refuse(kInvalidHandle, fmt::format("there is no event {}", event.value));
}
}  // namespace

// Everything that is to be done on a stream comes through here.
Done Session::Core::submit(StreamHandle handle, StreamWork work) {
  if (dead_ != 0) return refuse(dead_, {});
  Stream* const stream = find(handle);
  if (stream == nullptr) return no_stream(handle);
  if (queued_ > limits_.queued && calls_out_ > 0)
    return refuse(kLaunchOutOfResources, "too much waits for a function of the client");
  if (stream->capture != 0) return record(*stream, std::move(work));
  return backend_->enqueue(stream->id, std::move(work));
}

Done Session::Core::on(const StreamCreate& op) {
  if (op.stream.value == 0 || streams_.contains(op.stream.value))
    return refuse(kInvalidHandle, fmt::format("stream {} is there already", op.stream.value));
  if ((op.flags & ~std::uint32_t{kNonBlocking}) != 0)
    return refuse(kInvalidValue, fmt::format("flags {:#x} of a stream", op.flags));
  if (streams_.size() >= limits_.streams)
    return refuse(kOutOfMemory, fmt::format("{} streams are the limit", limits_.streams));
  const bool blocking = (op.flags & kNonBlocking) == 0;
  const Answered<Id> made = backend_->create(StreamSpec{blocking, op.priority});
  if (!made) return tl::unexpected<Refused>(made.error());
  if (!blocking) lively_.insert(*made);
  streams_.emplace(op.stream.value, Stream{.id = *made});
  return {};
}

Done Session::Core::on(const StreamDestroy& op) {
  const auto found = streams_.find(op.stream.value);
  if (found == streams_.end()) return no_stream(op.stream);
  const Id id = found->second.id;
  if (const auto capture = captures_.find(found->second.capture); capture != captures_.end()) {
    capture->second.invalid = true;
    if (capture->second.origin == op.stream.value) captures_.erase(capture);
  }
  streams_.erase(found);
  const auto gone = [this, id] {
    lively_.erase(id);
    backend_->destroy(ObjectKind::stream, id);
  };
  if (backend_->finished(ObjectKind::stream, id))
    gone();
  else
    watch(ObjectKind::stream, id, gone);
  return {};
}

Reply<StreamSync> Session::Core::on(const StreamSync& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr) return no_stream(op.stream);
  if (const Status status = refuse_in_capture(*stream); status != 0)
    return refuse(status, "the stream is being captured");
  if (backend_->finished(ObjectKind::stream, stream->id)) {
    poll();  // what it left behind comes first
    if (dead_ != 0) return refuse(dead_, {});
    return NoReply{};
  }
  watch(ObjectKind::stream, stream->id,
        [this, request = owe<StreamSync>()] { settle<StreamSync>(request, dead_); });
  return std::nullopt;
}

Reply<StreamQuery> Session::Core::on(const StreamQuery& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr) return no_stream(op.stream);
  if (const Status status = refuse_in_capture(*stream); status != 0)
    return refuse(status, "the stream is being captured");
  if (!backend_->finished(ObjectKind::stream, stream->id)) return refuse(kNotReady, {});
  poll();
  if (dead_ != 0) return refuse(dead_, {});
  return NoReply{};
}

Done Session::Core::on(const StreamWaitEvent& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr) return no_stream(op.stream);
  const Event* const event = find(op.event);
  if (event == nullptr) return no_event(op.event);
  if (event->capture != 0) return join(*stream, *event);
  if (stream->capture != 0) {
    refuse_in_capture(*stream);
    return refuse(kCaptureUnsupported, "a captured stream waits for an event from outside");
  }
  return submit(op.stream, WaitWork{event->id});
}

Done Session::Core::on(const EventCreate& op) {
  if (op.event.value == 0 || events_.contains(op.event.value))
    return refuse(kInvalidHandle, fmt::format("event {} is there already", op.event.value));
  if (events_.size() >= limits_.events)
    return refuse(kOutOfMemory, fmt::format("{} events are the limit", limits_.events));
  const Answered<Id> made = backend_->create(EventSpec{(op.flags & kNoTiming) == 0});
  if (!made) return tl::unexpected<Refused>(made.error());
  events_.emplace(op.event.value, Event{.id = *made});
  return {};
}

Done Session::Core::on(const EventDestroy& op) {
  const auto found = events_.find(op.event.value);
  if (found == events_.end()) return no_event(op.event);
  backend_->destroy(ObjectKind::event, found->second.id);
  events_.erase(found);
  return {};
}

Done Session::Core::on(const EventRecord& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr) return no_stream(op.stream);
  Event* const event = find(op.event);
  if (event == nullptr) return no_event(op.event);
  event->capture = stream->capture;
  if (stream->capture != 0) {
    event->frontier = stream->frontier;
    return {};
  }
  event->frontier.clear();
  return submit(op.stream, RecordWork{event->id});
}

Reply<EventSync> Session::Core::on(const EventSync& op) {
  const Event* const event = find(op.event);
  if (event == nullptr) return no_event(op.event);
  if (event->capture != 0) return refuse(kCaptureUnsupported, "the event is part of a capture");
  if (backend_->finished(ObjectKind::event, event->id)) {
    poll();
    if (dead_ != 0) return refuse(dead_, {});
    return NoReply{};
  }
  watch(ObjectKind::event, event->id,
        [this, request = owe<EventSync>()] { settle<EventSync>(request, dead_); });
  return std::nullopt;
}

Reply<EventQuery> Session::Core::on(const EventQuery& op) {
  const Event* const event = find(op.event);
  if (event == nullptr) return no_event(op.event);
  if (event->capture != 0) return refuse(kCaptureUnsupported, "the event is part of a capture");
  if (!backend_->finished(ObjectKind::event, event->id)) return refuse(kNotReady, {});
  poll();
  if (dead_ != 0) return refuse(dead_, {});
  return NoReply{};
}

Reply<EventElapsed> Session::Core::on(const EventElapsed& op) {
  const Event* const from = find(op.from);
  const Event* const to = find(op.to);
  if (from == nullptr || to == nullptr) return no_event(from == nullptr ? op.from : op.to);
  const Answered<std::uint64_t> nanoseconds = backend_->elapsed(from->id, to->id);
  if (!nanoseconds) return tl::unexpected<Refused>(nanoseconds.error());
  return EventElapsed::Reply{*nanoseconds};
}

// ---- functions of the client ----

// A held stream tells the client to call.
std::uint64_t Session::Core::call_tag(Token token, bool often) {
  return wait_for(
      [this, token](Completed& held) {
        if (dead_ != 0) return backend_->resume(held.hold);
        ++calls_out_;
        calls_[token.value].push_back(held.hold);
        put(Call{token});
      },
      often);
}

Done Session::Core::on(const HostCall& op) {
  const Stream* const stream = find(op.stream);
  if (stream == nullptr) return no_stream(op.stream);
  if (dead_ != 0) return refuse(dead_, {});
  const bool captured = stream->capture != 0;
  const std::uint64_t tag = call_tag(op.token, captured);
  if (captured) captures_.at(stream->capture).graph.tags->tags.push_back(tag);
  return submit(op.stream, HoldWork{tag});
}

Done Session::Core::on(const CallDone& op) {
  const auto found = calls_.find(op.token.value);
  if (found == calls_.end())
    return refuse(kInvalidValue, fmt::format("no call {:#x} is under way", op.token.value));
  const std::uint64_t hold = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) calls_.erase(found);
  --calls_out_;
  backend_->resume(hold);
  return {};
}

}  // namespace partita::remote::server
