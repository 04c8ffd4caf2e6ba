// Streams of a session on the GPU, with marks: what is to happen once a stream got there, for which
// poll() asks events. On lanes every stream is one of a lane's, which wait for no default stream:
// the order of CUDA's default stream is kept by events. And Events, the session's own.
// Thread rule: the context's.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "server/backend.h"
#include "server/cuda/context.h"
#include "server/cuda/device_memory.h"

namespace partita::remote::cuda {

// What is to happen when a stream got there.
struct Mark {
  abi::Event event = nullptr;
  std::optional<server::Completed> tell = {};
  Pinned buffer = nullptr;  // to be given back
  // Of a copy out: where in `into` its bytes go; the last part tells.
  std::shared_ptr<std::vector<std::byte>> into = {};
  std::size_t offset = 0, bytes = 0;
};

struct Stream {
  abi::Stream stream = nullptr;  // where the next piece of work goes
  bool blocking = true;
  int priority = 0;
  std::vector<abi::Stream> on = {};  // by lane, those that were needed so far
  std::deque<Mark> marks = {};
  // On lanes: of a blocking stream, what it has waited for of the default stream; and whether it
  // has work that the default stream has not waited for.
  std::uint64_t joined = 0;
  bool fresh = false;
};

class Streams {
 public:
  // `lanes`: empty where streams are CUDA's own.
  Streams(Context& context, PinnedBuffers& pinned, std::vector<Lane> lanes)
      : context_(context), pinned_(pinned), lanes_(std::move(lanes)) {}
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Result<void> open();  // the default stream
  server::Answered<server::Id> create(const server::StreamSpec& spec);
  void destroy(server::Id id);
  Stream& at(server::Id id) { return streams_.at(id); }

  // On a lane, before work is put on a stream: the default stream waits for the blocking ones and
  // they for it, where CUDA's own do so by themselves. Nothing waits for what it has waited for
  // already.
  server::Answered<void> order(server::Id id);
  // The work after this is on another lane; it waits for what is on the one before, if that runs
  // still.
  server::Answered<void> go_to_lane(Stream& stream, std::size_t lane);
  server::Answered<void> mark(Stream& stream, Mark mark);
  // Delivers the marks that were reached; how many were not.
  std::size_t poll();
  bool finished(server::Id id);
  // Whether nothing is unfinished on any of these.
  bool idle(const std::function<bool(const Stream& stream)>& of);
  void wait_for_all();

 private:
  struct Door;
  server::Answered<abi::Stream> make(const server::StreamSpec& spec);
  server::Answered<void> wait_for(abi::Stream stream, abi::Stream earlier);
  void deliver(Mark& mark);
  void end(Stream& stream);

  Context& context_;
  PinnedBuffers& pinned_;
  const std::vector<Lane> lanes_;
  std::map<server::Id, Stream> streams_;
  std::vector<abi::Event> spare_;    // events without use
  abi::Event joint_ = nullptr;       // on a lane: between the default stream and others
  std::uint64_t default_epoch_ = 0;  // grows with the work of the default stream
};

class Events {
 public:
  explicit Events(Context& context) : context_(context) {}
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  server::Answered<server::Id> create(const server::EventSpec& spec);
  void destroy(server::Id id);
  // `node`: of the graph that the stream is captured into, at each of its launches.
  server::Answered<void> record(abi::Stream stream, server::Id id, bool node = false);
  // For the last record, if any.
  server::Answered<void> wait(abi::Stream stream, server::Id id, bool node = false);
  bool finished(server::Id id);
  server::Answered<std::uint64_t> elapsed(server::Id from, server::Id to);
  void watch(server::Id id, std::uint64_t tag);
  // Tells of those that were reached; whether others are watched.
  bool poll();

 private:
  struct Event {
    abi::Event event = nullptr;
    bool recorded = false;
  };
  struct Watched {
    server::Id event = 0;
    std::uint64_t tag = 0;
  };
  void reached(const Watched& watched) {
    context_.tell({.kind = server::Completed::Kind::reached, .tag = watched.tag});
  }

  Context& context_;
  std::map<server::Id, Event> events_;
  std::vector<Watched> watched_;
};

}  // namespace partita::remote::cuda
