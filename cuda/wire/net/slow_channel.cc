#include "wire/net/slow_channel.h"

#include <time.h>

#include <algorithm>
#include <array>

namespace partita::remote {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr Nanos kSleepUntil = std::chrono::microseconds(100);  // a sleep may be as late as this

Nanos clock_now() { return SteadyClock::now().time_since_epoch(); }

void wait_until(Nanos time) {
  for (Nanos left = time - clock_now(); left > Nanos(0); left = time - clock_now()) {
    if (left <= kSleepUntil) continue;
    const auto sleep = (left - kSleepUntil).count();
    const timespec span{static_cast<time_t>(sleep / 1'000'000'000), sleep % 1'000'000'000};
    ::nanosleep(&span, nullptr);
  }
}

// Around every write; bytes follow.
struct Posted {
  std::uint64_t bytes = 0;
  std::int64_t at = 0;  // when it was written, on the host's clock
};

class SlowChannel final : public Channel {
 public:
  SlowChannel(std::unique_ptr<Channel> channel, Nanos one_way)
      : channel_(std::move(channel)), one_way_(one_way) {}

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    Posted posted{.at = clock_now().count()};
    for (const auto& part : parts) posted.bytes += part.size();
    std::vector<std::span<const std::byte>> all{std::as_bytes(std::span(&posted, 1))};
    all.insert(all.end(), parts.begin(), parts.end());
    return channel_->write(all, patience);
  }

  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    while (left_ == 0) {
      const auto place = std::as_writable_bytes(std::span(&head_, 1)).subspan(head_bytes_);
      const auto size = channel_->read(place, patience);
      if (!size || *size == 0) return size;
      head_bytes_ += *size;
      if (head_bytes_ < sizeof head_) continue;
      head_bytes_ = 0;
      left_ = head_.bytes;
    }
    wait_until(Nanos(head_.at) + one_way_);
    auto size = channel_->read(into.first(std::min<std::size_t>(into.size(), left_)), patience);
    if (size) left_ -= *size;
    return size;
  }

  int descriptor() const override { return channel_->descriptor(); }
  void shut() noexcept override { channel_->shut(); }

 private:
  std::unique_ptr<Channel> channel_;
  Nanos one_way_;
  Posted head_;
  std::size_t head_bytes_ = 0;
  std::uint64_t left_ = 0;
};

}  // namespace

std::unique_ptr<Channel> slow_channel(std::unique_ptr<Channel> channel, Nanos one_way) {
  return std::make_unique<SlowChannel>(std::move(channel), one_way);
}

}  // namespace partita::remote
