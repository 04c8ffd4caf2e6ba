#include "server/session.h"

#include <fmt/format.h>

#include <array>

#include "server/graphs.h"
#include "server/inbound.h"
#include "server/libraries.h"
#include "server/sharing.h"
#include "server/textures.h"

namespace partita::remote::server {
namespace {

constexpr int kFramesPerStep = 512;
constexpr Nanos kLoadLook = std::chrono::milliseconds(10);  // at a module on its way
constexpr std::uint64_t kBulkStep = std::uint64_t{1} << 20;

// Whether the operation may come before the device is granted.
template <class Op>
constexpr bool kWithoutDevice =
    std::is_same_v<Op, Hello> || std::is_same_v<Op, Ping> || std::is_same_v<Op, Bye>;

}  // namespace

// What the next operations wait for.
struct Halt {
  bool allocation = false;  // that waits for work
  bool module = false;      // on its way
  bool call = false;        // of the client's; work may wait for it
  bool any() const { return allocation || module; }
  // What ends it, or asks whether we live, may lie behind whatever comes.
  bool reads_on() const { return module || call; }
};

// What a session has on its device: gone with a reset.
struct Resources {
  Resources(std::unique_ptr<DeviceBackend> backend, FrameReader& reader, Images& images,
            Outbox& out, const SessionLimits& limits, Shelf* shelf)
      : work(std::move(backend), out, limits),
        modules(work, allocations, images, limits),
        captures(work, modules, limits),
        streams(work, captures, out, limits),
        memory(work, allocations, captures, streams, out, limits),
        graphs(work, allocations, modules, captures, streams, memory, out, limits),
        libraries(work, allocations, streams),
        textures(work, allocations, streams, out, limits),
        inbound(reader, work, allocations, streams, images, out, limits),
        sharing(shelf, work, allocations, memory, streams, out) {}

  // The operation's own resource.
  template <class Op>
  auto on(const Op& op) {
    if constexpr (requires { modules.on(op); })
      return modules.on(op);
    else if constexpr (requires { streams.on(op); })
      return streams.on(op);
    else if constexpr (std::is_same_v<Op, Free> || std::is_same_v<Op, FreeOnStream>) {
      const Done done = memory.on(op);
      if (done) sharing.freed(op.address.value);
      return done;
    } else if constexpr (requires { memory.on(op); })
      return memory.on(op);
    else if constexpr (requires { graphs.on(op); })
      return graphs.on(op);
    else if constexpr (requires { libraries.on(op); })
      return libraries.on(op);
    else if constexpr (requires { sharing.on(op); })
      return sharing.on(op);
    else if constexpr (requires { textures.on(op); })
      return textures.on(op);
    else
      return inbound.on(op);
  }
  Halt halt() const { return {memory.stalled(), modules.loading(), streams.calls_out()}; }
  Done on(const Launch& op, SessionCounts& counts) {
    Answered<LaunchWork> launch = modules.checked(op);
    if (!launch) return tl::unexpected<Refused>(launch.error());
    ++counts.launches;
    return streams.submit(op.stream, *std::move(launch));
  }

  Allocations allocations = {};
  DeviceWork work;
  Modules modules;
  Captures captures;
  Streams streams;
  Memory memory;
  Graphs graphs;
  Libraries libraries;
  Textures textures;
  Inbound inbound;
  Sharing sharing;
};

// Frames in: checked against the table of operations, handed to the resources, answered.
class Session::Core {
 public:
  Core(Channel& channel, Images& images, std::string token, SessionLimits limits, Shelf* shelf)
      : images_(images),
        shelf_(shelf),
        token_(std::move(token)),
        limits_(limits),
        reader_(channel),
        out_(channel, limits_) {}

  Step step(Nanos patience);
  int backend_descriptor() { return on_ ? on_->work.backend().descriptor() : -1; }
  std::optional<Wanted> wanted() { return std::exchange(wanted_, std::nullopt); }
  void greeted(std::uint32_t request) { hello_ = request; }
  void grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend, Open reopen);
  void deny(Status status, const std::string& reason);
  Outbox& out() { return out_; }

