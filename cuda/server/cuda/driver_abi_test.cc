// Our declarations against NVIDIA's, where its header is.
#include "server/cuda/driver_abi.h"

#include <gtest/gtest.h>

#include "wire/operations.h"

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
static_assert(sizeof(Copy3D) == sizeof(CUDA_MEMCPY3D));
static_assert(offsetof(Copy3D, from.x) == offsetof(CUDA_MEMCPY3D, srcXInBytes));
static_assert(offsetof(Copy3D, from.z) == offsetof(CUDA_MEMCPY3D, srcZ));
static_assert(offsetof(Copy3D, from.type) == offsetof(CUDA_MEMCPY3D, srcMemoryType));
static_assert(offsetof(Copy3D, from.host) == offsetof(CUDA_MEMCPY3D, srcHost));
static_assert(offsetof(Copy3D, from.device) == offsetof(CUDA_MEMCPY3D, srcDevice));
static_assert(offsetof(Copy3D, from.array) == offsetof(CUDA_MEMCPY3D, srcArray));
static_assert(offsetof(Copy3D, from.pitch) == offsetof(CUDA_MEMCPY3D, srcPitch));
static_assert(offsetof(Copy3D, from.height) == offsetof(CUDA_MEMCPY3D, srcHeight));
static_assert(offsetof(Copy3D, to.x) == offsetof(CUDA_MEMCPY3D, dstXInBytes));
static_assert(offsetof(Copy3D, to.type) == offsetof(CUDA_MEMCPY3D, dstMemoryType));
static_assert(offsetof(Copy3D, to.device) == offsetof(CUDA_MEMCPY3D, dstDevice));
static_assert(offsetof(Copy3D, to.array) == offsetof(CUDA_MEMCPY3D, dstArray));
static_assert(offsetof(Copy3D, to.height) == offsetof(CUDA_MEMCPY3D, dstHeight));
static_assert(offsetof(Copy3D, width) == offsetof(CUDA_MEMCPY3D, WidthInBytes));
static_assert(offsetof(Copy3D, height) == offsetof(CUDA_MEMCPY3D, Height));
static_assert(offsetof(Copy3D, depth) == offsetof(CUDA_MEMCPY3D, Depth));
static_assert(kMemoryArray == CU_MEMORYTYPE_ARRAY);
static_assert(sizeof(ArrayDescription) == sizeof(CUDA_ARRAY3D_DESCRIPTOR));
static_assert(offsetof(ArrayDescription, depth) == offsetof(CUDA_ARRAY3D_DESCRIPTOR, Depth));
static_assert(offsetof(ArrayDescription, format) == offsetof(CUDA_ARRAY3D_DESCRIPTOR, Format));
static_assert(offsetof(ArrayDescription, channels) ==
              offsetof(CUDA_ARRAY3D_DESCRIPTOR, NumChannels));
static_assert(offsetof(ArrayDescription, flags) == offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags));
static_assert(sizeof(Resource) == sizeof(CUDA_RESOURCE_DESC));
static_assert(offsetof(Resource, of) == offsetof(CUDA_RESOURCE_DESC, res));
static_assert(offsetof(Resource, of.array) == offsetof(CUDA_RESOURCE_DESC, res.array.hArray));
static_assert(offsetof(Resource, of.line.at) == offsetof(CUDA_RESOURCE_DESC, res.linear.devPtr));
static_assert(offsetof(Resource, of.line.channels) ==
              offsetof(CUDA_RESOURCE_DESC, res.linear.numChannels));
static_assert(offsetof(Resource, of.line.bytes) ==
              offsetof(CUDA_RESOURCE_DESC, res.linear.sizeInBytes));
static_assert(offsetof(Resource, of.rows.format) ==
              offsetof(CUDA_RESOURCE_DESC, res.pitch2D.format));
static_assert(offsetof(Resource, of.rows.width) == offsetof(CUDA_RESOURCE_DESC, res.pitch2D.width));
static_assert(offsetof(Resource, of.rows.pitch) ==
              offsetof(CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes));
static_assert(offsetof(Resource, flags) == offsetof(CUDA_RESOURCE_DESC, flags));
static_assert(kResourceArray == CU_RESOURCE_TYPE_ARRAY &&
              kResourceLine == CU_RESOURCE_TYPE_LINEAR &&
              kResourceRows == CU_RESOURCE_TYPE_PITCH2D);
static_assert(sizeof(Sampling) == sizeof(CUDA_TEXTURE_DESC));
static_assert(offsetof(Sampling, filter) == offsetof(CUDA_TEXTURE_DESC, filterMode));
static_assert(offsetof(Sampling, flags) == offsetof(CUDA_TEXTURE_DESC, flags));
static_assert(offsetof(Sampling, border) == offsetof(CUDA_TEXTURE_DESC, borderColor));
static_assert(kReadAsInteger == CU_TRSF_READ_AS_INTEGER &&
              kNormalizedPlaces == CU_TRSF_NORMALIZED_COORDINATES);
static_assert(CU_AD_FORMAT_UNSIGNED_INT8 == 1 && CU_AD_FORMAT_UNSIGNED_INT32 == 3 &&
              CU_AD_FORMAT_SIGNED_INT8 == 8 && CU_AD_FORMAT_SIGNED_INT32 == 10 &&
              CU_AD_FORMAT_HALF == 0x10 && CU_AD_FORMAT_FLOAT == 0x20);
static_assert(sizeof(NodeParameters) == sizeof(CUgraphNodeParams));
static_assert(offsetof(NodeParameters, of) == offsetof(CUgraphNodeParams, conditional));
static_assert(offsetof(NodeParameters, of.conditional.kind) ==
              offsetof(CUgraphNodeParams, conditional.type));
static_assert(offsetof(NodeParameters, of.conditional.size) ==
              offsetof(CUgraphNodeParams, conditional.size));
static_assert(offsetof(NodeParameters, of.conditional.bodies) ==
              offsetof(CUgraphNodeParams, conditional.phGraph_out));
static_assert(offsetof(NodeParameters, of.conditional.context) ==
              offsetof(CUgraphNodeParams, conditional.ctx));
static_assert(kConditionalNode == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
              kAssignDefault == CU_GRAPH_COND_ASSIGN_DEFAULT &&
              kSetDependencies == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
static_assert(CU_GRAPH_COND_TYPE_IF == kIf - 1 && CU_GRAPH_COND_TYPE_WHILE == kWhile - 1 &&
              CU_GRAPH_COND_TYPE_SWITCH == kSwitch - 1);
static_assert(sizeof(CUgraphConditionalHandle) == sizeof(Condition) &&
              sizeof(CUtexObject) == sizeof(TextureNumber) &&
              sizeof(CUsurfObject) == sizeof(TextureNumber));
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
