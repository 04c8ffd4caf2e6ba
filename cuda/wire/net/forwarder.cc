#include "wire/net/forwarder.h"

#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>

namespace partita::remote {
namespace {

constexpr Nanos kLook = std::chrono::milliseconds(100);  // how soon the end is noticed
constexpr Nanos kStuck = std::chrono::hours(24);         // who waits has a patience of his own
constexpr std::size_t kPumpBytes = 256 * 1024;

// Bytes of one direction, until either end is gone; then both are.
void pump(Channel& from, Channel& to) {
  std::vector<std::byte> buffer(kPumpBytes);
  for (;;) {
    const auto size = from.read(buffer, kStuck);
    if (!size || *size == 0) break;
    const std::array<std::span<const std::byte>, 1> part{std::span(buffer).first(*size)};
    if (!to.write(part, kStuck)) break;
  }
  from.shut();
  to.shut();
}

struct Forwarded {
  Listener::Accepted accepted;
  std::mutex mutex;
  ForwardedPair pair;  // under the mutex until the pumps run
  bool over = false;
  std::atomic<bool> done = false;
  std::thread thread;
};

}  // namespace

struct Forwarder::State {
  std::unique_ptr<Listener> listener;
  Join join;
  std::atomic<bool> over = false;
  std::atomic<std::size_t> alive = 0;
  std::list<std::unique_ptr<Forwarded>> connections;  // of the accepting thread, until it ended
  std::mutex trouble_mutex;
  std::string trouble;
  std::thread accepting;

  void carry(Forwarded& one) {
    auto pair = join(one.accepted);
    if (!pair) {
      const std::lock_guard lock(trouble_mutex);
      trouble = to_string(pair.error());
    } else {
      {
        const std::lock_guard lock(one.mutex);
        one.pair = std::move(*pair);
        if (one.over) one.pair.from->shut(), one.pair.to->shut();
      }
      std::thread back([&one] { pump(*one.pair.to, *one.pair.from); });
      pump(*one.pair.from, *one.pair.to);
      back.join();
      const std::lock_guard lock(one.mutex);
      one.pair = {};
    }
    one.accepted.channel.reset();
    one.done.store(true);
    --alive;
  }

  void reap(bool all) {
    std::erase_if(connections, [all](const std::unique_ptr<Forwarded>& one) {
      if (!all && !one->done.load()) return false;
      one->thread.join();
      return true;
    });
  }

  void accept_all() {
    while (!over.load()) {
      auto accepted = listener->accept(kLook);
      reap(false);
      if (!accepted || connections.size() >= kMostForwarded) continue;
      auto& one = *connections.emplace_back(std::make_unique<Forwarded>());
      one.accepted = std::move(*accepted);
      ++alive;
      one.thread = std::thread([this, &one] { carry(one); });
    }
  }
};

Forwarder::Forwarder(std::unique_ptr<Listener> listener, Join join)
    : state_(std::make_unique<State>()) {
  state_->listener = std::move(listener);
  state_->join = std::move(join);
  state_->accepting = std::thread([state = state_.get()] { state->accept_all(); });
}

Forwarder::~Forwarder() { end(); }

std::string Forwarder::address() const { return state_->listener->address(); }

std::string Forwarder::trouble() const {
  const std::lock_guard lock(state_->trouble_mutex);
  return state_->trouble;
}

bool Forwarder::wait_for_ends(Nanos patience) const {
  constexpr Nanos kStep = std::chrono::milliseconds(2);
  for (Nanos waited{}; state_->alive.load() > 0; waited += kStep) {
    if (waited >= patience) return false;
    std::this_thread::sleep_for(kStep);
  }
  return true;
}

void Forwarder::end() {
  state_->over.store(true);
  if (state_->accepting.joinable()) state_->accepting.join();
  for (const auto& one : state_->connections) {
    const std::lock_guard lock(one->mutex);
    one->over = true;
    if (one->pair.from) one->pair.from->shut();
    if (one->pair.to) one->pair.to->shut();
  }
  state_->reap(true);
}

}  // namespace partita::remote
