// The keys of a services file that say how requests arrive: headroom, arrivals, trace, rates. They
// stand with a service, or once at the top of the file for all that do not say otherwise. Internal
// to the forms.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "forms/vocabulary.h"

namespace partita::forms {

inline constexpr std::string_view kTrafficKeys[] = {"headroom", "arrivals", "trace", "rates"};
inline constexpr double kMaxHeadroom = 10;       // 1000 %
inline constexpr double kMaxBurstSeconds = 1e6;  // of `seconds` and `every`
inline constexpr double kMinBurstSeconds = 1e-3;
inline constexpr double kMaxPeak = 1e6;

// From a minute of the day on: requests per second, or a share of the service's rate_rps.
struct RateKey {
  int minute = 0;
  double value = 0;
  bool share = false;
  int line = 0;
};

struct TrafficKeys {
  std::optional<double> headroom;
  std::optional<plan::Arrivals> arrivals;
  std::optional<std::vector<RateKey>> rates;
};

// Those keys of an object; what is wrong is refused through `fields`.
TrafficKeys read_traffic(Fields& fields);

}  // namespace partita::forms
