// For tests: random programs of streams, kernels, copies, events, functions of the host and graphs
// on anything that does what a DeviceBackend does. Kernels multiply and add, so that memory tells
// the order in which they ran. Thread rule: one thread.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "server/backend.h"

namespace partita::remote::server {

// A program, step by step: what it asks of its backend, and what its memory is to be.
template <class Backend>
class RandomProgram {
 public:
  static constexpr int kRegions = 5;
  static constexpr std::uint32_t kCells = 6;  // of a region; a block each

  // `image` has the kernels first and second: cell = cell * times + more. With `products` matrices
  // are multiplied, too, of one element each.
  RandomProgram(Rng& rng, std::unique_ptr<Backend> backend, const char* image,
                bool products = false)
      : rng_(rng), backend_(std::move(backend)), products_(products) {
    at_ = backend_->device().arena;
    CHECK(backend_->allocate(at_, 4096).has_value());
    std::memset(backend_->mapped(at_, 4096, true).data(), 0, 4096);
    const float one = 1;
    std::memcpy(backend_->mapped(at_ + kOne, sizeof(one), true).data(), &one, sizeof(one));
    const auto module = backend_->create(ModuleSpec{image});
    for (const char* name : {"first", "second"})
      kernels_.push_back(backend_->find_kernel(*module, name)->id);
    streams_ = {{kDefaultStream, true}};
    for (std::uint64_t i = rng_.below(4); i > 0; --i) {
      const bool blocking = rng_.below(2) == 0;
      streams_.push_back({*backend_->create(StreamSpec{.blocking = blocking}), blocking});
    }
    touched_by_.fill(streams_.front());
  }

  void step() {
    const Stream stream = streams_[rng_.below(streams_.size())];
    const std::size_t region = rng_.below(kRegions);
    const auto value = static_cast<std::uint32_t>(rng_.below(1000));
    const std::uint64_t what = rng_.below(products_ ? 14 : 12);
    if (what < 7) {
      order(stream, region);
      launch(stream, region, what % 2, value);
    } else if (what == 7) {
      order(stream, region);
      ask(stream, SetWork{place(region), value, 4, kCells, 1, 0});
      expected_[region].fill(value);
    } else if (what == 8) {
      const std::size_t from = (region + 1) % kRegions;
      order(stream, region), order(stream, from);
      ask(stream, CopyWork{place(region), place(from), 0, 0, 4 * kCells, 1});
      expected_[region] = expected_[from];
    } else if (what == 9) {
      ask(stream, HoldWork{1});
    } else if (what == 10) {
      graph(stream, region, value);
    } else if (what == 11) {
      backend_->watch(ObjectKind::stream, stream.id, 7);
    } else {
      order(stream, region);
      ask(stream, product_of(region, value));
    }
    if (rng_.below(4) == 0) poll();
  }

  // Whether nothing is unfinished.
  bool finished() { return poll() == 0; }
  // Who is to be woken.
  void watch() {
    for (const Stream& stream : streams_) backend_->watch(ObjectKind::stream, stream.id, 8);
  }
  Backend& backend() { return *backend_; }
  bool right() const {
    std::array<std::array<std::uint32_t, kCells>, kRegions> memory{};
    for (std::size_t i = 0; i < kRegions; ++i)
      std::memcpy(memory[i].data(), backend_->mapped(place(i), 4 * kCells, false).data(),
                  4 * kCells);
    std::array<float, kRegions> sums{};
    std::memcpy(sums.data(), backend_->mapped(at_ + kSums, sizeof(sums), false).data(),
                sizeof(sums));
    return memory == expected_ && sums == expected_sums_;
  }

 private:
  struct Stream {
    Id id = kDefaultStream;
    bool blocking = true;
    bool operator==(const Stream&) const = default;
  };
  static constexpr std::uint64_t kOne = 1024, kSums = 2048;
  std::uint64_t place(std::size_t region) const { return at_ + region * 4 * kCells; }
  void ask(const Stream& stream, StreamWork work) {
    const auto asked = backend_->enqueue(stream.id, std::move(work));
    CHECK(asked.has_value());
  }
  // After whatever touched the region last. The default stream and blocking ones wait for each
  // other anyway.
  void order(const Stream& stream, std::size_t region) {
    const Stream before = std::exchange(touched_by_[region], stream);
    const bool anyway = before.blocking && stream.blocking &&
                        (before.id == kDefaultStream || stream.id == kDefaultStream);
    if (before == stream || anyway) return;
    const Id event = *backend_->create(EventSpec{});
    ask(before, RecordWork{event});
    ask(stream, WaitWork{event});
  }
  LaunchWork launch_of(std::size_t region, std::size_t kernel, std::uint32_t more) {
    LaunchWork work{.kernel = kernels_[kernel], .grid = {kCells, 1, 1}, .block = {1, 1, 1}};
    const std::uint64_t to = place(region);
    const std::uint32_t times = 2 * more + 3;
    work.parameters.resize(16);
    std::memcpy(work.parameters.data(), &to, 8);
    std::memcpy(work.parameters.data() + 8, &times, 4);
    std::memcpy(work.parameters.data() + 12, &more, 4);
    for (std::uint32_t& cell : expected_[region]) cell = cell * times + more;
    return work;
  }
  // sum = sum * beta + alpha, of whole numbers
  GemmWork product_of(std::size_t region, std::uint32_t value) {
    const double alpha = value, beta = static_cast<double>(value % 3) - 1;
    float& sum = expected_sums_[region];
    sum = static_cast<float>(alpha + beta * static_cast<double>(sum));
    return {Gemm{.m = 1,
                 .n = 1,
                 .k = 1,
                 .a = {at_ + kOne},
                 .b = {at_ + kOne},
                 .c = {at_ + kSums + region * sizeof(float)},
                 .alpha = std::bit_cast<std::uint64_t>(alpha),
                 .beta = std::bit_cast<std::uint64_t>(beta)}};
  }
  void launch(const Stream& stream, std::size_t region, std::size_t kernel, std::uint32_t more) {
    ask(stream, launch_of(region, kernel, more));
  }
  void graph(const Stream& stream, std::size_t region, std::uint32_t more) {
    order(stream, region);
    GraphSpec spec;
    for (std::uint32_t i = 0; i < 3; ++i) {
      std::vector<Id> after;
      if (i > 0) after = {i - 1};
      spec.nodes.push_back({.work = launch_of(region, i % 2, more + i), .after = std::move(after)});
    }
    if (products_) spec.nodes.push_back({.work = product_of(region, more), .after = {2}});
    ask(stream, GraphWork{*backend_->create(spec)});
  }
  std::size_t poll() {
    auto polled = backend_->poll();
    for (const Completed& one : polled.completed)
      if (one.kind == Completed::Kind::held) backend_->resume(one.hold);
    return polled.queued;
  }

  Rng& rng_;
  std::unique_ptr<Backend> backend_;
  const bool products_;
  std::uint64_t at_ = 0;
  std::vector<Id> kernels_;
  std::vector<Stream> streams_;
  std::array<Stream, kRegions> touched_by_{};
  std::array<std::array<std::uint32_t, kCells>, kRegions> expected_{};
  std::array<float, kRegions> expected_sums_{};
};

}  // namespace partita::remote::server
