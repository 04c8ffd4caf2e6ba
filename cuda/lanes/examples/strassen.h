// Strassen's matrix multiplication in Winograd's variant as a task graph: per level 7 products and
// 15 additions of quarters instead of 8 and 4 (Chow 2022, figure 2.7, has the graph of one level).
// Additions and the products of the last level are kernels whose work-groups compute
// kRowsPerGroup rows; copying the quarters of a and b in and those of c out are tasks of the CPU.
// Sides that are no multiple of 2^levels are padded with zeros.
// The graph borrows a, b and c, which hold still until its last run has ended, and owns the memory
// in between: about 2.5 times that of the three at one level, 5 times at two. It may be run again,
// not twice at the same time.
#pragma once

#include <vector>

#include "lanes/examples/matrix.h"
#include "lanes/task_graph.h"

namespace partita::examples {

inline constexpr int kRowsPerGroup = 64;
inline constexpr int kMaxLevels = 4;

// What a task is: for simulations.
struct Cost {
  double flops = 0;  // of a work-group
  double bytes = 0;  // that a work-group, or a copy, reads and writes
};

struct StrassenWinograd {
  exec::TaskGraph graph;
  std::vector<Cost> costs;  // as the graph's tasks
  int products = 0, additions = 0, copies = 0;
};

struct StrassenOptions {
  int levels = 1;  // 0 .. kMaxLevels; 0: one product
  int units = 1;   // that kernels ask for
};
// c = a x b; sizes must fit and be at least 1.
StrassenWinograd strassen_winograd(const Matrix& a, const Matrix& b, Matrix& c,
                                   const StrassenOptions& options);

}  // namespace partita::examples
