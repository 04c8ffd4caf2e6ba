// Sessions on shared units: random programs do what they do one after another, whatever units their
// kernels are placed on.
#include "server/cpu/shared_units.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <deque>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "server/cpu/cpu_backend.h"

namespace partita::remote::cpu {
namespace {

using server::Completed;
using server::Id;
using server::kDefaultStream;
using server::ObjectKind;

constexpr int kUnits = 3, kRegions = 5;
constexpr std::uint32_t kCells = 6;  // of a region; a block each
constexpr const char* kSteps = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry first(.param .u64 to, .param .u32 times, .param .u32 more)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [times];
  ld.param.u32 %r2, [more];
  mov.u32 %r3, %ctaid.x;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r4, [%rd3];
  mad.lo.u32 %r5, %r4, %r1, %r2;
  st.global.u32 [%rd3], %r5;
  ret;
}
.visible .entry second(.param .u64 to, .param .u32 times, .param .u32 more)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [times];
  ld.param.u32 %r2, [more];
  mov.u32 %r3, %ctaid.x;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r4, [%rd3];
  mad.lo.u32 %r5, %r4, %r1, %r2;
  st.global.u32 [%rd3], %r5;
  ret;
}
)";

hw::UnitMask some_units(Rng& rng) { return {1 + rng.below((1u << kUnits) - 1)}; }

class Fixed final : public Tenant {
 public:
  explicit Fixed(std::shared_ptr<const Placing> placing) : placing_(std::move(placing)) {}
  std::shared_ptr<const Placing> placing() override { return ++asked, placing_; }
  int asked = 0;

 private:
  std::shared_ptr<const Placing> placing_;
};

std::shared_ptr<Fixed> fixed(Rng& rng) {
  Placing placing{.kernels = {"first", "second", "first"}};
  for (int i = 0; i < 4; ++i) placing.masks.push_back(some_units(rng));
  return std::make_shared<Fixed>(std::make_shared<const Placing>(std::move(placing)));
}

// Kernels take one idle unit, of some two if that suits them, else they wait.
std::shared_ptr<Fixed> live(Rng& rng) {
  Placing placing{.kernels = {"first", "second"}};
  placing.live = [both = rng.below(2) == 0](std::size_t kernel, const std::vector<int>& running) {
    hw::UnitMask mask;
    for (int unit = 0; unit < kUnits; ++unit)
      if (running[static_cast<std::size_t>(unit)] == 0 && (mask.none() || (both && kernel == 1)))
        mask.set(static_cast<std::size_t>(unit));
    return mask.any() ? std::optional(mask) : std::nullopt;
  };
  return std::make_shared<Fixed>(std::make_shared<const Placing>(std::move(placing)));
}

// A program, step by step: what it asks of its backend, and what its memory is to be.
class Program {
 public:
  Program(Rng& rng, std::shared_ptr<SharedUnits> units, std::shared_ptr<Tenant> tenant)
      : rng_(rng) {
    auto opened = CpuBackend::open({.units = kUnits,
                                    .memory = 1 << 20,
                                    .shared = std::move(units),
                                    .tenant = std::move(tenant)});
    EXPECT_TRUE(opened) << to_string(opened.error());
    backend_ = *std::move(opened);
    at_ = backend_->device().arena;
    EXPECT_TRUE(backend_->allocate(at_, 4096));
    std::memset(backend_->mapped(at_, 4096, true).data(), 0, 4096);
    const auto module = backend_->create(server::ModuleSpec{kSteps});
    for (const char* name : {"first", "second"})
      kernels_.push_back(backend_->find_kernel(*module, name)->id);
    streams_ = {kDefaultStream};
    for (std::uint64_t i = rng_.below(4); i > 0; --i)
      streams_.push_back(*backend_->create(server::StreamSpec{.blocking = rng_.below(2) == 0}));
  }

  void step() {
    const Id stream = streams_[rng_.below(streams_.size())];
    const std::size_t region = rng_.below(kRegions);
    const auto value = static_cast<std::uint32_t>(rng_.below(1000));
    const std::uint64_t what = rng_.below(12);
    if (what < 7) {
      order(stream, region);
      launch(stream, region, what % 2, value);
    } else if (what == 7) {
      order(stream, region);
      ask(stream, server::SetWork{place(region), value, 4, kCells, 1, 0});
      expected_[region].fill(value);
    } else if (what == 8) {
      const std::size_t from = (region + 1) % kRegions;
      order(stream, region), order(stream, from);
      ask(stream, server::CopyWork{place(region), place(from), 0, 0, 4 * kCells, 1});
      expected_[region] = expected_[from];
    } else if (what == 9) {
      ask(stream, server::HoldWork{1});
    } else if (what == 10) {
      graph(stream, region, value);
    } else {
      backend_->watch(ObjectKind::stream, stream, 7);
    }
    if (rng_.below(4) == 0) poll();
  }

  // Whether nothing is unfinished.
  bool finished() { return poll() == 0; }
  // Who is to be woken.
  void watch() {
    for (const Id stream : streams_) backend_->watch(ObjectKind::stream, stream, 8);
  }
  pollfd readable() const { return {backend_->descriptor(), POLLIN, 0}; }
  void check() {
    std::array<std::array<std::uint32_t, kCells>, kRegions> memory{};
    for (std::size_t i = 0; i < kRegions; ++i)
      std::memcpy(memory[i].data(), backend_->mapped(place(i), 4 * kCells, false).data(),
                  4 * kCells);
    EXPECT_EQ(memory, expected_);
  }
  std::uint64_t launches = 0;

