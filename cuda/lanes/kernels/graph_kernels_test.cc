// Graphs of real kernels on threads, against plain loops in the order of the file.
#include "lanes/kernels/graph_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <set>

#include "base/rng.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "lanes/graph_run.h"
#include "lanes/graph_work.h"

namespace partita::carry {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kCount = 200;

// step: x = x * by + i. combine: out = a + 3 * b. wild: a word behind the end of x.
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
  task.code->grid = {7, 1, 1};
  task.code->block = {32, 1, 1};
  task.code->arguments = std::move(arguments);
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
    problem.buffers.push_back({fmt::format("b{}", i), "u32", kCount, i % 2 == 0 ? "ramp" : "5"});
  return problem;
}

MemoryFiles files_with_ptx() {
  MemoryFiles files;
  files.content["graphs/kernels/k.ptx"] = kPtx;
  files.content[PARTITA_GRAPH_FUNCTIONS] = "";  // the loader looks for itself
  return files;
}

std::unique_ptr<GraphKernels> opened(Files& files, const plan::GraphProblem& problem) {
  auto kernels = GraphKernels::open(files, "graphs/g.yaml", problem);
  if (!kernels) ADD_FAILURE() << to_string(kernels.error());
  return kernels ? *std::move(kernels) : nullptr;
}

Words words_of(const GraphKernels& kernels, std::size_t buffer) {
  Words words(kCount);
  const auto bytes = kernels.bytes(buffer);
  if (bytes) std::memcpy(words.data(), bytes->data(), bytes->size());
  return words;
}

void run(GraphKernels& kernels, const plan::GraphProblem& problem) {
  const hw::Topology topology = hw::generic_topology(1, 4);
  RealClock clock;
  const auto driver = drivers::cpu_mask::CpuMaskDriver::open(topology);
  const exec::TaskGraph graph =
      graph_of(problem, topology, &clock, [&](int task) { return kernels.work(task); });
  const auto mask = [&](int task, const std::vector<int>&) {
    return std::optional(hw::UnitMask(task % 2 == 0 ? 0b0111 : 0b1110));
  };
  const auto ran = exec::run_graph(graph, **driver, clock, {.cpu_threads = 1, .mask = mask});
  EXPECT_TRUE(ran) << to_string(ran.error());
}

// Random kernels on a few buffers; each waits for whoever wrote what it touches, and for whoever
// read what it writes.
class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, int buffers, int tasks)
      : rng_(seed), problem_(problem_of(buffers)), users_(static_cast<std::size_t>(buffers)) {
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
    const bool combines = rng_.below(3) == 0, library = rng_.below(2) == 0;
    plan::GraphTask task = combines  ? ptx_task("combine", {name(out), name(a), name(b), n})
                           : library ? library_task(name(out), by)
                                     : ptx_task("step", {name(out), fmt::format("u32:{}", by), n});
    task.name = fmt::format("t{}", number);
    std::set<int> after(users_[out].begin(), users_[out].end());
    for (const std::size_t read : {a, b})
      if (combines && !users_[read].empty()) after.insert(users_[read].front());
    task.after.assign(after.begin(), after.end());
    problem_.tasks.push_back(std::move(task));
    if (combines) users_[a].push_back(number), users_[b].push_back(number);
    users_[out] = {number};
    for (std::uint32_t i = 0; i < kCount; ++i)
      expected_[out][i] =
          combines ? expected_[a][i] + 3 * expected_[b][i] : expected_[out][i] * by + i;
  }

  Rng rng_;
  plan::GraphProblem problem_;
  std::vector<std::vector<int>> users_;  // of a buffer: who wrote it last, who has read it since
  std::vector<Words> expected_;
};

TEST(GraphKernels, ComeToWhatPlainLoopsComeTo) {
  MemoryFiles files = files_with_ptx();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomGraph graph(seed, 3, 30);
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

}  // namespace
}  // namespace partita::carry
