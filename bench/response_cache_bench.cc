// The gateway's answer cache: how much is found, against least recently used and against the best
// that a fixed choice of answers could do, on Zipf's law of several exponents, with and without a
// tenant that asks for ever new things, and with answers of sizes that differ 100-fold; and what it
// costs per request to tell what was asked (request_digest.h) and to look.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "serve/gateway/request_digest.h"
#include "serve/gateway/response_cache.h"

namespace partita::serve {
namespace {

constexpr std::size_t kThings = 100'000;
constexpr long kRequests = 1'000'000, kWarm = 200'000;

CacheKey key_of(std::uint64_t number) {
  Rng rng(number + 1);
  return {rng.next(), rng.next()};
}

class Lru {
 public:
  explicit Lru(std::size_t most) : most_(most) {}
  bool ask(std::uint64_t number, std::size_t bytes) {
    const auto found = at_.find(number);
    if (found != at_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    order_.push_front({number, bytes});
    at_.emplace(number, order_.begin());
    for (bytes_ += bytes; bytes_ > most_; order_.pop_back()) {
      bytes_ -= order_.back().second;
      at_.erase(order_.back().first);
    }
    return false;
  }

 private:
  std::size_t most_, bytes_ = 0;
  std::list<std::pair<std::uint64_t, std::size_t>> order_;
  std::unordered_map<std::uint64_t, decltype(order_)::iterator> at_;
};

struct Traffic {
  double exponent = 1;
  double room = 0.01;  // of the bytes of all things
  bool scan = false, sizes = false;
};

// Arguments: 100 x exponent, permille of room, scan, sizes. Counters: shares of the Zipf requests.
void found(benchmark::State& state) {
  const Traffic is{static_cast<double>(state.range(0)) / 100,
                   static_cast<double>(state.range(1)) / 1000, state.range(2) != 0,
                   state.range(3) != 0};
  std::vector<double> sums(kThings);
  std::vector<std::size_t> bytes(kThings);
  Rng of_sizes(1);
  for (std::size_t i = 0; i < kThings; ++i) {
    sums[i] = (i == 0 ? 0 : sums[i - 1]) + std::pow(static_cast<double>(i + 1), -is.exponent);
    bytes[i] = is.sizes ? static_cast<std::size_t>(40 * std::pow(100, of_sizes.uniform())) : 40;
  }
  std::size_t all = kThings * kAnswerOverhead;
  for (const std::size_t one : bytes) all += one;
  const auto most = static_cast<std::size_t>(static_cast<double>(all) * is.room);
  // By what a byte of it earns.
  std::vector<std::size_t> best(kThings);
  std::iota(best.begin(), best.end(), 0);
  const auto chance = [&](std::size_t i) { return (sums[i] - (i == 0 ? 0 : sums[i - 1])); };
  std::ranges::sort(best, std::greater(), [&](std::size_t i) {
    return chance(i) / static_cast<double>(bytes[i] + kAnswerOverhead);
  });
  double fixed = 0;
  for (std::size_t at = 0, used = 0; at < kThings; ++at) {
    if ((used += bytes[best[at]] + kAnswerOverhead) > most) break;
    fixed += chance(best[at]) / sums.back();
  }
  for (auto _ : state) {
    Rng rng(2);
    ResponseCache cache(most, 0);
    Lru lru(most);
    long hits = 0, lru_hits = 0, asked = 0;
    for (long now = 1; now <= kRequests; ++now) {
      const bool zipf = !is.scan || now % 2 == 0;
      std::uint64_t number = kThings + static_cast<std::uint64_t>(now);
      if (zipf)
        number = static_cast<std::uint64_t>(
            std::ranges::lower_bound(sums, rng.uniform() * sums.back()) - sums.begin());
      const std::size_t size = zipf ? bytes[number] : 40;
      const bool hit = cache.find(key_of(number), now) != nullptr;
      if (!hit) cache.put(key_of(number), std::string(size, 'x'), now);
      const bool lru_hit = lru.ask(number, size + kAnswerOverhead);
      if (!zipf || now < kWarm) continue;
      ++asked;
      hits += hit;
      lru_hits += lru_hit;
    }
    state.counters["w_tinylfu"] = static_cast<double>(hits) / static_cast<double>(asked);
    state.counters["lru"] = static_cast<double>(lru_hits) / static_cast<double>(asked);
    state.counters["best_fixed"] = fixed;
  }
}
BENCHMARK(found)
    ->ArgsProduct({{70, 90, 110}, {10, 100}, {0, 1}, {0}})
    ->ArgsProduct({{90}, {10, 100}, {0}, {1}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void digest(benchmark::State& state) {
  RequestDigest digest;
  const std::string body(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    digest.begin();
    digest.add(std::string_view("token 1"));
    digest.add(body);
    benchmark::DoNotOptimize(digest.end());
  }
}
BENCHMARK(digest)->Arg(1 << 10)->Arg(600 << 10);

void look(benchmark::State& state) {
  ResponseCache cache(64 << 20, 0);
  std::vector<CacheKey> keys;
  for (std::uint64_t i = 0; i < 50'000; ++i) keys.push_back(key_of(i));
  for (const CacheKey& key : keys) cache.put(key, std::string(1000, 'x'), 1);
  std::size_t at = 0;
  for (auto _ : state) benchmark::DoNotOptimize(cache.find(keys[at++ % keys.size()], 2));
}
BENCHMARK(look);

}  // namespace
}  // namespace partita::serve
