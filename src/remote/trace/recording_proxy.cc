#include "remote/trace/recording_proxy.h"

#include <array>
#include <atomic>
#include <list>
#include <thread>

namespace partita::remote {
namespace {

constexpr Nanos kLook = std::chrono::milliseconds(100);  // how soon the end is noticed
constexpr Nanos kConnect = std::chrono::seconds(10);
constexpr Nanos kStuck = std::chrono::hours(24);  // whoever waits has a patience of his own
constexpr std::size_t kPumpBytes = 256 * 1024;

// Bytes of one direction, until either end is gone; then both are.
void pump(Channel& from, Channel& to, Recorder& recorder, Direction direction) {
  std::vector<std::byte> buffer(kPumpBytes);
  for (;;) {
    const auto size = from.read(buffer, kStuck);
    if (!size || *size == 0) break;
    const std::array<Bytes, 1> part{Bytes(buffer).first(*size)};
    recorder.saw(direction, part[0]);
    if (!to.write(part, kStuck)) break;
  }
  from.shut();
  to.shut();
}

struct ProxiedConnection {
  std::unique_ptr<Channel> client, server;
  std::shared_ptr<Recorder> recorder;
  std::thread up, down;
};

}  // namespace

struct RecordingProxy::State {
  State(Net& its_net, std::unique_ptr<Listener> its_listener)
      : net(its_net), listener(std::move(its_listener)) {}

  Net& net;
  std::unique_ptr<Listener> listener;
  std::string server, file;
  RecorderOptions options;
  std::atomic<bool> over = false;
  std::list<ProxiedConnection> connections;  // of the accepting thread, until it has ended
  std::string trouble;
  std::thread accepting;

  void accept_all() {
    while (!over.load()) {
      auto accepted = listener->accept(kLook);
      if (!accepted) continue;
      const std::size_t number = connections.size() + 1;
      const std::string name = number == 1 ? file : file + "." + std::to_string(number);
      auto upstream = net.connect(server, kConnect);
      auto recorder = Recorder::create(name, options);
      if (!upstream || !recorder) {
        trouble = to_string(upstream ? recorder.error() : upstream.error());
        continue;
      }
      ProxiedConnection& one = connections.emplace_back();
      one.client = std::move(accepted->channel);
      one.server = std::move(*upstream);
      one.recorder = std::move(*recorder);
      one.up =
          std::thread([&one] { pump(*one.client, *one.server, *one.recorder, Direction::up); });
      one.down =
          std::thread([&one] { pump(*one.server, *one.client, *one.recorder, Direction::down); });
    }
  }
};

Result<std::unique_ptr<RecordingProxy>> RecordingProxy::start(Net& net, const std::string& address,
                                                              const std::string& server,
                                                              const std::string& file,
                                                              RecorderOptions options) {
  auto listener = net.listen(address);
  if (!listener) return failed(listener.error());
  auto state = std::make_unique<State>(net, std::move(*listener));
  state->server = server;
  state->file = file;
  state->options = options;
  state->accepting = std::thread([raw = state.get()] { raw->accept_all(); });
  return std::unique_ptr<RecordingProxy>(new RecordingProxy(std::move(state)));
}

RecordingProxy::RecordingProxy(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordingProxy::~RecordingProxy() { static_cast<void>(finish()); }

std::string RecordingProxy::address() const { return state_->listener->address(); }

Result<void> RecordingProxy::finish() {
  state_->over.store(true);
  if (state_->accepting.joinable()) state_->accepting.join();
  for (ProxiedConnection& one : state_->connections) {
    one.client->shut();
    one.server->shut();
    if (one.up.joinable()) one.up.join();
    if (one.down.joinable()) one.down.join();
    if (auto done = one.recorder->finish(); !done) state_->trouble = to_string(done.error());
  }
  if (!state_->trouble.empty()) return environment_error(state_->file, state_->trouble);
  return {};
}

}  // namespace partita::remote
