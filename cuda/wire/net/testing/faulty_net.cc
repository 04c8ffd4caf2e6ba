#include "wire/net/testing/faulty_net.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace partita::remote {
namespace {

tl::unexpected<Error> cut() {
  return failed({ErrorCode::lost, "the connection was cut", "remote connection"});
}

class CuttingChannel final : public Channel {
 public:
  CuttingChannel(std::unique_ptr<Channel> channel, std::uint64_t bytes)
      : channel_(std::move(channel)), left_(bytes) {}

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    for (const auto& part : parts) {
      const std::size_t now = take(part.size());
      const std::array<std::span<const std::byte>, 1> one{part.first(now)};
      TRY(channel_->write(one, patience));
      if (now < part.size()) {
        channel_->shut();
        return cut();
      }
    }
    return {};
  }

  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    auto size = channel_->read(into, patience);
    if (!size || *size == 0) return size;
    const std::size_t now = take(*size);
    if (now > 0) return now;
    channel_->shut();
    return cut();
  }

  int descriptor() const override { return channel_->descriptor(); }
  void shut() noexcept override { channel_->shut(); }

 private:
  // So many of `wanted` bytes may pass.
  std::size_t take(std::size_t wanted) {
    std::uint64_t left = left_.load();
    std::uint64_t now = 0;
    do {
      now = std::min<std::uint64_t>(left, wanted);
    } while (!left_.compare_exchange_weak(left, left - now));
    return static_cast<std::size_t>(now);
  }

  std::unique_ptr<Channel> channel_;
  std::atomic<std::uint64_t> left_;
};

}  // namespace

std::unique_ptr<Channel> cutting_channel(std::unique_ptr<Channel> channel, std::uint64_t bytes) {
  return std::make_unique<CuttingChannel>(std::move(channel), bytes);
}

}  // namespace partita::remote
