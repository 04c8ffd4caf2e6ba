// Graphs of real kernels on threads, on green contexts and on masked streams (of simulated GPUs
// that run PTX), against plain loops in the order of the file.
#include "lanes/kernels/graph_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "base/elements.h"
#include "base/rng.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "drivers/green_ctx/testing/fake_world.h"
#include "drivers/hip_mask/hip_mask_driver.h"
#include "drivers/hip_mask/testing/fake_hip.h"
#include "lanes/graph_run.h"
#include "lanes/graph_work.h"

namespace partita::carry {
namespace {

namespace green_ctx = drivers::green_ctx;
namespace hip_mask = drivers::hip_mask;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kCount = 200;

// step: x = x * by + i. combine: out = a + 3 * b. wild: a word behind the end of x. mirror: the
// words of each block in reverse, plus by; grids and blocks of up to three dimensions.
constexpr const char* kPtx = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry step(.param .u64 x, .param .u32 by, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [by]; ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r2;
  @%p1 ret;
  mul.wide.u32 %rd2, %r6, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  mad.lo.u32 %r8, %r7, %r1, %r6;
  st.global.u32 [%rd3], %r8;
  ret;
}
.visible .entry combine(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];
  ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r2;
  @%p1 ret;
  mul.wide.u32 %rd4, %r6, 4;
  add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4; add.u64 %rd7, %rd3, %rd4;
  ld.global.u32 %r7, [%rd6]; ld.global.u32 %r8, [%rd7];
  mad.lo.u32 %r9, %r8, 3, %r7;
  st.global.u32 [%rd5], %r9;
  ret;
}
.extern .shared .align 4 .b8 room[];
.visible .entry mirror(.param .u64 x, .param .u32 by)
{
  .reg .b32 %r<24>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [by];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %ctaid.z;
  mov.u32 %r5, %nctaid.x; mov.u32 %r6, %nctaid.y;
  mad.lo.u32 %r7, %r4, %r6, %r3; mad.lo.u32 %r8, %r7, %r5, %r2;
  mov.u32 %r9, %tid.x; mov.u32 %r10, %tid.y; mov.u32 %r11, %tid.z;
  mov.u32 %r12, %ntid.x; mov.u32 %r13, %ntid.y; mov.u32 %r14, %ntid.z;
  mad.lo.u32 %r15, %r11, %r13, %r10; mad.lo.u32 %r16, %r15, %r12, %r9;
  mul.lo.u32 %r17, %r12, %r13; mul.lo.u32 %r17, %r17, %r14;
  mad.lo.u32 %r18, %r8, %r17, %r16;
  mul.wide.u32 %rd2, %r18, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r19, [%rd3];
  mov.u32 %r20, room;
  shl.b32 %r21, %r16, 2; add.u32 %r21, %r21, %r20;
  st.shared.u32 [%r21], %r19;
  bar.sync 0;
  sub.u32 %r22, %r17, %r16; sub.u32 %r22, %r22, 1;
  shl.b32 %r22, %r22, 2; add.u32 %r22, %r22, %r20;
  ld.shared.u32 %r23, [%r22];
  add.u32 %r23, %r23, %r1;
  st.global.u32 [%rd3], %r23;
  ret;
}
.visible .entry wild(.param .u64 x)
{
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1+800], %r1;
  ret;
}
)";

plan::GraphTask ptx_task(std::string kernel, std::vector<std::string> arguments) {
  plan::GraphTask task;
  task.name = "t";
  task.line = 7;
  task.units = 2;
  task.groups = 7;
  task.code = plan::GraphCode{"kernels/k.ptx", "", std::move(kernel)};
  task.code->hip = "kernels/k.hip";
  task.code->grid = {7, 1, 1};
  task.code->block = {32, 1, 1};
  task.code->arguments = std::move(arguments);
  return task;
}

