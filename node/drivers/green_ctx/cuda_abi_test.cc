// Our declarations of CUDA's binary interface against NVIDIA's header. Everything is compared at
// compile time; nothing is where the header is missing or older than what is asked for.
#include <gtest/gtest.h>

#include "drivers/green_ctx/cuda_library.h"

#ifdef PARTITA_HAVE_CUDA_H
#include <cuda.h>
#endif

#if defined(PARTITA_HAVE_CUDA_H) && CUDA_VERSION >= 12050

#include <type_traits>

namespace partita::drivers::green_ctx {
namespace {

// ---- numbers ----

#define SAME_CODE(ours, theirs) static_assert(static_cast<int>(abi::Return::ours) == theirs)
SAME_CODE(success, CUDA_SUCCESS);
SAME_CODE(invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME_CODE(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_CODE(not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_CODE(deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_CODE(stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME_CODE(device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_CODE(no_device, CUDA_ERROR_NO_DEVICE);
SAME_CODE(invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME_CODE(invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME_CODE(invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME_CODE(no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_CODE(ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_CODE(invalid_ptx, CUDA_ERROR_INVALID_PTX);
SAME_CODE(nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_CODE(jit_compiler_not_found, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME_CODE(unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_CODE(jit_compilation_disabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
SAME_CODE(operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME_CODE(invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME_CODE(not_found, CUDA_ERROR_NOT_FOUND);
SAME_CODE(not_ready, CUDA_ERROR_NOT_READY);
SAME_CODE(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_CODE(launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_CODE(launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_CODE(context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_CODE(assertion, CUDA_ERROR_ASSERT);
SAME_CODE(hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_CODE(illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_CODE(misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_CODE(invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME_CODE(invalid_pc, CUDA_ERROR_INVALID_PC);
SAME_CODE(launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME_CODE(not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME_CODE(not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME_CODE(system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
SAME_CODE(system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_CODE(compat_not_supported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME_CODE(mps_connection_failed, CUDA_ERROR_MPS_CONNECTION_FAILED);
SAME_CODE(mps_rpc_failure, CUDA_ERROR_MPS_RPC_FAILURE);
SAME_CODE(mps_server_not_ready, CUDA_ERROR_MPS_SERVER_NOT_READY);
SAME_CODE(mps_max_clients, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
SAME_CODE(mps_max_connections, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED);
SAME_CODE(mps_client_terminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
SAME_CODE(external_device, CUDA_ERROR_EXTERNAL_DEVICE);
SAME_CODE(invalid_cluster_size, CUDA_ERROR_INVALID_CLUSTER_SIZE);
SAME_CODE(invalid_resource_type, CUDA_ERROR_INVALID_RESOURCE_TYPE);
SAME_CODE(invalid_resource_configuration, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
SAME_CODE(unknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000  // codes that came later
SAME_CODE(newer_driver, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
SAME_CODE(contained, CUDA_ERROR_CONTAINED);
SAME_CODE(tensor_memory_leak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
#undef SAME_CODE

static_assert(abi::kVersion <= CUDA_VERSION);
static_assert(abi::kLegacyStream == CU_GET_PROC_ADDRESS_LEGACY_STREAM);
static_assert(abi::kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(abi::kComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(abi::kMaxDynamicShared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(abi::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(abi::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(abi::kHostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(abi::kHostDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(abi::kGreenDefaultStream == CU_GREEN_CTX_DEFAULT_STREAM);
static_assert(abi::kIgnoreSmCoscheduling == CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING);
static_assert(abi::kResourceTypeSm == CU_DEV_RESOURCE_TYPE_SM);
static_assert(static_cast<int>(abi::SymbolStatus::found) == CU_GET_PROC_ADDRESS_SUCCESS);
static_assert(static_cast<int>(abi::SymbolStatus::not_found) ==
              CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
static_assert(static_cast<int>(abi::SymbolStatus::version_too_old) ==
              CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

// ---- layouts ----

#define SAME_FIELD(Ours, ours, Theirs, theirs)                      \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs) && \
                sizeof(Ours::ours) == sizeof(Theirs::theirs))
static_assert(sizeof(abi::Uuid) == sizeof(CUuuid));
static_assert(sizeof(abi::Resource) == sizeof(CUdevResource) &&
              alignof(abi::Resource) == alignof(CUdevResource));
SAME_FIELD(abi::Resource, type, CUdevResource, type);
SAME_FIELD(abi::Resource, internal, CUdevResource, _internal_padding);
SAME_FIELD(abi::Resource, room, CUdevResource, _oversize);
static_assert(offsetof(abi::Resource, sm) == offsetof(CUdevResource, sm));
SAME_FIELD(abi::SmResource, count, CUdevSmResource, smCount);
#if CUDA_VERSION >= 13000
static_assert(sizeof(abi::SmResource) == sizeof(CUdevSmResource));
SAME_FIELD(abi::SmResource, min_partition, CUdevSmResource, minSmPartitionSize);
SAME_FIELD(abi::SmResource, alignment, CUdevSmResource, smCoscheduledAlignment);
#endif
using Node = CUDA_KERNEL_NODE_PARAMS_v2;
static_assert(sizeof(abi::KernelNodeParams) == sizeof(Node));
SAME_FIELD(abi::KernelNodeParams, function, Node, func);
SAME_FIELD(abi::KernelNodeParams, grid_x, Node, gridDimX);
SAME_FIELD(abi::KernelNodeParams, grid_y, Node, gridDimY);
SAME_FIELD(abi::KernelNodeParams, grid_z, Node, gridDimZ);
SAME_FIELD(abi::KernelNodeParams, block_x, Node, blockDimX);
SAME_FIELD(abi::KernelNodeParams, block_y, Node, blockDimY);
SAME_FIELD(abi::KernelNodeParams, block_z, Node, blockDimZ);
SAME_FIELD(abi::KernelNodeParams, shared_bytes, Node, sharedMemBytes);
SAME_FIELD(abi::KernelNodeParams, arguments, Node, kernelParams);
SAME_FIELD(abi::KernelNodeParams, extra, Node, extra);
SAME_FIELD(abi::KernelNodeParams, kernel, Node, kern);
SAME_FIELD(abi::KernelNodeParams, context, Node, ctx);
#undef SAME_FIELD

// ---- prototypes ----

// What a call sees of a type: how often it points, and the size of what is at the end (0: opaque).
template <class T>
constexpr std::size_t size_of() {
  if constexpr (requires { sizeof(T); } && !std::is_void_v<T> && !std::is_function_v<T>) {
    return sizeof(T);
  } else {
    return 0;
  }
}
template <class T>
constexpr std::size_t depth_of() {
  if constexpr (std::is_pointer_v<T>) {
    return 1 + depth_of<std::remove_cv_t<std::remove_pointer_t<T>>>();
  } else {
    return 0;
  }
}
template <class T>
constexpr std::size_t end_of() {
  if constexpr (std::is_pointer_v<T>) {
    return end_of<std::remove_cv_t<std::remove_pointer_t<T>>>();
  } else {
    return size_of<T>();
  }
}
template <class Ours, class Theirs>
constexpr bool same_type =
    depth_of<Ours>() == depth_of<Theirs>() && end_of<Ours>() == end_of<Theirs>();

template <class Ours, class Theirs>
constexpr bool same_prototype = false;
template <class R, class... A, class S, class... B>
constexpr bool same_prototype<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return same_type<R, S> && (same_type<A, B> && ...);
  } else {
    return false;
  }
}();
static_assert(!same_prototype<int (*)(int*), int (*)(int)> &&
              !same_prototype<int (*)(int), int (*)(long)> &&
              !same_prototype<int (*)(int), int (*)(int, int)>);

#define SAME_CALL(ours, theirs) \
  static_assert(same_prototype<decltype(CudaApi::ours), decltype(&::theirs)>)
SAME_CALL(error_name, cuGetErrorName);
SAME_CALL(error_string, cuGetErrorString);
SAME_CALL(init, cuInit);
SAME_CALL(driver_version, cuDriverGetVersion);
SAME_CALL(device_count, cuDeviceGetCount);
SAME_CALL(device, cuDeviceGet);
SAME_CALL(device_name, cuDeviceGetName);
SAME_CALL(device_uuid, cuDeviceGetUuid);
SAME_CALL(device_attribute, cuDeviceGetAttribute);
SAME_CALL(retain_primary, cuDevicePrimaryCtxRetain);
SAME_CALL(release_primary, cuDevicePrimaryCtxRelease);
SAME_CALL(push_context, cuCtxPushCurrent);
SAME_CALL(pop_context, cuCtxPopCurrent);
SAME_CALL(device_resource, cuDeviceGetDevResource);
SAME_CALL(split, cuDevSmResourceSplitByCount);
SAME_CALL(describe, cuDevResourceGenerateDesc);
SAME_CALL(create_green, cuGreenCtxCreate);
SAME_CALL(destroy_green, cuGreenCtxDestroy);
SAME_CALL(context_of_green, cuCtxFromGreenCtx);
SAME_CALL(green_resource, cuGreenCtxGetDevResource);
SAME_CALL(create_green_stream, cuGreenCtxStreamCreate);
SAME_CALL(create_stream, cuStreamCreate);
SAME_CALL(destroy_stream, cuStreamDestroy);
SAME_CALL(query_stream, cuStreamQuery);
SAME_CALL(synchronise_stream, cuStreamSynchronize);
SAME_CALL(wait_event, cuStreamWaitEvent);
SAME_CALL(create_event, cuEventCreate);
SAME_CALL(destroy_event, cuEventDestroy);
SAME_CALL(record_event, cuEventRecord);
SAME_CALL(query_event, cuEventQuery);
SAME_CALL(synchronise_event, cuEventSynchronize);
SAME_CALL(load_library, cuLibraryLoadData);
SAME_CALL(unload_library, cuLibraryUnload);
SAME_CALL(library_kernel, cuLibraryGetKernel);
SAME_CALL(kernel_function, cuKernelGetFunction);
SAME_CALL(load_function, cuFuncLoad);
SAME_CALL(set_kernel_attribute, cuKernelSetAttribute);
SAME_CALL(launch, cuLaunchKernel);
SAME_CALL(memory_info, cuMemGetInfo);
SAME_CALL(allocate, cuMemAlloc);
SAME_CALL(free, cuMemFree);
SAME_CALL(set_bytes, cuMemsetD8);
SAME_CALL(copy_to_host, cuMemcpyDtoH);
SAME_CALL(copy_in, cuMemcpyHtoDAsync);
SAME_CALL(copy_out, cuMemcpyDtoHAsync);
SAME_CALL(allocate_host, cuMemHostAlloc);
SAME_CALL(free_host, cuMemFreeHost);
SAME_CALL(host_pointer, cuMemHostGetDevicePointer);
SAME_CALL(create_graph, cuGraphCreate);
SAME_CALL(destroy_graph, cuGraphDestroy);
SAME_CALL(add_kernel_node, cuGraphAddKernelNode);
SAME_CALL(kernel_node_params, cuGraphKernelNodeGetParams);
SAME_CALL(instantiate, cuGraphInstantiateWithFlags);
SAME_CALL(launch_graph, cuGraphLaunch);
SAME_CALL(destroy_exec, cuGraphExecDestroy);
#undef SAME_CALL

TEST(CudaAbi, AgreesWithNvidiasHeader) {
  // Compiling this file was the comparison; that it covers every function is left.
  constexpr std::size_t kCompared = 55;
  EXPECT_EQ(sizeof(CudaApi), sizeof(CudaFinder) + kCompared * sizeof(void*));
}

}  // namespace
}  // namespace partita::drivers::green_ctx

#else

namespace {

TEST(CudaAbi, AgreesWithNvidiasHeader) { GTEST_SKIP() << "no <cuda.h> of CUDA 12.5 or later"; }

}  // namespace

#endif
