#include "control/standing.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

namespace partita::control {
namespace {

constexpr std::initializer_list<const char*> kStandingWords = {"serves", "degraded", "at_risk",
                                                               "down", "unknown"};
constexpr std::int64_t kDayOfMs = 86'400'000;

}  // namespace

const char* to_string(Standing standing) {
  return kStandingWords.begin()[static_cast<int>(standing)];
}

void standing_field(Form& f, std::string_view key, Standing& standing, std::string_view about) {
  f.word(key, standing, kStandingWords, about);
}

std::string utc_text(std::int64_t ms) {
  using std::chrono::days, std::chrono::sys_days, std::chrono::year_month_day;
  const std::int64_t day = ms / kDayOfMs - (ms % kDayOfMs < 0 ? 1 : 0);
  const year_month_day date(sys_days(days(static_cast<int>(day))));
  const std::int64_t left = ms - day * kDayOfMs;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     left / 3'600'000, left / 60'000 % 60, left / 1000 % 60, left % 1000);
}

std::optional<std::int64_t> parse_utc(std::string_view text) {
  using std::chrono::day, std::chrono::month, std::chrono::sys_days, std::chrono::year;
  using std::chrono::year_month_day;
  int y = 0, m = 0, d = 0, hour = 0, minute = 0, second = 0, milli = 0;
  const std::string given(text);
  if (std::sscanf(given.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &y, &m, &d, &hour, &minute,
                  &second, &milli) != 7)
    return std::nullopt;
  const year_month_day date(year(y), month(static_cast<unsigned>(m)),
                            day(static_cast<unsigned>(d)));
  if (!date.ok()) return std::nullopt;
  const std::int64_t ms = sys_days(date).time_since_epoch().count() * kDayOfMs +
                          ((hour * 60 + minute) * 60 + second) * std::int64_t{1000} + milli;
  if (ms < 0 || utc_text(ms) != text) return std::nullopt;
  return ms;
}

void time_field(Form& f, std::string_view key, std::int64_t& ms, std::string_view about) {
  std::string text = ms > 0 ? utc_text(ms) : std::string();
  f.note(key, text, about);
  if (f.reading() == nullptr) return;
  const auto parsed = text.empty() ? std::optional<std::int64_t>(0) : parse_utc(text);
  if (!parsed) return f.reading()->refuse(key, "a time like 2026-11-24T03:15:00.250Z is wanted");
  ms = *parsed;
}

}  // namespace partita::control
