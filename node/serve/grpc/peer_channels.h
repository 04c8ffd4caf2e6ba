// PeerChannels: calls of gRPC that are handed over to other nodes. GrpcPeerCall is one of them: it
// is offered to kMostPeerTries nodes at most, as peer_call.h has it, and its message goes on as it
// came, in the slices that hold it. Loop thread only; gRPC's threads post to it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/door/trace_context.h"
#include "serve/front/backend.h"
#include "serve/peers/peer_pool.h"

namespace partita::serve {

class PeerChannels {
 public:
  // `root_certificates`: in PEM form, who signed the gateways'; empty with TLS: whom the system
  // trusts.
  PeerChannels(PeerPool& the_pool, std::string root_certificates)
      : pool(the_pool), roots_(std::move(root_certificates)) {}
  std::shared_ptr<grpc::Channel> to(const PeerGateway& peer);
  // Until gRPC's threads have said the last of the calls that were given up.
  void wait_for_calls();
  PeerPool& pool;
  struct UnderWay {
    std::mutex mutex = {};
    std::condition_variable ended = {};
    int calls = 0;
  };
  const std::shared_ptr<UnderWay> under_way = std::make_shared<UnderWay>();

 private:
  const std::string roots_;
  struct Kept {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };
  std::map<std::string, Kept> kept_;  // by node
};

struct GrpcPeerAsk {
  std::string service, method, client = {};
  bool idempotent = true, counted = false;
  TraceContext trace = {};
  std::chrono::system_clock::time_point deadline = {};
  grpc::ByteBuffer message = {};
};

struct GrpcPeerAnswer {
  grpc::Status status = {};
  std::string retry_after_ms = {};  // empty: not said
  grpc::ByteBuffer message = {};
};

class GrpcPeerCall : public std::enable_shared_from_this<GrpcPeerCall> {
 public:
  // Ended once: with an answer, or with nothing where nobody took it.
  using Ended = std::function<void(std::optional<GrpcPeerAnswer>)>;
  GrpcPeerCall(PeerChannels& channels, GrpcPeerAsk ask, Ended ended)
      : channels_(channels), ask_(std::move(ask)), ended_(std::move(ended)) {}
  void next();    // begins, and goes on
  void let_go();  // nothing is called any more; who has it sees that the client has gone
  bool was_handed_back() const { return handed_back_; }  // as PeerCall's

 private:
  struct Try;
  void answered(const std::shared_ptr<Try>& one, const grpc::Status& status);
  void lost(const std::string& why);
  void over(std::optional<GrpcPeerAnswer> answer);

  PeerChannels& channels_;
  GrpcPeerAsk ask_;
  Ended ended_;
  std::vector<std::string> tried_ = {};
  std::shared_ptr<Try> try_ = {};
  std::unique_ptr<PeerUse> use_ = {};
  bool handed_back_ = false;
};

}  // namespace partita::serve
