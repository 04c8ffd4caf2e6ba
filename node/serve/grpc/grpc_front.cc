#include "serve/grpc/grpc_front.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <mutex>
#include <utility>

#include "base/door/address.h"
#include "base/secret_file.h"
#include "serve/front/grpc_ask.h"
#include "serve/grpc/call.h"

namespace partita::serve {

namespace {

constexpr int kReadChunk = 65'536, kFrameBytes = 1 << 18, kWindowBytes = 1 << 20;
constexpr int kKeptByMalloc = 16 << 20, kMallocStep = 1 << 20;
constexpr std::size_t kMaxPemBytes = 1u << 20;
constexpr std::int64_t kLookEvery = 1'000'000'000;

// gRPC takes memory for each message and gives it back. Left alone, malloc returns it to the kernel
// in between, and page faults cost as much as the copy. Up to kKeptByMalloc stay per arena.
void keep_pages() {
  ::mallopt(M_TRIM_THRESHOLD, kKeptByMalloc);
  ::mallopt(M_MMAP_THRESHOLD, kKeptByMalloc);
  ::mallopt(M_TOP_PAD, kMallocStep);
}

Result<std::string> read_pem(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxPemBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.find("-----BEGIN") == std::string::npos)
    return bad_input(file, "not a file in PEM form");
  return text;
}

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::shared_ptr<GrpcShared> shared) : shared_(std::move(shared)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    std::string_view method = context->method();
    method.remove_prefix(std::min(kGrpcService.size(), method.size()));
    const bool stream = method == "ModelStreamInfer" && context->method().starts_with(kGrpcService);
    auto call = stream ? make_stream_call(shared_, context) : make_unary_call(shared_, context);
    GrpcCall* const reactor = call.get();
    call->begin(std::move(call));
    return reactor;
  }

 private:
  const std::shared_ptr<GrpcShared> shared_;
};

Result<std::shared_ptr<grpc::ServerCredentials>> credentials_of(const GrpcOptions& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty())
    return grpc::InsecureServerCredentials();
  TRY(check_secret_file(options.tls_key));
  const auto certificate = TRY(read_pem(options.tls_certificate));
  const auto key = TRY(read_pem(options.tls_key));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({key, certificate});
  return grpc::SslServerCredentials(tls);
}

// Null: nothing is handed over.
Result<std::unique_ptr<PeerChannels>> channels_to(PeerPool* peers) {
  if (peers == nullptr) return nullptr;
  const std::string& ca = peers->options().ca_file;
  auto roots = TRY(ca.empty() ? Result<std::string>("") : read_pem(ca));
  return std::make_unique<PeerChannels>(*peers, std::move(roots));
}

}  // namespace

struct GrpcFront::Impl {
  std::shared_ptr<GrpcShared> shared;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::Server> server = {};
  std::unique_ptr<Loop::Timer> late = {};  // calls whose message does not come
  int port = 0;
};

GrpcFront::GrpcFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<GrpcFront>> GrpcFront::open(Loop& loop, Backend& backend,
                                                   const GrpcOptions& options) {
  const auto address = TRY(parse_listen_address(options.listen));
  const bool secure = !options.tls_certificate.empty() || !options.tls_key.empty();
  TRY(check_exposure(options.listen, address, secure,
                     !options.tokens.empty() || options.oidc != nullptr));
  const auto credentials = TRY(credentials_of(options));
  auto peers = TRY(channels_to(options.peers));
  keep_pages();
  auto impl = std::make_unique<Impl>();
  impl->shared = std::shared_ptr<GrpcShared>(
      new GrpcShared{.loop = loop,
                     .backend = backend,
                     .tokens = options.tokens,
                     .oidc = options.oidc,
                     .new_traces = options.new_traces,
                     .log = options.log,
                     .memory = address.loopback ? options.memory : nullptr,
                     .most_per_connection = options.calls_per_connection,
                     .most_calls = options.calls,
                     .most_in_stream = options.requests_of_stream,
                     .peers = std::move(peers)});
  impl->service = std::make_unique<Service>(impl->shared);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_text(address.address), credentials, &impl->port);
  builder.RegisterCallbackGenericService(impl->service.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<std::size_t>(options.message_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Large messages in few pieces: fewer reads, frames and window updates for each.
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunk);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  // A client may pretend not to have heard the first of these: calls are counted besides, and who
  // goes on opening more is put out.
  const auto number = [](auto value) { return static_cast<int>(value); };
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, number(options.calls_per_connection));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, number(options.idle_ns / 1'000'000));
  builder.SetResourceQuota(grpc::ResourceQuota("partita").Resize(options.memory_bytes));
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0)
    return failed({ErrorCode::in_use, "gRPC cannot listen here", options.listen});
  impl->shared->port = impl->port;
  impl->late = std::make_unique<Loop::Timer>(
      loop, [shared = impl->shared, patience = options.message_ns, at = impl.get()](std::int64_t) {
        std::vector<std::shared_ptr<GrpcCall>> late;
        {
          const std::lock_guard lock(shared->mutex);
          for (const auto& [order, call] : shared->waiting) {
            if (Loop::now_ns() - call->waits_since() < patience) break;  // in their order
            late.push_back(call->self());
          }
        }
        for (const auto& call : late) GrpcCall::end_later(call, "its client took too long");
        at->late->at(Loop::now_ns() + kLookEvery);
      });
  impl->late->at(Loop::now_ns() + kLookEvery);
  return std::unique_ptr<GrpcFront>(new GrpcFront(std::move(impl)));
}

namespace {

std::vector<std::shared_ptr<GrpcCall>> open_calls(GrpcShared& shared) {
  std::vector<std::shared_ptr<GrpcCall>> open;
  const std::lock_guard lock(shared.mutex);
  for (GrpcCall* call : shared.calls) open.push_back(call->self());
  return open;
}

}  // namespace

GrpcFront::~GrpcFront() {
  impl_->shared->closing = true;
  for (const auto& call : open_calls(*impl_->shared))
    if (call != nullptr)
      call->end({grpc::StatusCode::UNAVAILABLE, "this gateway is shutting down"});
  if (impl_->shared->peers) impl_->shared->peers->wait_for_calls();
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

int GrpcFront::port() const { return impl_->port; }

void GrpcFront::drain() {
  impl_->shared->closing = true;
  for (const auto& call : open_calls(*impl_->shared))
    if (call != nullptr) call->wind_up();
}

}  // namespace partita::serve