plan::GraphTask mirror_task(const std::string& buffer, std::uint32_t by) {
  plan::GraphTask task = ptx_task("mirror", {buffer, fmt::format("u32:{}", by)});
  task.groups = 8;
  task.code->grid = {2, 2, 2};
  task.code->block = {5, 1, 5};
  task.code->shared = 100;
  return task;
}

plan::GraphTask library_task(const std::string& buffer, std::uint32_t by) {
  plan::GraphTask task;
  task.name = "t";
  task.line = 8;
  task.groups = 4;
  task.code = plan::GraphCode{"", PARTITA_GRAPH_FUNCTIONS, "multiply_add"};
  task.code->arguments = {buffer, fmt::format("u32:{}", by), fmt::format("s64:{}", kCount)};
  return task;
}

plan::GraphProblem problem_of(int buffers) {
  plan::GraphProblem problem;
  for (int i = 0; i < buffers; ++i)
    problem.buffers.push_back({fmt::format("b{}", i), "u32", kCount, i % 2 == 0 ? "ramp" : "5",
                               fmt::format("b{}.bin", i)});
  return problem;
}

MemoryFiles files_with_ptx() {
  MemoryFiles files;
  files.content["graphs/kernels/k.ptx"] = kPtx;
  files.content["graphs/kernels/k.hip"] = kPtx;  // the simulated compiler takes it
  files.content[PARTITA_GRAPH_FUNCTIONS] = "";  // the loader looks for itself
  return files;
}

std::unique_ptr<GraphKernels> opened(Files& files, const plan::GraphProblem& problem,
                                     device::LaneMemory* gpu = nullptr) {
  auto kernels = GraphKernels::open(files, "graphs/g.yaml", problem, gpu);
  if (!kernels) ADD_FAILURE() << to_string(kernels.error());
  return kernels ? *std::move(kernels) : nullptr;
}

Words words_of(const GraphKernels& kernels, std::size_t buffer) {
  Words words(kCount);
  const auto bytes = kernels.bytes(buffer);
  if (bytes) std::memcpy(words.data(), bytes->data(), bytes->size());
  return words;
}

exec::TaskGraph graph_of_kernels(GraphKernels& kernels, const plan::GraphProblem& problem) {
  static RealClock clock;
  return graph_of(problem, hw::generic_topology(1, 4), &clock,
                  [&](int task, exec::LaneWork& work) { kernels.put(task, work); });
}

// On masks of three quarters of the units, in turns.
Result<exec::GraphRun> run_on(device::LaneDriver& driver, GraphKernels& kernels,
                              const plan::GraphProblem& problem, bool ahead = true) {
  RealClock clock;
  const auto info = TRY(driver.info());
  const int grains = hw::grains(info.topology, info.atom), part = std::max(1, grains * 3 / 4);
  const auto mask = [&](int task, const std::vector<int>&) {
    hw::UnitMask chosen;
    for (int i = 0; i < part; ++i)
      chosen.set(static_cast<std::size_t>(task % 2 == 0 ? i : grains - 1 - i));
    return std::optional(hw::units_of_grains(info.topology, info.atom, chosen));
  };
  return exec::run_graph(graph_of_kernels(kernels, problem), driver, clock,
                         {.cpu_threads = 1, .mask = mask, .ahead = ahead});
}

void run(GraphKernels& kernels, const plan::GraphProblem& problem) {
  const auto driver = drivers::cpu_mask::CpuMaskDriver::open(hw::generic_topology(1, 4));
  const auto ran = run_on(**driver, kernels, problem);
  EXPECT_TRUE(ran) << to_string(ran.error());
}

