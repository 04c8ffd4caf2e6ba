#include "client/link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace partita::remote::client {
namespace {

// Another side that says nothing, and closes the connection once something was written to it.
class Closing : public Channel {
 public:
  Result<void> write(std::span<const std::span<const std::byte>>, Nanos) override {
    closed_ = true;
    return {};
  }
  Result<std::size_t> read(std::span<std::byte>, Nanos) override {
    if (closed_) return std::size_t{0};
    return partita::failed({ErrorCode::timeout, "nothing came", {}});
  }
  int descriptor() const override { return -1; }
  void shut() noexcept override { closed_ = true; }

 private:
  std::atomic<bool> closed_ = false;
};

struct Notices : NoticeReader {
  std::atomic<int> failures = 0;
  void said(std::uint32_t, Bytes) override {}
  void waiting(std::uint32_t) override {}
  void call(Token) override {}
  void failed() override { ++failures; }
  std::span<std::byte> place_of(Token, std::uint64_t) override { return {}; }
};

// Notices are expected, so the helper reads and finds that the server closed the connection: at the
// program's own end that is no loss, in the middle it is one.
TEST(Link, AServerThatClosesWhatWasLeftIsNotLost) {
  for (const bool leaves : {true, false}) {
    Notices notices;
    std::mutex mutex;
    Link link(std::make_unique<Closing>(), std::chrono::seconds(60), notices, mutex, nullptr);
    link.watch(true);
    {
      const Lock lock(mutex);
      if (leaves) {
        link.leave(lock);
      } else {
        link.post(lock, Ping{});
        link.flush(lock);
      }
    }
    while (!link.is_lost()) std::this_thread::yield();
    link.close();
    EXPECT_EQ(notices.failures, leaves ? 0 : 1);
  }
}

}  // namespace
}  // namespace partita::remote::client
