// LayoutState: which instances are on which GPU at one moment of a change, and what still fits.
// Used while steps are put in order. Internal to actuate.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/layout.h"

namespace partita::actuate {

// Where an instance is, in dense numbers.
struct Slot : hw::PlacedProfile {  // profile -1: the catalogue does not know it
  int gpu = 0;                     // index into LayoutState's GPUs
  int size = 0;
  bool operator==(const Slot&) const = default;
};

class LayoutState {
 public:
  // Adds a GPU; its index is the number of those before it. One that is not `open` (MIG is off) has
  // no free slices.
  void add_gpu(const hw::GpuModel* model, bool open) { gpus_.push_back({model, open, {}, 0}); }
  int gpus() const { return static_cast<int>(gpus_.size()); }
  const hw::GpuModel& model(int gpu) const { return *at(gpu).model; }

  void put(const Slot& slot);
  void take(const Slot& slot);
  // Whether an instance of a known profile could be created there now.
  bool fits(const Slot& slot) const;
  // Whether it could be after taking `without` away as well.
  bool fits_without(const Slot& slot, const std::vector<Slot>& without) const;
  // Free memory slices.
  int free_slices(int gpu) const;

 private:
  struct Gpu {
    const hw::GpuModel* model = nullptr;
    bool open = true;
    std::vector<Slot> present;
    std::uint32_t used = 0;  // memory slices, as bits
  };
  const Gpu& at(int gpu) const { return gpus_[static_cast<std::size_t>(gpu)]; }
  Gpu& at(int gpu) { return gpus_[static_cast<std::size_t>(gpu)]; }
  std::vector<Gpu> gpus_;
};

// The memory slices of a slot, as bits.
std::uint32_t slices_of(const Slot& slot);

}  // namespace partita::actuate
