// Exponential random numbers of mean 1 by the ziggurat of Marsaglia and Tsang (Journal of
// Statistical Software 5(8), 2000): a multiplication and a comparison where -log(1 - u) would be
// the most expensive part of a simulated queue. Other numbers than Rng::exponential() gives.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "base/rng.h"

namespace partita {

class Exponentials {
 public:
  Exponentials() {
    double edge = kTail, before = kTail;
    const double bottom = kArea / std::exp(-edge);
    inside_[0] = bits(edge / bottom);
    inside_[1] = 0;
    width_[0] = bottom / kUnits;
    width_[kLayers - 1] = edge / kUnits;
    height_[0] = 1;
    height_[kLayers - 1] = std::exp(-edge);
    for (std::size_t i = kLayers - 2; i > 0; --i) {
      edge = -std::log(kArea / edge + std::exp(-edge));
      inside_[i + 1] = bits(edge / before);
      before = edge;
      height_[i] = std::exp(-edge);
      width_[i] = edge / kUnits;
    }
  }

  double draw(Rng& rng) const {
    const std::uint64_t word = rng.next();
    const std::size_t layer = word & (kLayers - 1);
    const std::uint64_t place = word >> 11;
    if (place < inside_[layer]) return static_cast<double>(place) * width_[layer];
    return draw_at_edge(rng, layer, place);
  }

 private:
  static constexpr std::size_t kLayers = 256;
  static constexpr double kUnits = 0x1.0p53;
  static constexpr double kTail = 7.69711747013104972;    // where the lowest layer's tail begins
  static constexpr double kArea = 0.0039496598225815572;  // of every layer

  static std::uint64_t bits(double share) { return static_cast<std::uint64_t>(share * kUnits); }

  double draw_at_edge(Rng& rng, std::size_t layer, std::uint64_t place) const {
    if (layer == 0) return kTail + rng.exponential();
    const double x = static_cast<double>(place) * width_[layer];
    const double y = height_[layer] + rng.uniform() * (height_[layer - 1] - height_[layer]);
    return y < std::exp(-x) ? x : draw(rng);
  }

  std::array<std::uint64_t, kLayers> inside_{};
  std::array<double, kLayers> width_{}, height_{};
};

}  // namespace partita