 private:
  using Take = void (Core::*)(const Frame&);
  static constexpr std::size_t kCodes = 128;
  struct Deferred {
    FrameHeader header = {};
    std::vector<std::byte> body = {}, bulk = {};  // what was read of it
    std::size_t bytes() const { return body.size() + bulk.size(); }
  };

  static const std::array<Take, kCodes>& table();
  template <class Op>
  void take(const Frame& frame);
  template <class Op>
  bool may_come(const Frame& frame);
  bool read_frame(Nanos patience);
  void accept(const Frame& frame);
  void dispatch(const Frame& frame);
  void defer(const Frame& frame);
  bool may_read() const;
  bool may_read_ahead() const;
  bool read_bulk_ahead();
  void take_deferred();
  Halt halt() const { return on_ ? on_->halt() : Halt(); }
  void open(std::unique_ptr<DeviceBackend> backend);

  template <class Op>
  auto on(const Op& op) {
    return on_->on(op);
  }
  Done on(const Launch& op) { return on_->on(op, out_.counts); }
  Reply<Hello> on(const Hello& op);
  Reply<Ping> on(const Ping&) { return NoReply{}; }
  Done on(const RequestEnded&) { return on_->work.backend().request_ended(true), Done(); }
  Done on(const Bye&) { return out_.ended_as("the client left"), Done(); }
  Reply<Fence> on(const Fence&);
  Reply<Reset> on(const Reset&);

  Images& images_;
  Shelf* const shelf_;
  const std::string token_;
  const SessionLimits limits_;
  FrameReader reader_;
  Outbox out_;
  Open reopen_ = {};
  std::optional<Wanted> wanted_ = {};
  std::optional<std::uint32_t> hello_ = {};  // its request, once it came
  std::deque<Deferred> deferred_ = {};
  std::size_t deferred_bytes_ = 0;
  std::vector<std::byte> ahead_ = {};   // of the bulk of the frame at hand
  std::unique_ptr<Resources> on_ = {};  // the device, once it is granted
};

Session::Session(Channel& channel, Images& images, std::string token, SessionLimits limits,
                 Shelf* shelf)
    : core_(std::make_unique<Core>(channel, images, std::move(token), limits, shelf)) {}
Session::~Session() = default;
Session::Step Session::step(Nanos patience) { return core_->step(patience); }
int Session::backend_descriptor() const { return core_->backend_descriptor(); }
void Session::greeted(std::uint32_t request) { core_->greeted(request); }
std::optional<Wanted> Session::wanted() { return core_->wanted(); }
void Session::grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend, Open reopen) {
  core_->grant(number, std::move(backend), std::move(reopen));
}
void Session::deny(Status status, const std::string& reason) { core_->deny(status, reason); }
void Session::end(const std::string& reason) { core_->out().end(reason); }
const std::string& Session::reason() const { return core_->out().reason(); }
SessionCounts Session::counts() const { return core_->out().counts; }

// ---- dispatch: all of it from the table ----

const std::array<Session::Core::Take, Session::Core::kCodes>& Session::Core::table() {
  static const std::array<Take, kCodes> made = [] {
    std::array<Take, kCodes> entries{};
    for_each(ClientOperations{},
             [&entries]<class Op>() { entries[Op::kSpec.code] = &Core::take<Op>; });
    return entries;
  }();
  return made;
}

