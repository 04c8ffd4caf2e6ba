#include "server/session.h"

#include <fmt/format.h>

#include <array>

#include "server/session_core.h"

namespace partita::remote::server {

// ---- the class that others see ----

Session::Session(Channel& channel, Images& images, std::string token, SessionLimits limits)
    : core_(std::make_unique<Core>(channel, images, std::move(token), limits)) {}
Session::~Session() = default;
Session::Step Session::step(Nanos patience) { return core_->step(patience); }
int Session::backend_descriptor() const { return core_->backend_descriptor(); }
void Session::greeted(std::uint32_t request) { core_->greeted(request); }
std::optional<Wanted> Session::wanted() { return core_->wanted(); }
void Session::waiting(std::uint32_t place) { core_->waiting(place); }
void Session::grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend, Open reopen) {
  core_->grant(number, std::move(backend), std::move(reopen));
}
void Session::deny(Status status, const std::string& reason) { core_->deny(status, reason); }
void Session::end(const std::string& reason) { core_->end(reason); }
const std::string& Session::reason() const { return core_->reason(); }
SessionCounts Session::counts() const { return core_->counts(); }

// ---- dispatch: all of it from the table ----

namespace {

constexpr int kFramesPerStep = 512;
constexpr Nanos kThrottle = std::chrono::microseconds(200);
constexpr std::size_t kMaxSaid = 4000;  // bytes of one notice
constexpr std::size_t kMaxDeferredBytes = std::size_t{64} << 20;

// Whether the operation may come before the device is granted.
template <class Op>
constexpr bool kWithoutDevice =
    std::is_same_v<Op, Hello> || std::is_same_v<Op, Ping> || std::is_same_v<Op, Bye>;

}  // namespace

Session::Core::Core(Channel& channel, Images& images, std::string token, SessionLimits limits)
    : channel_(channel),
      images_(images),
      token_(std::move(token)),
      limits_(limits),
      reader_(channel),
      writer_(channel, limits.patience) {}

// What waiters hold may want to forget waiters: they go while the map is there.
Session::Core::~Core() { const auto gone = std::exchange(waiters_, {}); }

const std::array<Session::Core::Take, Session::Core::kCodes>& Session::Core::table() {
  static const std::array<Take, kCodes> made = [] {
    std::array<Take, kCodes> entries{};
    for_each(ClientOperations{},
             [&entries]<class Op>() { entries[Op::kSpec.code] = &Core::take<Op>; });
    return entries;
  }();
  return made;
}

template <class Op>
void Session::Core::take(const Frame& frame) {
  constexpr Spec spec = Op::kSpec;
  constexpr bool async = spec.completion == Completion::async;
  if (async != (frame.header.request == 0))
    return end(fmt::format("{} with request {}", spec.name, frame.header.request));
  if (spec.bulk != Bulk::in && frame.header.bulk_bytes != 0)
    return end(fmt::format("{} with bulk", spec.name));
  const std::optional<Op> op = decode<Op>(frame.body);
  if (!op) return end(fmt::format("a malformed {}", spec.name));
  if (std::is_same_v<Op, Hello> == greeted_)
    return end(fmt::format("{} {} the hello", spec.name, greeted_ ? "after" : "before"));
  if (!kWithoutDevice<Op> && !backend_)
    return end(fmt::format("{} before the hello was answered", spec.name));
  ++counts_.operations;
  request_ = frame.header.request;
  if (!async && due_.contains(request_))
    return end(fmt::format("request {} is still to be answered", request_));
  if constexpr (spec.bulk == Bulk::in) {
    counts_.bytes_in += frame.header.bulk_bytes;
    bulk_ = Arriving{.kind = Arriving::Kind::drop, .left = frame.header.bulk_bytes};
  }
  if constexpr (async) {
    if (const Done done = on(*op); !done) refused(spec.name, done.error());
  } else {
    const Reply<Op> answer = on(*op);
    if (!answer) return;  // later
    if (!*answer && !answer->error().reason.empty()) {
      ++counts_.refused;
      say(kToError, fmt::format("{}: {}", spec.name, answer->error().reason));
    }
    reply<Op>(request_, *answer ? kSuccess : answer->error().status,
              *answer ? **answer : typename Op::Reply{});
  }
}

void Session::Core::dispatch(const Frame& frame) {
  const Take taker = frame.header.code < kCodes ? table()[frame.header.code] : nullptr;
  if (taker == nullptr) return end(fmt::format("no operation has code {}", frame.header.code));
  (this->*taker)(frame);
}

// Whether another frame may be read now.
bool Session::Core::may_read() const {
  if (due_.size() >= limits_.waiting) return false;
  if (queued_ > limits_.queued && calls_out_ == 0) return false;
  if (!stalled_) return true;
  return deferred_.size() < limits_.deferred && deferred_bytes_ < kMaxDeferredBytes &&
         deferred_.back().header.bulk_bytes == 0;
}

