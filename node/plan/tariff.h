// Tariff: what a kWh costs and how much CO2 it stands for, hour by hour; and when work of a given
// length costs least. Times are seconds since 1970, UTC. Values; forms/tariff_reader.h reads them.
// Limits: kMostTariffHours; kFarthestS, so far ahead is looked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita::plan {

inline constexpr std::size_t kMostTariffHours = 100'000;  // eleven years
inline constexpr std::int64_t kHourS = 3600;
inline constexpr double kFarthestS = 14 * 86'400;
inline constexpr double kJoulesPerKwh = 3.6e6;
inline constexpr double kGramsPerTonne = 1e6;

// Of a kWh; a figure that nobody said is missing.
struct EnergyRate {
  std::optional<double> price = {};  // may be below 0
  std::optional<double> co2_g = {};
  bool operator==(const EnergyRate&) const = default;
};

struct Tariff {
  std::int64_t from_s = 0;    // when the first hour begins
  bool daily = false;         // 24 hours that come again every day
  double carbon_price = 0;    // of a tonne of CO2, added to the price when hours are compared
  std::vector<EnergyRate> hours = {};  // all of them say the same figures
  bool empty() const { return hours.empty(); }
  bool operator==(const Tariff&) const = default;
};

// The rate of this moment; none: the tariff does not say.
std::optional<EnergyRate> rate_at(const Tariff& tariff, double at_s);
// The mean over [from, to), to > from; none: some of it is not said.
std::optional<EnergyRate> mean_rate(const Tariff& tariff, double from_s, double to_s);
// By what hours are compared: the price with that of the carbon; where there are no prices, grams.
double weight(const Tariff& tariff, const EnergyRate& rate);

// Moments in [earliest, latest] among which the best is for work of this length, ascending: the
// ends of the range, and where it would begin or end with an hour. (What it costs is linear in
// between.) Those at which the tariff does not say all of it are left out, and what begins more
// than kFarthestS from `earliest`.
std::vector<double> start_candidates(const Tariff& tariff, double earliest_s, double latest_s,
                                     double length_s);

// Energy with what it cost and stood for, as far as the tariff says.
struct EnergyBill {
  double joules = 0;
  std::optional<double> cost = {}, co2_g = {};
  bool operator==(const EnergyBill&) const = default;
};
EnergyBill bill(double joules, const std::optional<EnergyRate>& rate);

// "2026-11-27 02:00 UTC", to the minute.
std::string utc_text(double at_s);

}  // namespace partita::plan
