// Our declarations against AMD's headers, where they are installed: numbers, and that functions
// take and answer the same in number and size.
#include <gtest/gtest.h>

#if __has_include(<hip/hip_runtime_api.h>) && __has_include(<hip/hiprtc.h>)

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#pragma GCC diagnostic pop

#include <type_traits>

#include "drivers/hip_mask/hip_abi.h"

namespace partita::drivers::hip_mask {
namespace {

// Both are pointers, or neither is and they have the same size.
template <class Ours, class Theirs>
constexpr bool kAlike = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                        sizeof(Ours) == sizeof(Theirs) && !std::is_floating_point_v<Theirs>;

template <class Ours, class... OurParameters, class Theirs, class... TheirParameters>
constexpr bool alike(Ours (*)(OurParameters...), Theirs (*)(TheirParameters...)) {
  if constexpr (sizeof...(OurParameters) != sizeof...(TheirParameters)) {
    return false;
  } else {
    return kAlike<Ours, Theirs> && (kAlike<OurParameters, TheirParameters> && ...);
  }
}

constexpr abi::HipApi kHip{};
constexpr abi::CompilerApi kCompiler{};

// C++ overloads of AMD's headers make some names ambiguous; the C function is the one named here.
using Malloc = hipError_t (*)(void**, std::size_t);
using HostMalloc = hipError_t (*)(void**, std::size_t, unsigned);

static_assert(alike(kHip.get_device_count, &hipGetDeviceCount));
static_assert(alike(kHip.set_device, &hipSetDevice));
static_assert(alike(kHip.get_attribute, &hipDeviceGetAttribute));
static_assert(alike(kHip.get_name, &hipDeviceGetName));
static_assert(alike(kHip.compute_capability, &hipDeviceComputeCapability));
static_assert(alike(kHip.error_string, &hipGetErrorString));
static_assert(alike(kHip.create_stream, &hipExtStreamCreateWithCUMask));
static_assert(alike(kHip.get_mask, &hipExtStreamGetCUMask));
static_assert(alike(kHip.destroy_stream, &hipStreamDestroy));
static_assert(alike(kHip.synchronise_stream, &hipStreamSynchronize));
static_assert(alike(kHip.query_stream, &hipStreamQuery));
static_assert(alike(kHip.wait_event, &hipStreamWaitEvent));
static_assert(alike(kHip.create_event, &hipEventCreateWithFlags));
static_assert(alike(kHip.record_event, &hipEventRecord));
static_assert(alike(kHip.query_event, &hipEventQuery));
static_assert(alike(kHip.destroy_event, &hipEventDestroy));
static_assert(alike(kHip.load_module, &hipModuleLoadData));
static_assert(alike(kHip.unload_module, &hipModuleUnload));
static_assert(alike(kHip.get_function, &hipModuleGetFunction));
static_assert(alike(kHip.launch, &hipModuleLaunchKernel));
static_assert(alike(kHip.host_malloc, static_cast<HostMalloc>(&hipHostMalloc)));
static_assert(alike(kHip.host_free, &hipHostFree));
static_assert(alike(kHip.device_malloc, static_cast<Malloc>(&hipMalloc)));
static_assert(alike(kHip.device_free, &hipFree));
static_assert(alike(kHip.copy, &hipMemcpyAsync));
static_assert(alike(kHip.memory_info, &hipMemGetInfo));
static_assert(alike(kCompiler.create, &hiprtcCreateProgram));
static_assert(alike(kCompiler.compile, &hiprtcCompileProgram));
static_assert(alike(kCompiler.log_size, &hiprtcGetProgramLogSize));
static_assert(alike(kCompiler.log, &hiprtcGetProgramLog));
static_assert(alike(kCompiler.code_size, &hiprtcGetCodeSize));
static_assert(alike(kCompiler.code, &hiprtcGetCode));
static_assert(alike(kCompiler.destroy, &hiprtcDestroyProgram));
static_assert(!alike(kHip.set_device, &hipGetDeviceCount) &&
              !alike(kHip.get_mask, &hipStreamQuery));

template <auto kOurs, auto kTheirs>
constexpr bool same() {
  return static_cast<long long>(kOurs) == static_cast<long long>(kTheirs);
}
static_assert(same<abi::CopyKind::to_device, hipMemcpyHostToDevice>() &&
              same<abi::CopyKind::to_host, hipMemcpyDeviceToHost>());
using enum abi::Status;
static_assert(same<success, hipSuccess>() && same<invalid_value, hipErrorInvalidValue>());
static_assert(same<out_of_memory, hipErrorOutOfMemory>());
static_assert(same<not_initialized, hipErrorNotInitialized>());
static_assert(same<deinitialized, hipErrorDeinitialized>());
static_assert(same<invalid_configuration, hipErrorInvalidConfiguration>());
static_assert(same<insufficient_driver, hipErrorInsufficientDriver>());
static_assert(same<invalid_device_function, hipErrorInvalidDeviceFunction>());
static_assert(same<no_device, hipErrorNoDevice>() && same<invalid_device, hipErrorInvalidDevice>());
static_assert(same<invalid_image, hipErrorInvalidImage>());
static_assert(same<invalid_context, hipErrorInvalidContext>());
static_assert(same<no_binary_for_gpu, hipErrorNoBinaryForGpu>());
static_assert(same<ecc_not_correctable, hipErrorECCNotCorrectable>());
static_assert(same<invalid_handle, hipErrorInvalidHandle>() && same<not_found, hipErrorNotFound>());
static_assert(same<not_ready, hipErrorNotReady>());
static_assert(same<illegal_address, hipErrorIllegalAddress>());
static_assert(same<launch_out_of_resources, hipErrorLaunchOutOfResources>());
static_assert(same<launch_timeout, hipErrorLaunchTimeOut>());
static_assert(same<context_is_destroyed, hipErrorContextIsDestroyed>());
static_assert(same<assert_failed, hipErrorAssert>());
static_assert(same<launch_failure, hipErrorLaunchFailure>());
static_assert(same<not_supported, hipErrorNotSupported>() && same<unknown, hipErrorUnknown>());
using abi::Attribute;
static_assert(same<Attribute::multiprocessor_count, hipDeviceAttributeMultiprocessorCount>());
static_assert(same<Attribute::pci_bus, hipDeviceAttributePciBusId>());
static_assert(same<Attribute::pci_device, hipDeviceAttributePciDeviceId>());
static_assert(same<Attribute::pci_domain, hipDeviceAttributePciDomainID>());
static_assert(same<Attribute::physical_multiprocessor_count,
                   hipDeviceAttributePhysicalMultiProcessorCount>());
static_assert(abi::kEventDisableTiming == hipEventDisableTiming);
static_assert(abi::kHostPortable == hipHostMallocPortable);
static_assert(abi::kHostMapped == hipHostMallocMapped);
static_assert(abi::kHostCoherent == hipHostMallocCoherent);

TEST(HipAbi, AgreesWithTheInstalledHeader) { SUCCEED() << "HIP " << HIP_VERSION; }

}  // namespace
}  // namespace partita::drivers::hip_mask

#else

TEST(HipAbi, AgreesWithTheInstalledHeader) { GTEST_SKIP() << "no hip/hip_runtime_api.h"; }

#endif
