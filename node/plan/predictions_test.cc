#include "plan/predictions.h"

#include <gtest/gtest.h>

#include "hw/catalogue.h"
#include "plan/digest.h"

namespace partita::plan {
namespace {

// Model `lm` was measured with batches of one; a law gave batches of four and all of the H100's.
ServingProblem half_measured() {
  ServingProblem problem;
  for (const char* name : {"small", "large", "other"}) {
    problem.services.emplace_back();
    problem.services.back().name = name;
    problem.services.back().model = problem.services.size() == 3 ? "seen" : "lm";
  }
  profile::ProfileTable a100, h100;
  a100["lm"] = {"lm",
                {{1, 1, 1, Rps{10}, Millis{100}, {}, {}},
                 {1, 4, 1, Rps{20}, Millis{200}, {}, "A100-80GB"},
                 {1, 8, 1, Rps{20}, Millis{400}, {}, {}},
                 {2, 8, 1, Rps{20}, Millis{400}, {}, {}}}};
  a100["seen"] = {"seen", {{1, 4, 1, Rps{20}, Millis{200}, {}, {}}}};
  h100["lm"] = {"lm", {{1, 1, 1, Rps{10}, Millis{100}, {}, "A100-80GB"}}};
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  problem.fleet = {{*catalogue.find("A100-80GB"), a100, std::nullopt, 1},
                   {*catalogue.find("H100-80GB-SXM5"), h100, std::nullopt, 1}};
  return problem;
}

PlannedInstance instance(const char* profile, int start, const char* service, int batch) {
  return {profile, start, service, batch, 1, Rps{10}, Millis{100}};
}

ServingPlan plan_of(std::vector<PlannedGpu> gpus) {
  ServingPlan plan;
  plan.gpus = std::move(gpus);
  for (const char* name : {"small", "large", "other"})
    plan.services.push_back({{.name = name, .rate = Rps{1}, .slo = Millis{1}}, Rps{1}, Millis{1}});
  return plan;
}

TEST(Predictions, MarkAnInstanceWhenABatchOfItsCurveIsPredicted) {
  const auto marked = [](const char* profile, const char* service, int batch) {
    const ServingPlan plan = with_predictions(
        half_measured(), plan_of({{0, "A100-80GB", {instance(profile, 0, service, batch)}}}));
    const PlannedInstance& one = plan.gpus[0].instances[0];
    EXPECT_EQ(one.learned_on, one.predicted ? "A100-80GB" : "");
    for (const PlannedService& s : plan.services)
      EXPECT_EQ(s.predicted, s.name == service && one.predicted);
    return one.predicted;
  };
  EXPECT_FALSE(marked("1g.10gb", "small", 1));
  EXPECT_TRUE(marked("1g.10gb", "small", 4));
  EXPECT_TRUE(marked("1g.10gb", "small", 8));   // a batch of three runs as one of four
  EXPECT_FALSE(marked("2g.20gb", "small", 8));  // another size
  EXPECT_FALSE(marked("1g.10gb", "other", 4));  // another model
  EXPECT_FALSE(marked("9g.99gb", "small", 4));
  EXPECT_FALSE(marked("1g.10gb", "stranger", 4));
}

TEST(Predictions, ReplaceMarksThatLie) {
  ServingPlan plan = plan_of({{0, "A100-80GB", {instance("1g.10gb", 0, "small", 1)}}});
  plan.gpus[0].instances[0].predicted = plan.services[0].predicted = true;
  plan.gpus[0].instances[0].learned_on = "A30-24GB";
  plan = with_predictions(half_measured(), std::move(plan));
  EXPECT_FALSE(plan.gpus[0].instances[0].predicted);
  EXPECT_EQ(plan.gpus[0].instances[0].learned_on, "");
  EXPECT_FALSE(plan.services[0].predicted);
  EXPECT_EQ(predictions_text(plan), "");
}

TEST(Predictions, AreSaidWithTheGpuOnWhichTheLawWasLearned) {
  ServingPlan plan = with_predictions(
      half_measured(), plan_of({{0, "A100-80GB", {instance("1g.10gb", 0, "small", 4)}}}));
  EXPECT_EQ(predictions_text(plan),
            "1 of 3 services rest on predictions, not on measurements: small; by laws learned on "
            "A100-80GB");
  plan = with_predictions(half_measured(),
                          plan_of({{0, "A100-80GB", {instance("1g.10gb", 0, "small", 4)}},
                                   {1, "H100-80GB-SXM5", {instance("1g.10gb", 0, "large", 1)}}}));
  EXPECT_EQ(
      predictions_text(plan),
      "2 of 3 services rest on predictions, not on measurements: small, large; by laws learned "
      "on A100-80GB, not on H100-80GB-SXM5: measure there before you rely on it");
}

TEST(Predictions, AreAnotherProblemThanMeasurements) {
  ServingProblem problem = half_measured();
  const std::string before = digest(problem);
  problem.fleet[0].profiles["lm"].points[0].learned_on = "";
  const std::string predicted = digest(problem);
  problem.fleet[0].profiles["lm"].points[0].learned_on = "A30-24GB";
  EXPECT_NE(before, predicted);
  EXPECT_NE(digest(problem), predicted);
  EXPECT_NE(digest(problem), before);
}

}  // namespace
}  // namespace partita::plan
