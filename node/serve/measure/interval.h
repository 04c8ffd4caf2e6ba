// How sure a mean is: windows of a measurement as independent samples, Student's 95 % interval.
// Windows are long beside a batch, so that they hardly depend on each other. Pure.
#pragma once

#include <span>

namespace partita::serve {

struct Interval {
  double mean = 0;
  double half_width = 0;  // of the 95 % confidence interval; infinite below two samples
};
Interval confidence(std::span<const double> samples);

inline constexpr int kFewestWindows = 5;
// At least kFewestWindows, and half the interval at most `precision` of the mean.
bool narrow_enough(std::span<const double> samples, double precision);

}  // namespace partita::serve
