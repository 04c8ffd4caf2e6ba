#include "heat/dense.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace partita::thermal {
namespace {

using Pair = double __attribute__((vector_size(16)));

constexpr std::size_t kChunk = 512;  // rows whose columns stay in the nearest cache

Pair pair_at(const double* from) {
  Pair pair;
  std::memcpy(&pair, from, sizeof(pair));
  return pair;
}

// The products of four columns with two, over `n` rows.
void add_products(const std::array<const double*, 4>& a, const std::array<const double*, 2>& b,
                  std::size_t n, std::array<double, 8>& sums) {
  std::array<Pair, 8> parts{};
  std::size_t k = 0;
  for (; k + 2 <= n; k += 2) {
    const Pair b0 = pair_at(b[0] + k), b1 = pair_at(b[1] + k);
    for (std::size_t i = 0; i < 4; ++i) {
      const Pair x = pair_at(a[i] + k);
      parts[2 * i] += x * b0;
      parts[2 * i + 1] += x * b1;
    }
  }
  for (std::size_t i = 0; i < 8; ++i) sums[i] += parts[i][0] + parts[i][1];
  for (; k < n; ++k)
    for (std::size_t i = 0; i < 8; ++i) sums[i] += a[i / 2][k] * b[i % 2][k];
}

// x += f0 a0 + ... + f3 a3, over `n` rows.
void add_four(double* x, const double* a, std::size_t stride, const std::array<double, 4>& f,
              std::size_t n) {
  for (std::size_t k = 0; k < n; ++k)
    x[k] += (f[0] * a[k] + f[1] * a[stride + k]) +
            (f[2] * a[2 * stride + k] + f[3] * a[3 * stride + k]);
}

Columns plus_combination(Columns x, const Columns& a, const Columns& b, double sign) {
  CHECK(b.rows == a.count() && x.rows == a.rows);
  for (std::size_t from = 0; from < a.rows; from += kChunk) {
    const std::size_t n = std::min(kChunk, a.rows - from);
    for (std::size_t j = 0; j < b.count(); ++j) {
      double* out = x.values.data() + j * x.rows + from;
      const double* factors = b.values.data() + j * b.rows;
      std::size_t i = 0;
      for (; i + 4 <= b.rows; i += 4)
        add_four(out, a.values.data() + i * a.rows + from, a.rows,
                 {sign * factors[i], sign * factors[i + 1], sign * factors[i + 2],
                  sign * factors[i + 3]},
                 n);
      for (; i < b.rows; ++i) {
        const double* column = a.values.data() + i * a.rows + from;
        for (std::size_t k = 0; k < n; ++k) out[k] += sign * factors[i] * column[k];
      }
    }
  }
  return x;
}

}  // namespace

double product(std::span<const double> a, std::span<const double> b) {
  std::array<Pair, 4> parts{};
  std::size_t k = 0;
  for (; k + 8 <= a.size(); k += 8)
    for (std::size_t i = 0; i < 4; ++i)
      parts[i] += pair_at(a.data() + k + 2 * i) * pair_at(b.data() + k + 2 * i);
  const Pair all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  double sum = all[0] + all[1];
  for (; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

Columns products(const Columns& a, const Columns& b) {
  CHECK(a.rows == b.rows);
  const std::size_t na = a.count(), nb = b.count();
  Columns result(na, nb);
  if (na == 0 || nb == 0) return result;
  for (std::size_t from = 0; from < a.rows; from += kChunk) {
    const std::size_t n = std::min(kChunk, a.rows - from);
    for (std::size_t i = 0; i < na; i += 4)
      for (std::size_t j = 0; j < nb; j += 2) {
        std::array<const double*, 4> left;  // the last column stands in for those past the end
        for (std::size_t p = 0; p < 4; ++p)
          left[p] = &a.values[std::min(i + p, na - 1) * a.rows + from];
        const std::array<const double*, 2> right{
            &b.values[j * b.rows + from], &b.values[std::min(j + 1, nb - 1) * b.rows + from]};
        std::array<double, 8> sums{};
        add_products(left, right, n, sums);
        for (std::size_t p = 0; p < 8; ++p)
          if (i + p / 2 < na && j + p % 2 < nb)
            result.values[(j + p % 2) * na + i + p / 2] += sums[p];
      }
  }
  return result;
}

Columns combination(const Columns& a, const Columns& b) {
  return plus_combination(Columns(a.rows, b.count()), a, b, 1);
}

Columns less_combination(Columns x, const Columns& a, const Columns& b) {
  return plus_combination(std::move(x), a, b, -1);
}

void subtract(std::span<double> x, std::span<const double> y, double factor) {
  for (std::size_t k = 0; k < x.size(); ++k) x[k] -= factor * y[k];
}

}  // namespace partita::thermal
