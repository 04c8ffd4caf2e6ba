// Strong units: a double that cannot be mixed up with another unit. On the wire the unit stands in
// the name (latency_ms, rate_rps); inside C++ it stands in the type.
#pragma once

#include <compare>

namespace partita {

template <class Tag>
struct Quantity {
  double value = 0;

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, double k) { return {a.value * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return {a.value * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return {a.value / k}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Millis = Quantity<struct MillisTag>;    // durations and latencies, milliseconds
using Seconds = Quantity<struct SecondsTag>;  // long durations, seconds
using Rps = Quantity<struct RpsTag>;          // request rates, requests per second
using Mib = Quantity<struct MibTag>;          // memory, 2^20 bytes
using Watts = Quantity<struct WattsTag>;      // power
using Joules = Quantity<struct JoulesTag>;    // energy
using Celsius = Quantity<struct CelsiusTag>;  // temperatures of devices; thermal models use kelvin
using Mhz = Quantity<struct MhzTag>;          // clocks

inline constexpr double kZeroCelsius = 273.15;  // in kelvin

}  // namespace partita
