#include "planners/serving/simplex.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace partita::planners::serving {
namespace {

constexpr double kReducedCostTolerance = 1e-10;
constexpr double kPivotTolerance = 1e-9;
constexpr int kPivotsPerInversion = 120;
constexpr int kDegenerateLimit =
    60;  // after that many pivots without progress, the first column enters (Bland)

}  // namespace

Simplex::Simplex(std::vector<double> rhs) : rows_(rhs.size()), rhs_(std::move(rhs)) {}

std::size_t Simplex::add(double cost, const std::vector<double>& entries) {
  CHECK(entries.size() == rows_);
  cost_.push_back(cost);
  for (std::size_t row = 0; row < rows_; ++row)
    if (entries[row] != 0) entries_.push_back({row, entries[row]});
  starts_.push_back(entries_.size());
  position_.push_back(-1);
  return cost_.size() - 1;
}

std::span<const Simplex::Entry> Simplex::column(std::size_t index) const {
  return std::span(entries_).subspan(starts_[index], starts_[index + 1] - starts_[index]);
}

double Simplex::entry(std::size_t column, std::size_t row) const {
  for (const Entry& entry : this->column(column))
    if (entry.row == row) return entry.value;
  return 0;
}

void Simplex::start(std::vector<std::size_t> basis) {
  CHECK(basis.size() == rows_);
  basis_ = std::move(basis);
  std::fill(position_.begin(), position_.end(), -1);
  for (std::size_t row = 0; row < rows_; ++row)
    position_[basis_[row]] = static_cast<std::ptrdiff_t>(row);
  invert();
}

// Gauss-Jordan with partial pivoting on [basis | identity].
void Simplex::invert() {
  const std::size_t n = rows_;
  std::vector<double> work(n * n);
  for (std::size_t c = 0; c < n; ++c)
    for (const Entry& entry : column(basis_[c])) work[entry.row * n + c] = entry.value;
  inverse_.assign(n * n, 0);
  for (std::size_t r = 0; r < n; ++r) inverse_[r * n + r] = 1;
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t best = c;
    for (std::size_t r = c + 1; r < n; ++r)
      if (std::abs(work[r * n + c]) > std::abs(work[best * n + c])) best = r;
    CHECK(std::abs(work[best * n + c]) > 1e-13);
    if (best != c)
      for (std::size_t k = 0; k < n; ++k) {
        std::swap(work[best * n + k], work[c * n + k]);
        std::swap(inverse_[best * n + k], inverse_[c * n + k]);
      }
    const double scale = 1 / work[c * n + c];
    for (std::size_t k = 0; k < n; ++k) {
      work[c * n + k] *= scale;
      inverse_[c * n + k] *= scale;
    }
    for (std::size_t r = 0; r < n; ++r) {
      const double factor = work[r * n + c];
      if (r == c || factor == 0) continue;
      for (std::size_t k = 0; k < n; ++k) {
        work[r * n + k] -= factor * work[c * n + k];
        inverse_[r * n + k] -= factor * inverse_[c * n + k];
      }
    }
  }
  solution_.assign(n, 0);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t k = 0; k < n; ++k) solution_[r] += inverse_[r * n + k] * rhs_[k];
    solution_[r] = std::max(solution_[r], 0.0);
  }
  pivots_since_invert_ = 0;
}

void Simplex::price_rows() {
  duals_.assign(rows_, 0);
  for (std::size_t r = 0; r < rows_; ++r) {
    const double c = cost_[basis_[r]];
    if (c == 0) continue;
    for (std::size_t k = 0; k < rows_; ++k) duals_[k] += c * inverse_[r * rows_ + k];
  }
}

// The column with the most negative reduced cost, or with `first` the first with a negative one.
std::optional<std::size_t> Simplex::entering(bool first) const {
  std::optional<std::size_t> best;
  double least = -kReducedCostTolerance;
  for (std::size_t column = 0; column < cost_.size(); ++column) {
    if (position_[column] >= 0) continue;
    double reduced = cost_[column];
    for (const Entry& entry : this->column(column)) reduced -= duals_[entry.row] * entry.value;
    if (reduced >= least) continue;
    best = column;
    least = reduced;
    if (first) break;
  }
  return best;
}

// Brings a column into the basis; false when nothing bounds it or no pivot is numerically safe.
bool Simplex::pivot(std::size_t column) {
  const std::size_t n = rows_;
  std::vector<double> direction(n, 0);
  const std::span<const Entry> entries = this->column(column);
  for (std::size_t r = 0; r < n; ++r)
    for (const Entry& entry : entries) direction[r] += inverse_[r * n + entry.row] * entry.value;
  std::size_t leave = n;
  double step = 0;
  for (std::size_t r = 0; r < n; ++r) {
    if (direction[r] <= kPivotTolerance) continue;
    const double ratio = solution_[r] / direction[r];
    const bool tie = leave < n && std::abs(ratio - step) <= 1e-12 * (1 + step);
    if (leave == n || (tie ? direction[r] > direction[leave] : ratio < step)) {
      leave = r;
      step = ratio;
    }
  }
  if (leave == n) return false;
  for (std::size_t r = 0; r < n; ++r)
    solution_[r] = r == leave ? step : std::max(0.0, solution_[r] - step * direction[r]);
  double* pivot_row = &inverse_[leave * n];
  const double scale = 1 / direction[leave];
  for (std::size_t k = 0; k < n; ++k) pivot_row[k] *= scale;
  for (std::size_t r = 0; r < n; ++r) {
    if (r == leave || direction[r] == 0) continue;
    double* row = &inverse_[r * n];
    for (std::size_t k = 0; k < n; ++k) row[k] -= direction[r] * pivot_row[k];
  }
  position_[basis_[leave]] = -1;
  basis_[leave] = column;
  position_[column] = static_cast<std::ptrdiff_t>(leave);
  if (++pivots_since_invert_ >= kPivotsPerInversion) invert();
  return true;
}

void Simplex::optimise() {
  int idle = 0;
  double last = objective();
  for (int pivots = 0; pivots < kPivots; ++pivots) {
    price_rows();
    const auto column = entering(idle > kDegenerateLimit);
    if (!column || !pivot(*column)) return;
    const double now = objective();
    idle = now < last - 1e-12 * (1 + std::abs(last)) ? 0 : idle + 1;
    last = now;
  }
  price_rows();
}

double Simplex::objective() const {
  double sum = 0;
  for (std::size_t r = 0; r < rows_; ++r) sum += cost_[basis_[r]] * solution_[r];
  return sum;
}

double Simplex::value(std::size_t column) const {
  return position_[column] < 0 ? 0 : solution_[static_cast<std::size_t>(position_[column])];
}

}  // namespace partita::planners::serving
