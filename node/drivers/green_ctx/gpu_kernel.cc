#include "drivers/green_ctx/gpu_kernel.h"

#include <cstdint>
#include <limits>

namespace partita::drivers::green_ctx {

Result<const GpuKernel*> gpu_kernel_of(const device::Kernel& kernel, const std::string& call) {
  const auto* const code = std::get_if<device::DeviceKernel>(&kernel.code);
  if (!code) return failed({ErrorCode::not_supported, "a kernel of threads, not of a GPU", call});
  const auto* const gpu_kernel = static_cast<const GpuKernel*>(code->handle);
  if (!gpu_kernel || !gpu_kernel->kernel)
    return failed({ErrorCode::invalid_argument, "a kernel without code", call});
  if (kernel.groups < 1 || kernel.groups > std::numeric_limits<std::int32_t>::max())
    return failed({ErrorCode::invalid_argument, "a kernel has 1 to 2^31 - 1 work-groups", call});
  return gpu_kernel;
}

}  // namespace partita::drivers::green_ctx
