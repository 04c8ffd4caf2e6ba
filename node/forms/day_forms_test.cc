#include "forms/day_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

// Four GPUs from 06:00 to 18:00 and two at night; five for the peak.
plan::DayPlan two_periods() {
  plan::DayPlan day;
  day.periods.resize(2);
  day.periods[0] = {360, 1080, Rps{1500}, {}};
  day.periods[1] = {1080, 360, Rps{400}, {}};
  day.periods[0].plan.objective.gpus = 4;
  day.periods[1].plan.objective.gpus = 2;
  day.changes = {{360, {3, 0, 1, 4, 0}, 2, 5}, {1080, {3, 1, 0, 0, 5}, 0, 4}};
  day.change_time = Seconds{300};
  day.peak_gpus = 5;
  day.peak_optimal = true;
  day.gpu_hours = 72.5;
  day.peak_gpu_hours = 120;
  return day;
}

TEST(DayText, ShowsTheDay) {
  // Wide enough for a column per hour.
  const std::string chart =
      "GPUs over the day (dots: a plan for the peak)\n"
      "     5 ························\n"
      "     4 ······████████████······\n"
      "     3 ······████████████······\n"
      "     2 ████████████████████████\n"
      "     1 ████████████████████████\n"
      "       00:00 06:00 12:00 18:00\n";
  const std::string text = day_text(two_periods(), 40);
  EXPECT_EQ(text.substr(0, chart.size()), chart) << text;
  EXPECT_THAT(text, HasSubstr("72.5 GPU-hours a day, 0.60 of the 120.0 for the peak (5 GPUs, "
                              "optimal); 7 instances created and 1 restarted a day\n"));
  EXPECT_THAT(text, HasSubstr("a change takes 300 s before the rates change"));
}

TEST(DayText, ADayOfOnePeriodHasNoChanges) {
  plan::DayPlan day = two_periods();
  day.periods = {{0, 0, Rps{3}, {}}};
  day.changes.clear();
  const std::string text = day_text(day, 100);
  EXPECT_EQ(text.find("STAND-INS"), text.npos);
  EXPECT_EQ(text.find("a change takes"), text.npos);
}

TEST(DaySvg, IsWellFormedAndDrawsEveryStretch) {
  const std::string svg = day_svg(two_periods());
  EXPECT_EQ(XmlCheck(svg).run(), "");
  // The night is drawn before 06:00 and after 18:00.
  std::size_t stretches = 0;
  for (std::size_t at = 0; (at = svg.find("<title>18:00 to 06:00: 2 GPUs", at)) != svg.npos; ++at)
    ++stretches;
  EXPECT_EQ(stretches, 2u);
  EXPECT_THAT(svg, HasSubstr("<title>06:00 to 18:00: 4 GPUs, 0 GPCs, 1500 req/s</title>"));
  EXPECT_THAT(svg, HasSubstr("2 stand-ins, 5 GPUs meanwhile"));
  EXPECT_EQ(XmlCheck(day_svg(plan::DayPlan{{plan::DayPeriod{}}, {}, {}, 0, false, 0, 0})).run(),
            "");
}

}  // namespace
}  // namespace partita::forms
