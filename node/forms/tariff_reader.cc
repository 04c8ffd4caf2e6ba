#include "forms/tariff_reader.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "base/parse_number.h"
#include "forms/clock_time.h"
#include "profile/csv.h"

namespace partita::forms {
namespace {

constexpr std::int64_t kMinuteS = 60, kDayS = 86'400;
constexpr int kMostOffsetMin = 14 * 60, kHoursADay = 24, kFirstYear = 1970, kLastYear = 2200;
constexpr profile::NumberRange kPrices{-1e6, 1e6}, kGrams{0, 1e6};
constexpr char kHourForms[] =
    "2026-11-27T13:00Z, 2026-11-27T13:00+01:00, or every day 13:00Z or 13:00+01:00";

struct Hour {
  std::optional<std::int64_t> day;  // since 1970; none: every day
  int minute = 0;                   // of the local day
  int offset_min = 0;               // east of UTC
  std::int64_t utc_s() const {
    return day.value_or(0) * kDayS + (minute - offset_min) * kMinuteS;
  }
};

// "2026-11-27" as days since 1970.
std::optional<std::int64_t> day_of(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return {};
  const auto year = parse_number<int>(text.substr(0, 4));
  const auto month = parse_number<int>(text.substr(5, 2));
  const auto day = parse_number<int>(text.substr(8, 2));
  if (!year || !month || !day || *year < kFirstYear || *year > kLastYear) return {};
  if (*month < 0 || *day < 0) return {};
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return {};
  return std::chrono::sys_days{date}.time_since_epoch().count();
}

// "Z", "+01:00", "-05:30" as minutes.
std::optional<int> offset_of(std::string_view text) {
  if (text == "Z") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-')) return {};
  const auto minutes = minute_of(text.substr(1));
  if (!minutes || *minutes > kMostOffsetMin) return {};
  return text[0] == '-' ? -*minutes : *minutes;
}

std::optional<Hour> hour_of(std::string_view text) {
  Hour hour;
  if (const std::size_t mark = text.find('T'); mark != text.npos) {
    hour.day = day_of(text.substr(0, mark));
    if (!hour.day) return {};
    text.remove_prefix(mark + 1);
  }
  const auto minute = minute_of(text.substr(0, 5));
  const auto offset = text.size() > 5 ? offset_of(text.substr(5)) : std::nullopt;
  if (!minute || !offset) return {};
  hour.minute = *minute;
  hour.offset_min = *offset;
  return hour;
}

std::string shown(const Hour& hour) {
  return hour.day ? plan::utc_text(static_cast<double>(hour.utc_s()))
                  : fmt::format("{:02}:00", hour.minute / kMinuteS);
}

// Why this row cannot follow the one before it; empty: it can.
std::string out_of_step(const std::string& cell, const Hour& hour, const Hour& before) {
  if (hour.day.has_value() != before.day.has_value())
    return "'hour' has a date in all rows or in none";
  if (!hour.day && hour.offset_min != before.offset_min)
    return "a day that comes again has one distance to UTC; write dates where it changes";
  const std::int64_t step = hour.utc_s() - before.utc_s();
  if (step == plan::kHourS) return {};
  return fmt::format("'hour' is {}, and the row before it begins at {}: {}", cell, shown(before),
                     step <= 0 ? "hours ascend, each once" : "an hour is missing in between");
}

Result<plan::EnergyRate> rate_of(const profile::Csv& csv, const profile::CsvRow& row) {
  plan::EnergyRate rate;
  const auto read = [&](std::string_view name, profile::NumberRange range,
                        std::optional<double>& into) -> Result<void> {
    const int column = csv.column(name);
    if (column < 0) return {};
    into = TRY(profile::csv_number(csv, row, column, range));
    return {};
  };
  TRY(read("price_per_kwh", kPrices, rate.price));
  TRY(read("co2_g_per_kwh", kGrams, rate.co2_g));
  return rate;
}

}  // namespace

Result<plan::Tariff> parse_tariff(const std::string& file, std::string_view text) {
  const auto csv = TRY(profile::parse_csv(file, text));
  if (auto fine = profile::require_columns(csv, {"hour"}, {"price_per_kwh", "co2_g_per_kwh"});
      !fine)
    return failed(fine.error());
  if (csv.header.cells.size() < 2)
    return bad_input(csv.at(csv.header), "needs a column price_per_kwh or co2_g_per_kwh");
  if (csv.rows.size() > plan::kMostTariffHours)
    return bad_input(file, fmt::format("has {} rows, at most {} are read", csv.rows.size(),
                                       plan::kMostTariffHours));
  plan::Tariff tariff;
  std::optional<Hour> before;
  for (const profile::CsvRow& row : csv.rows) {
    const std::string& cell = row.cells[static_cast<std::size_t>(csv.column("hour"))];
    const auto hour = hour_of(cell);
    if (!hour)
      return bad_input(csv.at(row), fmt::format("'hour' is '{}', must be as {}", cell, kHourForms));
    if (before)
      if (const std::string why = out_of_step(cell, *hour, *before); !why.empty())
        return bad_input(csv.at(row), why);
    if (!before) tariff.from_s = hour->utc_s();
    auto rate = TRY(rate_of(csv, row));
    tariff.hours.push_back(rate);
    before = hour;
  }
  tariff.daily = !before->day;
  if (tariff.daily && tariff.hours.size() != kHoursADay)
    return bad_input(file, fmt::format("a day that comes again has 24 rows, not {}",
                                       tariff.hours.size()));
  return tariff;
}

}  // namespace partita::forms
