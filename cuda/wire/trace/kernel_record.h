// The kernels that a recorded connection launched, by requests: for `partita remote run
// --record-kernels`. Where the program says when a request ends, that counts. Else requests end
// where it waits, if most kernels are then those of equal requests; else they begin at the kernel
// from which on the launches repeat.
// Of graphs those kernels count that surely run: none in the branches of conditional nodes.
#pragma once

#include <string>
#include <vector>

#include "wire/trace/format.h"

namespace partita::remote {

struct RecordedKernel {
  std::size_t request = 0;
  std::string name = {};
  Extent3 grid = {}, block = {};
  std::uint32_t shared_bytes = 0;  // dynamic
  std::uint64_t stream = 0;
  std::int64_t nanoseconds = 0;  // since the recording began
};

enum class Borders : std::uint8_t { said, waits, learned };

struct RecordedKernels {
  std::vector<RecordedKernel> kernels = {};
  std::size_t requests = 0;
  Borders borders = Borders::waits;
};

RecordedKernels recorded_kernels(const Trace& trace);
// Another connection's requests behind those before.
void append(RecordedKernels& to, RecordedKernels more);

// index,kernel,request,grid,block,shared_bytes,stream,at_us: index within its request, grid and
// block as 8x1x1.
std::string to_csv(const RecordedKernels& recorded);

}  // namespace partita::remote
