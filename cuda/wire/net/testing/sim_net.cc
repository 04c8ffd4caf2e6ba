#include "wire/net/testing/sim_net.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <set>
#include <string>

namespace partita::remote {
namespace {

constexpr Nanos kNever = Nanos::max();
constexpr const char* kSimulated = "simulated connection";

struct Arriving {
  Nanos at{};
  std::vector<std::byte> bytes;
};

// One direction of one connection.
struct SimPipe {
  SimDirection behaviour;
  Rng rng{0};
  std::deque<Arriving> on_their_way;
  std::size_t offset = 0;     // read of the first
  std::size_t inside = 0;     // written and not read
  std::uint64_t written = 0;  // since the beginning
  Nanos line_free{};          // when the last byte has left
  Nanos ends = kNever;        // when the reader learns that there is nothing more
  bool reader_gone = false;
};

struct SimLink {
  SimPipe up, down;
};

std::uint64_t power_of_two(Rng& rng, int most) {
  return std::uint64_t{1} << rng.below(static_cast<std::uint64_t>(most) + 1);
}

SimDirection random_direction(Rng rng, bool faults) {
  SimDirection direction;
  direction.delay = Nanos(rng.below(2) == 0 ? 0 : rng.below(200'000));
  direction.bytes_per_nano = rng.below(2) == 0 ? 0 : std::exp(rng.uniform() * 7 - 5);
  direction.most_fragment = rng.below(2) == 0 ? 0 : power_of_two(rng, 16);
  direction.room = (16 << 10) + (rng.below(2) == 0 ? 4 << 20 : rng.below(64 << 10));
  if (faults && rng.below(2) == 0) direction.cut_after = rng.below(2 * power_of_two(rng, 20));
  if (faults && rng.below(4) == 0) {
    direction.stall_after = rng.below(2 * power_of_two(rng, 16));
    direction.stall = Nanos(power_of_two(rng, 36));
  }
  return direction;
}

}  // namespace

SimOptions random_network(std::uint64_t seed, bool faults) {
  const Rng rng(seed);
  return {.up = random_direction(rng.split(1), faults),
          .down = random_direction(rng.split(2), faults),
          .seed = seed};
}

// Everything that clients, server and doors share.
class SimNet::World {
 public:
  explicit World(SimOptions options) : options_(options) {}

  SimOptions options_;
  std::function<void()> server_;
  std::vector<std::shared_ptr<SimLink>> links_;
  std::deque<std::shared_ptr<SimLink>> waiting_;  // to be accepted
  std::set<Nanos> wakes_;
  Nanos now_{};
  std::uint64_t waits_ = 0;
  std::uint64_t steps_ = 0;  // reads, writes, accepts that did something
  bool in_server_ = false;

  void run_server() {
    if (in_server_ || !server_) return;
    in_server_ = true;
    std::uint64_t before = 0;
    do {
      before = steps_;
      server_();
    } while (steps_ != before);  // it stops when it finds nothing to do
    in_server_ = false;
  }

  // The next time, after now, at which something happens.
  Nanos next_event() const {
    Nanos next = kNever;
    auto consider = [&](Nanos time) {
      if (time > now_) next = std::min(next, time);
    };
    for (const auto& link : links_) {
      for (const SimPipe* pipe : {&link->up, &link->down}) {
        if (!pipe->on_their_way.empty()) consider(pipe->on_their_way.front().at);
        consider(pipe->ends);
      }
    }
    if (const auto wake = wakes_.upper_bound(now_); wake != wakes_.end()) consider(*wake);
    return next;
  }

  // Lets the server run and the clock go until `ready`, at most until `deadline`.
  template <class Ready>
  bool wait(Nanos deadline, Ready&& ready) {
    for (;;) {
      run_server();
      if (ready()) return true;
      const Nanos next = next_event();
      if (next > deadline || next == kNever) {
        if (deadline != kNever) now_ = std::max(now_, deadline);
        return false;
      }
      now_ = next;
      wakes_.erase(wakes_.begin(), wakes_.upper_bound(now_));
    }
  }

  Nanos deadline_of(Nanos patience) const {
    return patience >= kNever - now_ ? kNever : now_ + std::max(patience, Nanos(0));
  }

  void send(SimPipe& pipe, std::span<const std::byte> bytes) {
    const SimDirection& how = pipe.behaviour;
    if (pipe.written < how.stall_after && pipe.written + bytes.size() >= how.stall_after) {
      pipe.line_free = std::max(pipe.line_free, now_) + how.stall;
    }
    const bool cut = bytes.size() > how.cut_after - std::min(how.cut_after, pipe.written);
    if (cut) bytes = bytes.first(how.cut_after - std::min(how.cut_after, pipe.written));
    pipe.line_free = std::max(pipe.line_free, now_);
    if (how.bytes_per_nano > 0) {
      pipe.line_free +=
          Nanos(static_cast<long>(static_cast<double>(bytes.size()) / how.bytes_per_nano));
    }
    const Nanos arrival = pipe.line_free + how.delay;
    if (!bytes.empty()) pipe.on_their_way.push_back({arrival, {bytes.begin(), bytes.end()}});
    pipe.written += bytes.size();
    pipe.inside += bytes.size();
    if (cut) pipe.ends = std::min(pipe.ends, arrival);
    ++steps_;
  }

  std::size_t take(SimPipe& pipe, std::span<std::byte> into) {
    Arriving& first = pipe.on_their_way.front();
    std::size_t most = std::min(into.size(), first.bytes.size() - pipe.offset);
    const std::size_t fragment = pipe.behaviour.most_fragment;
    if (fragment > 0) most = std::min<std::size_t>(most, 1 + pipe.rng.below(fragment));
    std::memcpy(into.data(), first.bytes.data() + pipe.offset, most);
    pipe.offset += most;
    pipe.inside -= most;
    if (pipe.offset == first.bytes.size()) {
      pipe.on_their_way.pop_front();
      pipe.offset = 0;
    }
    ++steps_;
    return most;
  }
};

class SimNet::End final : public Channel {
 public:
  End(std::shared_ptr<World> world, std::shared_ptr<SimLink> link, bool server)
      : world_(std::move(world)), link_(std::move(link)), server_(server) {}
  ~End() override { leave(); }

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    for (auto part : parts) {
      while (!part.empty()) {
        if (is_over(out()) || shut_) return gone();
        const std::size_t most = out().behaviour.room;
        const std::size_t room = most - std::min(out().inside, most);
        const auto now = part.first(std::min(room, part.size()));
        if (!now.empty()) world_->send(out(), now);
        in().ends = std::min(in().ends, out().ends);  // a cut is one of both directions
        part = part.subspan(now.size());
        if (part.empty()) break;
        if (!wait(patience, [&] { return out().inside < most || is_over(out()); })) {
          return failed({ErrorCode::timeout, "it takes no more bytes", kSimulated});
        }
      }
    }
    return {};
  }

  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    if (shut_) return gone();
    auto ready = [&] { return has_arrived() || in().ends <= world_->now_; };
    if (!server_ && patience > Nanos(0) && !ready()) ++world_->waits_;
    if (!ready() && !wait(patience, ready)) {
      return failed({ErrorCode::timeout, "no bytes came", kSimulated});
    }
    if (has_arrived()) return world_->take(in(), into);
    return 0u;
  }