void Session::Core::defer(const Frame& frame) {
  deferred_.push_back({frame.header, {frame.body.begin(), frame.body.end()}});
  deferred_bytes_ += frame.body.size();
}

// The next frame, from those that were deferred or from the channel; false when there is none now.
bool Session::Core::read_frame(Nanos patience) {
  if (!stalled_ && !deferred_.empty()) {
    const Deferred first = std::move(deferred_.front());
    deferred_.pop_front();
    deferred_bytes_ -= first.body.size();
    dispatch({first.header, first.body});
    if (stalled_ && !ended_) {  // again
      deferred_bytes_ += first.body.size();
      deferred_.push_front(first);
    }
    return true;
  }
  if (!may_read()) return false;
  if (!reader_.has_buffered()) flush();
  if (ended_) return false;
  const Result<Frame> frame = reader_.next(patience);
  if (!frame) {
    if (frame.error().code != ErrorCode::timeout) broken(frame.error());
    return false;
  }
  accept(*frame);
  return true;
}

void Session::Core::accept(const Frame& frame) {
  // A call that is done may be what all the rest waits for; pings ask whether we live.
  const unsigned code = frame.header.code;
  if (stalled_ && code != CallDone::kSpec.code && code != Ping::kSpec.code) return defer(frame);
  const bool before = stalled_;
  dispatch(frame);
  if (stalled_ && !before) defer(frame);
}

Session::Step Session::Core::step(Nanos patience) {
  bool progressed = poll();
  if (!waiters_.empty()) patience = Nanos(0);
  int left = kFramesPerStep;
  while (!ended_ && left-- > 0) {
    if (bulk_.kind != Arriving::Kind::none) {
      if (!go_on_with_bulk()) break;
    } else if (!read_frame(std::exchange(patience, Nanos(0)))) {
      break;
    }
    progressed = true;
  }
  flush();
  Step step;
  step.progressed = progressed;
  step.ended = ended_;
  step.busy = left < 0;
  step.idle = waiters_.empty();
  step.again = again_;
  return step;
}

// ---- what goes out ----

void Session::Core::flush() {
  if (ended_ || writer_.gathered() == 0) return;
  if (const auto done = writer_.flush(); !done) broken(done.error());
}

void Session::Core::say(SaidTo where, std::string_view text) {
  if (text.empty() || said_ > limits_.reasons) return;
  if (where != kToOutput && ++said_ > limits_.reasons) text = "further reasons are not told";
  std::string line;
  if (where != kToOutput && !text.ends_with('\n')) text = line = std::string(text) + "\n";
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kMaxSaid);
    put(Said{.to_error = where, .text = std::as_bytes(std::span(part))});
    text.remove_prefix(part.size());
  }
}

void Session::Core::refused(std::string_view operation, const Refused& why) {
  if (sticky_ == 0) sticky_ = why.status;
  if (why.reason.empty()) return;  // a device that is dead says so once
  ++counts_.refused;
  say(kToError, fmt::format("{}: {}", operation, why.reason));
}

void Session::Core::broken(const Error& error) {
  if (ended_) return;
  if (error.code == ErrorCode::bad_input) return end(to_string(error));  // it still hears us
  ended_ = true;
  reason_ = error.code == ErrorCode::lost ? "the client is gone" : to_string(error);
}

void Session::Core::end(const std::string& reason) {
  if (ended_) return;
  say(kToError, fmt::format("the session ends: {}", reason));
  flush();
  ended_ = true;
  reason_ = reason;
}

// ---- what the backend says ----

std::uint64_t Session::Core::wait_for(std::function<void(Completed&)> run, bool often) {
  const std::uint64_t tag = next_tag_++;
  waiters_.emplace(tag, Waiter{std::move(run), often});
  return tag;
}

void Session::Core::watch(ObjectKind kind, Id id, std::function<void()> then) {
  backend_->watch(kind, id, wait_for([then = std::move(then)](Completed&) { then(); }));
}

// Runs `then` once everything that was enqueued by now has finished.
void Session::Core::fence(std::function<void()> then) {
  const auto left = std::make_shared<std::size_t>(1);
  const auto one = [left, then = std::move(then)] {
    if (--*left == 0) then();
  };
  std::vector<Id> streams(lively_.begin(), lively_.end());
  streams.push_back(kDefaultStream);
  for (const Id id : streams) {
    if (backend_->finished(ObjectKind::stream, id)) continue;
    ++*left;
    watch(ObjectKind::stream, id, one);
  }
  if (*left == 1) poll();  // what they left behind comes first
  one();
}

// Whether something had ended.
bool Session::Core::poll() {
  if (!backend_ || ended_) return false;
  DeviceBackend::Polled polled = backend_->poll();
  again_ = polled.again;
  const bool some = !polled.completed.empty();
  queued_ = polled.queued;
  if (queued_ > limits_.queued) again_ = std::min(again_.value_or(kThrottle), kThrottle);
  for (Completed& completed : polled.completed) arrived_.push_back(std::move(completed));
  while (!arrived_.empty()) {  // what completes may poll again
    Completed first = std::move(arrived_.front());
    arrived_.pop_front();
    complete(first);
  }
  return some;
}

