// How far apart two colours look, for tests of palettes: with normal sight, protanopia,
// deuteranopia and tritanopia. Machado, Oliveira and Fernandes (2009), severity 1, on linear light;
// distances are CIEDE2000 (Sharma, Wu and Dalal 2005), where 1 is barely seen.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/terminal.h"

namespace partita::sight {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

inline constexpr std::array<Matrix, 4> kSights{{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
}};

inline Triple times(const Matrix& m, const Triple& v) {
  Triple out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 3; ++k) out[i] += m[i][k] * v[k];
  return out;
}

inline double linear(int channel) {
  const double v = channel / 255.0;
  return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

inline double luminance(Rgb c) {
  return 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
}

// WCAG 2: 1 to 21.
inline double contrast(Rgb a, Rgb b) {
  const double one = luminance(a), other = luminance(b);
  return (std::max(one, other) + 0.05) / (std::min(one, other) + 0.05);
}

// CIE Lab under D65 of what an eye with this sight sees.
inline Triple lab(Rgb colour, const Matrix& its) {
  Triple light = times(its, {linear(colour.red), linear(colour.green), linear(colour.blue)});
  for (double& x : light) x = std::clamp(x, 0.0, 1.0);
  constexpr Matrix kXyz{{{0.4124564, 0.3575761, 0.1804375},
                         {0.2126729, 0.7151522, 0.0721750},
                         {0.0193339, 0.1191920, 0.9503041}}};
  const Triple xyz = times(kXyz, light);
  const auto f = [](double t) {
    return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116;
  };
  const double x = f(xyz[0] / 0.95047), y = f(xyz[1]), z = f(xyz[2] / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

inline double ciede2000(const Triple& p, const Triple& q) {
  constexpr double kDegree = std::numbers::pi / 180, kFar = 6103515625.0;  // 25^7
  const auto saturation = [](double c) {
    return std::sqrt(std::pow(c, 7) / (std::pow(c, 7) + kFar));
  };
  const double mean = (std::hypot(p[1], p[2]) + std::hypot(q[1], q[2])) / 2;
  const double stretch = 1 + 0.5 * (1 - saturation(mean));
  const double c1 = std::hypot(stretch * p[1], p[2]), c2 = std::hypot(stretch * q[1], q[2]);
  const auto hue = [&](const Triple& v) {
    const double angle = std::atan2(v[2], stretch * v[1]) / kDegree;
    return angle < 0 ? angle + 360 : angle;
  };
  const double h1 = hue(p), h2 = hue(q);
  double turn = h2 - h1, middle = (h1 + h2) / 2;
  if (c1 * c2 == 0) {
    turn = 0;
    middle = h1 + h2;
  } else if (std::abs(turn) > 180) {
    turn += turn > 0 ? -360 : 360;
    middle += h1 + h2 < 360 ? 180 : -180;
  }
  const double l = (p[0] + q[0]) / 2 - 50, c = (c1 + c2) / 2;
  const auto wave = [&](double times, double shift) {
    return std::cos((times * middle + shift) * kDegree);
  };
  const double t =
      1 - 0.17 * wave(1, -30) + 0.24 * wave(2, 0) + 0.32 * wave(3, 6) - 0.20 * wave(4, -63);
  const double dl = (q[0] - p[0]) / (1 + 0.015 * l * l / std::sqrt(20 + l * l));
  const double dc = (c2 - c1) / (1 + 0.045 * c);
  const double dh = 2 * std::sqrt(c1 * c2) * std::sin(turn / 2 * kDegree) / (1 + 0.015 * c * t);
  const double bend = 60 * std::exp(-std::pow((middle - 275) / 25, 2)) * kDegree;
  const double twist = -std::sin(bend) * 2 * saturation(c);
  return std::sqrt(dl * dl + dc * dc + dh * dh + twist * dc * dh);
}

// The least over the four kinds of sight.
inline double distance(Rgb a, Rgb b) {
  double least = HUGE_VAL;
  for (const Matrix& its : kSights) least = std::min(least, ciede2000(lab(a, its), lab(b, its)));
  return least;
}

}  // namespace partita::sight
