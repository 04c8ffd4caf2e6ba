// Sessions on shared units: random programs do what they do one after another, whatever units their
// kernels are placed on.
#include "server/cpu/shared_units.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <deque>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "server/cpu/cpu_backend.h"
#include "server/testing/random_program.h"

namespace partita::remote::cpu {
namespace {

constexpr int kUnits = 3;
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
  Placing placing{.kernels = {"first", "second", "gemm", "first"}};
  for (int i = 0; i < 5; ++i) placing.masks.push_back(some_units(rng));
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

// Prefill, decode, or both by the priority of streams: with borders that move all the time.
std::shared_ptr<Fixed> of_phase(std::shared_ptr<lanes::PhaseShare> share,
                                std::optional<lanes::Phase> phase) {
  Placing placing{.masks = {{7}, {3}, {1}, {4}, {6}}, .phases = {std::move(share), phase}};
  return std::make_shared<Fixed>(std::make_shared<const Placing>(std::move(placing)));
}

// Promises that steps are too slow for on some machines, and one that any of them keeps.
std::shared_ptr<lanes::PhaseShare> restless(int seed) {
  return std::make_shared<lanes::PhaseShare>(
      lanes::PhaseOptions{.units = kUnits,
                          .decode = {1, 2},
                          .window = 1,
                          .lend_after = 0,
                          .decode_at_most = seed % 2 == 0 ? 20'000 : 10'000'000'000});
}

using Program = server::RandomProgram<CpuBackend>;

std::unique_ptr<CpuBackend> session(std::shared_ptr<SharedUnits> units,
                                    std::shared_ptr<Tenant> tenant) {
  auto opened = CpuBackend::open({.units = kUnits,
                                  .memory = 1 << 20,
                                  .shared = std::move(units),
                                  .tenant = std::move(tenant)});
  EXPECT_TRUE(opened) << to_string(opened.error());
  return *std::move(opened);
}

pollfd readable(const CpuBackend& backend) { return {backend.descriptor(), POLLIN, 0}; }

// Whoever is not finished is woken when it can go on.
void finish(std::deque<Program>& programs) {
  constexpr int kPatienceMs = 20'000;
  for (Program& program : programs) program.watch();
  for (;;) {
    std::vector<pollfd> waiting;
    for (Program& program : programs)
      if (!program.finished()) waiting.push_back(readable(program.backend()));
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
    programs.emplace_back(rng, session(units, fixed(rng)), kSteps, true);
    programs.emplace_back(rng, session(units, live(rng)), kSteps, true);
    programs.emplace_back(rng, session(units, nullptr), kSteps, true);
    for (int step = 0; step < 60; ++step) programs[rng.below(programs.size())].step();
    finish(programs);
    for (Program& program : programs) EXPECT_TRUE(program.right());
    EXPECT_EQ(units->driver().outside(), 0);
    if (HasFailure()) break;
  }
}

TEST(SharedUnits, RandomProgramsInPhasesDoWhatTheyDoInOrder) {
  long moves = 0;
  for (int seed = 1; seed <= test_rounds(100); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(static_cast<std::uint64_t>(seed));
    const auto units = *SharedUnits::open(kUnits);
    const auto share = restless(seed);
    std::deque<Program> programs;
    programs.emplace_back(rng, session(units, of_phase(share, lanes::Phase::prefill)), kSteps);
    programs.emplace_back(rng, session(units, of_phase(share, lanes::Phase::decode)), kSteps);
    programs.emplace_back(rng, session(units, of_phase(share, {})), kSteps);
    for (int step = 0; step < 60; ++step) {
      Program& program = programs[rng.below(programs.size())];
      program.step();
      if (rng.below(4) == 0) program.backend().request_ended(true);
    }
    finish(programs);
    for (Program& program : programs) EXPECT_TRUE(program.right());
    EXPECT_EQ(units->driver().outside(), 0);
    const lanes::PhaseShare::Report report = share->report();
    EXPECT_GT(report.kernels[0] + report.kernels[1], 0);
    moves += report.moves;
    if (HasFailure()) break;
  }
  EXPECT_GT(moves, 0);
}

// Who has no neighbour has all units; beside one that waits, those of its phase.
TEST(SharedUnits, APhaseHasItsUnitsBesideTheOther) {
  Rng rng(1);
  const auto units = *SharedUnits::open(kUnits);
  const auto share =
      std::make_shared<lanes::PhaseShare>(lanes::PhaseOptions{.units = kUnits, .decode = {1, 2}});
  std::deque<Program> programs;
  programs.emplace_back(rng, session(units, of_phase(share, lanes::Phase::prefill)), kSteps);
  for (int i = 0; i < 20; ++i) programs[0].step();
  finish(programs);
  EXPECT_EQ(share->report().units[0], kUnits);
  const auto decode = lanes::PhaseShare::work(share, lanes::Phase::decode);
  const lanes::PhaseShare::Report alone = share->report();
  for (int i = 0; i < 20; ++i) programs[0].step();
  finish(programs);
  const lanes::PhaseShare::Report beside = share->report();
  EXPECT_LT(beside.units[0], alone.units[0]);
  EXPECT_EQ(units->driver().outside(), 0);
}

// Work-groups of a planned kernel run on its units; those of others on all.
TEST(SharedUnits, KernelsRunWhereTheyArePlanned) {
  Rng rng(1);
  const auto units = *SharedUnits::open(kUnits);
  const auto placing = std::make_shared<const Placing>(
      Placing{.kernels = {"first", "second"}, .masks = {{1}, {2}, {7}}});
  std::deque<Program> programs;
  programs.emplace_back(rng, session(units, std::make_shared<Fixed>(placing)), kSteps);
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
  EXPECT_GT(groups, static_cast<std::int64_t>(Program::kCells));
  EXPECT_EQ(units->driver().outside(), 0);
}

// Products that a graph has run where those do that it has not.
TEST(SharedUnits, ProductsInGraphsRunWhereTheyArePlanned) {
  const auto units = *SharedUnits::open(kUnits);
  constexpr int kProducts = 8;
  Placing placing{.kernels = std::vector<std::string>(kProducts, "gemm"),
                  .masks = std::vector<hw::UnitMask>(kProducts, hw::UnitMask{2})};
  placing.masks.push_back({7});
  const auto backend =
      session(units, std::make_shared<Fixed>(std::make_shared<const Placing>(std::move(placing))));
  const std::uint64_t at = backend->device().arena;
  ASSERT_TRUE(backend->allocate(at, 4096));
  const server::StreamWork product = server::GemmWork{
      Gemm{.m = 1, .n = 1, .k = 1, .a = {at}, .b = {at}, .c = {at + 64}, .alpha = 0, .beta = 0}};
  server::GraphSpec spec;
  for (int i = 0; i < kProducts / 2; ++i) spec.nodes.push_back({.work = product});
  const auto graph = backend->create(spec);
  ASSERT_TRUE(graph);
  ASSERT_TRUE(backend->enqueue(server::kDefaultStream, server::GraphWork{*graph}));
  for (int i = 0; i < kProducts / 2; ++i)
    ASSERT_TRUE(backend->enqueue(server::kDefaultStream, product));
  while (backend->poll().queued > 0) {
    pollfd one = readable(*backend);
    ASSERT_GE(::poll(&one, 1, 100), 0);
  }
  std::int64_t planned = 0;
  for (int lane = 1; lane < 100; ++lane) {
    const auto state = units->driver().query(lane);
    if (!state || state->mask != hw::UnitMask{2}) continue;
    const auto ran = *units->driver().ran(lane);
    EXPECT_EQ(ran[0] + ran[2], 0);
    planned += ran[1];
  }
  EXPECT_EQ(planned, kProducts);
}

constexpr const char* kWaiting = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry wait(.param .u64 word)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [word];
again:
  atom.global.or.b32 %r1, [%rd1], 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
)";

// More records than the driver has events for wait for their turn; who shares it notices nothing.
TEST(SharedUnits, MoreRecordsThanThereAreEvents) {
  const auto units = *SharedUnits::open(kUnits);
  const auto greedy = session(units, nullptr), other = session(units, nullptr);
  const auto module = greedy->create(server::ModuleSpec{kWaiting});
  const std::uint64_t word = greedy->device().arena;
  ASSERT_TRUE(greedy->allocate(word, 4));
  std::memset(greedy->mapped(word, 4, true).data(), 0, 4);
  server::LaunchWork waiting{
      .kernel = greedy->find_kernel(*module, "wait")->id, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  waiting.parameters.resize(8);
  std::memcpy(waiting.parameters.data(), &word, 8);
  constexpr int kStreams = 9, kEach = 8000;
  const server::Id event = *greedy->create(server::EventSpec{});
  for (int i = 0; i < kStreams; ++i) {
    const server::Id stream = *greedy->create(server::StreamSpec{.blocking = false});
    ASSERT_TRUE(greedy->enqueue(stream, waiting));
    for (int j = 0; j < kEach; ++j) ASSERT_TRUE(greedy->enqueue(stream, server::RecordWork{event}));
  }
  const server::Id mine = *other->create(server::EventSpec{});
  ASSERT_TRUE(other->enqueue(server::kDefaultStream, server::RecordWork{mine}));
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(greedy->mapped(word, 4, true).data())).store(1);
  for (const auto* each : {&greedy, &other})
    while ((*each)->poll().queued > 0) {
      pollfd one = readable(**each);
      ASSERT_GE(::poll(&one, 1, 100), 0);
    }
  EXPECT_TRUE(other->finished(server::ObjectKind::event, mine));
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
