#include "fleet/kubelet/unary_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace partita::dra {
namespace {

constexpr auto kGrace = std::chrono::seconds(1);

grpc::Status status_of(const Error& error) {
  const bool known = error.code != ErrorCode::not_supported;
  const bool ours = error.code == ErrorCode::bad_input;
  const grpc::StatusCode code = !known ? grpc::StatusCode::UNIMPLEMENTED
                                : ours ? grpc::StatusCode::INVALID_ARGUMENT
                                       : grpc::StatusCode::INTERNAL;
  return {code, to_string(error)};
}

class Call;

// What calls share. A call is in the queue, or being answered, or refused.
struct Desk {
  UnaryMethod method;
  std::mutex mutex = {};
  std::condition_variable changed = {};
  std::deque<Call*> waiting = {};
  bool closing = false;

  bool push(Call* call) {
    const std::lock_guard lock(mutex);
    if (closing || waiting.size() >= kMaxCalls) return false;
    waiting.push_back(call);
    changed.notify_one();
    return true;
  }
};

class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(Desk& desk, grpc::GenericCallbackServerContext* context)
      : desk_(desk), method_(context->method()) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish({grpc::StatusCode::INVALID_ARGUMENT, "a message is wanted"});
    if (!desk_.push(this)) Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many calls"});
  }
  void OnDone() override { delete this; }

  void answer() {
    std::vector<grpc::Slice> slices;
    if (!request_.Dump(&slices).ok()) slices.clear();
    std::vector<std::string_view> pieces;
    for (const grpc::Slice& slice : slices)
      pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    const Result<std::string> said = desk_.method(method_, pieces);
    if (!said) return Finish(status_of(said.error()));
    grpc::Slice slice(said->data(), said->size());
    response_ = grpc::ByteBuffer(&slice, 1);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void refuse() { Finish({grpc::StatusCode::UNAVAILABLE, "this plugin is shutting down"}); }

 private:
  Desk& desk_;
  const std::string method_;
  grpc::ByteBuffer request_ = {}, response_ = {};
};

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(Desk& desk) : desk_(desk) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(desk_, context);
  }

 private:
  Desk& desk_;
};

}  // namespace

struct UnaryServer::Impl {
  std::string path;
  Desk desk;
  Service service{desk};
  std::unique_ptr<grpc::Server> server = {};
  std::thread thread = {};

  void work() {
    std::unique_lock lock(desk.mutex);
    while (true) {
      desk.changed.wait(lock, [&] { return desk.closing || !desk.waiting.empty(); });
      if (desk.closing) break;
      Call* const call = desk.waiting.front();
      desk.waiting.pop_front();
      lock.unlock();
      call->answer();
      lock.lock();
    }
    for (Call* const call : std::exchange(desk.waiting, {})) call->refuse();
  }
};

UnaryServer::UnaryServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
UnaryServer::UnaryServer(UnaryServer&&) noexcept = default;

Result<UnaryServer> UnaryServer::open(const std::string& path, UnaryMethod method) {
  auto impl = std::unique_ptr<Impl>(new Impl{path, {std::move(method)}});
  ::unlink(path.c_str());
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxCallBytes);
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&impl->service);
  impl->server = builder.BuildAndStart();
  struct stat there {};
  if (impl->server == nullptr || ::stat(path.c_str(), &there) != 0)
    return environment_error(path, "cannot listen there");
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0)
    return environment_error(path, "its mode cannot be set");
  impl->thread = std::thread([shared = impl.get()] { shared->work(); });
  return UnaryServer(std::move(impl));
}

UnaryServer::~UnaryServer() {
  if (impl_ == nullptr) return;
  {
    const std::lock_guard lock(impl_->desk.mutex);
    impl_->desk.closing = true;
  }
  impl_->desk.changed.notify_all();
  impl_->thread.join();
  impl_->server->Shutdown(std::chrono::system_clock::now() + kGrace);
  ::unlink(impl_->path.c_str());
}

}  // namespace partita::dra
