#include "drivers/nvml_mig/nvml_library.h"

#include <utility>

#include "device/vendor_fault.h"

namespace partita::drivers::nvml_mig {
namespace {

using abi::Return;

constexpr device::VendorFault<Return> kFaults[] = {
    {Return::driver_not_loaded, ErrorCode::no_driver, "NVIDIA's kernel driver is not loaded"},
    {Return::library_not_found, ErrorCode::no_driver, "a library of NVIDIA's driver is missing"},
    {Return::lib_rm_version_mismatch, ErrorCode::no_driver,
     "libnvidia-ml and the kernel driver are of different versions; reload the driver"},
    {Return::no_permission, ErrorCode::denied,
     "missing rights; MIG, clocks and power limits are changed as root"},
    {Return::not_found, ErrorCode::not_found},
    {Return::gpu_not_found, ErrorCode::not_found},
    {Return::not_supported, ErrorCode::not_supported},
    {Return::function_not_found, ErrorCode::not_supported,
     "the installed driver is too old for this call"},
    {Return::invalid_argument, ErrorCode::invalid_argument},
    {Return::insufficient_resources, ErrorCode::no_room, "the placement or the capacity is taken"},
    {Return::in_use, ErrorCode::in_use, "a process or a compute instance holds it"},
    {Return::reset_required, ErrorCode::reset_required, "takes effect after a reset of the GPU"},
    {Return::gpu_is_lost, ErrorCode::lost, "the GPU fell off the bus"},
    {Return::timeout, ErrorCode::timeout},
};

}  // namespace

Error NvmlLibrary::error(Return code, std::string call) const {
  const auto fault = device::fault_of(kFaults, code);
  const char* words = fault.words;
  if (words == nullptr && api_.error_string) words = api_.error_string(code);
  return {fault.code, device::coded(words, "NVML", code), std::move(call)};
}

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::open(const std::string& file) {
  auto loaded = SharedLibrary::open({file});
  if (!loaded)
    return failed({ErrorCode::no_driver,
                   "NVIDIA's management library cannot be loaded; is the driver installed? (" +
                       loaded.error() + ")",
                   file});
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(*std::move(loaded)));
  const NvmlApi& api = library->api_;
  TRY(api.init_with_flags
          ? library->call("nvmlInitWithFlags", api.init_with_flags, abi::kInitNoGpus)
          : library->call("nvmlInit", api.init));
  library->initialised_ = true;
  return library;
}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_ && api_.shutdown) api_.shutdown();
}

}  // namespace partita::drivers::nvml_mig
