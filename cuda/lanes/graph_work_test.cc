#include "lanes/graph_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::carry {
namespace {

using testing::ElementsAre;

plan::GraphProblem graph() {
  plan::GraphProblem graph;
  graph.tasks.resize(3);
  plan::GraphTask& kernel = graph.tasks[0];
  kernel.name = "k";
  kernel.work_us = 1;
  kernel.groups = 3;
  kernel.share = 0.5;
  plan::GraphTask& copy = graph.tasks[1];
  copy.name = "c";
  copy.kind = plan::GraphTaskKind::copy;
  copy.after = {0};
  copy.bytes = 16;
  plan::GraphTask& task = graph.tasks[2];
  task.name = "p";
  task.kind = plan::GraphTaskKind::cpu;
  task.after = {0, 1};
  task.work_us = 1;
  return graph;
}

TEST(GraphWork, HasTheShapeOfTheProblem) {
  const exec::TaskGraph made = graph_of(graph(), hw::generic_topology(2, 4), nullptr);
  ASSERT_EQ(made.tasks().size(), 3u);
  const auto& kernel = std::get<exec::LaneWork>(made.tasks()[0].work);
  EXPECT_EQ(kernel.units, 4);  // half of 8
  EXPECT_EQ(kernel.groups, 3);
  EXPECT_FALSE(kernel.run);  // nothing to run without a clock
  EXPECT_THAT(made.tasks()[2].after, ElementsAre(0, 1));
  EXPECT_THAT(*made.order(), ElementsAre(0, 1, 2));
}

TEST(GraphWork, CanBeRunWithAClock) {
  RealClock clock;
  const exec::TaskGraph made = graph_of(graph(), hw::generic_topology(2, 4), &clock);
  std::get<exec::LaneWork>(made.tasks()[0].work).run(2);
  std::get<exec::CpuWork>(made.tasks()[1].work).run();
  std::get<exec::CpuWork>(made.tasks()[2].work).run();
}

TEST(GraphWork, TellsWhatRan) {
  exec::GraphRun run;
  run.tasks = {{.begin_ns = 1, .end_ns = 5, .mask = 0b11, .lane = 2, .thread = -1},
               {.begin_ns = 5, .end_ns = 9, .mask = {}, .lane = -1, .thread = 0}};
  run.dependencies = {.skipped = 1, .on_device = 2, .on_host = 3};
  run.lanes = 4;
  const plan::GraphRun told_run = told(run, "cpu_mask", hw::generic_topology(1, 2), 7);
  EXPECT_EQ(told_run.driver, "cpu_mask");
  EXPECT_EQ(told_run.threads, 7);
  EXPECT_EQ(told_run.lanes, 4);
  EXPECT_EQ(told_run.waits, (plan::GraphWaits{1, 2, 3}));
  EXPECT_THAT(told_run.tasks, ElementsAre(plan::GraphTaskRun{1, 5, 0b11, 2, -1},
                                          plan::GraphTaskRun{5, 9, {}, -1, 0}));
}

}  // namespace
}  // namespace partita::carry
