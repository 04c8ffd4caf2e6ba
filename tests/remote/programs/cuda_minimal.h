// The part of CUDA that the programs here use, in three forms, so that one source serves three
// compilers: nvcc has the toolkit's own headers; clang (-nocudainc -nocudalib) has declarations of
// ours; any other C++ compiler makes the host's half alone and takes the kernels from PTX that
// clang made earlier (PARTITA_PROGRAM_PTX names that file). Own declarations of a public interface.
#pragma once

#if defined(__NVCC__)
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>
#define DEVICE_ASSERT(condition) assert(condition)
#define device_exp __expf
#else

#include <cstddef>
#include <cstdlib>

#if defined(__CUDA__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#else
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__
#endif

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
      : x(a), y(b), z(c) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return {x, y, z}; }
};
struct alignas(16) float4 {
  float x, y, z, w;
};

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorAssert = 710,
  cudaErrorLaunchFailure = 719,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrCooperativeLaunch = 95
};
enum {
  cudaStreamNonBlocking = 1,
  cudaEventDefault = 0,
  cudaEventDisableTiming = 2,
  cudaHostAllocDefault = 0
};

enum cudaChannelFormatKind {
  cudaChannelFormatKindSigned,
  cudaChannelFormatKindUnsigned,
  cudaChannelFormatKindFloat
};
enum cudaResourceType { cudaResourceTypeArray = 0, cudaResourceTypeLinear = 2 };
enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType };
enum { cudaArraySurfaceLoadStore = 2 };
typedef struct cudaArray* cudaArray_t;
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;
struct cudaChannelFormatDesc {
  int x, y, z, w;
  cudaChannelFormatKind f;
};
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPos {
  size_t x, y, z;
};
struct cudaPitchedPtr {
  void* ptr;
  size_t pitch, xsize, ysize;
};
struct cudaMemcpy3DParms {
  cudaArray_t srcArray;
  cudaPos srcPos;
  cudaPitchedPtr srcPtr;
  cudaArray_t dstArray;
  cudaPos dstPos;
  cudaPitchedPtr dstPtr;
  cudaExtent extent;
  cudaMemcpyKind kind;
};
struct cudaResourceDesc {
  cudaResourceType resType;
  union {
    struct {
      cudaArray_t array;
    } array;
    struct {
      void* devPtr;
      cudaChannelFormatDesc desc;
      size_t sizeInBytes;
    } linear;
    int reserved[32];
  } res;
  unsigned flags;
};
struct cudaTextureDesc {
  cudaTextureAddressMode addressMode[3];
  cudaTextureFilterMode filterMode;
  cudaTextureReadMode readMode;
  int sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned maxAnisotropy;
  cudaTextureFilterMode mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
  int disableTrilinearOptimization, seamlessCubemap;
};

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef unsigned long long cudaGraphConditionalHandle;
enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,
  cudaGraphNodeTypeMemcpy = 1,
  cudaGraphNodeTypeConditional = 13
};
enum cudaGraphConditionalNodeType {
  cudaGraphCondTypeIf,
  cudaGraphCondTypeWhile,
  cudaGraphCondTypeSwitch
};
enum { cudaGraphCondAssignDefault = 1, cudaStreamSetCaptureDependencies = 1 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
struct cudaGraphNodeParams {
  cudaGraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    struct {
      void* func;
      uint3 gridDim, blockDim;
      unsigned sharedMemBytes;
      void **kernelParams, **extra;
    } kernel;
    struct {
      cudaGraphConditionalHandle handle;
      cudaGraphConditionalNodeType type;
      unsigned size;
      cudaGraph_t* phGraph_out;
    } conditional;
  };
  long long reserved2;
};
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaIpcEventHandle_t {
  char reserved[64];
};
typedef void (*cudaHostFn_t)(void*);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void*);

extern "C" {
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaMallocManaged(void**, size_t, unsigned);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void**, size_t);
cudaError_t cudaHostAlloc(void**, size_t, unsigned);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMallocPitch(void**, size_t*, size_t, size_t);
cudaError_t cudaMallocAsync(void**, size_t, cudaStream_t);
cudaError_t cudaFreeAsync(void*, cudaStream_t);
cudaError_t cudaMemGetInfo(size_t*, size_t*);
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2D(void*, size_t, const void*, size_t, size_t, size_t, cudaMemcpyKind);
cudaError_t cudaMallocArray(cudaArray_t*, const cudaChannelFormatDesc*, size_t, size_t, unsigned);
cudaError_t cudaMalloc3DArray(cudaArray_t*, const cudaChannelFormatDesc*, cudaExtent, unsigned);
cudaError_t cudaFreeArray(cudaArray_t);
cudaError_t cudaMemcpy2DToArray(cudaArray_t, size_t, size_t, const void*, size_t, size_t, size_t,
                                cudaMemcpyKind);
