// CUDA's names as far as the fake has them, by their exported names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivers/green_ctx/cuda_abi.h"

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.
namespace partita::fake_cuda {

namespace abi = drivers::green_ctx::abi;

extern "C" {
abi::Return cuGetErrorName(abi::Return, const char**);
abi::Return cuGetErrorString(abi::Return, const char**);
abi::Return cuInit(unsigned);
abi::Return cuDriverGetVersion(int*);
abi::Return cuDeviceGetCount(int*);
abi::Return cuDeviceGet(abi::Device*, int);
abi::Return cuDeviceGetName(char*, int, abi::Device);
abi::Return cuDeviceGetUuid_v2(abi::Uuid*, abi::Device);
abi::Return cuDeviceGetAttribute(int*, int, abi::Device);
abi::Return cuDevicePrimaryCtxRetain(abi::Context*, abi::Device);
abi::Return cuDevicePrimaryCtxRelease_v2(abi::Device);
abi::Return cuCtxPushCurrent_v2(abi::Context);
abi::Return cuCtxPopCurrent_v2(abi::Context*);

abi::Return cuDeviceGetDevResource(abi::Device, abi::Resource*, int);
abi::Return cuDevSmResourceSplitByCount(abi::Resource*, unsigned*, const abi::Resource*,
                                        abi::Resource*, unsigned, unsigned);
abi::Return cuDevResourceGenerateDesc(abi::ResourceDesc*, abi::Resource*, unsigned);
abi::Return cuGreenCtxCreate(abi::GreenContext*, abi::ResourceDesc, abi::Device, unsigned);
abi::Return cuGreenCtxDestroy(abi::GreenContext);
abi::Return cuCtxFromGreenCtx(abi::Context*, abi::GreenContext);
abi::Return cuGreenCtxGetDevResource(abi::GreenContext, abi::Resource*, int);
abi::Return cuGreenCtxStreamCreate(abi::Stream*, abi::GreenContext, unsigned, int);

abi::Return cuStreamCreate(abi::Stream*, unsigned);
abi::Return cuStreamDestroy_v2(abi::Stream);
abi::Return cuStreamQuery(abi::Stream);
abi::Return cuStreamSynchronize(abi::Stream);
abi::Return cuStreamWaitEvent(abi::Stream, abi::Event, unsigned);
abi::Return cuEventCreate(abi::Event*, unsigned);
abi::Return cuEventDestroy_v2(abi::Event);
abi::Return cuEventRecord(abi::Event, abi::Stream);
abi::Return cuEventQuery(abi::Event);
abi::Return cuEventSynchronize(abi::Event);

abi::Return cuLibraryLoadData(abi::Library*, const void*, int*, void**, unsigned, int*, void**,
                              unsigned);
abi::Return cuLibraryUnload(abi::Library);
abi::Return cuLibraryGetKernel(abi::Kernel*, abi::Library, const char*);
abi::Return cuKernelGetFunction(abi::Function*, abi::Kernel);
abi::Return cuFuncLoad(abi::Function);
abi::Return cuKernelSetAttribute(int, int, abi::Kernel, abi::Device);
abi::Return cuLaunchKernel(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, unsigned, abi::Stream, void**, void**);

abi::Return cuMemGetInfo_v2(std::size_t*, std::size_t*);
abi::Return cuMemAlloc_v2(abi::DevicePointer*, std::size_t);
abi::Return cuMemFree_v2(abi::DevicePointer);
abi::Return cuMemsetD8_v2(abi::DevicePointer, unsigned char, std::size_t);
abi::Return cuMemcpyDtoH_v2(void*, abi::DevicePointer, std::size_t);
abi::Return cuMemcpyHtoDAsync_v2(abi::DevicePointer, const void*, std::size_t, abi::Stream);
abi::Return cuMemcpyDtoHAsync_v2(void*, abi::DevicePointer, std::size_t, abi::Stream);
abi::Return cuMemHostAlloc(void**, std::size_t, unsigned);
abi::Return cuMemFreeHost(void*);
abi::Return cuMemHostGetDevicePointer_v2(abi::DevicePointer*, void*, unsigned);

abi::Return cuGraphCreate(abi::Graph*, unsigned);
abi::Return cuGraphDestroy(abi::Graph);
abi::Return cuGraphAddKernelNode_v2(abi::GraphNode*, abi::Graph, const abi::GraphNode*, std::size_t,
                                    const abi::KernelNodeParams*);
abi::Return cuGraphKernelNodeGetParams_v2(abi::GraphNode, abi::KernelNodeParams*);
abi::Return cuGraphInstantiateWithFlags(abi::GraphExec*, abi::Graph, unsigned long long);
abi::Return cuGraphLaunch(abi::GraphExec, abi::Stream);
abi::Return cuGraphExecDestroy(abi::GraphExec);

abi::Return cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, abi::SymbolStatus*);
}

}  // namespace partita::fake_cuda
// NOLINTEND(readability-identifier-naming)
