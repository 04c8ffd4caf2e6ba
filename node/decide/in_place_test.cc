// Plans with groups of GPUs on what runs: what stays, by hand, and after a GPU is gone.
#include "decide/in_place.h"

#include <gtest/gtest.h>

namespace partita::decide {
namespace {

plan::PlannedGpu on(int index, const std::string& service, int group, int batch = 4) {
  plan::PlannedInstance one;
  one.profile = group > 1 ? "7g.80gb" : "3g.40gb";
  one.service = service;
  one.batch = batch;
  one.processes = 1;
  one.group = group;
  return {index, "H100-80GB-SXM5", {one}};
}

plan::ServingPlan plan_of(std::vector<plan::PlannedGpu> gpus) {
  plan::ServingPlan plan;
  plan.gpu_model = "H100-80GB-SXM5";
  plan.gpus = std::move(gpus);
  return plan;
}

TEST(InPlace, GroupsStayWhereTheyRun) {
  const auto current = plan_of({on(0, "small", 1),
                                on(1, "large", 2),
                                on(2, "large", 2),
                                on(3, "huge", 2),
                                on(4, "huge", 2),
                                {5, "H100-80GB-SXM5", {}}});
  const auto next = plan_of({on(0, "huge", 2), on(1, "huge", 2), on(2, "large", 2),
                             on(3, "large", 2), on(4, "small", 1)});
  EXPECT_EQ(in_place_of(current, next).gpus,
            (std::vector{on(0, "small", 1), on(1, "large", 2), on(2, "large", 2), on(3, "huge", 2),
                         on(4, "huge", 2)}));
}

// GPU 1 of the group on 0 and 1 is gone, which its caller has taken out of what runs.
TEST(InPlace, ALostGroupTakesOtherGpusAndTheWholeOneStays) {
  const plan::PlannedGpu none{0, "H100-80GB-SXM5", {}}, spare{4, "H100-80GB-SXM5", {}},
      other{5, "H100-80GB-SXM5", {}};
  const auto current = plan_of({none, on(2, "large", 2), on(3, "large", 2), spare, other});
  const auto next =
      plan_of({on(0, "large", 2), on(1, "large", 2), on(2, "large", 2), on(3, "large", 2)});
  EXPECT_EQ(in_place_of(current, next).gpus, (std::vector{on(2, "large", 2), on(3, "large", 2),
                                                          on(4, "large", 2), on(5, "large", 2)}));
}

// Nothing may lie between the GPUs of a group: rather all begin anew.
TEST(InPlace, WhereThereIsNoRoomInARowAllMove) {
  const plan::PlannedGpu none{0, "H100-80GB-SXM5", {}}, spare{4, "H100-80GB-SXM5", {}};
  const auto current = plan_of({none, on(2, "large", 2), on(3, "large", 2), spare});
  const auto next =
      plan_of({on(0, "large", 2), on(1, "large", 2), on(2, "large", 2), on(3, "large", 2)});
  EXPECT_EQ(in_place_of(current, next).gpus, (std::vector{on(0, "large", 2), on(2, "large", 2),
                                                          on(3, "large", 2), on(4, "large", 2)}));
}

TEST(InPlace, MoreGpusThanThereAreGetNewNumbers) {
  const auto current = plan_of({on(3, "small", 1)});
  const auto next = plan_of({on(0, "large", 2), on(1, "large", 2), on(2, "small", 1)});
  EXPECT_EQ(in_place_of(current, next).gpus,
            (std::vector{on(3, "small", 1), on(4, "large", 2), on(5, "large", 2)}));
}

}  // namespace
}  // namespace partita::decide