  int descriptor() const override { return -1; }
  void shut() noexcept override { leave(); }

 private:
  SimPipe& in() { return server_ ? link_->up : link_->down; }
  SimPipe& out() { return server_ ? link_->down : link_->up; }
  bool has_arrived() {
    return !in().on_their_way.empty() && in().on_their_way.front().at <= world_->now_;
  }
  // The writer knows that its bytes go nowhere.
  bool is_over(const SimPipe& pipe) const { return pipe.reader_gone || pipe.ends <= world_->now_; }
  template <class Ready>
  bool wait(Nanos patience, Ready&& ready) {
    if (server_ || patience <= Nanos(0)) {
      if (!server_) world_->run_server();
      return ready();
    }
    return world_->wait(world_->deadline_of(patience), ready);
  }
  static tl::unexpected<Error> gone() {
    return failed({ErrorCode::lost, "the other side is gone", kSimulated});
  }
  void leave() noexcept {
    if (shut_) return;
    shut_ = true;
    const Nanos leaves = std::max(out().line_free, world_->now_) + out().behaviour.delay;
    out().ends = std::min(out().ends, leaves);
    in().reader_gone = true;
    ++world_->steps_;
  }

  std::shared_ptr<World> world_;
  std::shared_ptr<SimLink> link_;
  bool server_;
  bool shut_ = false;
};

class SimNet::Door final : public Listener {
 public:
  Door(std::shared_ptr<World> world, std::string address)
      : world_(std::move(world)), address_(std::move(address)) {}
  Result<Accepted> accept(Nanos) override {
    if (world_->waiting_.empty()) {
      return failed({ErrorCode::timeout, "nobody connected", kSimulated});
    }
    auto link = std::move(world_->waiting_.front());
    world_->waiting_.pop_front();
    ++world_->steps_;
    Accepted accepted;
    accepted.channel = std::make_unique<End>(world_, std::move(link), true);
    accepted.address = "simulated";
    return accepted;
  }
  int descriptor() const override { return -1; }
  std::string address() const override { return address_; }

 private:
  std::shared_ptr<World> world_;
  std::string address_;
};

SimNet::SimNet(SimOptions options) : world_(std::make_shared<World>(options)) {}
// The server may hold ends, which hold the world.
SimNet::~SimNet() { world_->server_ = nullptr; }

void SimNet::set_server(std::function<void()> server) { world_->server_ = std::move(server); }

Result<std::unique_ptr<Channel>> SimNet::connect(std::string_view, Nanos) {
  auto link = std::make_shared<SimLink>();
  const Rng rng = Rng(world_->options_.seed).split(3 + world_->links_.size());
  link->up = {.behaviour = world_->options_.up, .rng = rng.split(1), .on_their_way = {}};
  link->down = {.behaviour = world_->options_.down, .rng = rng.split(2), .on_their_way = {}};
  world_->links_.push_back(link);
  world_->waiting_.push_back(link);
  return std::make_unique<End>(world_, std::move(link), false);
}

Result<std::unique_ptr<Listener>> SimNet::listen(std::string_view address) {
  return std::make_unique<Door>(world_, std::string(address));
}

Nanos SimNet::now() const { return world_->now_; }
void SimNet::advance(Nanos time) { world_->now_ += time; }
void SimNet::wake_at(Nanos time) { world_->wakes_.insert(time); }
void SimNet::run_for(Nanos time) {
  const Nanos until = world_->now_ + time;
  world_->wait(until, [&] { return world_->now_ >= until; });
}
std::uint64_t SimNet::waits() const { return world_->waits_; }

}  // namespace partita::remote