// Whether such a frame may come now; what may not ends the session.
template <class Op>
bool Session::Core::may_come(const Frame& frame) {
  constexpr Spec spec = Op::kSpec;
  const std::uint32_t request = frame.header.request;
  std::string why;
  if ((spec.completion == Completion::async) != (request == 0))
    why = fmt::format("{} with request {}", spec.name, request);
  else if (spec.bulk != Bulk::in && frame.header.bulk_bytes != 0)
    why = fmt::format("{} with bulk", spec.name);
  else if (std::is_same_v<Op, Hello> == hello_.has_value())
    why = fmt::format("{} {} the hello", spec.name, hello_ ? "after" : "before");
  else if (!kWithoutDevice<Op> && !on_)
    why = fmt::format("{} before the hello was answered", spec.name);
  else if (out_.owes(request))
    why = fmt::format("request {} is still to be answered", request);
  if (!why.empty()) out_.end(why);
  return why.empty();
}

template <class Op>
void Session::Core::take(const Frame& frame) {
  constexpr Spec spec = Op::kSpec;
  if (!may_come<Op>(frame)) return;
  const std::optional<Op> op = decode<Op>(frame.body);
  if (!op) return out_.end(fmt::format("a malformed {}", spec.name));
  ++out_.counts.operations;
  out_.request = frame.header.request;
  if constexpr (spec.bulk == Bulk::in) {
    out_.counts.bytes_in += frame.header.bulk_bytes;
    on_->inbound.begin(frame.header.bulk_bytes, std::exchange(ahead_, {}));
  }
  if constexpr (spec.completion == Completion::async) {
    if (const Done done = on(*op); !done) out_.refused(spec.name, done.error());
  } else {
    const Reply<Op> answer = on(*op);
    if (!answer) return;  // later
    if (!*answer && !answer->error().reason.empty()) {
      ++out_.counts.refused;
      out_.say(kToError, fmt::format("{}: {}", spec.name, answer->error().reason));
    }
    out_.reply<Op>(out_.request, *answer ? kSuccess : answer->error().status,
                   *answer ? **answer : typename Op::Reply{});
  }
}

void Session::Core::dispatch(const Frame& frame) {
  const Take taker = frame.header.code < kCodes ? table()[frame.header.code] : nullptr;
  if (taker == nullptr) return out_.end(fmt::format("no operation has code {}", frame.header.code));
  (this->*taker)(frame);
}

// Whether more may be read now.
bool Session::Core::may_read() const {
  if (out_.owed() >= limits_.waiting) return false;
  if (on_ && on_->work.full() && !halt().call) return false;
  return !halt().any() || (may_read_ahead() && (halt().reads_on() || reader_.bulk_left() == 0));
}

// Whether there is room for more behind what waits: an allocation, perhaps for a function of the
// client, whose end lies behind whatever comes; or a module, when pings may lie there.
bool Session::Core::may_read_ahead() const {
  return deferred_.size() < (halt().reads_on() ? limits_.queued : limits_.deferred) &&
         deferred_bytes_ < (halt().reads_on() ? limits_.staging_at_most : limits_.staging);
}

void Session::Core::defer(const Frame& frame) {
  deferred_.push_back({frame.header, {frame.body.begin(), frame.body.end()}});
  deferred_bytes_ += frame.body.size();
}

// The first of those that were deferred.
void Session::Core::take_deferred() {
  Deferred first = std::move(deferred_.front());
  deferred_.pop_front();
  deferred_bytes_ -= first.bytes();
  ahead_ = std::move(first.bulk);
  dispatch({first.header, first.body});
  if (!halt().any() || out_.ended()) return;
  deferred_bytes_ += first.bytes();  // again
  deferred_.push_front(std::move(first));
}

// Of the last frame that was deferred, as it comes: what is only promised takes no memory.
bool Session::Core::read_bulk_ahead() {
  std::vector<std::byte>& bulk = deferred_.back().bulk;
  const std::size_t had = bulk.size();
  bulk.resize(had + std::min(kBulkStep, reader_.bulk_left()));
  const auto read = reader_.read_bulk(std::span(bulk).subspan(had), kNoWait);
  bulk.resize(had + reader_.taken());
  deferred_bytes_ += reader_.taken();
  if (!read && read.error().code != ErrorCode::timeout) out_.broken(read.error());
  return read.has_value();
}

