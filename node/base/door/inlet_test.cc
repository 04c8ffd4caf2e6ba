#include "base/door/inlet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/door/testing/test_pair.h"
#include "base/rng.h"

namespace partita::serve {
namespace {

// All of a body of `wanted` bytes, or to the end of its chunks, through places of `step` bytes.
std::string body_of(Inlet& inlet, std::size_t step) {
  std::string all;
  while (!inlet.body_ended() && !inlet.closed()) {
    std::string place(step, '?');
    std::size_t got = inlet.take(place);
    const auto room = std::min<std::uint64_t>(step - got, inlet.left());
    if (got == 0 && room > 0) {
      const iovec there{place.data(), inlet.chunks() ? step : static_cast<std::size_t>(room)};
      inlet.ready();
      if (!inlet.read({&there, 1}, got)) break;
    }
    all += place.substr(0, got);
  }
  return all;
}

std::string in_chunks(const std::string& body, Rng& rng) {
  std::string wire;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t size = std::min<std::size_t>(body.size() - at, 1 + rng.below(700));
    char digits[20];
    std::snprintf(digits, sizeof digits, "%zx\r\n", size);
    wire += digits + body.substr(at, size) + "\r\n";
    at += size;
  }
  return wire + "0\r\n\r\n";
}

// Plain or in chunks, whatever the places: what was sent, and what follows it stays.
TEST(Inlet, ABodyIsWhatWasSentAndNoMore) {
  Rng rng(11);
  for (const bool chunked : {false, true}) {
    for (const std::size_t step : {1U, 7U, 500U, 60'000U}) {
      test::Pair pair;
      HeadBuffers buffers;
      Inlet inlet(pair.transport, buffers);
      std::string body;
      for (int i = 0; i < 5000; ++i) body += static_cast<char>('a' + rng.below(26));
      pair.send("HEAD" + (chunked ? in_chunks(body, rng) : body) + (chunked ? "NEXT" : ""));
      inlet.ready();
      ASSERT_TRUE(inlet.fill());
      inlet.skip(4);
      inlet.begin_body(chunked ? kUnknownRest : body.size(), chunked);
      EXPECT_EQ(body_of(inlet, step), body) << chunked << " " << step;
      EXPECT_EQ(inlet.came(), body.size());
      EXPECT_EQ(inlet.left(), 0U);
      if (chunked) {
        EXPECT_EQ(inlet.text(), "NEXT");
      }
    }
  }
}

TEST(Inlet, AFullBufferLeavesTheRestInTheKernel) {
  test::Pair pair;
  HeadBuffers buffers;
  Inlet inlet(pair.transport, buffers);
  pair.send(std::string(kMaxHeadBytes + 10, 'x'));
  inlet.ready();
  while (inlet.fill()) inlet.ready();
  EXPECT_TRUE(inlet.paused());
  EXPECT_EQ(inlet.text().size(), kMaxHeadBytes);
  inlet.skip(kMaxHeadBytes - 3);
  inlet.end_body();
  inlet.ready();
  EXPECT_TRUE(inlet.fill());
  EXPECT_EQ(inlet.text(), std::string(13, 'x'));
}

TEST(Inlet, DropsTheRestOfABodyAndNothingBehindIt) {
  test::Pair pair;
  HeadBuffers buffers;
  Inlet inlet(pair.transport, buffers);
  pair.send("HEAD" + std::string(20'000, 'b') + "NEXT");
  inlet.ready();
  ASSERT_TRUE(inlet.fill());
  inlet.skip(4);
  inlet.begin_body(20'000, false);
  while (inlet.left() > 0) {
    inlet.ready();
    ASSERT_TRUE(inlet.drop(false));
  }
  EXPECT_EQ(inlet.text(), "");
  inlet.ready();
  ASSERT_TRUE(inlet.fill());
  EXPECT_EQ(inlet.text(), "NEXT");
  inlet.ready();
  EXPECT_FALSE(inlet.drop(true));
  EXPECT_EQ(inlet.text(), "");
  EXPECT_FALSE(inlet.closed());
}

TEST(Inlet, HoldsNoBufferUntilSomethingMayComeAndSaysWhenTheOtherSideCloses) {
  test::Pair pair;
  HeadBuffers buffers;
  Inlet inlet(pair.transport, buffers);
  EXPECT_FALSE(inlet.fill());
  EXPECT_FALSE(inlet.holds_buffer());
  pair.leave();
  inlet.ready();
  EXPECT_FALSE(inlet.fill());
  EXPECT_TRUE(inlet.closed());
  EXPECT_TRUE(inlet.holds_buffer());
  inlet.give_back();
  EXPECT_FALSE(inlet.holds_buffer());
}

}  // namespace
}  // namespace partita::serve