// Random kernels on a few buffers; each waits for whoever wrote what it touches, and for whoever
// read what it writes.
class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, int buffers, int tasks, bool libraries)
      : rng_(seed),
        libraries_(libraries),
        problem_(problem_of(buffers)),
        users_(static_cast<std::size_t>(buffers)) {
    for (int i = 0; i < buffers; ++i) {
      Words& words = expected_.emplace_back(kCount, 5);
      for (std::uint32_t k = 0; k < kCount && i % 2 == 0; ++k) words[k] = k;
    }
    for (int i = 0; i < tasks; ++i) add(i);
  }
  const plan::GraphProblem& problem() const { return problem_; }
  const std::vector<Words>& expected() const { return expected_; }

 private:
  std::size_t some_buffer() { return rng_.below(users_.size()); }

  void add(int number) {
    const std::size_t out = some_buffer(), a = some_buffer(), b = some_buffer();
    const auto by = static_cast<std::uint32_t>(rng_.below(1000));
    const std::string n = fmt::format("u32:{}", kCount);
    const auto name = [this](std::size_t buffer) { return problem_.buffers[buffer].name; };
    const bool combines = rng_.below(3) == 0, library = libraries_ && rng_.below(2) == 0;
    const bool mirrors = !combines && !library && rng_.below(2) == 0;
    plan::GraphTask task = combines  ? ptx_task("combine", {name(out), name(a), name(b), n})
                           : library ? library_task(name(out), by)
                           : mirrors ? mirror_task(name(out), by)
                                     : ptx_task("step", {name(out), fmt::format("u32:{}", by), n});
    task.name = fmt::format("t{}", number);
    std::set<int> after(users_[out].begin(), users_[out].end());
    for (const std::size_t read : {a, b})
      if (combines && !users_[read].empty()) after.insert(users_[read].front());
    task.after.assign(after.begin(), after.end());
    problem_.tasks.push_back(std::move(task));
    if (combines) users_[a].push_back(number), users_[b].push_back(number);
    users_[out] = {number};
    const Words before = expected_[out];
    for (std::uint32_t i = 0; i < kCount; ++i)
      expected_[out][i] = combines  ? expected_[a][i] + 3 * expected_[b][i]
                          : mirrors ? before[i / 25 * 25 + 24 - i % 25] + by
                                    : before[i] * by + i;
  }

  Rng rng_;
  const bool libraries_;
  plan::GraphProblem problem_;
  std::vector<std::vector<int>> users_;  // of a buffer: who wrote it last, who has read it since
  std::vector<Words> expected_;
};

TEST(GraphKernels, ComeToWhatPlainLoopsComeTo) {
  MemoryFiles files = files_with_ptx();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomGraph graph(seed, 3, 30, true);
    const auto kernels = opened(files, graph.problem());
    for (int repeat = 0; repeat < 2; ++repeat) {  // each run begins with fresh buffers
      ASSERT_TRUE(kernels->arm());
      run(*kernels, graph.problem());
      EXPECT_EQ(kernels->fault(), "");
      for (std::size_t buffer = 0; buffer < 3; ++buffer)
        EXPECT_EQ(words_of(*kernels, buffer), graph.expected()[buffer]) << "seed " << seed;
    }
  }
}

TEST(GraphKernels, AFaultEndsTheRun) {
  MemoryFiles files = files_with_ptx();
  plan::GraphProblem problem = problem_of(2);
  problem.tasks = {ptx_task("wild", {"b0"}), library_task("b1", 2),
                   ptx_task("step", {"b1", "u32:2", "u32:200"})};
  problem.tasks[0].name = "store";
  problem.tasks[1].after = {0};
  problem.tasks[2].after = {1};
  const auto kernels = opened(files, problem);
  ASSERT_TRUE(kernels->arm());
  run(*kernels, problem);
  EXPECT_THAT(kernels->fault(), StartsWith("task 'store': "));
  EXPECT_THAT(kernels->fault(), HasSubstr("wild"));
  EXPECT_THAT(kernels->fault(), HasSubstr("800-byte"));
  EXPECT_EQ(words_of(*kernels, 1), Words(kCount, 5));  // nothing behind it ran
}

