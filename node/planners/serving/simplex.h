// A small dense revised simplex for linear programs that grow by columns: min c.x, A x = b, x >= 0.
// Rows stay few (tens), columns come from a pricing problem. Deterministic. The caller provides a
// feasible starting basis.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace partita::planners::serving {

class Simplex {
 public:
  // Right-hand sides, one per row.
  explicit Simplex(std::vector<double> rhs);

  // Adds a column (dense, one entry per row); returns its index.
  std::size_t add(double cost, const std::vector<double>& entries);

  // Starts from a basis: one column per row, linearly independent, with a solution >= 0.
  void start(std::vector<std::size_t> basis);

  // Pivots until no known column improves the objective (or a limit of kPivots per call is
  // reached).
  static constexpr int kPivots = 5'000;
  void optimise();

  double objective() const;
  // The dual value of every row in the current basis.
  const std::vector<double>& duals() const { return duals_; }
  // The value of a column in the current solution.
  double value(std::size_t column) const;
  // An entry of a column.
  double entry(std::size_t column, std::size_t row) const;

 private:
  void invert();
  void price_rows();
  std::optional<std::size_t> entering(bool first) const;
  bool pivot(std::size_t column);

  struct Entry {
    std::size_t row;
    double value;
  };
  std::span<const Entry> column(std::size_t index) const;

  std::size_t rows_;
  std::vector<double> rhs_;
  std::vector<double> cost_;
  std::vector<Entry> entries_;            // those that are not 0, by column and row
  std::vector<std::size_t> starts_{0};    // where each column's entries begin; one more
  std::vector<std::size_t> basis_;        // per row
  std::vector<std::ptrdiff_t> position_;  // per column, -1 when not basic
  std::vector<double> inverse_;           // of the basis, row-major
  std::vector<double> solution_;          // basic values
  std::vector<double> duals_;
  int pivots_since_invert_ = 0;
};

}  // namespace partita::planners::serving