 private:
  std::uint64_t place(std::size_t region) const { return at_ + region * 4 * kCells; }
  void ask(Id stream, server::StreamWork work) {
    const auto asked = backend_->enqueue(stream, std::move(work));
    ASSERT_TRUE(asked) << asked.error().reason;
  }
  // After whatever touched the region last.
  void order(Id stream, std::size_t region) {
    if (touched_by_[region] != stream) {
      const Id event = *backend_->create(server::EventSpec{});
      ask(touched_by_[region], server::RecordWork{event});
      ask(stream, server::WaitWork{event});
    }
    touched_by_[region] = stream;
  }
  server::LaunchWork launch_of(std::size_t region, std::size_t kernel, std::uint32_t more) {
    server::LaunchWork work{.kernel = kernels_[kernel], .grid = {kCells, 1, 1}, .block = {1, 1, 1}};
    const std::uint64_t to = place(region);
    const std::uint32_t times = 2 * more + 3;
    work.parameters.resize(16);
    std::memcpy(work.parameters.data(), &to, 8);
    std::memcpy(work.parameters.data() + 8, &times, 4);
    std::memcpy(work.parameters.data() + 12, &more, 4);
    for (std::uint32_t& cell : expected_[region]) cell = cell * times + more;
    ++launches;
    return work;
  }
  void launch(Id stream, std::size_t region, std::size_t kernel, std::uint32_t more) {
    ask(stream, launch_of(region, kernel, more));
  }
  void graph(Id stream, std::size_t region, std::uint32_t more) {
    order(stream, region);
    server::GraphSpec spec;
    for (std::uint32_t i = 0; i < 3; ++i) {
      std::vector<Id> after;
      if (i > 0) after = {i - 1};
      spec.nodes.push_back({.work = launch_of(region, i % 2, more + i), .after = std::move(after)});
    }
    ask(stream, server::GraphWork{*backend_->create(spec)});
  }
  std::size_t poll() {
    auto polled = backend_->poll();
    for (const Completed& one : polled.completed)
      if (one.kind == Completed::Kind::held) backend_->resume(one.hold);
    return polled.queued;
  }

  Rng& rng_;
  std::unique_ptr<CpuBackend> backend_;
  std::uint64_t at_ = 0;
  std::vector<Id> kernels_, streams_;
  std::array<Id, kRegions> touched_by_{};
  std::array<std::array<std::uint32_t, kCells>, kRegions> expected_{};
};

// Whoever is not finished is woken when it can go on.
void finish(std::deque<Program>& programs) {
  constexpr int kPatienceMs = 20'000;
  for (Program& program : programs) program.watch();
  for (;;) {
    std::vector<pollfd> waiting;
    for (Program& program : programs)
      if (!program.finished()) waiting.push_back(program.readable());
    if (waiting.empty()) return;
    ASSERT_GT(::poll(waiting.data(), waiting.size(), kPatienceMs), 0);
  }
}

// Three sessions at once: on planned lanes, on units that are idle, and on all units.
TEST(SharedUnits, RandomProgramsDoWhatTheyDoInOrder) {
  for (int seed = 1; seed <= test_rounds(100); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<std::uint64_t>(seed));
    const auto units = *SharedUnits::open(kUnits);
    std::deque<Program> programs;
    programs.emplace_back(rng, units, fixed(rng));
    programs.emplace_back(rng, units, live(rng));
    programs.emplace_back(rng, units, nullptr);
    for (int step = 0; step < 60; ++step) programs[rng.below(programs.size())].step();
    finish(programs);
    for (Program& program : programs) program.check();
    EXPECT_EQ(units->driver().outside(), 0);
    if (HasFailure()) break;
  }
}

// Work-groups of a planned kernel run on its units; those of others on all.
TEST(SharedUnits, KernelsRunWhereTheyArePlanned) {
  Rng rng(1);
  const auto units = *SharedUnits::open(kUnits);
  const auto placing = std::make_shared<const Placing>(
      Placing{.kernels = {"first", "second"}, .masks = {{1}, {2}, {7}}});
  std::deque<Program> programs;
  programs.emplace_back(rng, units, std::make_shared<Fixed>(placing));
  for (int i = 0; i < 50; ++i) programs[0].step();
  finish(programs);
  std::int64_t groups = 0;
  for (int lane = 1; lane < 100; ++lane) {
    const auto state = units->driver().query(lane);
    if (!state || state->mask.count() == kUnits) continue;
    const auto ran = *units->driver().ran(lane);
    for (std::size_t unit = 0; unit < ran.size(); ++unit) {
      EXPECT_TRUE(state->mask[unit] || ran[unit] == 0);
      groups += ran[unit];
    }
  }
  EXPECT_GT(groups, static_cast<std::int64_t>(kCells));
  EXPECT_EQ(units->driver().outside(), 0);
}

TEST(SharedUnits, WhoGetsNoUnitsIsAskedAgain) {
  const auto units = *SharedUnits::open(1);
  int again = 0;
  const auto idle = [](const std::vector<int>& running) {
    return running[0] == 0 ? std::optional(hw::UnitMask{1}) : std::nullopt;
  };
  const auto first = units->take(idle, [] {});
  ASSERT_TRUE(first);
  EXPECT_FALSE(units->take(idle, [&] { ++again; }));
  units->give_back(*first);
  EXPECT_EQ(again, 1);
  EXPECT_TRUE(units->take(idle, [] {}));
}

}  // namespace
}  // namespace partita::remote::cpu
