// Matching of rows to columns with the greatest total weight. The Hungarian method with potentials,
// O(rows^2 x columns); exact.
#pragma once

#include <cstdint>
#include <vector>

namespace partita {

// Weights of a rectangular problem, row-major; rows <= columns.
struct Weights {
  int rows = 0, columns = 0;
  std::vector<std::int64_t> value;
  std::int64_t at(int row, int column) const {
    return value[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                 static_cast<std::size_t>(column)];
  }
};

// Magnitudes up to this are safe from overflow.
inline constexpr std::int64_t kMaxWeight = std::int64_t{1} << 60;

// Per row its column, all different, so that the sum of weights is the greatest there is. The same
// weights give the same answer.
std::vector<int> heaviest_matching(const Weights& weights);

}  // namespace partita
