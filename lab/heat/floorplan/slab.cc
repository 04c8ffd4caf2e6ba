#include "heat/floorplan/slab.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/numeric/dct.h"

namespace partita::floorplan {
namespace {

constexpr int kMostIterations = 200;
constexpr double kResidual = 1e-8;

using Values = std::vector<double>;

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

class SlabSystem {
 public:
  explicit SlabSystem(const Slab& slab)
      : slab_(slab),
        rows_(slab.bottom_conductance.rows),
        cols_(slab.bottom_conductance.cols),
        cells_(slab.bottom_conductance.values.size()),
        count_(slab.layers.size()),
        transform_(rows_, cols_) {
    const double area = slab.cell_m * slab.cell_m;
    for (std::size_t l = 0; l < count_; ++l) {
      const SlabLayer& layer = slab.layers[l];
      across_.push_back(layer.conductivity * layer.thickness_m);
      if (l + 1 == count_) break;
      const SlabLayer& next = slab.layers[l + 1];
      down_.push_back(area / (layer.thickness_m / layer.conductivity / 2 +
                              next.thickness_m / next.conductivity / 2));
    }
    top_ = slab.top_conductance * area;
    for (const double g : slab.bottom_conductance.values) mean_bottom_ += g * area;
    mean_bottom_ /= static_cast<double>(cells_);
  }

  std::size_t size() const { return cells_ * count_; }
  std::size_t cells() const { return cells_; }

  Values times(const Values& x) const {
    Values y(x.size());
    for (std::size_t l = 0; l < count_; ++l) {
      lateral(l, &x[l * cells_], &y[l * cells_]);
      if (l + 1 == count_) continue;
    }
    const double area = slab_.cell_m * slab_.cell_m;
    for (std::size_t l = 0; l + 1 < count_; ++l)
      for (std::size_t i = 0; i < cells_; ++i) {
        const double flow = down_[l] * (x[l * cells_ + i] - x[(l + 1) * cells_ + i]);
        y[l * cells_ + i] += flow;
        y[(l + 1) * cells_ + i] -= flow;
      }
    for (std::size_t i = 0; i < cells_; ++i) {
      y[i] += top_ * x[i];
      const std::size_t last = (count_ - 1) * cells_ + i;
      y[last] += slab_.bottom_conductance.values[i] * area * x[last];
    }
    return y;
  }

  // The even stack's answer: per mode a tridiagonal system over the layers.
  Values preconditioned(Values x) const {
    for (std::size_t l = 0; l < count_; ++l)
      transform_.forward(std::span(x).subspan(l * cells_, cells_));
    Values upper(count_), pivot(count_);
    for (int p = 0; p < rows_; ++p)
      for (int q = 0; q < cols_; ++q) {
        const double curve =
            -numeric::insulated_eigenvalue(p, rows_) - numeric::insulated_eigenvalue(q, cols_);
        const auto mode = static_cast<std::size_t>(p) * static_cast<std::size_t>(cols_) +
                          static_cast<std::size_t>(q);
        for (std::size_t l = 0; l < count_; ++l) {
          double diagonal = across_[l] * curve + (l == 0 ? top_ : down_[l - 1]) +
                            (l + 1 == count_ ? mean_bottom_ : down_[l]);
          if (l > 0) {
            diagonal -= down_[l - 1] * upper[l - 1];
            x[l * cells_ + mode] += down_[l - 1] * x[(l - 1) * cells_ + mode];
          }
          upper[l] = l + 1 == count_ ? 0 : down_[l] / diagonal;
          x[l * cells_ + mode] /= diagonal;
        }
        for (std::size_t l = count_ - 1; l-- > 0;)
          x[l * cells_ + mode] += upper[l] * x[(l + 1) * cells_ + mode];
      }
    for (std::size_t l = 0; l < count_; ++l)
      transform_.inverse(std::span(x).subspan(l * cells_, cells_));
    return x;
  }

 private:
  void lateral(std::size_t layer, const double* x, double* y) const {
    const double g = across_[layer], edge = slab_.layers[layer].edge_conductance;
    for (int r = 0; r < rows_; ++r)
      for (int c = 0; c < cols_; ++c) {
        const std::size_t i = static_cast<std::size_t>(r) * static_cast<std::size_t>(cols_) +
                              static_cast<std::size_t>(c);
        const auto stride = static_cast<std::size_t>(cols_);
        double flow = 0;
        flow += r > 0 ? g * (x[i] - x[i - stride]) : edge * x[i];
        flow += r + 1 < rows_ ? g * (x[i] - x[i + stride]) : edge * x[i];
        flow += c > 0 ? g * (x[i] - x[i - 1]) : edge * x[i];
        flow += c + 1 < cols_ ? g * (x[i] - x[i + 1]) : edge * x[i];
        y[i] = flow;
      }
  }

  const Slab& slab_;
  int rows_, cols_;
  std::size_t cells_, count_;
  numeric::CosineTransform transform_;
  Values across_, down_;
  double top_ = 0, mean_bottom_ = 0;
};

}  // namespace

raster::Grid top_rise(const Slab& slab, const raster::Grid& watts) {
  CHECK(watts.rows == slab.bottom_conductance.rows && watts.cols == slab.bottom_conductance.cols);
  const SlabSystem system(slab);
  Values residual(system.size(), 0);
  const auto first = static_cast<std::size_t>(slab.heated) * system.cells();
  std::copy(watts.values.begin(), watts.values.end(),
            residual.begin() + static_cast<std::ptrdiff_t>(first));
  Values x(system.size(), 0), direction;
  const double wanted = kResidual * std::sqrt(dot(residual, residual));
  double energy = 0;
  for (int i = 0; i < kMostIterations && std::sqrt(dot(residual, residual)) > wanted; ++i) {
    Values z = system.preconditioned(residual);
    const double next = dot(residual, z);
    if (i == 0) {
      direction = std::move(z);
    } else {
      for (std::size_t k = 0; k < z.size(); ++k) direction[k] = z[k] + next / energy * direction[k];
    }
    energy = next;
    const Values image = system.times(direction);
    const double step = energy / dot(direction, image);
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] += step * direction[k];
      residual[k] -= step * image[k];
    }
  }
  raster::Grid top(watts.rows, watts.cols);
  std::copy_n(x.begin(), system.cells(), top.values.begin());
  return top;
}

}  // namespace partita::floorplan
