// Kernel profiles: how long each kernel of a model takes on how many units (SMs or CUs) of a GPU,
// in the order in which a request runs them; where it was measured, also how long the host lets the
// units wait for it, and what the kernel takes beside neighbours on the other units. Readers for
// our CSV and for the tables published with REEF (OSDI'22). Plain data. Limits: kMaxKernels
// kernels, hw::kMaxUnits units.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::profile {

inline constexpr std::size_t kMaxKernels = 100'000;

// What kernels are measured beside: arithmetic in registers, or reading more memory than a cache
// holds as fast as it comes; on all units that the kernel does not have.
enum class Neighbour { computing, reading };
std::string_view word(Neighbour neighbour);

struct BesideTime {
  int units = 0;  // of the kernel; fewer than the GPU has
  Neighbour neighbour = Neighbour::computing;
  double time_us = 0;                 // positive
  std::optional<double> gap_us = {};  // as KernelProfile's; none: not measured
  // Beside `reading`: how hard the kernel presses on the memory, from 0, not at all, to 1, as the
  // neighbour does.
  double presses = 0;
  bool operator==(const BesideTime&) const = default;
};

struct KernelProfile {
  std::string name;
  std::vector<double> time_us;  // on 1, 2 ... units; positive
  // Alone, from the end of the kernel before it (for the first, of the request before) to its
  // begin: what the host needs.
  double gap_us = 0;
  std::vector<BesideTime> beside = {};  // empty: not measured
  double on(int units) const { return time_us[static_cast<std::size_t>(units - 1)]; }
  bool operator==(const KernelProfile&) const = default;
};

struct ModelKernels {
  std::string model;
  int units = 0;  // of the GPU; every kernel has as many times
  std::vector<KernelProfile> kernels;
  // Of all kernels on that many units, one after the other.
  double time_us(int on_units) const;
  bool operator==(const ModelKernels&) const = default;
};

// CSV with the columns kernel, units, time_us and, where a kernel runs more than once, index (its
// number in the request from 0; without it kernels run in the order in which they first appear).
// Optional: gap_us (of several rows of a kernel alone that of the most units counts), beside (a
// neighbour's word; empty: alone) and, in rows beside `reading`, presses.
// Numbers of units that were not measured take the time of the next smaller one that was; below the
// smallest, its time in proportion. `units`: of the GPU; a file without a time on all of them is of
// another GPU and refused, as is what is wrong in a line, with FILE:LINE. The model is called after
// the file.
Result<ModelKernels> parse_kernel_csv(const std::string& file, std::string_view text, int units);

// REEF's pair of JSON files: the sequence of kernels with their grids, and per kernel the time with
// 1, 2 ... work-groups on every unit at once. A kernel of G work-groups on n units takes, with
// q = ceil(G / n) work-groups per unit and at most L at once, floor(q / L) full waves and a last
// one with the rest.
struct ReefFiles {
  std::string sequence_file, sequence, table_file, table;
};
Result<ModelKernels> parse_reef(const ReefFiles& files, const std::string& model, int units);

}  // namespace partita::profile
