#include "serve/gateway/keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "serve/brain/fair_shares.h"

namespace partita::serve {
namespace {

constexpr Nanos kKeyMs = 1'000'000, kKeySecond = 1000 * kKeyMs;

TEST(Keys, HaveRatesAndRequestsAtOnce) {
  Keys keys;
  const KeyLimits rate{.per_second = 10};
  Nanos now = kKeySecond;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(keys.ask("a", rate, 0, now), 0) << i;
  EXPECT_NEAR(static_cast<double>(keys.ask("a", rate, 0, now)), 1e8, 10);
  EXPECT_EQ(keys.ask("b", rate, 0, now), 0) << "each has its own";
  EXPECT_EQ(keys.ask("a", rate, 0, now + 100 * kKeyMs + 10), 0);
  const KeyLimits bytes{.bytes = 1000};
  EXPECT_EQ(keys.ask("c", bytes, 5000, now), 0);
  EXPECT_NEAR(static_cast<double>(keys.ask("c", bytes, 1, now)), 4.001e9, 1e7);
  const KeyLimits two{.at_once = 2};
  EXPECT_EQ(keys.ask("d", two, 0, now), 0);
  EXPECT_EQ(keys.ask("d", two, 0, now), 0);
  EXPECT_GT(keys.ask("d", two, 0, now), 0);
  keys.ended("d");
  EXPECT_EQ(keys.ask("d", two, 0, now), 0);
}

// Who asks exactly as often as it may is not refused because its requests come a little unevenly;
// who asks more often gets no more for it.
TEST(Keys, WhoKeepsToItsRateIsLetIn) {
  std::mt19937_64 random(3);
  Keys keys;
  const KeyLimits one{.per_second = 1};
  for (int second = 1; second <= 1000; ++second) {
    const auto jitter = static_cast<Nanos>(random() % 18) * kKeyMs;
    EXPECT_EQ(keys.ask("even", one, 0, second * kKeySecond + jitter), 0) << second;
  }
  int let_in = 0;
  for (int i = 1; i <= 100'000; ++i) let_in += keys.ask("often", one, 0, i * 10 * kKeyMs) == 0;
  EXPECT_LE(let_in, 1001);
  EXPECT_GE(let_in, 990);
}

// One server that takes batches first come, first served, and refuses who would be late.
struct Served {
  std::vector<double> asked, served;
};
Served simulate(const std::vector<double>& weights, const std::vector<double>& rates, int batch,
                double capacity) {
  FairShares shares;
  struct Waiting {
    std::size_t key;
    double tag;
  };
  std::deque<Waiting> queue;
  std::mt19937_64 random(11);
  const auto gap = [&](double rate) {
    return static_cast<Nanos>(-std::log1p(-std::uniform_real_distribution<>(0, 1)(random)) / rate *
                              1e9);
  };
  std::vector<Nanos> next;
  for (const double rate : rates) next.push_back(kKeySecond + gap(rate));
  const double slo_rows = capacity * 0.1;  // an SLO of 100 ms
  const double depth = 0.8 * (slo_rows - batch);
  Served result{std::vector<double>(rates.size()), std::vector<double>(rates.size())};
  const auto takes = static_cast<Nanos>(batch / capacity * 1e9);
  for (Nanos now = kKeySecond; now < 61 * kKeySecond; now += takes) {
    for (;;) {
      const auto key = static_cast<std::size_t>(std::ranges::min_element(next) - next.begin());
      const Nanos at = next[key];
      if (at >= now + takes) break;
      next[key] += gap(rates[key]);
      const std::string name = std::to_string(key);
      ++result.asked[key];
      const auto tag = shares.may(name, weights[key], depth, at);
      if (!tag) continue;
      if (static_cast<double>(queue.size()) + batch >= slo_rows) {
        shares.refused(name, at);
        continue;
      }
      shares.let_in(name, *tag, 1);
      shares.waits(name, *tag);
      queue.push_back({key, *tag});
    }
    for (int i = 0; i < batch && !queue.empty(); ++i) {
      shares.begun(std::to_string(queue.front().key), queue.front().tag);
      ++result.served[queue.front().key];
      queue.pop_front();
    }
  }
  return result;
}

double sum(const std::vector<double>& values) {
  double all = 0;
  for (const double value : values) all += value;
  return all;
}

// The flood is of one; the others ask for half as much again as their share.
TEST(FairShares, AreAsTheWeightsWhenOneFloods) {
  const std::vector<double> weights = {1, 2, 3, 4, 5};
  for (const int batch : {1, 8, 32}) {
    for (const std::size_t flooder : {0U, 2U, 4U}) {
      std::vector<double> rates;
      for (const double weight : weights) rates.push_back(1.5 * 2000 * weight / 15);
      rates[flooder] = 20'000;
      const Served got = simulate(weights, rates, batch, 2000);
      EXPECT_GT(sum(got.served), 0.98 * 2000 * 60) << "nothing is left unused";
      for (std::size_t key = 0; key < 5; ++key)
        EXPECT_NEAR(got.served[key] / sum(got.served) * 15 / weights[key], 1, 0.03)
            << key << " of batches of " << batch << ", flooded by " << flooder;
    }
  }
}

// Who asks for less than its share has all of it; the flood gets what is left.
TEST(FairShares, WhatOneDoesNotUseIsTheOthers) {
  const std::vector<double> weights = {1, 2, 3, 4, 5};
  std::vector<double> rates;
  for (const double weight : weights) rates.push_back(0.6 * 2000 * weight / 15);
  rates[0] = 20'000;
  const Served got = simulate(weights, rates, 8, 2000);
  for (std::size_t key = 1; key < 5; ++key) EXPECT_GT(got.served[key] / got.asked[key], 0.99);
  EXPECT_GT(sum(got.served), 0.98 * 2000 * 60);
}

// The same, looked at key by key.
class PlainShares {
 public:
  std::optional<double> may(int name, double weight, double depth, Nanos now) {
    Key& key = keys_.try_emplace(name, Key{.next = floor_}).first->second;
    key.asked = now;
    key.weight = weight;
    double all = 0, behind = 0, ahead = floor_;
    bool any = false;
    for (const auto& [other, one] : keys_) {
      if (now - one.asked < kKeySecond) all += one.weight;
      ahead = std::max(ahead, one.next);
      if (one.refused == 0 || now - one.refused >= kKeySecond) continue;
      behind = any ? std::min(behind, one.next) : one.next;
      any = true;
    }
    const double oldest = !waiting_.empty() ? *waiting_.begin() : any ? behind : ahead;
    const double here = floor_ = std::max(floor_, oldest), step = depth / all;
    const bool late = key.refused > 0 && now - key.refused < kKeySecond;
    const double tag = std::max(key.next, late ? here - step : here);
    const auto rows = static_cast<double>(waiting_.size());
    const bool less = rows < 0.5 * depth && key.waiting * all < weight * rows;
    if (tag <= here || tag < here + step || rows < 0.06 * depth || less) {
      key.next = tag + 1 / weight;
      ++key.waiting;
      waiting_.insert(tag);
      return tag;
    }
    key.refused = now;
    return std::nullopt;
  }
  void begun(int name, double tag) {
    waiting_.erase(waiting_.find(tag));
    --keys_[name].waiting;
  }

 private:
  struct Key {
    double next = 0, weight = 1;
    int waiting = 0;
    Nanos asked = 0, refused = 0;
  };
  std::map<int, Key> keys_;
  std::multiset<double> waiting_;
  double floor_ = 0;
};

TEST(FairShares, AreWhatLookingAtEachKeySays) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    std::mt19937_64 random(seed);
    FairShares shares;
    PlainShares plain;
    std::deque<std::pair<int, double>> queue;
    Nanos now = kKeySecond;
    long refused = 0;
    for (int i = 0; i < 20'000; ++i) {
      now += static_cast<Nanos>(random() % (random() % 500 == 0 ? 2 * kKeySecond : 10 * kKeyMs));
      const int key = static_cast<int>(random() % 40) * static_cast<int>(random() % 2);
      const double weight = 1 << key % 4;
      const auto tag = shares.may(std::to_string(key), weight, 30, now);
      ASSERT_EQ(tag, plain.may(key, weight, 30, now)) << seed << ", request " << i;
      refused += !tag;
      if (tag) {
        shares.let_in(std::to_string(key), *tag, 1);
        shares.waits(std::to_string(key), *tag);
        queue.emplace_back(key, *tag);
      }
      while (!queue.empty() && (queue.size() > 60 || random() % 20 < 9)) {
        shares.begun(std::to_string(queue.front().first), queue.front().second);
        plain.begun(queue.front().first, queue.front().second);
        queue.pop_front();
      }
    }
    EXPECT_GT(refused, 100) << "else this says little";
  }
}

// CPU of 20,000 requests of so many keys, whom nobody makes wait.
double seconds_with(int keys) {
  FairShares shares;
  Nanos now = kKeySecond;
  const std::clock_t began = std::clock();
  for (int i = 0; i < 20'000; ++i) {
    now += kKeyMs;
    const std::string name = std::to_string(i % keys);
    const auto tag = shares.may(name, 1, 30, now);
    shares.let_in(name, tag.value_or(0), 1);
  }
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

TEST(FairShares, ManyKeysCostAsFew) {
  EXPECT_LT(seconds_with(10'000), 0.05 + 20 * seconds_with(10));
}

// One that asked 2 s ago has its part of what may wait kept for it, where that is not long ago.
TEST(FairShares, AKeyIsThereForAsLongAsItIsRemembered) {
  for (const auto& [seconds, most] : {std::pair{1, 20}, {5, 10}}) {
    FairShares shares;
    shares.remember(seconds * kKeySecond);
    EXPECT_TRUE(shares.may("seldom", 1, 20, kKeySecond));
    int waiting = 0;
    for (; waiting < 100; ++waiting) {
      const auto tag = shares.may("often", 1, 20, 3 * kKeySecond);
      if (!tag) break;
      shares.let_in("often", *tag, 1);
      shares.waits("often", *tag);
    }
    EXPECT_EQ(waiting, most) << seconds;
  }
}

TEST(FairShares, AKeyAloneMayHaveAll) {
  const Served got = simulate({1}, {1500}, 8, 2000);
  EXPECT_GT(got.served[0] / got.asked[0], 0.999);
}

}  // namespace
}  // namespace partita::serve
