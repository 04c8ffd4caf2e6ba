// The examples of docs/formats.md about nodes are read as a user would have them read.
#include <gtest/gtest.h>

#include "base/source_text.h"
#include "device/adaptors.h"
#include "device/node_forms.h"

namespace partita::device {
namespace {

// The first JSON block below a heading.
std::string example(const std::string& heading) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```json\n";
  const auto begin = text.find(open, text.find("\n## " + heading + "\n"));
  if (begin == text.npos) return "";
  return text.substr(begin + open.size(), text.find("```\n", begin + 1) - begin - open.size());
}

TEST(FormatsDoc, NodeStateExampleIsRead) {
  const auto read = parse_state("formats.md", example("Node state"));
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->state.gpus.size(), 2U);
  const GpuState& first = read->state.gpus[0];
  EXPECT_EQ(first.instances.at(0).profile, "1g.10gb");  // sorted by start
  EXPECT_FALSE(first.instances[0].whole());
  EXPECT_TRUE(first.instances.at(1).busy());
  EXPECT_EQ(read->occupants.at("MIG-77e0"), (Occupant{"chat", 8, 2}));
  EXPECT_TRUE(read->state.gpus[1].instances.at(0).whole());
}

TEST(FormatsDoc, RecordingExampleIsRead) {
  const auto driver = replay("formats.md", example("Recording"));
  ASSERT_TRUE(driver) << to_string(driver.error());
  EXPECT_EQ((*driver)->info().value_or(DriverInfo{}).gpus, 2);
  EXPECT_EQ((*driver)->read(0).value_or(GpuState{}).memory, Mib{24576});
  EXPECT_EQ((*driver)->profiles(0)->at(0).sms, 56);
  EXPECT_EQ((*driver)->read(1).error(), (Error{ErrorCode::denied, "no permission", "read(gpu 1)"}));
}

}  // namespace
}  // namespace partita::device
