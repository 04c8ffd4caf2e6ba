#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "forms/graph_forms.h"

namespace partita::forms {
namespace {

const std::vector<std::string> kWords{"fair", "packed"};

Result<GraphProblem> read(const std::string& tasks) {
  return parse_graph("g.yaml", "kind: TaskGraph\ntasks:\n" + tasks, kWords);
}

TEST(GraphReader, ReadsEveryKey) {
  const auto problem = parse_graph("g.yaml", R"(api_version: partita/v1
kind: TaskGraph
name: all
policy: packed
overlap_limit: 3
tasks:
  - {name: load, kind: copy, bytes: 1e6}
  - {name: prepare, kind: cpu, work_us: 20, after: [load]}
  - {name: a, kind: lane, work_us: 5, groups: 64, units: 15, after: [load, prepare]}
  - {name: b, kind: lane, work_us: 2.5, share: 0.5, policy: fair, overlap_limit: 0}
)",
                                   kWords);
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->policy, "packed");
  EXPECT_EQ(problem->overlap_limit, 3);
  ASSERT_EQ(problem->tasks.size(), 4u);
  const auto& [load, prepare, a, b] =
      std::tie(problem->tasks[0], problem->tasks[1], problem->tasks[2], problem->tasks[3]);
  EXPECT_EQ(load.kind, GraphTaskKind::copy);
  EXPECT_EQ(load.bytes, 1e6);
  EXPECT_EQ(prepare.kind, GraphTaskKind::cpu);
  EXPECT_EQ(prepare.work_us, 20);
  EXPECT_EQ(prepare.after, std::vector<int>{0});
  EXPECT_EQ(a.groups, 64);
  EXPECT_EQ(wanted_units(a, 60), 15);
  EXPECT_EQ(a.after, (std::vector<int>{0, 1}));
  EXPECT_EQ(wanted_units(b, 60), 30);
  EXPECT_EQ(wanted_units(b, 1), 1);
  EXPECT_EQ(b.policy, "fair");
  EXPECT_EQ(b.overlap_limit, 0);
  EXPECT_EQ(b.line, 10);
  auto again = parse_graph("again.json", graph_json(*problem), kWords);
  ASSERT_TRUE(again) << to_string(again.error());
  for (std::size_t task = 0; task < 4; ++task) again->tasks[task].line = problem->tasks[task].line;
  EXPECT_EQ(*again, *problem);
}

constexpr const char* kReal = R"(kind: TaskGraph
buffers:
  - {name: x, type: f32, count: 1000, fill: ramp}
  - {name: y, type: u64, count: 1e3, fill: 18446744073709551615, save: y.bin}
  - {name: z, type: s8, count: 3, fill: '@z.bin'}
tasks:
  - {name: a, kind: lane, ptx: k.ptx, kernel: scale, grid: [4, 2], block: 256, shared: 64,
     arguments: [x, y, f32:0.5, u32:1000], units: 2}
  - {name: b, kind: lane, library: l.so, kernel: f, groups: 9, arguments: [y], work_us: 3,
     after: [a]}
  - {name: c, kind: lane, ptx: k.ptx, hip: k.hip, kernel: empty}
)";

TEST(GraphReader, ReadsWhatKernelsRun) {
  auto problem = parse_graph("g.yaml", kReal, kWords);
  ASSERT_TRUE(problem) << to_string(problem.error());
  EXPECT_EQ(problem->buffers,
            (std::vector<GraphBuffer>{{"x", "f32", 1000, "ramp", "", 3},
                                      {"y", "u64", 1000, "18446744073709551615", "y.bin", 4},
                                      {"z", "s8", 3, "@z.bin", "", 5}}));
  const auto& [a, b, c] = std::tie(problem->tasks[0], problem->tasks[1], problem->tasks[2]);
  EXPECT_EQ(
      a.code,
      (GraphCode{
          "k.ptx", "", "scale", {4, 2, 1}, {256, 1, 1}, 64, {"x", "y", "f32:0.5", "u32:1000"}}));
  EXPECT_EQ(a.groups, 8);
  EXPECT_EQ(a.work_us, 0);
  EXPECT_EQ(b.code, (GraphCode{"", "l.so", "f", {1, 1, 1}, {1, 1, 1}, 0, {"y"}}));
  EXPECT_EQ(b.groups, 9);
  EXPECT_EQ(b.work_us, 3);
  GraphCode both{"k.ptx", "", "empty"};
  both.hip = "k.hip";
  EXPECT_EQ(c.code, both);
  auto again = parse_graph("again.json", graph_json(*problem), kWords);
  ASSERT_TRUE(again) << to_string(again.error());
  for (GraphProblem* one : {&*again, &*problem}) {
    for (GraphTask& task : one->tasks) task.line = 0;
    for (GraphBuffer& buffer : one->buffers) buffer.line = 0;
  }
  EXPECT_EQ(*again, *problem);
}

