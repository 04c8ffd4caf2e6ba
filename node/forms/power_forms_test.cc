#include "forms/power_forms.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/split.h"
#include "forms/power_picture.h"
#include "forms/testing/xml_check.h"
#include "plan/testing/random_power.h"

namespace partita::forms {
namespace {

const TableOf kGpu{"2x3", {3, 3}};

// Lines 1 to 8 of a table that is right.
std::vector<std::string> lines() {
  return {"model,clock_mhz,units,batch,p95_ms,max_rps,power_w",
          "-,0,0,0,0,0,10",
          "-,500,0,0,0,0,20",
          "-,1000,0,0,0,0,40",
          "m,500,3,1,20,50,45",
          "m,500,3,2,32,62.5,47",
          "m,1000,3,1,10,100,60",
          "m,1000,3,2,16,125,64"};
}

std::string text_of(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

TEST(PowerTable, IsWhatItsRowsSay) {
  const auto table = parse_power_table("t.csv", text_of(lines()), kGpu);
  ASSERT_TRUE(table) << to_string(table.error());
  EXPECT_EQ(table->idle, Watts{10});
  EXPECT_EQ(table->units(), 6);
  EXPECT_FALSE(table->modelled);
  ASSERT_EQ(table->clocks.size(), 2u);
  EXPECT_DOUBLE_EQ(table->unit_idle(1).value, 5);
  const plan::PowerPoint last{{1000}, 3, 2, {16}, {125}, {64}};
  EXPECT_EQ(table->find("m")->points.back(), last);
}

TEST(PowerTable, ReadsBackAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    plan::ResponseTable table = plan::random_power_table(rng);
    table.source = seed % 2 == 0 ? "" : "modelled: at random";
    table.modelled = seed % 2 == 1;
    const auto read = parse_power_table("t.csv", power_table_csv(table), kGpu);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(*read, table);
  }
}

// Line (from 1), what stands there instead, and a word of the refusal.
struct WrongLine {
  std::size_t line;
  std::string text, word;
};

TEST(PowerTable, RefusesWhatPhysicsDeniesByLine) {
  const WrongLine wrong[] = {{7, "m,1000,3,1,10,100,44", "power falls with the clock"},
                             {5, "m,500,3,1,20,50,19", "the board without work takes 20"},
                             {7, "m,1000,3,1,25,40,60", "grows with the clock"},
                             {7, "m,1000,3,1,0.010,100,60", "another unit"},
                             {7, "m,1000,3,1,10,100,-60", "power_w"},
                             {7, "m,1000,3,1,0,100,60", "p95_ms"},
                             {7, "m,1000,7,1,10,100,60", "units"},
                             {7, "m,1000,2.5,1,10,100,60", "whole numbers"},
                             {7, "m,1000,3,1,17,100,60", "a larger batch"},
                             {7, "m,700,3,1,10,100,60", "700 MHz has no row"},
                             {7, "m,500,3,1,20,50,45", "twice"},
                             {4, "-,1000,0,0,0,0,19", "less than 20 W at a lower clock"},
                             {4, "-,1000,3,0,0,0,40", "units"},
                             {4, "-,500,0,0,0,0,20", "twice"}};
  for (const WrongLine& one : wrong) {
    std::vector<std::string> all = lines();
    all[one.line - 1] = one.text;
    const auto table = parse_power_table("t.csv", text_of(all), kGpu);
    ASSERT_FALSE(table) << one.text;
    EXPECT_NE(table.error().message.find(one.word), std::string::npos)
        << one.text << ": " << to_string(table.error());
    EXPECT_TRUE(table.error().context.starts_with("t.csv:")) << to_string(table.error());
  }
}

TEST(PowerTable, RefusesHolesAndMissingRows) {
  std::vector<std::string> all = lines();
  all.pop_back();
  auto table = parse_power_table("t.csv", text_of(all), kGpu);
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().message.find("a table has no holes"), std::string::npos);
  all = lines();
  all.erase(all.begin() + 1);
  table = parse_power_table("t.csv", text_of(all), kGpu);
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().message.find("at rest"), std::string::npos);
  all = lines();
  all.resize(4);
  table = parse_power_table("t.csv", text_of(all), kGpu);
  ASSERT_FALSE(table);
  EXPECT_EQ(to_string(table.error()), "t.csv: no model");
}

TEST(PowerPicture, IsWellFormedWhateverItSays) {
  PowerPicture picture{"<&> \"", "sub", 1, {{"a<b", {1, 2, 3}}, {"none", {}}}, {5, 0, 1}};
  EXPECT_EQ(XmlCheck(power_svg(picture)).run(), "");
  EXPECT_EQ(XmlCheck(power_svg({})).run(), "");
  picture.curves[0].watts.assign(100'000, 50);
  EXPECT_LT(power_svg(picture).size(), 100'000u);
}

}  // namespace
}  // namespace partita::forms