TEST(GraphKernels, BuffersComeFromFilesAndGoToFiles) {
  MemoryFiles files = files_with_ptx();
  plan::GraphProblem problem = problem_of(1);
  Words words(kCount, 9);
  problem.buffers[0].fill = "@in.bin";
  problem.buffers[0].save = "out.bin";
  problem.tasks = {ptx_task("step", {"b0", "u32:2", "u32:200"})};
  EXPECT_THAT(to_string(GraphKernels::open(files, "graphs/g.yaml", problem).error()),
              HasSubstr("'graphs/in.bin', which is not there"));
  std::string& content = files.content["graphs/in.bin"];
  content = std::string(7, 'x');
  const auto kernels = opened(files, problem);
  EXPECT_THAT(to_string(kernels->arm().error()),
              HasSubstr("buffer 'b0' has 800 bytes, graphs/in.bin has 7"));
  content.assign(reinterpret_cast<const char*>(words.data()), 4 * kCount);
  ASSERT_TRUE(kernels->arm());
  run(*kernels, problem);
  ASSERT_TRUE(kernels->save());
  for (std::uint32_t i = 0; i < kCount; ++i) words[i] = 18 + i;
  EXPECT_EQ(files.content["graphs/out.bin"],
            std::string(reinterpret_cast<const char*>(words.data()), 4 * kCount));
}

TEST(GraphKernels, WhatDoesNotFitIsRefusedBeforeTheRun) {
  MemoryFiles files = files_with_ptx();
  plan::GraphTask huge = ptx_task("wild", {"b0"}), lost = huge, gone = library_task("b0", 1);
  huge.code->shared = 1 << 19;
  lost.code->ptx = "k.ptx";
  gone.code->library = "none.so";
  const struct {
    plan::GraphTask task;
    std::string words;
  } cases[] = {
      {ptx_task("step", {"b0", "u32:2"}), "step takes 3 arguments; there are 2"},
      {ptx_task("step", {"b0", "u64:2", "u32:2"}), "argument 2 of step has 4 bytes; 'u64:2' has 8"},
      {ptx_task("step", {"b0", "b0", "u32:2"}), "argument 2 of step has 4 bytes; 'b0' has 8"},
      {ptx_task("stop", {}), "stop"},
      {huge, "shared"},
      {lost, "graphs/k.ptx: "},
      {gone, "'graphs/none.so', which is not there"},
  };
  for (const auto& one : cases) {
    plan::GraphProblem problem = problem_of(1);
    problem.tasks = {one.task};
    const auto kernels = GraphKernels::open(files, "graphs/g.yaml", problem);
    ASSERT_FALSE(kernels) << one.words;
    EXPECT_THAT(to_string(kernels.error()), StartsWith("graphs/g.yaml:"));
    EXPECT_THAT(to_string(kernels.error()), HasSubstr(one.words));
  }
  plan::GraphProblem problem = problem_of(1);
  problem.tasks = {library_task("b0", 1)};
  problem.tasks[0].code->kernel = "no_such_function";
  EXPECT_THAT(to_string(opened(files, problem)->arm().error()),
              HasSubstr("has no function 'no_such_function' that is exported"));
}

// ---- on GPUs ----

// A simulated GPU that runs PTX, whose libraries say what was done against their rules.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::unique_ptr<device::LaneDriver> open() = 0;
  virtual void fail(int call) = 0;  // the n-th call of the library from now on
  // Kernels in the order of their launches, and on how many units.
  virtual std::vector<std::pair<std::string, std::size_t>> launched() = 0;
  // What is left, and what was wrong.
  virtual std::string left() = 0;
};

class CudaGpu final : public Gpu {
 public:
  std::unique_ptr<device::LaneDriver> open() override { return world_.open(); }
  void fail(int call) override { world_.fail("", call, green_ctx::abi::Return::unknown); }
  std::vector<std::pair<std::string, std::size_t>> launched() override { return world_.launched(); }
  std::string left() override { return world_.live() == green_ctx::Live{} ? "" : "objects"; }
  const green_ctx::FakeWorld& world() const { return world_; }

