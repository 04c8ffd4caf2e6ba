// What a server of remote execution costs: reading launches, a session from the warm pool, a
// synchronisation beside the bare way of its bytes.
#include <benchmark/benchmark.h>
#include <sys/eventfd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "server/broker.h"
#include "server/testing/test_client.h"

namespace partita::remote::server {
namespace {

// A client that has written its frames already; the last ones again and again.
class EndlessChannel final : public Channel {
 public:
  EndlessChannel(std::vector<std::byte> frames, std::size_t again)
      : frames_(std::move(frames)), again_(again) {}
  Result<void> write(std::span<const std::span<const std::byte>>, Nanos) override { return {}; }
  Result<std::size_t> read(std::span<std::byte> into, Nanos) override {
    const std::size_t bytes = std::min(into.size(), frames_.size() - at_);
    std::memcpy(into.data(), frames_.data() + at_, bytes);
    at_ = at_ + bytes == frames_.size() ? again_ : at_ + bytes;
    return bytes;
  }
  int descriptor() const override { return -1; }
  void shut() noexcept override {}

 private:
  std::vector<std::byte> frames_;
  std::size_t again_, at_ = 0;
};

template <class Op>
void append(std::vector<std::byte>& stream, const Op& op) {
  FrameHeader header{.body_bytes = static_cast<std::uint32_t>(encoded_size(op)),
                     .code = Op::kSpec.code};
  const std::size_t at = stream.size();
  stream.resize(at + sizeof(header) + header.body_bytes);
  std::memcpy(stream.data() + at, &header, sizeof(header));
  encode(op, stream.data() + at + sizeof(header));
}

// Launches of a kernel with 8 parameters, read, checked and handed to a device that drops them.
void decode_launches(benchmark::State& state) {
  const std::vector<std::byte> block(64);
  const std::string_view image = "fake";
  const Digest digest = digest_of(std::as_bytes(std::span(image)));
  std::vector<KernelParameter> layout;
  for (std::uint32_t i = 0; i < 8; ++i) layout.push_back({i * 8, 8});
  std::vector<std::byte> frames;
  append(frames, ModuleLoad{{1}, digest});
  append(frames, KernelOpen{{1}, {1}, "many", std::as_bytes(std::span(layout))});
  const std::size_t launches = frames.size();
  for (int i = 0; i < 1000; ++i)
    append(frames,
           Launch{.kernel = {1}, .grid = {64, 1, 1}, .block = {256, 1, 1}, .parameters = block});
  EndlessChannel channel(std::move(frames), launches);
  MemoryImages images;
  PackedImage packed;
  packed.bytes.resize(image.size());
  std::memcpy(packed.bytes.data(), image.data(), image.size());
  images.put(digest, std::make_shared<const PackedImage>(std::move(packed)));
  Session session(channel, images, "");
  session.greeted(1);
  session.grant(1, std::make_unique<FakeBackend>(FakeBackend::Options{.null = true}), {});
  for (auto _ : state) CHECK(!session.step().ended);
  state.counters["launches/s"] = benchmark::Counter(static_cast<double>(session.counts().launches),
                                                    benchmark::Counter::kIsRate);
  CHECK(session.counts().refused == 0);
}
BENCHMARK(decode_launches);

// A whole server on rings, with fake devices.
class Serving {
 public:
  Serving() {
    options_.worker.open = [](const Part&, int,
                              std::uint32_t) -> Result<std::unique_ptr<DeviceBackend>> {
      return std::make_unique<FakeBackend>();
    };
    for (int i = 0; i < 4; ++i) options_.parts.push_back({std::to_string(i), "CPU-1", 1});
    options_.limits.warm = 3;
    path_ =
        (std::filesystem::temp_directory_path() / ("partita-bench-" + std::to_string(::getpid())))
            .string();
    auto opened = Broker::open("unix:" + path_, options_, files_);
    CHECK(opened.has_value());
    broker_ = *std::move(opened);
    thread_ = std::thread([this] { static_cast<void>(broker_->run(stop_.get())); });
  }
  ~Serving() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  std::unique_ptr<Channel> connect() const {
    return *system_net().connect("unix:" + path_, std::chrono::seconds(5));
  }

 private:
  RealFiles files_;
  BrokerOptions options_;
  Descriptor stop_{::eventfd(0, EFD_CLOEXEC)};
  std::string path_;
  std::unique_ptr<Broker> broker_;
  std::thread thread_;
};

// From connecting to the answer of the hello; the pool fills up again meanwhile.
void session_from_the_warm_pool(benchmark::State& state) {
  const Serving serving;
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    state.ResumeTiming();
    auto channel = serving.connect();
    TestClient client(*channel);
    CHECK(client.ask(Hello{.table = protocol_hash()}).outcome.status == 0);
    state.PauseTiming();
    client.send(Bye{});
    static_cast<void>(client.flush());
    channel->shut();
    state.ResumeTiming();
  }
}
BENCHMARK(session_from_the_warm_pool)->Iterations(50)->UseRealTime();

void blocking_sync(benchmark::State& state) {
  const Serving serving;
  auto channel = serving.connect();
  TestClient client(*channel);
  CHECK(client.ask(Hello{.table = protocol_hash()}).came);
  client.send(Alloc{{kFakeArena}, 256});
  for (auto _ : state) {
    client.send(Set{.to = {kFakeArena}, .element = 4, .count = 4});
    CHECK(client.ask(StreamSync{}).came);
  }
}
BENCHMARK(blocking_sync)->UseRealTime();

// As many bytes there and back, without a server behind them.
void bare_ping_pong(benchmark::State& state) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("partita-ping-" + std::to_string(::getpid())))
          .string();
  auto listener = *system_net().listen("unix:" + path);
  std::thread echo([&listener] {
    auto accepted = *listener->accept(std::chrono::seconds(5));
    std::vector<std::byte> buffer(4096);
    for (;;) {
      const auto got = accepted.channel->read(buffer, std::chrono::seconds(5));
      if (!got || *got == 0) return;
      const std::span<const std::byte> part(buffer.data(), *got);
      if (!accepted.channel->write({&part, 1}, std::chrono::seconds(5))) return;
    }
  });
  auto channel = *system_net().connect("unix:" + path, std::chrono::seconds(5));
  std::vector<std::byte> bytes(120);
  for (auto _ : state) {
    const std::span<const std::byte> part(bytes);
    CHECK(channel->write({&part, 1}, std::chrono::seconds(5)).has_value());
    for (std::size_t got = 0; got < bytes.size();)
      got += channel->read(std::span(bytes).subspan(got), std::chrono::seconds(5)).value_or(0);
  }
  channel->shut();
  echo.join();
}
BENCHMARK(bare_ping_pong)->UseRealTime();

}  // namespace
}  // namespace partita::remote::server
