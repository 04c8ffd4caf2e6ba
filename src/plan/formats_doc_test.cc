// The examples in docs/formats.md are read as a user would have them read.
#include <gtest/gtest.h>

#include "base/files.h"
#include "plan/serving_forms.h"

namespace partita::plan {
namespace {

// The first code block in `language`.
std::string example(const std::string& language) {
  RealFiles files;
  const auto text = files.read(PARTITA_SOURCE_DIR "/docs/formats.md");
  if (!text) return to_string(text.error());
  const std::string open = std::string("```") + language + "\n";
  const auto begin = text->find(open);
  if (begin == text->npos) return "";
  return text->substr(begin + open.size(), text->find("```\n", begin + 1) - begin - open.size());
}

TEST(FormatsDoc, ServicesExampleIsRead) {
  const auto services = parse_services("formats.md", example("yaml"));
  ASSERT_TRUE(services) << to_string(services.error());
  ASSERT_EQ(services->size(), 2U);
  EXPECT_EQ(services->at(1).avoid, std::vector<std::string>{"chat"});
  EXPECT_EQ(services->at(1).percentile, 95);
}

TEST(FormatsDoc, PlanExampleIsRead) {
  const auto plan = parse_plan("formats.md", example("json"));
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->gpus.at(0).instances.at(1).service, "search");
  EXPECT_TRUE(plan->objective.optimal);
  EXPECT_EQ(plan->stats.nodes, 12);
}

}  // namespace
}  // namespace partita::plan
