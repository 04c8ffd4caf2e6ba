#include "llm/law_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/source_text.h"

namespace partita::llm {
namespace {

std::vector<Measured> published() {
  return *parse_points("measured.csv", source_text("data/published/llm/measured.csv"));
}

// The bounds are what was reached, rounded up (docs/llm.md): a law that got worse fails here.
TEST(LawReport, PublishedPointsAreSaidWithinTheStatedErrors) {
  const auto seen = law_report(published(), LeftOut::nothing);
  const auto unseen = law_report(published(), LeftOut::concurrency);
  ASSERT_TRUE(seen && unseen);
  EXPECT_EQ(unseen->configurations, 79);
  EXPECT_EQ(unseen->configurations + unseen->too_small, 249);
  EXPECT_LT(seen->tpot_error_mean, 0.025);
  EXPECT_LT(seen->ttft_error_mean, 0.10);
  EXPECT_LT(unseen->tpot_error_mean, 0.04);
  EXPECT_LT(unseen->ttft_error_mean, 0.12);
}

// What the report counts, done once more by hand for the shape left out.
TEST(LawReport, LeavesOutWhatItSays) {
  std::vector<Measured> all;
  for (const Measured& one : published())
    if (one.shapes() >= kFewestShapes && one.points.size() >= 12 && all.size() < 3)
      all.push_back(one);
  const auto report = law_report(all, LeftOut::shape);
  ASSERT_TRUE(report);
  double tpot_mean = 0, ttft_mean = 0;
  for (const Measured& one : all) {
    double tpot = 0, ttft = 0;
    for (const Point& asked : one.points) {
      std::vector<Point> told;
      for (const Point& point : one.points)
        if (point.shape != asked.shape) told.push_back(point);
      const Expected e =
          expect(*learn({one.configuration, told}, kin_of(all)), asked.shape, asked.concurrency);
      tpot += std::abs(e.tpot.value - asked.tpot.value) / asked.tpot.value;
      ttft += std::abs(e.ttft.value - asked.ttft.value) / asked.ttft.value;
    }
    tpot_mean += tpot / static_cast<double>(one.points.size()) / 3;
    ttft_mean += ttft / static_cast<double>(one.points.size()) / 3;
  }
  EXPECT_NEAR(report->tpot_error_mean, tpot_mean, 1e-9);
  EXPECT_NEAR(report->ttft_error_mean, ttft_mean, 1e-9);
  for (const ConfigurationErrors& one : report->by_configuration) {
    EXPECT_EQ(one.predicted, one.points);
    EXPECT_EQ(one.outside, one.points) << "each corner of a triangle is outside of the other two";
  }
}

TEST(LawReport, RefusesWhatIsTooLittleOrTooMuch) {
  Measured one;
  one.configuration.model = "m";
  for (int i = 0; i < 12; ++i)
    one.points.push_back({{100 + i % 2, 100}, 1.0 + i, Millis{50}, Millis{10}});
  const auto few = law_report({one}, LeftOut::nothing);
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().message.find("3 shapes and 12 points"), std::string::npos);
  one.points.push_back({{100, 200}, 1, Millis{50}, Millis{10}});
  EXPECT_TRUE(law_report({one}, LeftOut::nothing));
  one.points.resize(kMostPoints + 1, one.points.front());
  const auto many = law_report({one}, LeftOut::nothing);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().context, "m");
}

TEST(LawReport, ItsFormSurvivesAndIsDescribed) {
  LawReport report;
  report.left_out = LeftOut::shape;
  report.configurations = 1;
  report.too_small = 4;
  report.tpot_error_mean = report.tpot_error_median = 0.03125;
  report.ttft_error_mean = report.ttft_error_median = 0.125;
  ConfigurationErrors one;
  one.configuration = "m fp8";
  one.shapes = 3;
  one.points = one.predicted = 15;
  one.outside = 5;
  one.tpot_error = 0.03125;
  one.ttft_error = 0.125;
  one.cache_tokens = 65536;
  report.by_configuration = {one};
  const std::string json = law_report_json(report);
  const auto again = parse_law_report("r.json", json);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, report);
  EXPECT_NE(law_report_text(report).find("TPOT 3.1 % (median 3.1)"), std::string::npos)
      << law_report_text(report);
}

}  // namespace
}  // namespace partita::llm
