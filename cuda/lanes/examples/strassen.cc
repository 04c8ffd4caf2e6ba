#include "lanes/examples/strassen.h"

#include <fmt/format.h>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>

#include "base/check.h"

namespace partita::examples {
namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Block = Eigen::Map<Floats, 0, Eigen::OuterStride<>>;

Block rows_of(const View& view, std::int64_t first, std::int64_t count) {
  return {view.data + first * view.stride, count, view.columns, Eigen::OuterStride<>(view.stride)};
}

// A block of a matrix, and the tasks that write it.
struct Operand {
  View view;
  std::vector<int> writers;
  Operand quarter(int row, int column) const { return {view.quarter(row, column), writers}; }
};
using Quarters = std::array<Operand, 4>;  // 11, 12, 21, 22

Quarters quarters(const Operand& whole) {
  return {whole.quarter(0, 0), whole.quarter(0, 1), whole.quarter(1, 0), whole.quarter(1, 1)};
}

std::vector<int> both(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::ranges::sort(a);
  a.erase(std::ranges::unique(a).begin(), a.end());
  return a;
}

class Builder {
 public:
  explicit Builder(const StrassenOptions& options) : options_(options) {}

  StrassenWinograd build(const Matrix& a, const Matrix& b, Matrix& c) {
    const std::vector<Operand> left = copy_in("A", a), right = copy_in("B", b);
    const View whole = new_view(padded(a.rows), padded(b.columns));
    if (options_.levels == 0) {
      copy_out(multiply("P", left[0], right[0], whole, 0), c, 0, 0);
    } else {
      const Quarters product =
          level("", {left[0], left[1], left[2], left[3]}, {right[0], right[1], right[2], right[3]},
                whole, options_.levels);
      for (int i = 0; i < 4; ++i) copy_out(product[static_cast<std::size_t>(i)], c, i / 2, i % 2);
    }
    return std::move(result_);
  }

 private:
  int padded(int size) const {
    const int step = 1 << options_.levels;
    return (size + step - 1) / step * step;
  }

  View new_view(int rows, int columns) { return view_of(memory_->emplace_back(rows, columns)); }

  // A copy of rows that begin `from_stride` and `to_stride` floats apart.
  int copy(std::string name, const View& to, const float* from, std::int64_t from_stride,
           const std::vector<int>& after) {
    ++result_.copies;
    const auto run = [to, from, from_stride, memory = memory_] {
      for (std::int64_t row = 0; row < to.rows; ++row)
        std::copy_n(from + row * from_stride, to.columns, to.data + row * to.stride);
    };
    const double bytes = sizeof(float) * static_cast<double>(to.rows) * to.columns;
    return add(std::move(name), exec::CpuWork{run}, after, {0, bytes});
  }

  std::string part_name(std::string name, int row, int column) const {
    return options_.levels == 0 ? name : fmt::format("{}{}{}", name, row + 1, column + 1);
  }

  // The matrix, or its quarters, padded with zeros.
  std::vector<Operand> copy_in(const std::string& name, const Matrix& matrix) {
    const View whole = new_view(padded(matrix.rows), padded(matrix.columns));
    const int parts = options_.levels == 0 ? 1 : 2;
    std::vector<Operand> copies;
    for (int i = 0; i < parts * parts; ++i) {
      const int row = i / parts, column = i % parts;
      const View part = parts == 1 ? whole : whole.quarter(row, column);
      const View inside = cut(part, matrix, row, column);
      const float* from = matrix.values.get() + offset(part, matrix, row, column);
      const int task =
          copy("copy " + part_name(name, row, column), inside, from, matrix.columns, {});
      copies.push_back({part, {task}});
    }
    return copies;
  }

  void copy_out(const Operand& product, Matrix& c, int row, int column) {
    View to = cut(product.view, c, row, column);
    to.data = c.values.get() + offset(product.view, c, row, column);
    to.stride = c.columns;
    copy("copy " + part_name("C", row, column), to, product.view.data, product.view.stride,
         product.writers);
  }

  // What of a part that lies at row and column of the matrix's grid is inside the matrix.
  static View cut(View part, const Matrix& matrix, int row, int column) {
    part.rows = std::clamp(matrix.rows - row * part.rows, 0, part.rows);
    part.columns = std::clamp(matrix.columns - column * part.columns, 0, part.columns);
    return part;
  }
  static std::ptrdiff_t offset(const View& part, const Matrix& matrix, int row, int column) {
    const std::ptrdiff_t first = std::min(row * part.rows, matrix.rows - 1);
    return first * matrix.columns + std::min(column * part.columns, matrix.columns - 1);
  }

  int add(std::string name, exec::Work work, const std::vector<int>& after, Cost cost) {
    const int task = result_.graph.add(std::move(name), std::move(work));
    for (const int before : after) result_.graph.depend(task, before);
    result_.costs.push_back(cost);
    return task;
  }

