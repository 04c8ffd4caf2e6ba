// Plans of shares: as JSON there and back, as text and as a picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forms/serving_forms.h"
#include "hw/catalogue.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;
using testing::Not;

ServingPlan shared_plan() {
  ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  plan.planner = "gpulet";
  plan.rule = {SloRule::Kind::execution, 0.5};
  plan.gpus = {{0,
                "A100-80GB",
                {{"7g.80gb", 0, "chat", 8, 1, Rps{100}, Millis{80}, 20},
                 {"7g.80gb", 0, "search", 16, 1, Rps{400}, Millis{40}, 57.5}}}};
  plan.services = {
      {{.name = "chat", .rate = Rps{90}, .slo = Millis{200}}, Rps{100}, Millis{80}},
      {{.name = "search", .rate = Rps{390}, .slo = Millis{200}}, Rps{400}, Millis{40}}};
  plan.objective.gpus = 1;
  plan.objective.gpcs = 7;
  return plan;
}

TEST(SharesForms, JsonReadsBackAndLeavesTheKeyOutForMigInstances) {
  const std::string json = plan_json(shared_plan());
  EXPECT_THAT(json, HasSubstr("\"share_percent\": 57.5"));
  EXPECT_EQ(*parse_plan("plan.json", json), shared_plan());
  ServingPlan mig = shared_plan();
  mig.gpus[0].instances = {{"7g.80gb", 0, "chat", 8, 1, Rps{100}, Millis{80}}};
  EXPECT_THAT(plan_json(mig), Not(HasSubstr("share_percent")));
}

TEST(SharesForms, AGpuThatIsSharedCountsWholeWhereNothingIsStated) {
  std::string json = plan_json(shared_plan());
  const std::size_t from = json.find("  \"objective\"");
  json.erase(from, json.find('\n', from) + 1 - from);
  const auto read = parse_plan("plan.json", json);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->objective.gpus, 1);
  EXPECT_EQ(read->objective.gpcs, 7);
}

TEST(SharesForms, TextShowsSharesSideBySide) {
  PictureOptions options;
  options.width = 100;
  const std::string text = plan_text(shared_plan(), hw::builtin_catalogue(), options);
  EXPECT_THAT(text, HasSubstr("shared whole, without MIG"));
  EXPECT_THAT(text, HasSubstr("search 57.5% b16×1"));
  EXPECT_THAT(text, HasSubstr("1: 1 × 20%"));
  EXPECT_THAT(text, HasSubstr("without what neighbours do to one another"));
  EXPECT_THAT(text, Not(HasSubstr("7g.80gb")));
}

TEST(SharesForms, ThePictureHasPercents) {
  const std::string svg = plan_svg(shared_plan(), hw::builtin_catalogue());
  EXPECT_THAT(svg, HasSubstr("57.5% · b16×1"));
  EXPECT_THAT(svg, HasSubstr("20% of it under MPS, without MIG"));
  EXPECT_THAT(svg, HasSubstr(">90</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("memory slice")));
}

}  // namespace
}  // namespace partita::forms