 private:
  const green_ctx::FakeWorld world_{{.sms = 32}};
};

class HipGpu final : public Gpu {
 public:
  HipGpu() {
    const hip_mask::fake::Board board;
    control<decltype(hip_mask::fake::fake_hip_board)>("fake_hip_board")(&board);
  }
  std::unique_ptr<device::LaneDriver> open() override {
    hip_mask::HipMaskOptions options{.vendor_library = PARTITA_HIP_FAKE, .kfd = "none"};
    auto driver = hip_mask::HipMaskDriver::open(options);
    EXPECT_TRUE(driver) << to_string(driver.error());
    return driver ? *std::move(driver) : nullptr;
  }
  void fail(int call) override {
    control<decltype(hip_mask::fake::fake_hip_fail)>("fake_hip_fail")(call, 999);
  }
  std::vector<std::pair<std::string, std::size_t>> launched() override {
    std::vector<std::pair<std::string, std::size_t>> all;
    const auto one = control<decltype(hip_mask::fake::fake_hip_launch)>("fake_hip_launch");
    const int count = control<decltype(hip_mask::fake::fake_hip_launches)>("fake_hip_launches")();
    for (int i = 0; i < count; ++i) {
      std::uint32_t words[2] = {};
      const std::string name = one(i, words, 2);
      all.emplace_back(name, std::popcount(words[0]) + std::popcount(words[1]));
    }
    return all;
  }
  std::string left() override {
    const int alive = control<decltype(hip_mask::fake::fake_hip_alive)>("fake_hip_alive")();
    return alive > 0
               ? "objects"
               : control<decltype(hip_mask::fake::fake_hip_violation)>("fake_hip_violation")();
  }

 private:
  template <class Function>
  static Function* control(const char* name) {
    static void* const handle = dlopen(PARTITA_HIP_FAKE, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function*>(dlsym(handle, name));
  }
};

enum class Maker { nvidia, amd };
class GraphKernelsOnGpus : public testing::TestWithParam<Maker> {
 protected:
  GraphKernelsOnGpus() {
    if (GetParam() == Maker::nvidia)
      gpu = std::make_unique<CudaGpu>();
    else
      gpu = std::make_unique<HipGpu>();
  }
  std::unique_ptr<Gpu> gpu;
  MemoryFiles files = files_with_ptx();
};
INSTANTIATE_TEST_SUITE_P(Makers, GraphKernelsOnGpus, testing::Values(Maker::nvidia, Maker::amd));

TEST_P(GraphKernelsOnGpus, ComeToWhatPlainLoopsComeToOnTheirMasks) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto driver = gpu->open();
    const RandomGraph graph(seed, 3, 30, false);
    const auto kernels = opened(files, graph.problem(), driver->memory());
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::size_t before = gpu->launched().size();
      ASSERT_TRUE(kernels->arm());
      const auto ran = run_on(*driver, *kernels, graph.problem(), repeat == 0);
      ASSERT_TRUE(ran) << to_string(ran.error());
      for (std::size_t buffer = 0; buffer < 3; ++buffer)
        EXPECT_EQ(words_of(*kernels, buffer), graph.expected()[buffer]) << "seed " << seed;
      std::vector<std::pair<std::string, std::size_t>> wanted, launched = gpu->launched();
      launched.erase(launched.begin(), launched.begin() + static_cast<std::ptrdiff_t>(before));
      for (std::size_t task = 0; task < ran->tasks.size(); ++task) {
        wanted.emplace_back(graph.problem().tasks[task].code->kernel,
                            ran->tasks[task].mask.count());
        for (const int other : graph.problem().tasks[task].after)
          EXPECT_GE(ran->tasks[task].begin_ns, ran->tasks[static_cast<std::size_t>(other)].end_ns);
      }
      EXPECT_THAT(launched, testing::UnorderedElementsAreArray(wanted));
    }
  }
  EXPECT_EQ(gpu->left(), "");
}

