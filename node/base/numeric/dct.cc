#include "base/numeric/dct.h"

#include <fftw3.h>

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "base/check.h"

namespace partita::numeric {

struct CosineTransform::Plans {
  int rows, cols;
  fftw_plan forward, inverse;

  Plans(int r, int c) : rows(r), cols(c) {
    // ESTIMATE measures nothing, so the same size is transformed alike everywhere.
    std::vector<double> scratch(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    const auto make = [&](fftw_r2r_kind kind) {
      return fftw_plan_r2r_2d(rows, cols, scratch.data(), scratch.data(), kind, kind,
                              FFTW_ESTIMATE | FFTW_UNALIGNED);
    };
    forward = make(FFTW_REDFT10);
    inverse = make(FFTW_REDFT01);
    CHECK(forward != nullptr && inverse != nullptr);
  }
  ~Plans() {
    fftw_destroy_plan(forward);
    fftw_destroy_plan(inverse);
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // FFTW's transforms are twice an orthogonal one per direction, but for index 0: the first row
  // and the first column are longer by a factor of the root of two.
  void scale(std::span<double> values, double edge) const {
    const double all = 0.5 / std::sqrt(static_cast<double>(rows) * cols);
    std::size_t at = 0;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c, ++at)
        values[at] *= all * (r == 0 ? edge : 1) * (c == 0 ? edge : 1);
  }
};

CosineTransform::CosineTransform(int rows, int cols) {
  CHECK(rows >= 1 && cols >= 1);
  plans_ = std::make_unique<Plans>(rows, cols);
}
CosineTransform::~CosineTransform() = default;
CosineTransform::CosineTransform(CosineTransform&&) noexcept = default;
CosineTransform& CosineTransform::operator=(CosineTransform&&) noexcept = default;

int CosineTransform::rows() const { return plans_->rows; }
int CosineTransform::cols() const { return plans_->cols; }

void CosineTransform::forward(std::span<double> values) const {
  CHECK(values.size() == static_cast<std::size_t>(rows()) * static_cast<std::size_t>(cols()));
  fftw_execute_r2r(plans_->forward, values.data(), values.data());
  plans_->scale(values, std::numbers::sqrt2 / 2);
}

void CosineTransform::inverse(std::span<double> values) const {
  CHECK(values.size() == static_cast<std::size_t>(rows()) * static_cast<std::size_t>(cols()));
  plans_->scale(values, std::numbers::sqrt2);
  fftw_execute_r2r(plans_->inverse, values.data(), values.data());
}

double insulated_eigenvalue(int k, int n) { return 2 * std::cos(std::numbers::pi * k / n) - 2; }

}  // namespace partita::numeric
