#include "serve/measure/bench.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "serve/link/connection.h"
#include "serve/link/slot_memory.h"
#include "serve/measure/interval.h"
#include "serve/wire/items.h"
#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

constexpr int kPollMs = 50;
constexpr std::int64_t kDismissNs = 3'000'000'000;
constexpr double kMillisecond = 1e6, kSecond = 1e9;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec * std::int64_t{1'000'000'000}) + now.tv_nsec;
}

// Inputs that are no zeros: floats in [-1, 1), everything else stays 0 (tokens, masks).
void fill(const ModelSpec& model, const SlotLayout& layout, SlotMemory& memory) {
  std::uint64_t count = 0;
  for (std::uint32_t slot = 0; slot < memory.slots(); ++slot) {
    make_usual(model, memory.base(slot));
    write_slot_step(memory.base(slot) + layout.step,
                    {.sequence = slot + std::uint64_t{1}, .begins = true, .ends = true});
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      if (model.inputs[i].type != DataType::fp32) continue;
      const TensorSpec& input = model.inputs[i];
      const auto values =
          *used_part(input, {memory.base(slot) + layout.inputs[i], bytes_of(input)});
      char* at = memory.base(slot) + layout.inputs[i] + head_bytes(input);
      for (std::size_t n = values.size() / sizeof(float); n > 0; --n, at += sizeof(float)) {
        const auto value =
            static_cast<float>(static_cast<double>(mix64(++count * kGolden64) >> 11) * 0x1p-52 - 1);
        std::memcpy(at, &value, sizeof value);
      }
    }
  }
}

struct Client {  // a worker
  Connection connection;
  std::optional<SlotMemory> memory = {};
  bool ready = false;
  std::int64_t sent = 0;  // when its batch was
};

}  // namespace

struct Bench::State {
  explicit State(Listener opened) : listener(std::move(opened)) {}

  Result<void> accept();
  Result<void> hear(Client& client, const Frame& frame, Descriptor beside);
  // Frames of all workers within kPollMs; `take(client, frame)` gets what is no greeting.
  template <class Take>
  Result<void> pump(const Take& take);
  Result<void> send(Client& client, const Frame& frame, int descriptor = -1);

  Listener listener;
  std::vector<Client> clients = {};
  std::optional<ModelSpec> model = {};
  std::uint64_t next_batch = 1;
  std::array<char, kMaxFrameBytes> buffer{};
};

Result<void> Bench::State::send(Client& client, const Frame& frame, int descriptor) {
  const bool sent = TRY(client.connection.send(encode(frame), descriptor));
  if (!sent) return environment_error("worker", "it does not read what it is sent");
  return {};
}

Result<void> Bench::State::accept() {
  for (;;) {
    auto accepted = TRY(listener.accept());
    if (!accepted) return {};
    clients.push_back({.connection = std::move(*accepted)});
  }
}

Result<void> Bench::State::hear(Client& client, const Frame& frame, Descriptor) {
  if (const auto* hello = std::get_if<Hello>(&frame)) {
    model = hello->model;
    const SlotLayout layout = slot_layout(*model);
    const auto slots = static_cast<std::uint32_t>(model->max_batch);
    SlotMemory memory = TRY(SlotMemory::create(layout.bytes, slots));
    fill(*model, layout, memory);
    client.memory = std::move(memory);
    return send(client, Region{.slot_bytes = layout.bytes, .slots = slots}, client.memory->fd());
  }
  if (std::holds_alternative<Ready>(frame)) client.ready = true;
  return {};
}

template <class Take>
Result<void> Bench::State::pump(const Take& take) {
  std::vector<pollfd> watched = {{listener.fd(), POLLIN, 0}};
  for (const Client& client : clients) watched.push_back({client.connection.fd(), POLLIN, 0});
  if (::poll(watched.data(), watched.size(), kPollMs) <= 0) return {};
  for (std::size_t i = 1; i < watched.size(); ++i) {
    if (watched[i].revents == 0) continue;
    Client& client = clients[i - 1];
    Received received = TRY(client.connection.receive(buffer));
    if (received.kind == Received::Kind::ended) return environment_error("worker", "it has ended");
    if (received.kind == Received::Kind::nothing_yet) continue;
    const Frame frame = TRY(decode(received.bytes));
    TRY(hear(client, frame, std::move(received.descriptor)));
    TRY(take(client, frame));
  }
  return accept();
}

