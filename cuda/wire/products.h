// Products among a program's kernels, which profiles and plans name like any other.
#pragma once

#include <algorithm>
#include <limits>

#include "wire/operations.h"

namespace partita::remote {

inline constexpr const char* kProduct = "gemm";

// As its grid: rows, columns, how many products; as its block: what is summed up.
struct ProductShape {
  Extent3 grid = {}, block = {};
};
inline ProductShape product_shape(const Gemm& gemm) {
  const auto size = [](std::uint64_t of) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(of, std::numeric_limits<std::uint32_t>::max()));
  };
  return {{size(gemm.m), size(gemm.n), size(gemm.batch)}, {size(gemm.k), 1, 1}};
}

}  // namespace partita::remote
