#include "plan/tariff.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"

namespace partita::plan {
namespace {

constexpr double kHour = static_cast<double>(kHourS);

// The number of the hour since the first; none: it is not said.
std::optional<std::size_t> hour_of(const Tariff& tariff, double at_s) {
  const auto count = static_cast<double>(tariff.hours.size());
  double hour = std::floor((at_s - static_cast<double>(tariff.from_s)) / kHour);
  if (tariff.daily) hour -= std::floor(hour / count) * count;
  if (tariff.empty() || !(hour >= 0 && hour < count)) return {};
  return static_cast<std::size_t>(hour);
}

// When the hour of this moment ends.
double hour_end(const Tariff& tariff, double at_s) {
  const auto from = static_cast<double>(tariff.from_s);
  return from + (std::floor((at_s - from) / kHour) + 1) * kHour;
}

}  // namespace

std::optional<EnergyRate> rate_at(const Tariff& tariff, double at_s) {
  const auto hour = hour_of(tariff, at_s);
  if (!hour) return {};
  return tariff.hours[*hour];
}

std::optional<EnergyRate> mean_rate(const Tariff& tariff, double from_s, double to_s) {
  CHECK(to_s > from_s);
  EnergyRate sum;
  for (double at_s = from_s; at_s < to_s;) {
    const auto rate = rate_at(tariff, at_s);
    if (!rate) return {};
    const double end_s = std::min(to_s, hour_end(tariff, at_s));
    const double share = (end_s - at_s) / (to_s - from_s);
    if (rate->price) sum.price = sum.price.value_or(0) + *rate->price * share;
    if (rate->co2_g) sum.co2_g = sum.co2_g.value_or(0) + *rate->co2_g * share;
    at_s = end_s;
  }
  return sum;
}

double weight(const Tariff& tariff, const EnergyRate& rate) {
  if (!rate.price) return rate.co2_g.value_or(0);
  return *rate.price + rate.co2_g.value_or(0) / kGramsPerTonne * tariff.carbon_price;
}

std::vector<double> start_candidates(const Tariff& tariff, double earliest_s, double latest_s,
                                     double length_s) {
  std::vector<double> moments;
  if (!(latest_s >= earliest_s)) return moments;
  const double last_s = std::min(latest_s, earliest_s + kFarthestS);
  moments = {earliest_s, last_s};
  for (double end_s = hour_end(tariff, earliest_s); end_s <= last_s + length_s; end_s += kHour)
    for (const double moment : {end_s, end_s - length_s})
      if (moment > earliest_s && moment < last_s) moments.push_back(moment);
  std::ranges::sort(moments);
  moments.erase(std::ranges::unique(moments).begin(), moments.end());
  std::erase_if(moments,
                [&](double moment) { return !mean_rate(tariff, moment, moment + length_s); });
  return moments;
}

EnergyBill bill(double joules, const std::optional<EnergyRate>& rate) {
  EnergyBill bill{.joules = joules};
  if (rate && rate->price) bill.cost = joules / kJoulesPerKwh * *rate->price;
  if (rate && rate->co2_g) bill.co2_g = joules / kJoulesPerKwh * *rate->co2_g;
  return bill;
}

std::string utc_text(double at_s) {
  const std::chrono::sys_seconds moment{
      std::chrono::seconds{static_cast<std::int64_t>(std::floor(at_s))}};
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day date{day};
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(moment - day).count();
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     minutes / 60, minutes % 60);
}

}  // namespace partita::plan
