// Where workers are measured on a GPU: an instance of a size that is there and idle, one that is
// lent for it where MIG is on and nobody uses the GPU, or a share of the threads of a whole GPU
// without MIG. Settings (MIG mode, power, clocks) are only read. What was lent is given back by
// give_back(), and by the destructor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/node_driver.h"
#include "act/loans/loans.h"

namespace partita::serve {

struct GpuPlace {
  int gpcs = 0;
  std::string device;        // UUID, as in CUDA_VISIBLE_DEVICES
  std::string profile = {};  // of the instance; empty: the whole GPU
  double percentage = 100;   // of the device's threads, for all workers together
  bool operator==(const GpuPlace&) const = default;
};

// "1g,2g", "1,2", "1..3" or "all": sizes out of `offered` (ascending), ascending. bad_input with
// `flag` for others.
Result<std::vector<int>> parse_sizes(const std::string& flag, const std::string& text,
                                     const std::vector<int>& offered);

class GpuPlaces {
 public:
  // `slices`: compute slices of the whole GPU, for one without MIG. Driver and loans, which are of
  // the same node, outlive it.
  GpuPlaces(device::NodeDriver& driver, exec::Loans& loans, int gpu, int slices)
      : driver_(driver), loans_(loans), gpu_(gpu), slices_(slices) {}
  ~GpuPlaces();
  GpuPlaces(const GpuPlaces&) = delete;
  GpuPlaces& operator=(const GpuPlaces&) = delete;

  // Sizes in compute slices that can be measured, ascending, not empty. lost, not_found, and
  // not_supported where the sizes of the GPU are not known.
  Result<std::vector<int>> sizes();
  // A place of this size; gives the one before back. in_use where processes are in the way, no_room
  // where instances of others are.
  Result<GpuPlace> borrow(int gpcs);
  // Gives back what was lent, waiting up to 10 s for processes that end. Nothing borrowed: nothing.
  Result<void> give_back();
  // Memory that is used on the borrowed place now; nothing where the driver does not tell.
  std::optional<Mib> memory_used();

 private:
  Result<device::GpuState> read();

  device::NodeDriver& driver_;
  exec::Loans& loans_;
  int gpu_ = 0, slices_ = 0;
  std::optional<GpuPlace> place_;
  std::string lent_;  // the device that was made for us, if any
};

}  // namespace partita::serve