TEST_P(GraphKernelsOnGpus, OneAfterAnother) {
  const auto driver = gpu->open();
  const RandomGraph graph(7, 4, 20, false);
  const auto kernels = opened(files, graph.problem(), driver->memory());
  ASSERT_TRUE(kernels->arm());
  RealClock clock;
  const auto ran =
      exec::run_sequentially(graph_of_kernels(*kernels, graph.problem()), clock, driver.get());
  ASSERT_TRUE(ran) << to_string(ran.error());
  for (std::size_t buffer = 0; buffer < 4; ++buffer)
    EXPECT_EQ(words_of(*kernels, buffer), graph.expected()[buffer]);
}

// The GPU is lost then, and the run ends.
TEST_P(GraphKernelsOnGpus, AFaultNamesWhatRan) {
  const auto driver = gpu->open();
  plan::GraphProblem problem = problem_of(2);
  problem.tasks = {ptx_task("wild", {"b0"}), ptx_task("step", {"b1", "u32:2", "u32:200"})};
  problem.tasks[0].name = "store";
  problem.tasks[1].after = {0};
  const auto kernels = opened(files, problem, driver->memory());
  ASSERT_TRUE(kernels->arm());
  const auto ran = run_on(*driver, *kernels, problem, false);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::lost);
  EXPECT_THAT(to_string(ran.error()), StartsWith("store: "));
  EXPECT_THAT(to_string(ran.error()), HasSubstr("700"));
  EXPECT_EQ(words_of(*kernels, 1), Words(kCount, 5));  // nothing behind it ran
}

// Each of the first calls of the library: the run says so, or comes to the right thing all the
// same.
TEST_P(GraphKernelsOnGpus, CallsThatFailEndTheRun) {
  constexpr int kCalls = 120;
  const RandomGraph graph(3, 3, 8, false);
  int refused = 0;
  for (int call = 1; call <= kCalls; ++call) {
    const auto driver = gpu->open();
    gpu->fail(call);
    auto kernels = GraphKernels::open(files, "graphs/g.yaml", graph.problem(), driver->memory());
    auto done = kernels ? (*kernels)->arm() : failed(kernels.error());
    if (done) {
      const auto ran = run_on(*driver, **kernels, graph.problem());
      if (!ran) done = failed(ran.error());
    }
    refused += !done;
    for (std::size_t buffer = 0; done && buffer < 3; ++buffer)
      EXPECT_EQ(words_of(**kernels, buffer), graph.expected()[buffer]) << "call " << call;
  }
  EXPECT_GT(refused, kCalls / 3);
}

TEST_P(GraphKernelsOnGpus, WhatTheyCannotRunIsRefusedBeforeTheRun) {
  const auto driver = gpu->open();
  files.content["graphs/bad"] = ".version 7.8\n.target sm_80\n.visible .entry scale(.param .u64 x)";
  const auto refusal = [&](const plan::GraphTask& task) {
    plan::GraphProblem problem = problem_of(1);
    problem.tasks = {task};
    const auto kernels = GraphKernels::open(files, "graphs/g.yaml", problem, driver->memory());
    return kernels ? "" : to_string(kernels.error());
  };
  const bool nvidia = GetParam() == Maker::nvidia;
  plan::GraphTask bare = ptx_task("wild", {"b0"}), other = bare, bad = bare, none = bare;
  bare.code.reset();
  (nvidia ? other.code->ptx : other.code->hip).clear();
  bad.code->hip = "bad";
  none.code->ptx = nvidia ? "kernels/k.ptx" : "";
  none.code->kernel = "nothing";
  EXPECT_EQ(refusal(bare), "graphs/g.yaml:7: task 't' has no code that a GPU runs");
  EXPECT_THAT(refusal(other), HasSubstr(nvidia ? "has no 'ptx', which NVIDIA's GPUs run"
                                               : "has no 'hip', which AMD's GPUs run"));
  EXPECT_THAT(refusal(library_task("b0", 1)), HasSubstr("a library's functions run on threads"));
  EXPECT_THAT(refusal(none), HasSubstr("nothing"));
  if (nvidia) return;  // whose PTX is read before
  EXPECT_THAT(refusal(bad), StartsWith("graphs/g.yaml:7: task 't': graphs/bad, kernel 'wild': "));
}

