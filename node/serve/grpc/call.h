// GrpcCall: a call that gRPC holds, of one message (unary_call.cc) or a stream of them
// (stream_call.cc): whether it is let in, who calls, what becomes of a call that waits for its
// client. gRPC's threads begin it and end it; what is said to be the loop's happens there alone.
// Limits: GrpcOptions.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/door/access_log.h"
#include "base/door/loop.h"
#include "base/door/trace_context.h"
#include "serve/front/backend.h"
#include "serve/front/grpc_ask.h"
#include "serve/front/tokens.h"
#include "serve/grpc/peer_channels.h"

namespace partita::serve {

class GrpcCall;
class GrpcInference;
struct GrpcOutcome;

// The pieces of a message, kept alive.
struct MessagePieces {
  std::vector<grpc::Slice> slices = {};
  std::vector<std::string_view> pieces = {};
  explicit MessagePieces(const grpc::ByteBuffer& buffer);
};

// What calls of a door share; outlives the door as long as a call does.
struct GrpcShared {
  Loop& loop;
  Backend& backend;
  const Tokens tokens;
  const std::shared_ptr<OidcTokens> oidc;
  bool asks_for_tokens() const { return !tokens.empty() || oidc != nullptr; }
  const bool new_traces;
  AccessLog* const log;
  SharedMemory* const memory;  // null: it is not offered
  const std::size_t most_per_connection, most_calls, most_in_stream;
  const std::unique_ptr<PeerChannels> peers;  // null: nothing is handed over
  const PeerPool* pool() const { return peers ? &peers->pool : nullptr; }
  std::atomic<bool> closing = false;
  std::atomic<int> port = 0;
  struct Connection {
    std::size_t calls = 0, refused = 0;
    std::int64_t answered_ns = 0;  // its first answer
    bool faulted = false;
  };
  // Under the mutex, up to the calls that wait for their client, by their number.
  std::mutex mutex = {};
  std::set<GrpcCall*> calls = {};
  std::size_t in_streams = 0;                          // requests of streams that count as calls
  std::map<std::string, Connection> connections = {};  // with open calls, by peer
  std::map<std::string, std::size_t> hosts = {};       // calls of each
  std::map<std::uint64_t, GrpcCall*> waiting = {};
  std::uint64_t next_number = 1;
  // Of this address, or of any, one that has waited for its client for longer than the grace.
  std::shared_ptr<GrpcCall> oldest_waiting(const std::string& host) const;
  // Counts one more call of this peer, or says why not; `displaced` waits no more, and is to end.
  std::optional<grpc::Status> take(const std::string& peer, std::shared_ptr<GrpcCall>& displaced);
  void give(const std::string& peer);
  void forget(const std::string& peer, std::size_t Connection::*count);              // one less
  std::map<std::string, std::shared_ptr<const ModelSpec>, std::less<>> models = {};  // on the loop
};

class GrpcCall : public grpc::ServerGenericBidiReactor {
 public:
  GrpcCall(std::shared_ptr<GrpcShared> shared, grpc::GenericCallbackServerContext* context)
      : shared_(std::move(shared)), context_(context), peer_(context->peer()) {}

  // The call keeps itself until OnDone.
  void begin(std::shared_ptr<GrpcCall> self);
  std::shared_ptr<GrpcCall> self() { return self_; }
  const std::string& peer() const { return peer_; }
  std::int64_t waits_since() const { return waits_since_; }  // under the mutex
  // Ends it, from any thread, when it still waits for its client.
  static void end_later(const std::shared_ptr<GrpcCall>& call, const char* why);
  // ---- on the loop
  virtual void end(const grpc::Status& status) = 0;
  // The door closes: what is under way is answered, and no more.
  virtual void wind_up() {}
  virtual void answered(GrpcInference& inference, GrpcOutcome&& outcome) = 0;

  GrpcShared& shared() { return *shared_; }
  grpc::GenericCallbackServerContext& context() { return *context_; }
  std::string_view metadata(const char* key) const;
  // Who calls, as told by its metadata; else why it may not.
  std::optional<grpc::Status> identify();
  const Token* token() const { return token_.get(); }
  GrpcCaller caller() const { return {token(), by_.has_value(), shared_->memory}; }
  const std::optional<HandedBy>& by() const { return by_; }  // none: it came from a client
  const std::string& client() const { return client_; }      // its token, or where it is
  const TraceContext& trace() const { return trace_; }
  std::optional<grpc::Status> forbidden(std::string_view service) const;
  // What became of an inference of this connection.
  void well(bool answered);
  struct Began {
    std::int64_t ns = Loop::now_ns();
    std::int64_t unix_ns = serve::unix_ns();
  };
  struct Line {
    Began began;
    std::string_view service = {};
    int status = 200, items = 0;
    std::int64_t queue_ns = 0;
    std::uint64_t bytes_in = 0, bytes_out = 0;
  };
  void log(const Line& line) const;

  void OnDone() final;
  // Its end may be told on the thread that learns of it: OnDone waits for nothing. Saves a thread.
  bool InternalInlineable() final { return true; }

 protected:
  virtual void start() = 0;  // it was let in, on gRPC's thread
  template <class C, class F>
  void on_loop(C& call, F&& function) {
    shared_->loop.post(
        [self = self_, &call, function = std::forward<F>(function)] { function(call); });
  }
  // It waits for its client from now on, or no more.
  void wait_anew();
  void wait_no_more();

  const std::shared_ptr<GrpcShared> shared_;
  grpc::GenericCallbackServerContext* const context_;
  bool finished_ = false;  // Finish() was called; on the loop, but for one that is not let in

 private:
  friend struct GrpcShared;
  std::shared_ptr<GrpcCall> self_ = {};
  const std::string peer_;
  bool refused_ = false;
  // Under the mutex.
  std::uint64_t number_ = 0;  // among those that wait; 0: it does not
  std::int64_t waits_since_ = 0;

  HeldToken token_ = nullptr;  // null: tokens are not asked for
  std::optional<HandedBy> by_ = {};
  std::string client_ = {};
  TraceContext trace_ = {};
};

std::shared_ptr<GrpcCall> make_unary_call(std::shared_ptr<GrpcShared> shared,
                                          grpc::GenericCallbackServerContext* context);
std::shared_ptr<GrpcCall> make_stream_call(std::shared_ptr<GrpcShared> shared,
                                           grpc::GenericCallbackServerContext* context);

}  // namespace partita::serve
