#include "server/streams.h"

#include "server/sharing.h"

namespace partita::remote::server {

Streams::Streams(DeviceWork& work, Captures& captures, Outbox& out, const SessionLimits& limits)
    : work_(work),
      captures_(captures),
      out_(out),
      streams_("stream", limits.streams),
      events_("event", limits.events) {}

Captured* Streams::find(StreamHandle stream) {
  return stream.value == 0 ? &default_stream_ : streams_.find(stream.value);
}

Answered<Captured*> Streams::to_wait_for(StreamHandle handle) {
  Captured* const stream = find(handle);
  if (stream == nullptr) return missing(handle);
  if (const Done done = captures_.refuse_in(*stream); !done)
    return tl::unexpected<Refused>(done.error());
  return stream;
}

Done Streams::submit(StreamHandle handle, StreamWork work) {
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  Captured* const stream = find(handle);
  if (stream == nullptr) return missing(handle);
  if (calls_out() && work_.full())
    return refuse(kLaunchOutOfResources, "too much waits for a function of the client");
  if (stream->capture != 0) return captures_.record(*stream, std::move(work));
  return work_.backend().enqueue(stream->id, std::move(work));
}

std::vector<Id> Streams::leave_capture(std::uint64_t number) {
  std::vector<Id> last;
  for (auto& [handle, stream] : streams_.all()) {
    if (stream.capture != number) continue;
    last.insert(last.end(), stream.frontier.begin(), stream.frontier.end());
    stream.capture = 0;
    stream.frontier.clear();
  }
  return last;
}

// ---- streams ----

Done Streams::on(const StreamCreate& op) {
  if (Done room = streams_.room(op.stream.value); !room) return room;
  if ((op.flags & ~std::uint32_t{kNonBlocking}) != 0)
    return refuse(kInvalidValue, fmt::format("flags {:#x} of a stream", op.flags));
  const bool blocking = (op.flags & kNonBlocking) == 0;
  const Answered<Id> made = work_.backend().create(StreamSpec{blocking, op.priority});
  if (!made) return tl::unexpected<Refused>(made.error());
  if (!blocking) work_.add_lively(*made);
  streams_.add(op.stream.value, {.id = *made});
  return {};
}

Done Streams::on(const StreamDestroy& op) {
  const Captured* const stream = streams_.find(op.stream.value);
  if (stream == nullptr) return missing(op.stream);
  const Id id = stream->id;
  captures_.leave(*stream, op.stream.value);
  streams_.erase(op.stream.value);
  const auto gone = [this, id] {
    work_.remove_lively(id);
    work_.backend().destroy(ObjectKind::stream, id);
  };
  if (work_.backend().finished(ObjectKind::stream, id))
    gone();
  else
    work_.watch(ObjectKind::stream, id, gone);
  return {};
}

Reply<StreamSync> Streams::on(const StreamSync& op) {
  const Answered<Captured*> stream = to_wait_for(op.stream);
  if (!stream) return tl::unexpected<Refused>(stream.error());
  return work_.when_finished<StreamSync>(ObjectKind::stream, (*stream)->id);
}

Reply<StreamQuery> Streams::on(const StreamQuery& op) {
  const Answered<Captured*> stream = to_wait_for(op.stream);
  if (!stream) return tl::unexpected<Refused>(stream.error());
  return work_.whether_finished<StreamQuery>(ObjectKind::stream, (*stream)->id);
}

Done Streams::on(const StreamWaitEvent& op) {
  Captured* const stream = find(op.stream);
  if (stream == nullptr) return missing(op.stream);
  const Captured* const event = events_.find(op.event.value);
  if (event == nullptr) return events_.missing(op.event.value);
  if ((op.flags & kExternal) != 0) {
    const auto its = event_of_node(op.event);
    if (!its) return tl::unexpected<Refused>(its.error());
    return captures_.record(*stream, WaitWork{event->id}, *its);
  }
  if (event->capture != 0) return captures_.join(*stream, *event);
  if (!captures_.refuse_in(*stream))
    return refuse(kCaptureUnsupported, "a captured stream waits for an event from outside");
  if (event->shared != nullptr) return wait_for_shared(op.stream, event->shared);
  return submit(op.stream, WaitWork{event->id});
}

// ---- events ----

Done Streams::on(const EventCreate& op) {
  if (Done room = events_.room(op.event.value); !room) return room;
  const Answered<Id> made = work_.backend().create(EventSpec{(op.flags & kNoTiming) == 0});
  if (!made) return tl::unexpected<Refused>(made.error());
  events_.add(op.event.value,
              {.id = *made, .live = std::make_shared<LiveEvent>(work_, *made, op.event.value)});
  return {};
}

Answered<std::shared_ptr<LiveEvent>> Streams::event_of_node(EventHandle handle) {
  const Captured* const event = events_.find(handle.value);
  if (event == nullptr) return events_.missing(handle.value);
  if (event->shared != nullptr)
    return refuse(kNotSupported, "a node with an event that other sessions have, too");
  return event->live;
}

void Streams::note_records(const Graph& graph, const GraphSpec& nodes) {
  if (graph.events.empty()) return;
  for (const GraphSpec::Node& node : nodes.nodes) {
    if (const auto* branch = std::get_if<BranchWork>(&node.work))
      for (const auto& body : branch->bodies) note_records(graph, *body);
    const auto* const record = std::get_if<RecordWork>(&node.work);
    if (record == nullptr) continue;
    Captured* const event = events_.find(graph.events.at(record->event)->handle);
    if (event == nullptr || event->id != record->event) continue;
    event->capture = 0;
    event->frontier.clear();
  }
}

Done Streams::on(const EventDestroy& op) {
  const Captured* const event = events_.find(op.event.value);
  if (event == nullptr) return events_.missing(op.event.value);
  events_.erase(op.event.value);  // from the back end, unless a graph has it
  return {};
}

Done Streams::on(const EventRecord& op) {
  Captured* const stream = find(op.stream);
  if (stream == nullptr) return missing(op.stream);
  Captured* const event = events_.find(op.event.value);
  if (event == nullptr) return events_.missing(op.event.value);
  if ((op.flags & kExternal) != 0) {
    const auto its = event_of_node(op.event);
    if (!its) return tl::unexpected<Refused>(its.error());
    return captures_.record(*stream, RecordWork{event->id}, *its);
  }
  if (event->shared != nullptr) {
    if (Done free = captures_.refuse_in(*stream); !free) return free;
    return record_shared(op.stream, event->shared);
  }
  event->capture = stream->capture;
  event->frontier = stream->capture != 0 ? stream->frontier : std::vector<Id>();
  return stream->capture != 0 ? Done() : submit(op.stream, RecordWork{event->id});
}

// The stream stops there for as long as it takes to write into the slot.
Done Streams::record_shared(StreamHandle stream, const std::shared_ptr<SharedEvent>& event) {
  const std::uint64_t record = event->begin();
  const std::uint64_t tag = work_.wait_for([this, event, record](Completed& held) {
    event->reach(record);
    work_.backend().resume(held.hold);
  });
  Done done = submit(stream, HoldWork{tag});
  if (done) return done;
  event->reach(record);
  work_.forget(tag);
  return done;
}

Done Streams::wait_for_shared(StreamHandle stream, const std::shared_ptr<SharedEvent>& event) {
  const std::uint64_t record = event->last();
  if (event->reached(record)) return {};
  const std::uint64_t tag = work_.wait_for([this, event, record](Completed& held) {
    work_.look_for([this, event, record, hold = held.hold] {
      if (work_.dead() == 0 && !event->reached(record)) return false;
      work_.backend().resume(hold);
      return true;
    });
  });
  Done done = submit(stream, HoldWork{tag});
  if (!done) work_.forget(tag);
  return done;
}

Answered<Captured*> Streams::event_to_wait_for(EventHandle handle) {
  Captured* const event = events_.find(handle.value);
  if (event == nullptr) return events_.missing(handle.value);
  if (event->capture != 0) return refuse(kCaptureUnsupported, "the event is part of a capture");
  return event;
}

Reply<EventSync> Streams::on(const EventSync& op) {
  const Answered<Captured*> event = event_to_wait_for(op.event);
  if (!event) return tl::unexpected<Refused>(event.error());
  const std::shared_ptr<SharedEvent> shared = (*event)->shared;
  if (shared == nullptr) return work_.when_finished<EventSync>(ObjectKind::event, (*event)->id);
  work_.backend().request_ended(false);
  work_.look_for([this, shared, record = shared->last(), request = out_.owe<EventSync>()] {
    if (work_.dead() == 0 && !shared->reached(record)) return false;
    out_.settle<EventSync>(request, work_.dead());
    return true;
  });
  return std::nullopt;
}

Reply<EventQuery> Streams::on(const EventQuery& op) {
  const Answered<Captured*> event = event_to_wait_for(op.event);
  if (!event) return tl::unexpected<Refused>(event.error());
  if ((*event)->shared == nullptr)
    return work_.whether_finished<EventQuery>(ObjectKind::event, (*event)->id);
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  if (!(*event)->shared->reached((*event)->shared->last())) return refuse(kNotReady, {});
  return NoReply{};
}

Reply<EventElapsed> Streams::on(const EventElapsed& op) {
  const Captured* const from = events_.find(op.from.value);
  const Captured* const to = events_.find(op.to.value);
  if (from == nullptr || to == nullptr)
    return events_.missing(from == nullptr ? op.from.value : op.to.value);
  if (from->shared != nullptr || to->shared != nullptr)
    return refuse(kInvalidHandle, "the event has no times: other sessions have it, too");
  const Answered<std::uint64_t> nanoseconds = work_.backend().elapsed(from->id, to->id);
  if (!nanoseconds) return tl::unexpected<Refused>(nanoseconds.error());
  return EventElapsed::Reply{*nanoseconds};
}

// ---- functions of the client ----

std::uint64_t Streams::call_tag(Token token, bool often) {
  return work_.wait_for(
      [this, token](Completed& held) {
        if (work_.dead() != 0) return work_.backend().resume(held.hold);
        ++calls_out_;
        calls_[token.value].push_back(held.hold);
        out_.put(Call{token});
      },
      often);
}

Done Streams::on(const HostCall& op) {
  const Captured* const stream = find(op.stream);
  if (stream == nullptr) return missing(op.stream);
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  const std::uint64_t tag = call_tag(op.token, stream->capture != 0);
  captures_.keep(*stream, tag);
  return submit(op.stream, HoldWork{tag, op.token.value});
}

Done Streams::on(const CallDone& op) {
  const auto found = calls_.find(op.token.value);
  if (found == calls_.end())
    return refuse(kInvalidValue, fmt::format("no call {:#x} is under way", op.token.value));
  const std::uint64_t hold = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) calls_.erase(found);
  --calls_out_;
  work_.backend().resume(hold);
  return {};
}

}  // namespace partita::remote::server
