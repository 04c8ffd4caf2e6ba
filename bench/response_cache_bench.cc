// The gateway's answer cache: how much is found, against least recently used and against the best
// that a fixed choice of answers could do, on Zipf's law of several exponents, with and without a
// tenant that asks for ever new things, and with answers of sizes that differ 100-fold; what it
// costs per request to tell what was asked (request_digest.h) and to look; and the CPU time of the
// gateway's loop per request over HTTP, with no cache, where all is found, and where nothing is.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <list>
#include <numeric>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "serve/front/front.h"
#include "serve/gateway/core.h"
#include "serve/gateway/request_digest.h"
#include "serve/gateway/response_cache.h"
#include "serve/wire/frames.h"
#include "serve/worker/null_engine.h"
#include "serve/worker/worker_loop.h"

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

// ---- the gateway

constexpr int kConnections = 8;
constexpr std::size_t kOutputs = 250;

double loop_cpu() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

ModelSpec model_of(std::size_t bytes) {
  return {.name = "s",
          .platform = "null",
          .inputs = {{"x", DataType::fp32, {static_cast<std::int64_t>(bytes / 4)}}},
          .outputs = {{"y", DataType::fp32, {kOutputs}}},
          .max_batch = 8};
}

pid_t start_worker(const std::string& link, std::size_t bytes) {
  const pid_t pid = ::fork();
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const EnginePointer engine = null_engine(model_of(bytes), {});
  LoopOptions options;
  options.seat = {.link = link, .place = "", .service = "s"};
  static_cast<void>(run_worker(*engine, options).has_value());
  ::_exit(0);
}

// A request on each connection, then an answer from each.
class Clients {
 public:
  Clients(int port, std::size_t bytes, bool equal) : equal_(equal) {
    const std::string json =
        "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[{\"name\":\"x\",\"datatype\":"
        "\"FP32\",\"shape\":[1," +
        std::to_string(bytes / 4) +
        "],\"parameters\":{\"binary_data_size\":" + std::to_string(bytes) + "}}]}";
    request_ = "POST /v2/models/s/infer HTTP/1.1\r\nHost: h\r\nInference-Header-Content-Length: " +
               std::to_string(json.size()) +
               "\r\nContent-Length: " + std::to_string(json.size() + bytes) + "\r\n\r\n" + json;
    at_ = request_.size();
    request_.append(bytes, '\1');
    for (int& fd : fds_) {
      fd = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<std::uint16_t>(port));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
  }
  ~Clients() {
    for (const int fd : fds_) ::close(fd);
  }
  void ask(long rounds) {
    for (long i = 0; i < rounds; ++i) {
      for (const int fd : fds_) {
        if (!equal_) std::memcpy(request_.data() + at_, &++number_, sizeof number_);
        for (std::size_t sent = 0; sent < request_.size();) {
          const auto count = ::send(fd, request_.data() + sent, request_.size() - sent, 0);
          CHECK(count > 0);
          sent += static_cast<std::size_t>(count);
        }
      }
      for (const int fd : fds_) answer(fd);
    }
  }

 private:
  static void answer(int fd) {
    std::string got;
    char piece[8192];
    for (std::size_t wanted = SIZE_MAX; got.size() < wanted;) {
      const auto count = ::recv(fd, piece, sizeof piece, 0);
      CHECK(count > 0);
      got.append(piece, static_cast<std::size_t>(count));
      const std::size_t end = got.find("\r\n\r\n"), length = got.find("Content-Length: ");
      if (end == got.npos) continue;
      CHECK(got.starts_with("HTTP/1.1 200") && length < end);
      wanted = end + 4 + std::stoul(got.substr(length + 16));
    }
  }
  const bool equal_;
  std::string request_;
  std::size_t at_ = 0;
  std::uint32_t number_ = 0;
  int fds_[kConnections];
};

enum Cached { none, all_found, none_found };

// Arguments: bytes of an input, Cached.
void served(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const long rounds = bytes > 100'000 ? 100 : 1500;
  char directory[] = "/tmp/partita-cache-bench-XXXXXX";
  CHECK(::mkdtemp(directory) != nullptr);
  const std::string link = link_path(directory);
  const pid_t worker = start_worker(link, bytes);
  const auto loop = Loop::make().value();
  CoreOptions options{.link_path = link, .shed = false};
  if (state.range(1) != none) options.caches.emplace("s", plan::CacheTerms{.memory = Mib{16}});
  const auto core = Core::open(*loop, options, [](const std::string&) {}).value();
  ServedService service;
  service.name = "s";
  service.slo = Millis{5000};
  core->serve({service});
  const auto front = Front::open(*loop, *core, {.listen = "127.0.0.1:0"}).value();
  while (!core->ready("s")) loop->run_until(Loop::now_ns() + 1'000'000);
  Clients clients(front->port(), bytes, state.range(1) == all_found);
  double cpu = 0;
  long asked = 0;
  for (auto _ : state) {
    const double before = loop_cpu();
    std::thread client([&] {
      clients.ask(rounds);
      loop->post([&] { loop->stop(); });
    });
    loop->run();
    client.join();
    cpu += loop_cpu() - before;
    asked += rounds * kConnections;
  }
  state.counters["loop_us"] = cpu * 1e6 / static_cast<double>(asked);
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  std::filesystem::remove_all(directory);
}
BENCHMARK(served)
    ->ArgsProduct({{1024, 602'112}, {none, all_found, none_found}})
    ->Iterations(1)
    ->Repetitions(5)
    ->ReportAggregatesOnly()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita::serve