// Code is loaded once for all tasks and masks; each buffer goes there once, and comes back once.
TEST(GraphKernels, LoadAndCopyOnceOnNvidia) {
  CudaGpu gpu;
  const auto driver = gpu.open();
  RandomGraph graph(5, 3, 30, false);
  plan::GraphProblem problem = graph.problem();
  problem.buffers[1].save.clear();
  MemoryFiles files = files_with_ptx();
  const auto kernels = opened(files, problem, driver->memory());
  ASSERT_TRUE(kernels->arm());
  ASSERT_TRUE(run_on(*driver, *kernels, problem));
  EXPECT_EQ(gpu.world().calls("cuLibraryLoadData"), 1);
  EXPECT_EQ(gpu.world().calls("cuMemcpyHtoDAsync"), 3);
  EXPECT_EQ(gpu.world().calls("cuMemcpyDtoHAsync"), 2);
  EXPECT_EQ(words_of(*kernels, 2), graph.expected()[2]);
}

// A buffer is on its way behind a kernel that does not end: who needs it on another lane waits.
TEST(GpuBuffers, AreWaitedForOnOtherLanes) {
  const green_ctx::FakeWorld world({.sms = 32});
  const auto driver = world.open();
  const auto probes = world.kernels(*driver);
  const auto info = *driver->info();
  const auto grain = [&](std::size_t i) {
    return *driver->create_lane(
        hw::units_of_grains(info.topology, info.atom, hw::UnitMask{}.set(i)));
  };
  GpuBuffers buffers(*driver->memory());
  ASSERT_TRUE(buffers.add(64, false));
  ASSERT_TRUE(fill_elements(buffers.host(0), *element_type("u8"), "7"));
  const std::span<std::byte> seen = *driver->memory()->host_bytes(64);
  buffers.begin({2});
  const int one = grain(0), two = grain(1);
  ASSERT_TRUE(driver->launch(one, *probes->noting(0, 1, true)));
  ASSERT_TRUE(buffers.bring(*driver, one, {0}));
  ASSERT_TRUE(buffers.bring(*driver, two, {0}));
  ASSERT_TRUE(driver->memory()->copy(two, {{seen, buffers.address(0), false}}));
  const int event = *driver->record_event(two);
  for (int i = 0; i < 10'000 && !*driver->event_finished(event); ++i) std::this_thread::yield();
  probes->open(0);
  ASSERT_TRUE(driver->synchronise(two));
  EXPECT_THAT(seen, testing::Each(std::byte{7}));
}

// More dynamic shared memory than a kernel has without asking.
TEST(GraphKernels, AskForSharedMemoryOnNvidia) {
  CudaGpu gpu;
  const auto driver = gpu.open();
  plan::GraphProblem problem = problem_of(1);
  problem.tasks = {mirror_task("b0", 1)};
  problem.tasks[0].code->shared = 64 << 10;
  MemoryFiles files = files_with_ptx();
  const auto kernels = opened(files, problem, driver->memory());
  ASSERT_TRUE(kernels->arm());
  const auto ran = run_on(*driver, *kernels, problem);
  ASSERT_TRUE(ran) << to_string(ran.error());
  EXPECT_EQ(words_of(*kernels, 0)[0], 25u);
}

}  // namespace
}  // namespace partita::carry
