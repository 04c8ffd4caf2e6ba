#include "forms/tariff_reader.h"

#include <gtest/gtest.h>

namespace partita::forms {
namespace {

std::string fault(const std::string& text) {
  const auto tariff = parse_tariff("t.csv", text);
  return tariff ? "accepted" : to_string(tariff.error());
}

std::string day(const std::string& zone) {
  std::string text = "hour,co2_g_per_kwh\n";
  for (int hour = 0; hour < 24; ++hour)
    text += std::string(hour < 10 ? "0" : "") + std::to_string(hour) + ":00" + zone + "," +
            std::to_string(100 + hour) + "\n";
  return text;
}

TEST(TariffReader, DatesAndDays) {
  const auto dated =
      parse_tariff("t.csv",
                   "hour,price_per_kwh,co2_g_per_kwh\n"
                   "2026-11-27T13:00Z,0.25,310\n2026-11-27T14:00Z,-0.01,90\n");
  ASSERT_TRUE(dated) << to_string(dated.error());
  EXPECT_EQ(dated->from_s, 1'795'784'400);
  EXPECT_FALSE(dated->daily);
  EXPECT_EQ(dated->hours, (std::vector<plan::EnergyRate>{{0.25, 310}, {-0.01, 90}}));
  const auto daily = parse_tariff("t.csv", day("+02:00"));
  ASSERT_TRUE(daily) << to_string(daily.error());
  EXPECT_TRUE(daily->daily);
  // 22:00 UTC is midnight there.
  EXPECT_EQ(plan::rate_at(*daily, 1'795'816'800)->co2_g, 100);
  EXPECT_EQ(daily->hours[0].price, std::nullopt);
}

// The clock of Berlin is set back at 03:00 on 25 October 2026: 02:00 comes twice. It is set forward
// at 02:00 on 28 March 2027: 02:00 does not come.
TEST(TariffReader, DaylightSaving) {
  const auto autumn = parse_tariff("t.csv",
                                   "hour,price_per_kwh\n2026-10-25T01:00+02:00,1\n"
                                   "2026-10-25T02:00+02:00,2\n2026-10-25T02:00+01:00,3\n"
                                   "2026-10-25T03:00+01:00,4\n");
  ASSERT_TRUE(autumn) << to_string(autumn.error());
  EXPECT_EQ(plan::rate_at(*autumn, 1'792'890'000 + 1800)->price, 3);  // 01:30 UTC
  EXPECT_TRUE(parse_tariff("t.csv",
                           "hour,price_per_kwh\n2027-03-28T01:00+01:00,1\n"
                           "2027-03-28T03:00+02:00,2\n"));
  EXPECT_EQ(fault("hour,price_per_kwh\n2027-03-28T01:00+01:00,1\n2027-03-28T02:00+02:00,2\n"),
            "t.csv:3: 'hour' is 2027-03-28T02:00+02:00, and the row before it begins at "
            "2027-03-28 00:00 UTC: hours ascend, each once");
}

TEST(TariffReader, RefusesWithTheLine) {
  const std::string head = "hour,price_per_kwh\n";
  EXPECT_EQ(fault(head + "2026-11-27T13:00,1\n"),
            "t.csv:2: 'hour' is '2026-11-27T13:00', must be as 2026-11-27T13:00Z, "
            "2026-11-27T13:00+01:00, or every day 13:00Z or 13:00+01:00");
  EXPECT_EQ(fault(head + "2026-11-27T13:00Z,1\n2026-11-27T15:00Z,1\n"),
            "t.csv:3: 'hour' is 2026-11-27T15:00Z, and the row before it begins at 2026-11-27 "
            "13:00 UTC: an hour is missing in between");
  EXPECT_EQ(fault(head + "2026-02-29T13:00Z,1\n").substr(0, 8), "t.csv:2:");
  EXPECT_EQ(fault(head + "2026-11-27T13:00Z,\n").substr(0, 8), "t.csv:2:");
  EXPECT_EQ(fault(head + "2026-11-27T13:00Z,1\n14:00Z,1\n"),
            "t.csv:3: 'hour' has a date in all rows or in none");
  EXPECT_EQ(fault(head + "00:00Z,1\n01:00Z,1\n"),
            "t.csv: a day that comes again has 24 rows, not 2");
  EXPECT_EQ(fault("hour\n00:00Z\n"), "t.csv:1: needs a column price_per_kwh or co2_g_per_kwh");
  EXPECT_EQ(fault("hour,co2_g_per_kwh\n2026-11-27T13:00Z,-1\n").substr(0, 8), "t.csv:2:");
  std::string mixed = day("+02:00");
  mixed.replace(mixed.find("10:00+02:00"), 11, "11:00+03:00");
  EXPECT_EQ(fault(mixed),
            "t.csv:12: a day that comes again has one distance to UTC; write dates where it "
            "changes");
}

}  // namespace
}  // namespace partita::forms
