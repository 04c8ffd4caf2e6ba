// Our declarations against NVIDIA's, where its header is.
#include "server/cuda/driver_abi.h"

#include <gtest/gtest.h>

#ifdef PARTITA_HAVE_CUDA_H
#include <cuda.h>

namespace partita::remote::cuda::abi {
namespace {

static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Copy2D, from_type) == offsetof(CUDA_MEMCPY2D, srcMemoryType));
static_assert(offsetof(Copy2D, from_device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(Copy2D, from_pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(Copy2D, to_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(Copy2D, to_device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(Copy2D, to_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(Copy2D, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(Copy2D, height) == offsetof(CUDA_MEMCPY2D, Height));
static_assert(sizeof(CUmemGenericAllocationHandle) == sizeof(AllocationHandle));
static_assert(sizeof(CUdeviceptr) == sizeof(DevicePointer) && sizeof(CUuuid) == sizeof(Uuid));
static_assert(kPinned == CU_MEM_ALLOCATION_TYPE_PINNED &&
              kReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE &&
              kMemoryDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING &&
              kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kHostMapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kWaitEqual == CU_STREAM_WAIT_VALUE_EQ &&
              kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kJitErrorLog == CU_JIT_ERROR_LOG_BUFFER &&
              kJitErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(kMaxDynamicShared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

TEST(DriverAbi, IsNvidias) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(CU_LAUNCH_PARAM_BUFFER_POINTER), kBufferPointer);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(CU_LAUNCH_PARAM_BUFFER_SIZE), kBufferSize);
}

}  // namespace
}  // namespace partita::remote::cuda::abi
#else
TEST(DriverAbi, IsNvidias) { GTEST_SKIP() << "there is no cuda.h to compare with"; }
#endif
