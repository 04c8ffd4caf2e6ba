#include "serve/grpc/peer_channels.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <utility>

#include "base/parse_number.h"

namespace partita::serve {
namespace {

constexpr std::chrono::seconds kGivenUp{5};  // cancelled calls end at once
constexpr int kBackoffMs = 250, kMostBackoffMs = 2000;

std::string said(const grpc::ClientContext& context, const char* key) {
  const auto& all = context.GetServerTrailingMetadata();
  const auto found = all.find(key);
  return found == all.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace

struct GrpcPeerCall::Try {
  std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub;
  grpc::ClientContext context = {};
  grpc::ByteBuffer request = {}, response = {};
  explicit Try(std::shared_ptr<grpc::Channel> to) : channel(to), stub(std::move(to)) {}
};

std::shared_ptr<grpc::Channel> PeerChannels::to(const PeerGateway& peer) {
  Kept& kept = kept_[peer.node];
  if (kept.channel != nullptr && kept.address == peer.grpc) return kept.channel;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMostBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMostBackoffMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (pool.options().tls) {
    arguments.SetSslTargetNameOverride(kPeerName);
    grpc::SslCredentialsOptions trusted;
    trusted.pem_root_certs = roots_;
    credentials = grpc::SslCredentials(trusted);
  }
  kept = {peer.grpc, grpc::CreateCustomChannel(peer.grpc, credentials, arguments)};
  return kept.channel;
}

void PeerChannels::wait_for_calls() {
  std::unique_lock held(under_way->mutex);
  under_way->ended.wait_for(held, kGivenUp, [&] { return under_way->calls == 0; });
}

void GrpcPeerCall::next() {
  PeerPool& pool = channels_.pool;
  use_ = tried_.size() < kMostPeerTries ? pool.take(ask_.service, PeerPool::Way::grpc, tried_,
                                                    ask_.message.Length(), ask_.client)
                                        : nullptr;
  if (use_ == nullptr) return over(std::nullopt);
  tried_.push_back(use_->peer().node);
  const bool more = tried_.size() < kMostPeerTries &&
                    pool.offers(ask_.service, PeerPool::Way::grpc, tried_, ask_.client) > 0;
  auto one = std::make_shared<Try>(channels_.to(use_->peer()));
  grpc::ClientContext& context = one->context;
  context.set_deadline(ask_.deadline);
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) context.AddMetadata(key, value);
  };
  add("authorization", "Bearer " + pool.options().token);
  add(kHandedOver, pool.node() + (ask_.counted || more ? kCounted : ""));
  add(kHandedFor, ask_.client);
  add("partita-idempotent", ask_.idempotent ? "" : "false");
  add("traceparent", ask_.trace.parent);
  add("tracestate", ask_.trace.state);
  one->request = ask_.message;  // its slices are shared
  try_ = one;
  use_->connected = [channel = one->channel] {
    return channel->GetState(false) == GRPC_CHANNEL_READY;
  };
  use_->lost = [self = weak_from_this()](std::string_view why) {
    if (const auto call = self.lock()) call->lost(std::string(why));
  };
  {
    const std::lock_guard held(channels_.under_way->mutex);
    ++channels_.under_way->calls;
  }
  one->stub.UnaryCall(&context, ask_.method, grpc::StubOptions(), &one->request, &one->response,
                      [&loop = pool.loop(), self = weak_from_this(), one,
                       all = channels_.under_way](const grpc::Status& status) {
                        loop.post([self, one, status] {
                          if (const auto call = self.lock()) call->answered(one, status);
                        });
                        const std::lock_guard held(all->mutex);
                        if (--all->calls == 0) all->ended.notify_all();
                      });
}

void GrpcPeerCall::answered(const std::shared_ptr<Try>& one, const grpc::Status& status) {
  if (one != try_) return;  // it was given up
  PeerPool& pool = channels_.pool;
  const std::string back = said(one->context, kHandedBack);
  const std::string retry = said(one->context, "retry-after-ms");
  if (!back.empty()) {
    handed_back_ = true;
    use_->heard();
    const auto ms = parse_number<std::int64_t>(retry);
    if (back == kBackFull)
      use_->full(std::clamp<std::int64_t>(ms.value_or(1), 1, 60'000) * 1'000'000);
    pool.count_out(ask_.service, PeerPool::Fate::back);
    return next();
  }
  const bool broke = status.error_code() == grpc::StatusCode::UNAVAILABLE && retry.empty();
  if (broke) {
    use_->failed();
    return lost(status.error_message());
  }
  use_->heard();
  pool.count_out(ask_.service, PeerPool::Fate::answered);
  over(GrpcPeerAnswer{status, retry, std::move(one->response)});
}

void GrpcPeerCall::lost(const std::string& why) {
  channels_.pool.count_out(ask_.service, PeerPool::Fate::lost);
  try_->context.TryCancel();
  const bool sent = use_->connected();
  if (ask_.idempotent || !sent) return next();
  over(GrpcPeerAnswer{
      .status = {grpc::StatusCode::INTERNAL,
                 fmt::format("node {} was lost with it: {}", use_->peer().node, why)}});
}

void GrpcPeerCall::over(std::optional<GrpcPeerAnswer> answer) {
  try_.reset();
  use_.reset();
  if (auto ended = std::exchange(ended_, {})) ended(std::move(answer));
}

void GrpcPeerCall::let_go() {
  ended_ = {};
  if (const auto one = std::exchange(try_, {})) one->context.TryCancel();
  use_.reset();
}

}  // namespace partita::serve
