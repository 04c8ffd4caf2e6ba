#include "wire/trace/recording_proxy.h"

#include <mutex>
#include <vector>

namespace partita::remote {
namespace {

constexpr Nanos kConnect = std::chrono::seconds(10);
constexpr Nanos kLastBytes = std::chrono::seconds(1);  // of programs that have ended

}  // namespace

// The recordings so far.
struct RecordingProxy::Files {
  std::mutex mutex;
  std::string file;
  RecorderOptions options;
  std::vector<std::shared_ptr<Recorder>> recorders;

  std::string name(std::size_t number) const {
    return number == 1 ? file : file + "." + std::to_string(number);
  }
  Result<std::shared_ptr<Recorder>> next() {
    const std::lock_guard lock(mutex);
    auto recorder = Recorder::create(name(recorders.size() + 1), options);
    if (recorder) recorders.push_back(*recorder);
    return recorder;
  }
};

Result<std::unique_ptr<RecordingProxy>> RecordingProxy::start(Net& net, const std::string& address,
                                                              const std::string& server,
                                                              const std::string& file,
                                                              RecorderOptions options) {
  auto listener = TRY(net.listen(address));
  auto files = std::make_shared<Files>();
  files->file = file;
  files->options = options;
  auto join = [&net, server, files](Listener::Accepted& accepted) -> Result<ForwardedPair> {
    auto far = TRY(net.connect(server, kConnect));
    auto recorder = TRY(files->next());
    return ForwardedPair{std::move(accepted.channel),
                         recording_channel(std::move(far), recorder, Direction::up)};
  };
  auto proxy = std::unique_ptr<RecordingProxy>(new RecordingProxy(files));
  proxy->forwarder_ = std::make_unique<Forwarder>(std::move(listener), join);
  return proxy;
}

RecordingProxy::RecordingProxy(std::shared_ptr<Files> files) : files_(std::move(files)) {}
RecordingProxy::~RecordingProxy() = default;

std::string RecordingProxy::address() const { return forwarder_->address(); }

std::vector<std::string> RecordingProxy::files() const {
  const std::lock_guard lock(files_->mutex);
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= files_->recorders.size(); ++i) names.push_back(files_->name(i));
  return names;
}

Result<void> RecordingProxy::finish() {
  forwarder_->wait_for_ends(kLastBytes);
  forwarder_->end();
  std::string trouble = forwarder_->trouble();
  for (const auto& recorder : files_->recorders) {
    if (auto done = recorder->finish(); !done) trouble = to_string(done.error());
  }
  if (!trouble.empty()) return environment_error(files_->file, trouble);
  return {};
}

}  // namespace partita::remote
