// How far measurements lie from a formula, and how far they would elsewhere: kriging (Gaussian
// process regression) of log ratios over octaves of requests in flight, tokens in and tokens out.
// Near what was measured it interpolates, far from it the formula stands alone. Outliers bend it
// little: noise has Student's t distribution, by iterated weights. Cubic in the number of points.
#pragma once

#include <span>
#include <vector>

namespace partita::llm {

// Octaves: log2 of the quantity.
struct Place {
  double concurrency = 0, tokens_in = 0, tokens_out = 0;
};

// What is believed of deviations before any is seen: standard deviations of log ratios.
struct Belief {
  double per_octave_concurrency = 0, per_octave_in = 0, per_octave_out = 0;  // straight trends
  double over_concurrency = 0;  // a smooth curve that all shapes share
  double over_shapes = 0;       // a smooth surface that all concurrencies share
  double over_both = 0;         // what a shape has of its own at a concurrency
  double concurrency_octaves = 1, shape_octaves = 1;  // over which they stay alike
  double noise = 0.1;                                 // of a measurement
  double freedom = 2;                                 // of Student's t
};

class Deviation {
 public:
  Deviation() = default;  // none anywhere
  // A log ratio per place.
  Deviation(std::vector<Place> places, std::span<const double> log_ratios, const Belief& belief);
  // The log ratio to expect.
  double at(const Place& place) const;

 private:
  std::vector<Place> places_;
  std::vector<double> weights_;
  Belief belief_;
};

}  // namespace partita::llm
