// What the way costs: round trips of each transport, bare and as frames; a launch appended and a
// launch decoded; bytes through the rings against memcpy, through TCP against a plain socket copy.
// The other end is a process of its own. Ratios are of alternating runs of one benchmark.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"
#include "wire/net/frames.h"

namespace partita::remote {
namespace {

constexpr Nanos kPatience = std::chrono::seconds(30);
constexpr std::size_t kMessage = 32;
using BenchClock = std::chrono::steady_clock;

double seconds_since(BenchClock::time_point begin) {
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

// A child process that serves one connection.
class OtherEnd {
 public:
  OtherEnd(const std::string& transport, const std::function<void(Channel&)>& serve) {
    const std::string folder = std::filesystem::temp_directory_path() / "partita-bench-XXXXXX";
    std::vector<char> name(folder.begin(), folder.end());
    name.push_back(0);
    CHECK(::mkdtemp(name.data()) != nullptr);
    const std::string address =
        transport == "tcp:" ? "tcp:127.0.0.1:0" : transport + name.data() + "/s";
    auto listener = system_net().listen(address);
    CHECK(listener);
    child_ = ::fork();
    CHECK(child_ >= 0);
    if (child_ == 0) {
      auto accepted = (*listener)->accept(kPatience);
      if (accepted) serve(*accepted->channel);
      ::_exit(0);
    }
    auto connected = system_net().connect((*listener)->address(), kPatience);
    CHECK(connected);
    channel_ = std::move(*connected);
    listener->reset();
    std::filesystem::remove_all(name.data());
  }
  ~OtherEnd() {
    channel_.reset();
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  OtherEnd(const OtherEnd&) = delete;
  OtherEnd& operator=(const OtherEnd&) = delete;
  Channel& channel() { return *channel_; }

 private:
  std::unique_ptr<Channel> channel_;
  pid_t child_ = -1;
};

void read_whole(Channel& channel, std::span<std::byte> into) {
  while (!into.empty()) {
    const auto size = channel.read(into, kPatience);
    if (!size || *size == 0) ::_exit(0);
    into = into.subspan(*size);
  }
}

void echo(Channel& channel) {
  std::array<std::byte, kMessage> message;
  const std::array<Bytes, 1> parts{message};
  for (;;) {
    read_whole(channel, message);
    if (!channel.write(parts, kPatience)) return;
  }
}

void answer_pings(Channel& channel) {
  FrameReader reader(channel);
  FrameWriter writer(channel, kPatience);
  for (;;) {
    const auto frame = reader.next(kPatience);
    if (!frame || !decode<Ping>(frame->body)) return;
    if (!writer.answer<Ping>(frame->header.request, {}, {}) || !writer.flush()) return;
  }
}

double bare_round(Channel& channel) {
  static std::array<std::byte, kMessage> message;
  const std::array<Bytes, 1> parts{message};
  const auto begin = BenchClock::now();
  CHECK(channel.write(parts, kPatience));
  read_whole(channel, message);
  return seconds_since(begin);
}

double median(std::vector<double>& values) {
  std::ranges::nth_element(values, values.begin() + static_cast<long>(values.size() / 2));
  return values[values.size() / 2];
}

// A Ping answered, against the same number of bytes bounced.
void round_trip(benchmark::State& state, const std::string& transport) {
  OtherEnd bare(transport, echo);
  OtherEnd framed(transport, answer_pings);
  FrameWriter writer(framed.channel(), kPatience);
  FrameReader reader(framed.channel());
  std::vector<double> bare_times, framed_times;
  std::uint32_t request = 0;
  for (auto _ : state) {
    for (int i = 0; i < 50; ++i) bare_times.push_back(bare_round(bare.channel()));
    for (int i = 0; i < 50; ++i) {
      const auto begin = BenchClock::now();
      CHECK(writer.put(Ping{}, ++request) && writer.flush());
      const auto frame = reader.next(kPatience);
      CHECK(frame && frame->header.request == request && decode<Outcome>(frame->body));
      framed_times.push_back(seconds_since(begin));
    }
  }
  state.counters["bare_us"] = 1e6 * median(bare_times);
  state.counters["frames_us"] = 1e6 * median(framed_times);
  state.counters["above_us"] = 1e6 * (median(framed_times) - median(bare_times));
}
BENCHMARK_CAPTURE(round_trip, rings, "unix:")->Iterations(200);
BENCHMARK_CAPTURE(round_trip, socket, "socket:")->Iterations(100);
BENCHMARK_CAPTURE(round_trip, tcp, "tcp:")->Iterations(100);

// The same bytes over blocking sockets, as the plainest program would.
void plain_round_trip(benchmark::State& state) {
  std::array<int, 2> pair{};
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) == 0);
  const pid_t child = ::fork();
  std::array<char, kMessage> message{};
  if (child == 0) {
    while (::recv(pair[1], message.data(), message.size(), MSG_WAITALL) > 0) {
      if (::send(pair[1], message.data(), message.size(), 0) <= 0) break;
    }
    ::_exit(0);
  }
  for (auto _ : state) {
    CHECK(::send(pair[0], message.data(), message.size(), 0) > 0);
    CHECK(::recv(pair[0], message.data(), message.size(), MSG_WAITALL) > 0);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(pair[0]);
  ::close(pair[1]);
}
BENCHMARK(plain_round_trip)->UseRealTime();

// A channel that takes everything, and one that gives the same frames for ever.
class MemoryChannel final : public Channel {
 public:
  explicit MemoryChannel(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  Result<void> write(std::span<const std::span<const std::byte>>, Nanos) override { return {}; }
  Result<std::size_t> read(std::span<std::byte> into, Nanos) override {
    if (at_ == bytes_.size()) at_ = 0;
    const std::size_t size = std::min(into.size(), bytes_.size() - at_);
    std::memcpy(into.data(), bytes_.data() + at_, size);
    at_ += size;
    return size;
  }
  int descriptor() const override { return -1; }
  void shut() noexcept override {}

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
};

const std::array<std::byte, 64> kParameters{};

Launch some_launch() {
  return {.stream = {1},
          .kernel = {2},
          .grid = {100, 1, 1},
          .block = {256, 1, 1},
          .parameters = kParameters};
}

void append_launch(benchmark::State& state) {
  MemoryChannel channel({});
  FrameWriter writer(channel, kPatience);
  for (auto _ : state) CHECK(writer.put(some_launch()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(append_launch);

void decode_launch(benchmark::State& state) {
  const Launch launch = some_launch();
  const FrameHeader header{.body_bytes = static_cast<std::uint32_t>(encoded_size(launch)),
                           .code = Launch::kSpec.code};
  std::vector<std::byte> one(sizeof header + header.body_bytes);
  std::memcpy(one.data(), &header, sizeof header);
  encode(launch, one.data() + sizeof header);
  std::vector<std::byte> many;
  for (int i = 0; i < 1000; ++i) many.insert(many.end(), one.begin(), one.end());
  MemoryChannel channel(std::move(many));
  FrameReader reader(channel);
  for (auto _ : state) {
    const auto frame = reader.next(kPatience);
    CHECK(frame);
    const auto back = decode<Launch>(frame->body);
    CHECK(back && back->parameters.size() == kParameters.size());
    benchmark::DoNotOptimize(back->kernel);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode_launch);

// --- bytes ---------------------------------------------------------------------------------

constexpr std::size_t kBulk = 64 << 20;

// Takes frames with bulk into its own memory and acknowledges each.
void take_bulk(Channel& channel) {
  std::vector<std::byte> memory(kBulk, std::byte{1});
  FrameReader reader(channel);
  FrameWriter writer(channel, kPatience);
  for (;;) {
    const auto frame = reader.next(kPatience);
    if (!frame || !reader.read_bulk(std::span(memory).first(reader.bulk_left()), kPatience)) return;
    if (!writer.answer<Ping>(frame->header.request, {}, {}) || !writer.flush()) return;
  }
}

// Sends bulk when asked.
void give_bulk(Channel& channel) {
  const std::vector<std::byte> memory(kBulk, std::byte{1});
  FrameReader reader(channel);
  FrameWriter writer(channel, kPatience);
  while (reader.next(kPatience)) {
    if (!writer.answer<CopyOut>(0, {}, {}, memory) || !writer.flush()) return;
  }
}

// Seconds for `bytes` between two blocking sockets, in writes and reads of a megabyte.
class PlainCopy {
 public:
  PlainCopy() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && ::listen(listener, 1) == 0);
    sockaddr_storage where{};
    socklen_t size = sizeof where;
    CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    child_ = ::fork();
    if (child_ == 0) receive(::accept(listener, nullptr, nullptr));
    socket_ = Descriptor(::socket(AF_INET, SOCK_STREAM, 0));
    CHECK(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&where), size) == 0);
    ::close(listener);
  }
  ~PlainCopy() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  double copy(const std::vector<std::byte>& from) {
    const auto begin = BenchClock::now();
    for (std::size_t at = 0; at < from.size();) {
      const ssize_t size = ::send(socket_.get(), from.data() + at,
                                  std::min<std::size_t>(1 << 20, from.size() - at), 0);
      CHECK(size > 0);
      at += static_cast<std::size_t>(size);
    }
    char done = 0;
    CHECK(::recv(socket_.get(), &done, 1, 0) == 1);
    return seconds_since(begin);
  }

 private:
  [[noreturn]] static void receive(int socket) {
    std::vector<char> memory(kBulk, 1);
    for (std::size_t at = 0;;) {
      const ssize_t size =
          ::recv(socket, memory.data() + at, std::min<std::size_t>(1 << 20, kBulk - at), 0);
      if (size <= 0) ::_exit(0);
      at += static_cast<std::size_t>(size);
      if (at < kBulk) continue;
      at = 0;
      if (::send(socket, "!", 1, 0) != 1) ::_exit(0);
    }
  }

  Descriptor socket_{-1};
  pid_t child_ = -1;
};

double send_bulk(Channel& channel, FrameWriter& writer, FrameReader& reader,
                 const std::vector<std::byte>& from) {
  static_cast<void>(channel);
  const auto begin = BenchClock::now();
  CHECK(writer.put(CopyIn{}, 0, from) && writer.flush() && reader.next(kPatience));
  return seconds_since(begin);
}

double fetch_bulk(FrameWriter& writer, FrameReader& reader, std::span<std::byte> into) {
  const auto begin = BenchClock::now();
  CHECK(writer.put(Ping{}) && writer.flush() && reader.next(kPatience));
  CHECK(reader.read_bulk(into, kPatience));
  return seconds_since(begin);
}

double copy_memory(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const auto begin = BenchClock::now();
  std::memcpy(to.data(), from.data(), from.size());
  benchmark::ClobberMemory();
  return seconds_since(begin);
}

// Host to device and back through `transport`, against memcpy and against a plain TCP copy.
void bulk(benchmark::State& state, const std::string& transport) {
  OtherEnd taker(transport, take_bulk), giver(transport, give_bulk);
  FrameWriter up_writer(taker.channel(), kPatience), down_writer(giver.channel(), kPatience);
  FrameReader up_reader(taker.channel()), down_reader(giver.channel());
  PlainCopy plain;
  const std::vector<std::byte> from(kBulk, std::byte{2});
  std::vector<std::byte> to(kBulk, std::byte{3});
  std::vector<double> up, down, memory, socket;
  for (auto _ : state) {
    up.push_back(send_bulk(taker.channel(), up_writer, up_reader, from));
    memory.push_back(copy_memory(from, to));
    down.push_back(fetch_bulk(down_writer, down_reader, to));
    socket.push_back(plain.copy(from));
  }
  auto gigabytes = [](std::vector<double>& times) { return 1e-9 * kBulk / median(times); };
  state.counters["up_GBps"] = gigabytes(up);
  state.counters["down_GBps"] = gigabytes(down);
  state.counters["memcpy_GBps"] = gigabytes(memory);
  state.counters["plain_tcp_GBps"] = gigabytes(socket);
  state.counters["up_of_memcpy"] = median(memory) / median(up);
  state.counters["down_of_memcpy"] = median(memory) / median(down);
  state.counters["up_of_plain_tcp"] = median(socket) / median(up);
  state.counters["down_of_plain_tcp"] = median(socket) / median(down);
}
BENCHMARK_CAPTURE(bulk, rings, "unix:")->Iterations(30);
BENCHMARK_CAPTURE(bulk, socket, "socket:")->Iterations(30);
BENCHMARK_CAPTURE(bulk, tcp, "tcp:")->Iterations(30);

}  // namespace
}  // namespace partita::remote
