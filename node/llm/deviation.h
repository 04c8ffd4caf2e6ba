// How far measurements lie from a formula, and how far they would elsewhere: kriging (Gaussian
// process regression) of log ratios over octaves of requests in flight, tokens in and tokens out.
// Near what was measured it interpolates, far from it the formula stands alone. Outliers bend it
// little: noise has Student's t distribution, by iterated weights. Cubic in the number of points.
// Formulas of things that are akin (one model on other GPUs) go wrong alike: the deviations of the
// others tell of places where the one in question was not measured.
#pragma once

#include <cstddef>
#include <functional>
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

// How far measurements of one thing lie from its formula: a log ratio per place.
struct Deviations {
  std::vector<Place> places;
  std::vector<double> log_ratios;
};
// How alike two of several things are, 0 to 1: symmetric, each wholly like itself.
using Likeness = std::function<double(std::size_t, std::size_t)>;

class Deviation {
 public:
  Deviation() = default;  // none anywhere
  Deviation(const Deviations& seen, const Belief& belief);
  // Of the first one. The others count as much as they are like it, half as much or not at all:
  // whichever says best what of the first one is left out, one concurrency after the other.
  Deviation(const std::vector<Deviations>& seen, const Likeness& alike, const Belief& belief);
  // The log ratio to expect.
  double at(const Place& place) const;

 private:
  std::vector<Place> places_;
  std::vector<double> weights_;
  Belief belief_;
};

}  // namespace partita::llm