TEST(GraphReader, RefusesBuffersAndArguments) {
  const std::string x = "{name: x, type: f32, count: 4}";
  const std::string run = "name: a, kind: lane, ptx: k.ptx, kernel: k";
  const struct {
    std::string buffers, task, words;
  } cases[] = {
      {x + ", " + x, run, "g.yaml:2: there are two buffers 'x'"},
      {"{name: x, type: i32, count: 4}", run, "g.yaml:2: no type 'i32'"},
      {"{name: x, type: f32, count: 0}", run, "g.yaml:2: 'count' is 0"},
      {"{name: x, type: f64, count: 1e10}", run, "g.yaml:2: 'count' is 1"},
      {"{name: x, type: u8, count: 4, fill: 256}", run, "zero, ramp, a number or @FILE: '256' is"},
      {"{name: x, type: u8, count: 4, fill: none}", run, "'none' is no whole number"},
      {x, run + ", arguments: [y]", "argument 'y' is neither a buffer of this file nor TYPE:VALUE"},
      {x, run + ", arguments: [x, u32:-1]", "argument 'u32:-1': '-1' is less than u32 holds"},
      {x, run + ", arguments: [f31:0]", "argument 'f31:0': no type 'f31'"},
      {x, run + ", grid: [1, 2, 3, 4]", "'grid' has 4 items"},
      {x, run + ", grid: [2000, 2000]", "'grid' is 4000000 in all, at most 1000000"},
      {x, run + ", block: 1025", "'block' is 1025"},
      {x, run + ", groups: 4", "g.yaml:3: unknown key 'groups'"},
      {x, run + ", library: l.so", "either 'ptx' or 'hip', or 'library'"},
      {x, "name: a, kind: lane, library: l.so", "'kernel' is missing"},
      {x, "name: a, kind: lane, library: l.so, kernel: f, grid: 4", "unknown key 'grid'"},
      {x, "name: a, kind: cpu, work_us: 1, ptx: k.ptx", "unknown key 'ptx'"},
  };
  for (const auto& one : cases) {
    const auto problem = parse_graph(
        "g.yaml",
        fmt::format("kind: TaskGraph\nbuffers: [{}]\ntasks: [{{{}}}]\n", one.buffers, one.task),
        kWords);
    ASSERT_FALSE(problem) << one.words;
    EXPECT_THAT(to_string(problem.error()), testing::HasSubstr(one.words));
    EXPECT_THAT(to_string(problem.error()), testing::StartsWith("g.yaml:"));
  }
}

TEST(GraphReader, NamesTheTasksOfACycle) {
  const auto problem = read(R"(- {name: start, kind: cpu, work_us: 1}
- {name: x, kind: cpu, work_us: 1, after: [z]}
- {name: y, kind: cpu, work_us: 1, after: [start, z]}
- {name: z, kind: cpu, work_us: 1, after: [y]}
)");
  ASSERT_FALSE(problem);
  EXPECT_EQ(to_string(problem.error()),
            "g.yaml:5: tasks wait for each other in a circle: y after z after y");
  const auto alone = read("- {name: a, kind: cpu, work_us: 1, after: [a]}\n");
  ASSERT_FALSE(alone);
  EXPECT_EQ(to_string(alone.error()), "g.yaml:3: tasks wait for each other in a circle: a after a");
  std::string ring;
  for (int i = 0; i < 100; ++i)
    ring += fmt::format("- {{name: t{}, kind: cpu, work_us: 1, after: [t{}]}}\n", i, (i + 1) % 100);
  EXPECT_THAT(to_string(read(ring).error()), testing::HasSubstr("(100 in all)"));
}