void Session::Core::complete(Completed& completed) {
  switch (completed.kind) {
    case Completed::Kind::fault:
      if (dead_ == 0) dead_ = completed.status;
      if (sticky_ == 0) sticky_ = completed.status;
      return say(kFault, completed.text);
    case Completed::Kind::found:
      return say(kFault, completed.text);
    case Completed::Kind::printed:
      return say(kToOutput, completed.text);
    default:
      break;
  }
  const auto found = waiters_.find(completed.tag);
  if (found == waiters_.end()) {
    if (completed.kind == Completed::Kind::held) backend_->resume(completed.hold);
    return;
  }
  const std::function<void(Completed&)> run = found->second.run;
  if (!found->second.often) waiters_.erase(found);
  run(completed);
}

// ---- begin and end ----

std::optional<Wanted> Session::Core::wanted() { return std::exchange(wanted_, std::nullopt); }

std::optional<Refused> refusal_of(const Hello& hello, std::string_view token) {
  if (hello.version != kWireVersion || hello.table != protocol_hash())
    return Refused{kNotSupported,
                   fmt::format("client and server are of different versions (the client's protocol "
                               "is {}/{:016x}, the server's {}/{:016x})",
                               hello.version, hello.table, kWireVersion, protocol_hash())};
  // As much work whatever the token is.
  unsigned differs = hello.token.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char theirs = i < hello.token.size() ? hello.token[i] : '\0';
    differs |= static_cast<unsigned char>(token[i]) ^ static_cast<unsigned char>(theirs);
  }
  if (!token.empty() && differs != 0)
    return Refused{kNotPermitted, "the token is not the server's"};
  return std::nullopt;
}

Reply<Hello> Session::Core::on(const Hello& op) {
  greeted(request_);
  if (const std::optional<Refused> why = refusal_of(op, token_))
    deny(why->status, why->reason);
  else
    wanted_ = Wanted{std::string(op.shape), std::string(op.program), op.pid, op.flags};
  return std::nullopt;
}

void Session::Core::waiting(std::uint32_t place) {
  put(Waiting{place});
  flush();
}

void Session::Core::deny(Status status, const std::string& reason) {
  say(kToError, reason);
  reply<Hello>(hello_, status, {});
  flush();
  if (ended_) return;
  ended_ = true;
  reason_ = reason;
}

void Session::Core::grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend,
                          Open reopen) {
  backend_ = std::move(backend);
  reopen_ = std::move(reopen);
  const DeviceSnapshot& device = backend_->device();
  Hello::Reply answer;
  answer.session = number;
  answer.arena = {device.arena};
  answer.arena_bytes = device.arena_bytes;
  answer.granule = device.granule;
  answer.quota = std::min(limits_.memory, device.total_memory);
  answer.device = device.name;
  answer.total_memory = device.total_memory;
  answer.driver_version = device.driver_version;
  answer.uuid = device.uuid;
  answer.attributes = std::as_bytes(std::span(device.attributes));
  answer.backend = device.backend;
  reply<Hello>(hello_, kSuccess, answer);
  flush();
}

Reply<Ping> Session::Core::on(const Ping&) { return NoReply{}; }

Done Session::Core::on(const Bye&) {
  ended_ = true;
  reason_ = "the client left";
  return {};
}

Reply<Fence> Session::Core::on(const Fence&) {
  fence([this, request = owe<Fence>()] { settle<Fence>(request, dead_); });
  return std::nullopt;
}

Reply<Reset> Session::Core::on(const Reset&) {
  for (const auto& [request, cancel] : std::exchange(due_, {})) (this->*cancel)(request);
  backend_.reset();  // ends what runs
  { const auto gone = std::exchange(waiters_, {}); }
  drop_everything();
  Result<std::unique_ptr<DeviceBackend>> fresh = reopen_();
  if (!fresh) {
    end(fmt::format("the device cannot be opened again: {}", to_string(fresh.error())));
    return std::nullopt;
  }
  backend_ = *std::move(fresh);
  return NoReply{};
}

void Session::Core::drop_everything() {
  graphs_.clear(), execs_.clear(), captures_.clear();
  modules_.clear(), living_modules_.clear(), kernels_.clear(), module_of_kernel_.clear();
  streams_.clear(), lively_.clear(), events_.clear(), calls_.clear();
  default_stream_ = {};
  allocations_ = {};
  staged_.clear(), arrived_.clear();
  asked_for_room_ = stalled_ = false;
  graph_nodes_ = 0, graph_bytes_ = 0, staged_bytes_ = 0, calls_out_ = 0;
  counts_.memory = 0;
  sticky_ = 0, dead_ = 0;
}

}  // namespace partita::remote::server
