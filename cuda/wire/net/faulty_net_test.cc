#include "wire/net/testing/faulty_net.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "wire/net/slow_channel.h"
#include "wire/net/socket_channel.h"

namespace partita::remote {
namespace {

using std::chrono::microseconds;

std::array<std::unique_ptr<Channel>, 2> socket_pair() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
  return {socket_channel(Descriptor(pair[0])), socket_channel(Descriptor(pair[1]))};
}

constexpr Nanos kPatient = std::chrono::seconds(20);

TEST(SlowChannel, RoundTripTakesAtLeastItsTimeAndBytesComeWhole) {
  auto [a, b] = socket_pair();
  const auto near = slow_channel(std::move(a), microseconds(300));
  const auto far = slow_channel(std::move(b), microseconds(300));
  std::thread echo([&] {
    std::array<std::byte, 64> bytes{};
    for (auto size = far->read(bytes, kPatient); size && *size > 0;
         size = far->read(bytes, kPatient)) {
      const std::array<std::span<const std::byte>, 2> parts{std::span(bytes).first(*size / 2),
                                                            std::span(bytes).first(*size)};
      EXPECT_TRUE(far->write(parts, kPatient));
    }
  });
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::array<std::byte, 2> two{std::byte(i), std::byte(7)};
    const std::array<std::span<const std::byte>, 1> parts{two};
    ASSERT_TRUE(near->write(parts, kPatient));
    std::array<std::byte, 3> got{};
    for (std::size_t have = 0; have < got.size();) {
      const auto size = near->read(std::span(got).subspan(have).first(1), kPatient);
      ASSERT_TRUE(size);
      have += *size;
    }
    EXPECT_EQ(got, (std::array<std::byte, 3>{std::byte(i), std::byte(i), std::byte(7)}));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, microseconds(600));
  }
  near->shut();
  echo.join();
}

TEST(CuttingChannel, SoManyBytesPass) {
  for (std::uint64_t limit = 0; limit < 40; ++limit) {
    auto [a, b] = socket_pair();
    const auto near = cutting_channel(std::move(a), limit);
    const std::array<std::byte, 10> ten{};
    const std::array<std::span<const std::byte>, 1> parts{ten};
    std::uint64_t passed = 0;
    while (near->write(parts, kPatient)) passed += ten.size();
    EXPECT_EQ(passed, limit / 10 * 10);
    std::uint64_t came = 0;
    std::array<std::byte, 64> into{};
    for (auto size = b->read(into, kPatient); size && *size > 0; size = b->read(into, kPatient)) {
      came += *size;
    }
    EXPECT_EQ(came, limit);
    EXPECT_FALSE(near->read(into, kPatient).value_or(0) > 0);
  }
}

}  // namespace
}  // namespace partita::remote