Bench::Bench(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bench::~Bench() = default;
Bench::Bench(Bench&&) noexcept = default;
Bench& Bench::operator=(Bench&&) noexcept = default;

Result<Bench> Bench::open(const std::string& path) {
  Listener listener = TRY(Listener::open(path));
  return Bench(std::make_unique<State>(std::move(listener)));
}

const ModelSpec& Bench::model() const { return *state_->model; }

Result<void> Bench::wait_for(int workers, std::int64_t limit_ns,
                             const std::function<bool()>& alive) {
  const std::int64_t end = now_ns() + limit_ns;
  const auto ready = [&] { return std::ranges::count(state_->clients, true, &Client::ready); };
  while (ready() < workers) {
    if (!alive()) return failed({ErrorCode::not_found, "a worker ended before it was ready", ""});
    if (now_ns() > end) return failed({ErrorCode::timeout, "the workers are not ready", ""});
    const auto nothing = [](Client&, const Frame&) -> Result<void> { return {}; };
    TRY(state_->pump(nothing));
  }
  return {};
}

Result<BenchPoint> Bench::measure(int batch, const BenchLimits& limits,
                                  const std::function<bool()>& alive) {
  Run run;
  for (int i = 0; i < batch; ++i) run.slots.push_back(static_cast<std::uint32_t>(i));
  bool stopping = false;
  int running = 0;
  long batches = 0, all_batches = 0;
  double latency_ns = 0;
  const auto start = [&](Client& client) -> Result<void> {
    run.batch = state_->next_batch++;
    client.sent = now_ns();
    ++running;
    return state_->send(client, run);
  };
  const auto take = [&](Client& client, const Frame& frame) -> Result<void> {
    const auto* done = std::get_if<Done>(&frame);
    if (done == nullptr) return {};
    if (!done->message.empty()) return environment_error("worker", done->message);
    --running;
    ++batches;
    ++all_batches;
    latency_ns += static_cast<double>(now_ns() - client.sent);
    return stopping ? Result<void>{} : start(client);
  };
  for (Client& client : state_->clients) {
    TRY(start(client));
  }
  const auto least = static_cast<long>(kBatchesPerWindow * state_->clients.size());
  std::vector<double> windows;
  const std::int64_t end = now_ns() + limits.most_ns;
  std::int64_t begin = now_ns();
  bool warm = false;
  while (!stopping) {
    if (!alive()) return failed({ErrorCode::not_found, "a worker has ended", ""});
    TRY(state_->pump(take));
    const std::int64_t now = now_ns();
    if (batches >= least && now - begin >= limits.window_ns) {
      if (warm)
        windows.push_back(static_cast<double>(batches) * kSecond /
                          static_cast<double>(now - begin));
      if (!warm) all_batches = 0, latency_ns = 0;  // the first window warms up
      warm = true;
      batches = 0;
      begin = now;
      stopping = narrow_enough(windows, limits.precision);
    }
    if (now > end && windows.size() >= 2) stopping = true;
  }
  // Measured batches alone: what still runs ends without company.
  const double mean_latency = latency_ns / static_cast<double>(std::max(1L, all_batches));
  while (running > 0) {
    if (!alive()) return failed({ErrorCode::not_found, "a worker has ended", ""});
    TRY(state_->pump(take));
  }
  const Interval interval = confidence(windows);
  return BenchPoint{.throughput_rps = interval.mean * batch,
                    .latency_ms = mean_latency / kMillisecond,
                    .precision = interval.half_width / interval.mean};
}

// Closing a connection with unread frames would take DRAIN back, so each is read to its end.
void Bench::dismiss() {
  const std::int64_t end = now_ns() + kDismissNs;
  for (Client& client : state_->clients) {
    if (!state_->send(client, Drain{})) continue;
    pollfd watched{client.connection.fd(), POLLIN, 0};
    while (now_ns() < end) {
      if (::poll(&watched, 1, kPollMs) <= 0) continue;
      const Result<Received> received = client.connection.receive(state_->buffer);
      if (!received || received->kind == Received::Kind::ended) break;
    }
  }
  state_->clients.clear();
}

}  // namespace partita::serve
