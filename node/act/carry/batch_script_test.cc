// And back: what took place. Schedules become scripts in script_test.cc.
#include "act/carry/batch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::carry {
namespace {

using testing::ElementsAre;

TEST(Realised, IsWhatTookPlace) {
  exec::Script script;
  script.gpus = {{.device = 5, .model = "A30-24GB"}};
  script.visits = {{.place = {"2g.12gb", 0}, .size = 2, .tasks = {0, 1}},
                   {.place = {"2g.12gb", 2}, .size = 2}};
  script.gpus[0].changes = {{.visit = 1, .create = true},
                            {.visit = 0, .create = true},
                            {.visit = 0, .create = false},
                            {.visit = 1, .create = false}};
  script.tasks = {{.name = "a"}, {.name = "b"}};
  exec::RunReport report;
  report.tasks = {{.status = exec::TaskStatus::failed, .begin = 20, .end = 30},
                  {.status = exec::TaskStatus::skipped, .begin = 99, .end = 99}};
  report.changes = {{{.status = exec::ChangeStatus::done, .begin = 10, .end = 15},
                     {.status = exec::ChangeStatus::done, .begin = 0, .end = 10},
                     {.status = exec::ChangeStatus::done, .begin = 30, .end = 33},
                     {.status = exec::ChangeStatus::kept}}};
  plan::BatchSchedule planned;
  planned.scheduler = "far";
  planned.gpu_models = {"A30-24GB"};
  planned.lower_bound = 7;

  const plan::BatchSchedule real = realised(script, report, planned);
  EXPECT_EQ(real.scheduler, "far");
  EXPECT_EQ(real.gpu_models, planned.gpu_models);
  EXPECT_EQ(real.makespan, 30);
  EXPECT_EQ(real.lower_bound, 0);  // what is proven of plans says nothing of what happened
  EXPECT_THAT(real.tasks, ElementsAre(plan::ScheduledTask{{"2g.12gb", 0}, 0, "a", 20, 30}));
  using Op = plan::Reconfiguration::Op;
  EXPECT_THAT(real.reconfigurations,
              ElementsAre(plan::Reconfiguration{{"2g.12gb", 0}, 0, Op::create, 0, 10},
                          plan::Reconfiguration{{"2g.12gb", 2}, 0, Op::create, 10, 15},
                          plan::Reconfiguration{{"2g.12gb", 0}, 0, Op::destroy, 30, 33}));
}

}  // namespace
}  // namespace partita::carry
