#include "base/matching.h"

#include <limits>

#include "base/check.h"

namespace partita {
namespace {

// Shortest augmenting paths on costs = -weights (J. Munkres 1957; the form with row and column
// potentials). Columns are 1-based; column 0 stands for the row being added.
class Matcher {
 public:
  explicit Matcher(const Weights& weights)
      : weights_(weights),
        row_potential_(size(weights.rows) + 1),
        column_potential_(size(weights.columns) + 1),
        row_of_(size(weights.columns) + 1),
        came_from_(size(weights.columns) + 1) {}

  void add(int row) {
    row_of_[0] = row;
    int column = 0;
    std::vector<std::int64_t> distance(row_of_.size(), kFar);
    std::vector<char> done(row_of_.size());
    do {
      column = nearest(column, distance, done);
    } while (row_of_[size(column)] != 0);
    while (column != 0) {
      const int before = came_from_[size(column)];
      row_of_[size(column)] = row_of_[size(before)];
      column = before;
    }
  }

  std::vector<int> columns() const {
    std::vector<int> column_of(size(weights_.rows));
    for (int column = 1; column <= weights_.columns; ++column) {
      const int row = row_of_[size(column)];
      if (row != 0) column_of[size(row - 1)] = column - 1;
    }
    return column_of;
  }

 private:
  static constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  // Grows the tree of tight edges from `column` to the nearest column outside, its answer.
  int nearest(int column, std::vector<std::int64_t>& distance, std::vector<char>& done) {
    done[size(column)] = 1;
    const int row = row_of_[size(column)];
    std::int64_t least = kFar;
    int next = 0;
    for (int j = 1; j <= weights_.columns; ++j) {
      if (done[size(j)]) continue;
      const std::int64_t reduced =
          -weights_.at(row - 1, j - 1) - row_potential_[size(row)] - column_potential_[size(j)];
      if (reduced < distance[size(j)]) {
        distance[size(j)] = reduced;
        came_from_[size(j)] = column;
      }
      if (distance[size(j)] < least) {
        least = distance[size(j)];
        next = j;
      }
    }
    for (int j = 0; j <= weights_.columns; ++j) {
      if (done[size(j)]) {
        row_potential_[size(row_of_[size(j)])] += least;
        column_potential_[size(j)] -= least;
      } else if (distance[size(j)] != kFar) {
        distance[size(j)] -= least;
      }
    }
    return next;
  }

  const Weights& weights_;
  std::vector<std::int64_t> row_potential_, column_potential_;
  std::vector<int> row_of_;  // per column its row (1-based), 0: none
  std::vector<int> came_from_;
};

}  // namespace

std::vector<int> heaviest_matching(const Weights& weights) {
  CHECK(weights.rows <= weights.columns);
  Matcher matcher(weights);
  for (int row = 1; row <= weights.rows; ++row) matcher.add(row);
  return matcher.columns();
}

}  // namespace partita
