#include "serve/gateway/response_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/index.h"
#include "base/rng.h"
#include "serve/gateway/request_digest.h"

namespace partita::serve {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

// What a keyed hash makes of a number.
CacheKey key_of(std::uint64_t number) {
  Rng rng(number + 1);
  return {rng.next(), rng.next()};
}

// What is found is what was put there last, young enough, and never more than the bound.
TEST(ResponseCache, GivesWhatWasPutOrNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const std::size_t most = 1000 + rng.below(60'000);
    const Nanos ttl = rng.below(2) == 0 ? 0 : 50;
    ResponseCache cache(most, ttl);
    std::map<std::uint64_t, std::pair<std::string, Nanos>> put;
    long found = 0;
    for (Nanos now = 1; now <= 4000; ++now) {
      const std::uint64_t number = rng.below(rng.below(8) == 0 ? 400 : 20);
      const std::string* answer = cache.find(key_of(number), now);
      if (answer) {
        ++found;
        ASSERT_TRUE(put.contains(number));
        ASSERT_EQ(*answer, put.at(number).first);
        ASSERT_TRUE(ttl == 0 || now - put.at(number).second < ttl);
      }
      if (!answer || rng.below(20) == 0) {
        put[number] = {std::string(rng.below(rng.below(30) == 0 ? most + 100 : 400), 'a'), now};
        put[number].first += std::to_string(now);
        cache.put(key_of(number), put[number].first, now);
      }
      if (rng.below(500) == 0) {
        cache.clear();
        put.clear();
        EXPECT_EQ(cache.bytes() + cache.size(), 0U);
      }
      ASSERT_LE(cache.bytes(), most);
      ASSERT_GE(cache.bytes(), cache.size() * kAnswerOverhead);
    }
    EXPECT_GT(found, 100) << seed;
  }
}

// All bytes are those of what can be found.
TEST(ResponseCache, CountsItsBytes) {
  Rng rng(7);
  ResponseCache cache(20'000, 0);
  std::map<std::uint64_t, std::size_t> sizes;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t number = rng.below(300);
    if (cache.find(key_of(number), i)) continue;
    sizes[number] = rng.below(300);
    cache.put(key_of(number), std::string(sizes[number], 'x'), i);
  }
  std::size_t bytes = 0, answers = 0;
  for (const auto& [number, size] : sizes)
    if (cache.find(key_of(number), 9999)) {
      bytes += size + kAnswerOverhead;
      ++answers;
    }
  EXPECT_EQ(bytes, cache.bytes());
  EXPECT_EQ(answers, cache.size());
  EXPECT_GT(cache.evictions(), 0);
}

class Lru {
 public:
  explicit Lru(std::size_t most) : most_(most) {}
  bool ask(std::uint64_t number, long now) {
    const auto found = at_.find(number);
    const bool hit = found != at_.end();
    if (hit) order_.erase(found->second);
    at_[number] = now;
    order_[now] = number;
    if (order_.size() > most_) {
      at_.erase(order_.begin()->second);
      order_.erase(order_.begin());
    }
    return hit;
  }

 private:
  std::size_t most_;
  std::map<std::uint64_t, long> at_;
  std::map<long, std::uint64_t> order_;
};

// Zipf (0.9) over 10,000 things, room for 200, and every second request for something that nobody
// asks for again: what LRU loses to that is kept.
TEST(ResponseCache, FindsMoreThanLruAndKeepsThroughAScan) {
  std::vector<double> sums(10'000);
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = (i == 0 ? 0 : sums[i - 1]) + std::pow(static_cast<double>(i + 1), -0.9);
  for (const bool scan : {false, true}) {
    Rng rng(3);
    ResponseCache cache(200 * (kAnswerOverhead + 40), 0);
    Lru lru(200);
    long hits = 0, lru_hits = 0, asked = 0;
    for (long now = 1; now <= 60'000; ++now) {
      std::uint64_t number = 1'000'000 + static_cast<std::uint64_t>(now);
      const bool zipf = !scan || now % 2 == 0;
      if (zipf)
        number = static_cast<std::uint64_t>(
            std::ranges::lower_bound(sums, rng.uniform() * sums.back()) - sums.begin());
      const bool hit = cache.find(key_of(number), now) != nullptr;
      if (!hit) cache.put(key_of(number), std::string(40, 'x'), now);
      const bool lru_hit = lru.ask(number, now);
      if (!zipf || now < 10'000) continue;
      ++asked;
      hits += hit;
      lru_hits += lru_hit;
    }
    const double ours = static_cast<double>(hits) / static_cast<double>(asked);
    const double theirs = static_cast<double>(lru_hits) / static_cast<double>(asked);
    EXPECT_GT(ours, theirs * (scan ? 1.4 : 1.15)) << ours << " " << theirs;
  }
}

TEST(FrequencySketch, IsNeverBelowWhatWasAdded) {
  Rng rng(5);
  FrequencySketch sketch(1024);
  std::map<std::uint64_t, int> added;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t number = rng.below(1 + rng.below(400));
    ++added[number];
    sketch.add(key_of(number));
  }
  int above = 0;
  for (const auto& [number, times] : added) {
    ASSERT_GE(sketch.of(key_of(number)), std::min(times, 15));
    above += sketch.of(key_of(number)) > std::min(times, 15) ? 1 : 0;
  }
  EXPECT_LT(above, 8);
  const int before = sketch.of(key_of(0));
  sketch.halve();
  EXPECT_EQ(sketch.of(key_of(0)), before / 2);
}

// Equal exactly where all fields are; another object has another key.
TEST(RequestDigest, TellsFieldsApart) {
  Rng rng(9);
  RequestDigest digest, other;
  std::map<std::vector<std::string>, CacheKey> seen;
  std::map<CacheKey, std::vector<std::string>> by_key;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> fields(rng.below(4));
    for (std::string& field : fields)
      for (std::uint64_t n = rng.below(4); n > 0; --n)
        field.push_back(static_cast<char>(rng.below(2) == 0 ? 0 : 8));  // 8: as a length is
    const auto hash = [&](RequestDigest& by) {
      by.begin();
      for (const std::string& field : fields) by.add(field);
      return by.end();
    };
    const CacheKey key = hash(digest);
    ASSERT_NE(key, hash(other));
    const auto [at, fresh] = seen.emplace(fields, key);
    ASSERT_EQ(at->second, key);
    if (fresh) {
      ASSERT_TRUE(by_key.emplace(key, fields).second);
    }
  }
  EXPECT_GT(seen.size(), 500U);
}

}  // namespace
}  // namespace partita::serve
