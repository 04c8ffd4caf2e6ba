// Streams and events of a session. What is known to be finished is not asked again: every
// operation has a number, and an answer says up to which one its stream is done.
// Functions without a Lock take the session's; the others are for the session's other parts.
#pragma once

#include <cstdint>
#include <map>

#include "client/core.h"

namespace partita::remote::client {

class Session;

inline constexpr std::uint64_t kLegacyStream = 1, kPerThreadStream = 2;  // as the programs say it

class Streams {
 public:
  Streams(Session& all, Core& core) : all_(all), core_(core) {}

  Got<std::uint64_t> create(std::uint32_t flags, std::int32_t priority);
  Status destroy(std::uint64_t stream);
  Status synchronise();  // all of them
  Status synchronise(std::uint64_t stream);
  Status query(std::uint64_t stream);
  Got<std::uint32_t> flags(std::uint64_t stream);
  Got<std::int32_t> priority(std::uint64_t stream);
  Got<int> device(std::uint64_t stream);  // of a default stream: the thread's

  struct Stream {
    std::uint32_t flags = 0;
    std::int32_t priority = 0;
    int device = 0;
    std::uint64_t last = 0, finished = 0;  // numbers of operations
    // The last of them that writes memory of the program, and that waits for another stream.
    std::uint64_t writes = 0, waited = 0;
    std::uint64_t capture = 0;  // id, 0: none
  };
  // The number of the stream at the server: the legacy one is 0.
  Got<std::uint64_t> resolved(const Lock& lock, std::uint64_t stream);
  Stream* find(std::uint64_t stream);
  bool any() const { return !streams_.empty(); }
  std::uint64_t note_work(std::uint64_t stream);
  void note_finished(std::uint64_t stream, std::uint64_t number);
  bool has_finished(std::uint64_t stream, std::uint64_t number);
  bool idle() const;
  // The last operation of the stream writes memory of the program's: a copy from the device, one of
  // its functions. Or it waits for another stream.
  void note_write(std::uint64_t stream);
  void note_wait(std::uint64_t stream);
  // Whether such a write is unfinished that the stream's next operation comes behind, or may.
  bool is_behind_writes(std::uint64_t stream);
  bool writes() const;  // any is unfinished
  void leave_capture(std::uint64_t capture);
  void clear();

 private:
  // Asks the server unless the stream is known to be finished.
  template <class Operation>
  Status ask(Lock& lock, const Operation& operation, Cause cause);
  bool is_unfinished(const Stream& stream, std::uint64_t number) const {
    return number > stream.finished && number > all_finished_;
  }
  template <class T>
  Got<T> of_stream(std::uint64_t stream, T Stream::*member);

  Session& all_;
  Core& core_;
  std::uint64_t operations_ = 0, all_finished_ = 0;
  Stream legacy_;
  std::map<std::uint64_t, Stream> streams_;
};

class Events {
 public:
  Events(Session& all, Core& core) : all_(all), core_(core) {}

  Got<std::uint64_t> create(std::uint32_t flags);
  Status destroy(std::uint64_t event);
  // `node`: of the graph that the stream is captured into, at each of its launches.
  Status record(std::uint64_t event, std::uint64_t stream, bool node = false);
  Status wait(std::uint64_t stream, std::uint64_t event, bool node = false);
  Status synchronise(std::uint64_t event);
  Status query(std::uint64_t event);
  Got<std::uint64_t> elapsed_ns(std::uint64_t from, std::uint64_t to);
  // With other processes: what one records, the others may wait for as soon as it has.
  Got<ShareKey> share(std::uint64_t event);
  Got<std::uint64_t> open(const ShareKey& key);

  // Of nodes with events: whether there can be one, and with a Lock held by the caller whether what
  // was last recorded may be unfinished.
  Status check_node(std::uint64_t event) const;
  bool is_due(std::uint64_t event);
  // A launch that was the stream's last operation records it, at its end or (not `last`) inside it.
  // False: there is no such event any more.
  bool note_record(std::uint64_t event, std::uint64_t stream, bool last);

  void clear() { events_.clear(); }

 private:
  struct Event {
    std::uint32_t flags = 0;
    std::uint64_t stream = 0, recorded = 0;  // number of the operation; 0: never
    bool finished = true;
    bool inside = false;        // of the operation: the stream is not done with that
    std::uint64_t capture = 0;  // recorded in this capture
    bool shared = false;        // others record it, too
  };
  template <class Message>
  Status ask(std::uint64_t event, Cause cause);
  bool is_finished(const Event& event);
  // A node of the capture that the stream is in.
  Status capture_node(const Lock& lock, std::uint64_t event, std::uint64_t stream, bool records);

  Session& all_;
  Core& core_;
  std::map<std::uint64_t, Event> events_;
};

}  // namespace partita::remote::client
