// GpuKernel: what DeviceKernel::handle points to for the GreenCtxDriver: a kernel of CUDA with the
// size of its work-groups and its arguments. Owned by the caller; read during launch() and
// create_graph() alone. Kernel::groups is the grid's x.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/lane_driver.h"
#include "drivers/green_ctx/cuda_abi.h"

namespace partita::drivers::green_ctx {

struct GpuKernel {
  abi::Kernel kernel =
      nullptr;                // of cuLibraryGetKernel: it belongs to no context, so any mask fits
  unsigned threads = 1;       // per work-group
  unsigned shared_bytes = 0;  // dynamic shared memory per work-group
  std::vector<void*> arguments = {};  // one pointer to a value for each parameter
};

// The code of a kernel that a GPU can run; not_supported for one of threads, invalid_argument for
// one without code, without work-groups or with more than 2^31 - 1. `call` becomes the context.
Result<const GpuKernel*> gpu_kernel_of(const device::Kernel& kernel, const std::string& call);

}  // namespace partita::drivers::green_ctx
