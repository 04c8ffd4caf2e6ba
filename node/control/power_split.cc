#include "control/power_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace partita::control {
namespace {

// The limits with those of some boards raised, all to one level where they can have it: up to what
// they want, or to their most.
std::vector<double> filled(const std::vector<PowerBoard>& boards, bool used, bool wanted,
                           double cap, std::vector<double> limits) {
  const double rest = cap - std::accumulate(limits.begin(), limits.end(), 0.0);
  double low = 0, high = 0;
  for (const PowerBoard& board : boards) high = std::max(high, board.most);
  const auto raised = [&](std::size_t b, double level) {
    const PowerBoard& board = boards[b];
    if (board.fixed || board.used != used) return limits[b];
    const double top = wanted && board.wants > 0 ? std::min(board.wants, board.most) : board.most;
    return std::max(limits[b], std::min(top, std::floor(level)));
  };
  const auto cost = [&](double level) {
    double sum = 0;
    for (std::size_t b = 0; b < boards.size(); ++b) sum += raised(b, level) - limits[b];
    return sum;
  };
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double level = (low + high) / 2;
    (cost(level) <= rest ? low : high) = level;
  }
  if (cost(high) <= rest) low = high;
  for (std::size_t b = 0; b < boards.size(); ++b) limits[b] = raised(b, low);
  return limits;
}

}  // namespace

std::vector<double> split_power(const std::vector<PowerBoard>& boards, double cap) {
  std::vector<double> limits;
  for (const PowerBoard& board : boards)
    limits.push_back(board.fixed ? board.now : std::ceil(board.least));
  if (std::accumulate(limits.begin(), limits.end(), 0.0) >= cap) return limits;
  limits = filled(boards, true, true, cap, std::move(limits));
  limits = filled(boards, true, false, cap, std::move(limits));
  return filled(boards, false, false, cap, std::move(limits));
}

}  // namespace partita::control
