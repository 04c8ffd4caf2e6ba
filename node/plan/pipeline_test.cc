#include "plan/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/terms.h"

namespace partita::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PipelineStep step(const std::string& service, const std::string& from, const std::string& to,
                  double fan_out = 1) {
  return {service, {{"x", from}}, {{"y", to}}, fan_out};
}

TEST(Pipeline, IsOrderedByWhatStepsRead) {
  const auto graph =
      graph_of({{step("last", "b", "c"), step("first", "in", "a"), step("many", "a", "b", 4)}});
  ASSERT_TRUE(graph);
  EXPECT_THAT(graph->order, ElementsAre(1, 2, 0));
  EXPECT_THAT(graph->after[0], ElementsAre(2));
  EXPECT_THAT(graph->requests, ElementsAre(4, 1, 4));
  EXPECT_THAT(graph->group, ElementsAre(2, 3, 2));
}

TEST(Pipeline, RefusesWhatIsNoGraph) {
  const auto why = [](const PipelineTerms& pipeline) {
    const auto graph = graph_of(pipeline);
    return graph ? "" : graph.error().message;
  };
  EXPECT_THAT(why({}), HasSubstr("needs steps"));
  EXPECT_THAT(why({{step("a", "y", "x"), step("b", "x", "y")}}), HasSubstr("a cycle"));
  EXPECT_THAT(why({{step("a", "x", "x")}}), HasSubstr("a cycle"));
  EXPECT_THAT(why({{step("a", "in", "x"), step("b", "in", "x")}}), HasSubstr("both write"));
  EXPECT_THAT(why({{{"a", {}, {{"y", "x"}}}}}), HasSubstr("input_map"));
  EXPECT_THAT(why({{step("a", "in", "x", 2), step("b", "x", "y", 2)}}), HasSubstr("fans out"));
  PipelineStep mixed = step("b", "x", "y");
  mixed.inputs["z"] = "in";
  EXPECT_THAT(why({{step("a", "in", "x", 2), mixed}}), HasSubstr("not as many"));
}

TEST(Pipeline, AsksItsStepsAsOftenAsTheyFanOut) {
  Terms one{.name = "one", .rate = Rps{10}};
  one.pipeline = {{step("a", "in", "x"), step("b", "x", "y", 3)}};
  Terms other = one;
  other.name = "other";
  other.pipeline = {{step("b", "in", "x"), step("b", "x", "y")}};
  EXPECT_DOUBLE_EQ(rate_from_pipelines({one, other}, "a").value, 10);
  EXPECT_DOUBLE_EQ(rate_from_pipelines({one, other}, "b").value, 50);
}

TEST(Pipeline, DiffersInItsGraphNotInItsShares) {
  Terms one{.name = "one", .rate = Rps{10}};
  one.pipeline = {{step("a", "in", "x")}};
  Terms other = one;
  other.pipeline->steps[0].share = Millis{5};
  EXPECT_TRUE(differences(one, other).empty());
  other.pipeline->steps[0].fan_out = 2;
  ASSERT_EQ(differences(one, other).size(), 1u);
  EXPECT_EQ(differences(one, other)[0].term, "pipeline");
}

}  // namespace
}  // namespace partita::plan
