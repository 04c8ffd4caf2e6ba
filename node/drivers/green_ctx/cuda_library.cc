#include "drivers/green_ctx/cuda_library.h"

#include <fmt/format.h>

#include <utility>

#include "device/vendor_fault.h"

namespace partita::drivers::green_ctx {
namespace {

using abi::Return;

constexpr const char* kContextGone =
    "the primary context is gone; somebody in this process reset the GPU";
constexpr const char* kNoMps = "MPS is on, but its control daemon does not answer";
constexpr device::VendorFault<Return> kFaults[] = {
    {Return::invalid_value, ErrorCode::invalid_argument},
    {Return::invalid_handle, ErrorCode::invalid_argument},
    {Return::launch_out_of_resources, ErrorCode::invalid_argument},
    {Return::invalid_cluster_size, ErrorCode::invalid_argument},
    {Return::invalid_resource_type, ErrorCode::invalid_argument},
    {Return::invalid_resource_configuration, ErrorCode::invalid_argument},
    {Return::out_of_memory, ErrorCode::limit, "the GPU's memory is full"},
    {Return::no_device, ErrorCode::not_found,
     "CUDA shows no GPU; is one there, and does CUDA_VISIBLE_DEVICES let it be seen?"},
    {Return::invalid_device, ErrorCode::not_found},
    {Return::not_found, ErrorCode::not_found},
    {Return::not_supported, ErrorCode::not_supported},
    {Return::no_binary_for_gpu, ErrorCode::not_supported},
    // After any of these nothing works in this process until the context is made anew.
    {Return::deinitialized, ErrorCode::lost},
    {Return::invalid_context, ErrorCode::lost, kContextGone},
    {Return::ecc_uncorrectable, ErrorCode::lost},
    {Return::nvlink_uncorrectable, ErrorCode::lost},
    {Return::contained, ErrorCode::lost},
    {Return::illegal_address, ErrorCode::lost},
    {Return::launch_timeout, ErrorCode::lost},
    {Return::context_is_destroyed, ErrorCode::lost, kContextGone},
    {Return::assertion, ErrorCode::lost},
    {Return::hardware_stack_error, ErrorCode::lost},
    {Return::illegal_instruction, ErrorCode::lost},
    {Return::misaligned_address, ErrorCode::lost},
    {Return::invalid_address_space, ErrorCode::lost},
    {Return::invalid_pc, ErrorCode::lost},
    {Return::launch_failed, ErrorCode::lost},
    {Return::tensor_memory_leak, ErrorCode::lost},
    {Return::mps_rpc_failure, ErrorCode::lost},
    {Return::mps_client_terminated, ErrorCode::lost},
    {Return::external_device, ErrorCode::lost},
    {Return::stub_library, ErrorCode::environment,
     "this libcuda is the stub for linking; the driver's own is needed"},
    {Return::system_driver_mismatch, ErrorCode::environment,
     "libcuda and the kernel driver are of different versions; reload the driver"},
    {Return::system_not_ready, ErrorCode::environment,
     "the system is not ready for CUDA; does the fabric manager run?"},
    {Return::device_unavailable, ErrorCode::environment,
     "the GPU is busy: another process has it for itself"},
    {Return::mps_connection_failed, ErrorCode::environment, kNoMps},
    {Return::mps_server_not_ready, ErrorCode::environment, kNoMps},
};

}  // namespace

Error CudaLibrary::error(Return code, std::string call) const {
  const char* name = nullptr;
  const auto fault = device::fault_of(kFaults, code);
  const char* text = fault.words;
  if (api_.error_name) api_.error_name(code, &name);
  if (!text && api_.error_string) api_.error_string(code, &text);
  const int number = static_cast<int>(code);
  std::string message =
      fmt::format("{}{} {}", name ? name : "CUDA code", name ? ", code" : "", number);
  if (text) message = fmt::format("{} ({})", text, message);
  return {fault.code, std::move(message), std::move(call)};
}

SharedLibrary::Symbol CudaFinder::operator()(const char* name) {
  void* symbol = nullptr;
  auto status = abi::SymbolStatus::not_found;
  const bool there =
      get && get(name, &symbol, abi::kVersion, abi::kLegacyStream, &status) == Return::success &&
      status == abi::SymbolStatus::found && symbol;
  if (!there && !missing) missing = name;
  return SharedLibrary::Symbol(there ? symbol : nullptr);
}

Result<void> CudaLibrary::check(const std::string& file) const {
  constexpr std::string_view kNeeds =
      "lanes need the interface of CUDA 12.5 (driver R555 or later)";
  const CudaFinder& find = api_.find;
  if (!find.get)
    return environment_error(
        file, fmt::format("the driver is too old: it has no cuGetProcAddress_v2; {}", kNeeds));
  if (!find.missing) return {};
  int version = 0;
  const bool known = api_.driver_version && api_.driver_version(&version) == Return::success;
  return environment_error(
      file,
      fmt::format(
          "the driver is too old: it has no {}{}; {}", find.missing,
          known ? fmt::format(" and is of CUDA {}.{}", version / 1000, version % 1000 / 10) : "",
          kNeeds));
}

Result<std::shared_ptr<const CudaLibrary>> CudaLibrary::open(const std::string& file) {
  // Once loaded it stays: threads of its own may run on after the last context is gone.
  auto loaded = SharedLibrary::open({file}, true);
  if (!loaded)
    return environment_error(
        file, fmt::format("NVIDIA's CUDA driver library cannot be loaded; is the driver installed? "
                          "({})",
                          loaded.error()));
  const std::shared_ptr<const CudaLibrary> library(new CudaLibrary(*std::move(loaded)));
  TRY(library->check(file));
  TRY(library->checked(library->api_.init(0), "cuInit(0)"));
  return library;
}

}  // namespace partita::drivers::green_ctx