TEST(GraphReader, RefusesWithTheLine) {
  const std::string good = "- {name: a, kind: cpu, work_us: 1}\n";
  const struct {
    std::string tasks, words;
  } cases[] = {
      {"  []", "'tasks' is empty"},
      {good + good, "g.yaml:4: task 'a' is already defined in line 3"},
      {good + "- {name: b, kind: gpu}", "g.yaml:4: 'kind' of a task is cpu, lane or copy"},
      {good + "- {name: b, kind: cpu}", "g.yaml:4: 'work_us' is missing"},
      {good + "- {name: b, kind: cpu, work_us: -1}", "g.yaml:4: 'work_us' is -1"},
      {good + "- {name: b, kind: cpu, work_us: 1, units: 4}", "g.yaml:4: unknown"},
      {good + "- {name: b, kind: lane, work_us: 1, units: 0}", "g.yaml:4: 'units' is 0"},
      {good + "- {name: b, kind: lane, work_us: 1, units: 2.5}", "g.yaml:4: 'units'"},
      {good + "- {name: b, kind: lane, work_us: 1, units: 2, share: 1}", "either"},
      {good + "- {name: b, kind: lane, work_us: 1, share: 1.5}", "g.yaml:4: 'share' is 1.5"},
      {good + "- {name: b, kind: lane, work_us: 1, policy: fare}", "did you mean 'fair'"},
      {good + "- {name: b, kind: copy, bytes: 0}", "g.yaml:4: 'bytes' is 0"},
      {good + "- {name: b, kind: cpu, work_us: 1, after: [c]}", "names 'c', which is not a task"},
      {good + "- {name: b, kind: cpu, work_us: 1, after: [a, a]}", "names 'a' twice"},
      {good + "- {name: b, kind: cpu, work_us: 1, after: a}", "g.yaml:4: 'after'"},
      {good + "- 7", "g.yaml:4: must be an object"},
  };
  for (const auto& one : cases) {
    const auto problem = read(one.tasks);
    ASSERT_FALSE(problem) << one.tasks;
    EXPECT_THAT(to_string(problem.error()), testing::HasSubstr(one.words));
    EXPECT_THAT(to_string(problem.error()), testing::StartsWith("g.yaml:"));
  }
  EXPECT_FALSE(parse_graph("g.yaml", "kind: Graph\ntasks:\n" + good, kWords));
  EXPECT_FALSE(parse_graph("g.yaml", "tasks:\n" + good, kWords));
  EXPECT_FALSE(parse_graph("g.yaml", "kind: TaskGraph\npolicy: none\ntasks:\n" + good, kWords));
}

GraphRun run_of(const std::vector<std::pair<int, int>>& times) {
  GraphRun run;
  run.topology = hw::generic_topology(2, 4);
  for (const auto& [begin, end] : times) {
    GraphTaskRun& task = run.tasks.emplace_back();
    task.begin_ns = begin;
    task.end_ns = end;
    task.thread = 0;
  }
  return run;
}

// a -> b -> d is the longest, though c is the longest task.
TEST(GraphRun, CriticalPath) {
  const auto problem = read(R"(- {name: d, kind: cpu, work_us: 1, after: [b, c]}
- {name: a, kind: cpu, work_us: 1}
- {name: b, kind: cpu, work_us: 1, after: [a]}
- {name: c, kind: cpu, work_us: 1}
)");
  ASSERT_TRUE(problem) << to_string(problem.error());
  const GraphRun run = run_of({{1100, 1150}, {100, 600}, {600, 1100}, {100, 900}});
  const CriticalPath path = critical_path(*problem, run);
  EXPECT_EQ(path.ns, 500 + 500 + 50);
  EXPECT_EQ(path.tasks, (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(run_ns(run), 1050);
  EXPECT_EQ(work_ns(run), 50 + 500 + 500 + 800);
}

}  // namespace
}  // namespace partita::forms