  // A kernel that computes rows of `to`.
  template <class Rows>
  Operand kernel(std::string name, const View& to, std::vector<int> after, Cost of_row, Rows rows) {
    const std::int64_t groups = (to.rows + kRowsPerGroup - 1) / kRowsPerGroup;
    const auto count = static_cast<double>(std::min(to.rows, kRowsPerGroup));
    const auto group = [to, rows, memory = memory_](std::int64_t number) {
      const std::int64_t first = number * kRowsPerGroup;
      rows(first, std::min<std::int64_t>(kRowsPerGroup, to.rows - first));
    };
    const int task = add(std::move(name), exec::LaneWork{options_.units, groups, group}, after,
                         {of_row.flops * count, of_row.bytes * count});
    return {to, {task}};
  }

  // x + y, or x - y.
  Operand add_up(std::string name, const Operand& x, char sign, const Operand& y, const View& to) {
    ++result_.additions;
    const double columns = to.columns;
    const auto rows = [from = x.view, other = y.view, to, sign](std::int64_t first,
                                                                std::int64_t count) {
      if (sign == '+') {
        rows_of(to, first, count) = rows_of(from, first, count) + rows_of(other, first, count);
      } else {
        rows_of(to, first, count) = rows_of(from, first, count) - rows_of(other, first, count);
      }
    };
    return kernel(std::move(name), to, both(x.writers, y.writers),
                  {columns, 3 * sizeof(float) * columns}, rows);
  }
  Operand add_up(std::string name, const Operand& x, char sign, const Operand& y) {
    return add_up(std::move(name), x, sign, y, new_view(x.view.rows, x.view.columns));
  }

  Operand multiply(const std::string& name, const Operand& x, const Operand& y, const View& to,
                   int levels) {
    if (levels > 0) {
      Operand whole{to, {}};
      for (const Operand& part : level(name + ".", quarters(x), quarters(y), to, levels))
        whole.writers = both(whole.writers, part.writers);
      return whole;
    }
    ++result_.products;
    const double inner = x.view.columns, columns = to.columns;
    const auto rows = [from = x.view, other = y.view, to](std::int64_t first, std::int64_t count) {
      rows_of(to, first, count).noalias() =
          rows_of(from, first, count) * rows_of(other, 0, other.rows);
    };
    return kernel(name, to, both(x.writers, y.writers),
                  {2 * inner * columns, sizeof(float) * (inner + columns)}, rows);
  }
  Operand multiply(const std::string& name, const Operand& x, const Operand& y, int levels) {
    return multiply(name, x, y, new_view(x.view.rows, y.view.columns), levels);
  }

  // One level of the recursion: the quarters of the product, in `to`.
  Quarters level(const std::string& in, const Quarters& a, const Quarters& b, const View& to,
                 int levels) {
    const auto& [a11, a12, a21, a22] = a;
    const auto& [b11, b12, b21, b22] = b;
    const Operand s1 = add_up(in + "S1", a21, '+', a22), s2 = add_up(in + "S2", s1, '-', a11);
    const Operand s3 = add_up(in + "S3", a11, '-', a21), s4 = add_up(in + "S4", a12, '-', s2);
    const Operand t1 = add_up(in + "T1", b12, '-', b11), t2 = add_up(in + "T2", b22, '-', t1);
    const Operand t3 = add_up(in + "T3", b22, '-', b12), t4 = add_up(in + "T4", t2, '-', b21);
    const int next = levels - 1;
    const Operand p1 = multiply(in + "P1", a11, b11, next),
                  p2 = multiply(in + "P2", a12, b21, next);
    const Operand p3 = multiply(in + "P3", s4, b22, next), p4 = multiply(in + "P4", a22, t4, next);
    const Operand p5 = multiply(in + "P5", s1, t1, next), p6 = multiply(in + "P6", s2, t2, next);
    const Operand p7 = multiply(in + "P7", s3, t3, next);
    const Operand u1 = add_up(in + "U1", p1, '+', p2, to.quarter(0, 0));
    const Operand u2 = add_up(in + "U2", p1, '+', p6), u3 = add_up(in + "U3", u2, '+', p7);
    const Operand u4 = add_up(in + "U4", u2, '+', p5);
    const Operand u5 = add_up(in + "U5", u4, '+', p3, to.quarter(0, 1));
    const Operand u6 = add_up(in + "U6", u3, '-', p4, to.quarter(1, 0));
    const Operand u7 = add_up(in + "U7", u3, '+', p5, to.quarter(1, 1));
    return {u1, u5, u6, u7};
  }

  const StrassenOptions options_;
  StrassenWinograd result_;
  std::shared_ptr<std::deque<Matrix>> memory_ = std::make_shared<std::deque<Matrix>>();
};

}  // namespace

StrassenWinograd strassen_winograd(const Matrix& a, const Matrix& b, Matrix& c,
                                   const StrassenOptions& options) {
  CHECK(a.columns == b.rows && c.rows == a.rows && c.columns == b.columns);
  CHECK(a.rows >= 1 && a.columns >= 1 && b.columns >= 1);
  CHECK(options.levels >= 0 && options.levels <= kMaxLevels && options.units >= 1);
  return Builder(options).build(a, b, c);
}

}  // namespace partita::examples