// The next frame, from those that were deferred or from the channel; false when there is none now.
bool Session::Core::read_frame(Nanos patience) {
  if (!halt().any() && !deferred_.empty()) return take_deferred(), true;
  if (halt().allocation && !halt().module && halt().call && !may_read_ahead()) {
    deferred_.pop_front();
    on_->memory.give_up();
    out_.refused("alloc", {kOutOfMemory, "too much waits for a function of the client"});
    return true;
  }
  if (!may_read()) return false;
  if (!reader_.has_buffered()) out_.flush();
  if (out_.ended()) return false;
  if (reader_.bulk_left() > 0) return read_bulk_ahead();
  const Result<Frame> frame = reader_.next(patience);
  if (!frame) {
    if (frame.error().code != ErrorCode::timeout) out_.broken(frame.error());
    return false;
  }
  accept(*frame);
  return true;
}

void Session::Core::accept(const Frame& frame) {
  // A call that is done may be what all the rest waits for; pings ask whether we live.
  const unsigned code = frame.header.code;
  const bool passes = code == Ping::kSpec.code || (code == CallDone::kSpec.code && !halt().module);
  if (halt().any() && !passes) return defer(frame);
  const bool before = halt().any();
  dispatch(frame);
  if (halt().any() && !before) defer(frame);
}

Session::Step Session::Core::step(Nanos patience) {
  if (on_) on_->modules.look();
  bool progressed = on_ && !halt().module && on_->work.poll();
  if (on_ && !on_->work.idle()) patience = kNoWait;
  int left = kFramesPerStep;
  while (!out_.ended() && left-- > 0) {
    if (on_ && on_->inbound.under_way()) {
      if (!on_->inbound.go_on()) break;
    } else if (!read_frame(std::exchange(patience, kNoWait))) {
      break;
    }
    progressed = true;
  }
  out_.flush();
  return {.ended = out_.ended(),
          .busy = left < 0,
          .progressed = progressed,
          .idle = !halt().module && (!on_ || on_->work.idle()),
          .again = halt().module ? kLoadLook
                   : on_         ? on_->work.again()
                                 : std::nullopt};
}

// ---- begin and end ----

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
  greeted(out_.request);
  if (const std::optional<Refused> why = refusal_of(op, token_))
    deny(why->status, why->reason);
  else
    wanted_ = Wanted{std::string(op.shape), std::string(op.program), op.pid, op.flags};
  return std::nullopt;
}

void Session::Core::deny(Status status, const std::string& reason) {
  out_.say(kToError, reason);
  out_.reply<Hello>(*hello_, status, {});
  out_.flush();
  if (!out_.ended()) out_.ended_as(reason);
}

void Session::Core::open(std::unique_ptr<DeviceBackend> backend) {
  on_ = std::make_unique<Resources>(std::move(backend), reader_, images_, out_, limits_, shelf_);
}

void Session::Core::grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend,
                          Open reopen) {
  reopen_ = std::move(reopen);
  open(std::move(backend));
  const DeviceSnapshot& device = on_->work.backend().device();
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
  answer.devices = device.devices;
  out_.reply<Hello>(*hello_, kSuccess, answer);
}

Reply<Fence> Session::Core::on(const Fence&) {
  DeviceWork& work = on_->work;
  work.backend().request_ended(false);
  work.fence(
      [this, &work, request = out_.owe<Fence>()] { out_.settle<Fence>(request, work.dead()); });
  return std::nullopt;
}

Reply<Reset> Session::Core::on(const Reset&) {
  out_.cancel_all();
  on_.reset();  // ends what runs
  out_.counts.memory = 0;
  out_.sticky = 0;
  Result<std::unique_ptr<DeviceBackend>> fresh = reopen_();
  if (!fresh) {
    out_.end(fmt::format("the device cannot be opened again: {}", to_string(fresh.error())));
    return std::nullopt;
  }
  open(*std::move(fresh));
  return NoReply{};
}

}  // namespace partita::remote::server
