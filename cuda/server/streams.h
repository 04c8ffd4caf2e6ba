// Streams: a session's streams, events and calls of the client's functions.
#pragma once

#include "server/captures.h"

namespace partita::remote::server {

class Streams {
 public:
  Streams(DeviceWork& work, Captures& captures, Outbox& out, const SessionLimits& limits);

  // nullptr where there is none; 0 is the default stream.
  Captured* find(StreamHandle stream);
  Captured* find(EventHandle event) { return events_.find(event.value); }
  tl::unexpected<Refused> missing(StreamHandle stream) const {
    return streams_.missing(stream.value);
  }
  // One that may be waited for: no captured one.
  Answered<Captured*> to_wait_for(StreamHandle stream);
  // Everything that is to be done on a stream comes through here.
  Done submit(StreamHandle stream, StreamWork work);
  // A held stream with this tag tells the client to call.
  std::uint64_t call_tag(Token token, bool often);
  bool calls_out() const { return calls_out_ > 0; }
  // An event that a node of a graph may have.
  Answered<std::shared_ptr<LiveEvent>> event_of_node(EventHandle event);
  // A launch of the graph has been enqueued: what it records is no longer a capture's.
  void note_records(const Graph& graph, const GraphSpec& nodes);
  // All streams and events of a capture leave it; the last nodes of the streams.
  std::vector<Id> leave_capture(std::uint64_t number);

  Done on(const StreamCreate& op);
  Done on(const StreamDestroy& op);
  Reply<StreamSync> on(const StreamSync& op);
  Reply<StreamQuery> on(const StreamQuery& op);
  Done on(const StreamWaitEvent& op);
  Done on(const EventCreate& op);
  Done on(const EventDestroy& op);
  Done on(const EventRecord& op);
  Reply<EventSync> on(const EventSync& op);
  Reply<EventQuery> on(const EventQuery& op);
  Reply<EventElapsed> on(const EventElapsed& op);
  Done on(const HostCall& op);
  Done on(const CallDone& op);

 private:
  Answered<Captured*> event_to_wait_for(EventHandle event);
  Done record_shared(StreamHandle stream, const std::shared_ptr<SharedEvent>& event);
  Done wait_for_shared(StreamHandle stream, const std::shared_ptr<SharedEvent>& event);

  DeviceWork& work_;
  Captures& captures_;
  Outbox& out_;
  Captured default_stream_ = {.id = kDefaultStream};
  Handles<Captured> streams_;
  Handles<Captured> events_;
  std::map<std::uint64_t, std::deque<std::uint64_t>> calls_ = {};  // holds by token
  std::size_t calls_out_ = 0;
};

}  // namespace partita::remote::server
