// Meters: from the gateway's counters to rates a minute, and from those to what a service needs.
// Rates are what clients ask for: without what pipelines make of theirs. Internal to control.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/forecast.h"
#include "control/verdict.h"

namespace partita::control {

inline constexpr std::int64_t kStaleMs = 30 * kMinuteMs;  // older rates are not known any more

class Meters {
 public:
  // What was learned before, for the services that are wanted now.
  void begin(const std::vector<plan::Service>& services, std::vector<ServiceForecast> known);
  // Counters of a gateway as they were at `local_ms`, local time.
  void see(const ServersSeen& servers, std::int64_t local_ms, const ForecastSettings& settings);

  void see_nothing() { minute_ended_ = false; }

  struct KeyRates {  // of the last minute, per second
    std::string key;
    double answered = 0, refused = 0, bytes = 0, tokens = 0;
  };
  struct Reading {
    std::optional<double> rate;        // now: of the minute under way once it has 20 s, or the last
    std::optional<double> attainment;  // of the last minute; none: nothing was asked for
    std::optional<double> p99_ms;
    std::optional<actuate::TokenTraffic> tokens;
    std::uint64_t shed = 0;  // of the last minute
    double capacity_rps = 0;
    int ready_workers = 0;
    bool seen = false;
    std::vector<KeyRates> keys = {};
  };
  Reading reading(const std::string& service, std::int64_t local_ms) const;
  // The highest until then; nothing where its rates are not known.
  std::optional<Forecast> forecast(const std::string& service, std::int64_t local_ms,
                                   std::int64_t until_ms) const;
  const std::vector<ServiceForecast>& known() const { return known_; }
  // Whether a minute ended in the last see().
  bool minute_ended() const { return minute_ended_; }

 private:
  struct Meter {
    std::optional<ServiceLoad> last;
    std::string counted_by;                // see ServersSeen::counted_by
    std::int64_t last_ms = 0, bin_ms = 0;  // of the last look, since when the minute is counted
    double arrived = 0, own = 0, in_slo = 0, shed = 0;
    std::vector<actuate::KeyCounts> keys;  // when the minute began
    Reading reading;
    std::int64_t reading_ms = 0;
    struct Made {
      std::int64_t for_ms = 0;
      Forecast forecast;
    };
    std::deque<Made> made;
  };
  void end_minute(Meter& meter, ServiceForecast& known, std::int64_t local_ms,
                  const ForecastSettings& settings);
  ServiceForecast* find(const std::string& service);
  const ServiceForecast* find(const std::string& service) const;

  std::vector<ServiceForecast> known_;  // by service
  std::map<std::string, Meter> meters_;
  bool minute_ended_ = false;
};

}  // namespace partita::control
