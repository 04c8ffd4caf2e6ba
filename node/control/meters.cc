#include "control/meters.h"

#include <algorithm>
#include <utility>

namespace partita::control {
namespace {

constexpr std::int64_t kLongestGapMs = 10 * kMinuteMs;  // between looks that count together
constexpr std::int64_t kEarlyMs = 20'000;
constexpr std::size_t kMostMade = 1500;

// What keys had between two looks. Nothing of one that was among the others before, or is not
// listed any more: nobody knows what of theirs was its.
std::vector<Meters::KeyRates> rates_of(const std::vector<actuate::KeyCounts>& before,
                                       const std::vector<actuate::KeyCounts>& now,
                                       std::int64_t over_ms) {
  const auto listed = [&](const std::string& key) {
    return std::ranges::find(before, key, &actuate::KeyCounts::key);
  };
  const bool all_were = listed(actuate::kOtherKeys) == before.end();
  std::vector<Meters::KeyRates> rates;
  for (const actuate::KeyCounts& key : now) {
    const auto found = listed(key.key);
    const bool there = found != before.end();
    if (!there && (!all_were || key.key == actuate::kOtherKeys)) continue;
    const actuate::KeyCounts was = there ? *found : actuate::KeyCounts{.key = key.key};
    const bool grew = key.answered >= was.answered && key.refused >= was.refused &&
                      key.bytes >= was.bytes && key.tokens >= was.tokens;
    const auto rate = [&](double count, double counted) {
      return (count - counted) * 1000 / static_cast<double>(over_ms);
    };
    if (grew)
      rates.push_back({key.key, rate(key.answered, was.answered), rate(key.refused, was.refused),
                       rate(key.bytes, was.bytes), rate(key.tokens, was.tokens)});
  }
  return rates;
}

}  // namespace

void Meters::begin(const std::vector<plan::Service>& services, std::vector<ServiceForecast> known) {
  std::vector<ServiceForecast> now;
  for (const plan::Service& service : services) {
    const auto found = std::ranges::find(known, service.name, &ServiceForecast::service);
    const std::size_t slots = std::size_t{kShapes} * kDaySlots;
    const bool fine = found != known.end() && found->shape.size() == slots &&
                      found->days.size() == slots && found->last_ms > 0;
    now.push_back(fine ? std::move(*found) : begin_forecast(service));
  }
  std::ranges::sort(now, {}, &ServiceForecast::service);
  known_ = std::move(now);
  std::erase_if(meters_, [&](const auto& one) { return find(one.first) == nullptr; });
}

ServiceForecast* Meters::find(const std::string& service) {
  const auto found = std::ranges::lower_bound(known_, service, {}, &ServiceForecast::service);
  return found == known_.end() || found->service != service ? nullptr : &*found;
}

const ServiceForecast* Meters::find(const std::string& service) const {
  return const_cast<Meters*>(this)->find(service);
}

void Meters::see(const ServersSeen& servers, std::int64_t local_ms,
                 const ForecastSettings& settings) {
  minute_ended_ = false;
  for (const ServiceLoad& load : servers.loads) {
    ServiceForecast* known = find(load.service);
    if (known == nullptr) continue;
    Meter& meter = meters_[load.service];
    meter.reading.capacity_rps = load.capacity_rps;
    meter.reading.ready_workers = load.ready_workers;
    meter.reading.p99_ms = load.p99_ms;
    meter.reading.tokens = load.tokens;
    meter.reading.seen = true;
    // One that began anew may have counted more by now than the one before it ever did.
    const bool follows = meter.last && meter.counted_by == servers.counted_by &&
                         load.arrived >= meter.last->arrived && load.in_slo >= meter.last->in_slo &&
                         load.shed >= meter.last->shed &&
                         load.by_pipelines >= meter.last->by_pipelines &&
                         local_ms - meter.last_ms <= kLongestGapMs && local_ms >= meter.last_ms;
    if (!follows) {  // a gateway that has just begun, or a long pause
      meter.bin_ms = local_ms;
      meter.arrived = meter.own = meter.in_slo = meter.shed = 0;
      meter.keys = load.keys;
    } else {
      const auto arrived = static_cast<double>(load.arrived - meter.last->arrived);
      const auto made = static_cast<double>(load.by_pipelines - meter.last->by_pipelines);
      meter.arrived += arrived;
      meter.own += std::max(0.0, arrived - made);
      meter.in_slo += static_cast<double>(load.in_slo - meter.last->in_slo);
      meter.shed += static_cast<double>(load.shed - meter.last->shed);
    }
    meter.last = load;
    meter.counted_by = servers.counted_by;
    meter.last_ms = local_ms;
    if (local_ms - meter.bin_ms >= kMinuteMs) end_minute(meter, *known, local_ms, settings);
  }
}

void Meters::end_minute(Meter& meter, ServiceForecast& known, std::int64_t local_ms,
                        const ForecastSettings& settings) {
  MeasuredRate measured;
  measured.now_ms = local_ms;
  measured.over_ms = local_ms - meter.bin_ms;
  measured.rate_rps = meter.own * 1000 / static_cast<double>(local_ms - meter.bin_ms);
  while (!meter.made.empty() && meter.made.front().for_ms <= local_ms) {
    measured.forecast = meter.made.front().forecast;
    meter.made.pop_front();
  }
  known = learned(std::move(known), measured, settings);
  const auto ahead = static_cast<std::int64_t>(settings.horizon_s * 1000);
  meter.made.push_back({local_ms + ahead, forecast_at(known, local_ms + ahead)});
  if (meter.made.size() > kMostMade) meter.made.pop_front();
  meter.reading.rate = measured.rate_rps;
  meter.reading.attainment.reset();
  if (meter.arrived > 0) meter.reading.attainment = std::min(1.0, meter.in_slo / meter.arrived);
  meter.reading.shed = static_cast<std::uint64_t>(meter.shed);
  meter.reading_ms = local_ms;
  meter.reading.keys = rates_of(meter.keys, meter.last->keys, measured.over_ms);
  meter.keys = meter.last->keys;
  meter.arrived = meter.own = meter.in_slo = meter.shed = 0;
  meter.bin_ms = local_ms;
  minute_ended_ = true;
}

Meters::Reading Meters::reading(const std::string& service, std::int64_t local_ms) const {
  const auto found = meters_.find(service);
  if (found == meters_.end()) return {};
  const Meter& meter = found->second;
  Reading reading = meter.reading;
  const std::int64_t counted = meter.last_ms - meter.bin_ms;
  if (counted >= kEarlyMs) reading.rate = meter.own * 1000 / static_cast<double>(counted);
  if (local_ms - meter.last_ms > kStaleMs) return {};
  return reading;
}

std::optional<Forecast> Meters::forecast(const std::string& service, std::int64_t local_ms,
                                         std::int64_t until_ms) const {
  const ServiceForecast* known = find(service);
  if (known == nullptr || known->last_ms == 0 || local_ms - known->last_ms > kStaleMs) return {};
  return highest_until(*known, local_ms, until_ms);
}

}  // namespace partita::control
