// The gateway's side of the link, in as few lines as tests and benchmarks need: one worker, one
// frame at a time, waiting.
#pragma once

#include <poll.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "serve/link/connection.h"
#include "serve/link/slot_memory.h"
#include "serve/wire/frames.h"

namespace partita::serve {

class FakeGateway {
 public:
  explicit FakeGateway(const std::string& path) : listener_(Listener::open(path)) {
    CHECK(listener_);
  }

  // The next worker that connects.
  bool accept(int limit_ms = 10'000) {
    if (!wait(listener_->fd(), limit_ms)) return false;
    auto accepted = listener_->accept();
    CHECK(accepted && *accepted);
    worker_ = std::move(**accepted);
    return true;
  }

  void send(const Frame& frame, int descriptor = -1) {
    const auto sent = worker_->send(encode(frame), descriptor);
    CHECK(sent && *sent);
  }
  // The next frame but for beats, which are counted; nothing when the worker is gone or silent.
  std::optional<Frame> next(int limit_ms = 10'000) {
    for (;;) {
      if (!wait(worker_->fd(), limit_ms)) return std::nullopt;
      auto received = worker_->receive(buffer_);
      if (!received || received->kind == Received::Kind::ended) return std::nullopt;
      if (received->kind == Received::Kind::nothing_yet) continue;
      auto frame = decode(received->bytes);
      CHECK(frame);
      if (!std::holds_alternative<Beat>(*frame)) return *std::move(frame);
      ++beats;
    }
  }
  template <class Kind>
  std::optional<Kind> expect(int limit_ms = 10'000) {
    std::optional<Frame> frame = next(limit_ms);
    if (!frame || !std::holds_alternative<Kind>(*frame)) return std::nullopt;
    return std::get<Kind>(*std::move(frame));
  }
  // HELLO, REGION, READY.
  std::optional<Ready> greet(std::uint32_t slots) {
    const std::optional<Hello> hello = expect<Hello>();
    if (!hello) return std::nullopt;
    model = hello->model;
    layout = slot_layout(model);
    auto made = SlotMemory::create(layout.bytes, slots);
    CHECK(made);
    memory = *std::move(made);
    send(Region{.slot_bytes = layout.bytes, .slots = slots}, memory->fd());
    return expect<Ready>();
  }
  const Connection& worker() const { return *worker_; }

  ModelSpec model;
  SlotLayout layout;
  std::optional<SlotMemory> memory;
  int beats = 0;

 private:
  static bool wait(int fd, int limit_ms) {
    pollfd watched{fd, POLLIN, 0};
    return ::poll(&watched, 1, limit_ms) > 0;
  }

  Result<Listener> listener_;
  std::optional<Connection> worker_;
  std::array<char, kMaxFrameBytes> buffer_{};
};

}  // namespace partita::serve
