// The SMs of a GPU, split once into atoms: groups of equally many SMs that masks are made of. Only
// groups of one and the same split can be combined, so there is one split per driver. Plain data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "drivers/green_ctx/primary_context.h"
#include "hw/topology.h"

namespace partita::drivers::green_ctx {

struct Atoms {
  int size = 0;                       // SMs in each
  std::vector<abi::Resource> groups;  // one for each atom
  // SMs as masks see them: the board's arrangement in GPCs where its name is known and its atoms
  // and SMs are as many as the device says, else one cluster of whole atoms and what is left over.
  hw::Topology topology;
};

// Splits into atoms of `size` SMs; 0: the smallest that keeps SMs scheduled together (8 from
// compute capability 9.0 on). invalid_argument where the device makes no groups of that size, limit
// where it has more than hw::kMaxUnits SMs.
Result<Atoms> split_into_atoms(const PrimaryContext& gpu, int size);

// A GPU (ordinal or UUID) of the library in `file`, split so. Errors of CudaLibrary, PrimaryContext
// and split_into_atoms.
struct SplitGpu {
  std::shared_ptr<const PrimaryContext> gpu;
  Atoms atoms;
};
Result<SplitGpu> open_split(const std::string& file, const std::string& gpu, int size);

}  // namespace partita::drivers::green_ctx