cudaError_t cudaMemcpy2DFromArray(void*, size_t, cudaArray_t, size_t, size_t, size_t, size_t,
                                  cudaMemcpyKind);
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms*);
cudaError_t cudaCreateTextureObject(cudaTextureObject_t*, const cudaResourceDesc*,
                                    const cudaTextureDesc*, const void*);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t);
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t*, const cudaResourceDesc*);
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t);
cudaError_t cudaMemset(void*, int, size_t);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyFromSymbol(void*, const void*, size_t, size_t, cudaMemcpyKind);
cudaError_t cudaGetSymbolAddress(void**, const void*);
cudaError_t cudaStreamCreate(cudaStream_t*);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaStreamAddCallback(cudaStream_t, cudaStreamCallback_t, void*, unsigned);
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t, void*);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaDeviceReset();
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphCreate(cudaGraph_t*, unsigned);
cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, size_t*);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t, cudaGraphNodeType*);
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t, cudaGraphNode_t, unsigned);
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t, cudaGraphNode_t, void*, const void*,
                                               size_t, cudaMemcpyKind);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, const void*,
                                size_t, cudaGraphNodeParams*);
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*,
                                       size_t, cudaGraph_t);
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle*, cudaGraph_t, unsigned,
                                             unsigned);
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t, const cudaGraphNode_t*,
                                          const void*, size_t, cudaStreamCaptureMode);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                     cudaGraph_t*, const cudaGraphNode_t**, const void**, size_t*);
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t, cudaGraphNode_t*, const void*,
                                                   size_t, unsigned);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*);
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned);
cudaError_t cudaIpcCloseMemHandle(void*);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t);
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, const void*, int, size_t);
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);

void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, struct CUstream_st* = nullptr);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
}
// As of CUDA 13, which has these names alone.
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                    const cudaGraphNode_t* after, const void* edges, size_t count,
                                    cudaGraphNodeParams* what) {
  return cudaGraphAddNode_v2(node, graph, after, edges, count, what);
}
inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                       const void* edges, size_t count,
                                                       unsigned flags) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, nodes, edges, count, flags);
}
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes) {
  return cudaMallocManaged(reinterpret_cast<void**>(pointer), bytes, 1);
}
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(pointer), bytes, stream);
}

#include "device_minimal.h"
#endif

#if defined(__NVCC__) || defined(__CUDA__)

// KERNEL(add, (float* a, int n)) { ... }
#define KERNEL(name, parameters) extern "C" __global__ void name parameters
#define LAUNCH(kernel, grid, block, shared, stream, ...) \
  kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define KERNEL_ADDRESS(name) reinterpret_cast<const void*>(&name)
// DEVICE_VARIABLE(int, table, [4]) = {1, 2, 3, 4};
#define DEVICE_VARIABLE(type, name, dimensions) __device__ type name dimensions
#define CONSTANT_VARIABLE(type, name, dimensions) __constant__ type name dimensions
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
// SHARED(float, tile, [16][17]);  LLVM 14 moves loads of a static shared array over a barrier, as
// no function that it sees writes to it in between (our race check found that in softmax); an array
// whose address goes elsewhere is left alone.
#if defined(__NVCC__)
#define SHARED(type, name, dimensions) __shared__ type name dimensions
#else
#define SHARED(type, name, dimensions) \
  __shared__ type name dimensions;     \
  asm volatile("" ::"l"(&name))
#endif
#define HOST_DEVICE __host__ __device__
#define DEVICE __device__
#define DEVICE_ASM(...) asm(__VA_ARGS__)
#define DEVICE_ASM_VOLATILE(...) asm volatile(__VA_ARGS__)

#else
#define DEVICE_ASM(...)
#define DEVICE_ASM_VOLATILE(...)
#include "host_only.h"
#endif

#define SYMBOL(name) reinterpret_cast<const void*>(&name)
