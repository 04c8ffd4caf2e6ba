// Which CUs run under a CU mask: the kernel driver's algorithm as such, from mask to shader arrays,
// where drivers/hip_mask goes from units to bits; and an XCC that it enables no CU of runs all of
// them, as was measured on MI300X (mask 0:0 reaches 267 of 304 CUs). For tests.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace partita::drivers::hip_mask::fake {

struct Arrays {
  int xccs = 1, engines = 1, arrays = 1;
  bool pairs = false;
  std::vector<int> active;  // of array (xcc, engine, array)
};

// (xcc, engine, array, cu) of all that may run. Each XCC looks at every xccs-th bit (or pair).
inline std::set<std::tuple<int, int, int, int>> enabled(const Arrays& gpu,
                                                        const std::vector<std::uint32_t>& mask) {
  std::set<std::tuple<int, int, int, int>> on;
  int total = 0;
  for (const int cus : gpu.active) total += cus;
  const int bits = std::min(total, static_cast<int>(32 * mask.size()));
  const int stride = gpu.pairs ? 2 : 1;
  for (int xcc = 0; xcc < gpu.xccs; ++xcc) {
    int next = xcc * stride;
    const std::size_t before = on.size();
    std::set<std::tuple<int, int, int, int>> all;
    for (int cu = 0; cu < 512; cu += stride) {
      for (int array = 0; array < gpu.arrays; ++array) {
        for (int engine = 0; engine < gpu.engines; ++engine) {
          const int here = (xcc * gpu.engines + engine) * gpu.arrays + array;
          if (gpu.active[static_cast<std::size_t>(here)] <= cu) continue;
          for (int i = 0; i < stride; ++i) all.emplace(xcc, engine, array, cu + i);
          if (next >= bits) continue;
          const std::uint32_t word = mask[static_cast<std::size_t>(next / 32)] >> next % 32;
          if ((word & (gpu.pairs ? 3u : 1u)) != 0)
            for (int i = 0; i < stride; ++i) on.emplace(xcc, engine, array, cu + i);
          next += stride * gpu.xccs;
        }
      }
    }
    if (gpu.xccs > 1 && on.size() == before) on.merge(all);
  }
  return on;
}

}  // namespace partita::drivers::hip_mask::fake
