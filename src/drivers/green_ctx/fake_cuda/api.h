// CUDA's names as far as the fake has them, by their exported names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "drivers/green_ctx/cuda_abi.h"

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.
namespace fake_abi = partita::drivers::green_ctx::abi;

extern "C" {
fake_abi::Return cuGetErrorName(fake_abi::Return, const char**);
fake_abi::Return cuGetErrorString(fake_abi::Return, const char**);
fake_abi::Return cuInit(unsigned);
fake_abi::Return cuDriverGetVersion(int*);
fake_abi::Return cuDeviceGetCount(int*);
fake_abi::Return cuDeviceGet(fake_abi::Device*, int);
fake_abi::Return cuDeviceGetName(char*, int, fake_abi::Device);
fake_abi::Return cuDeviceGetUuid_v2(fake_abi::Uuid*, fake_abi::Device);
fake_abi::Return cuDeviceGetAttribute(int*, int, fake_abi::Device);
fake_abi::Return cuDevicePrimaryCtxRetain(fake_abi::Context*, fake_abi::Device);
fake_abi::Return cuDevicePrimaryCtxRelease_v2(fake_abi::Device);
fake_abi::Return cuCtxPushCurrent_v2(fake_abi::Context);
fake_abi::Return cuCtxPopCurrent_v2(fake_abi::Context*);

fake_abi::Return cuDeviceGetDevResource(fake_abi::Device, fake_abi::Resource*, int);
fake_abi::Return cuDevSmResourceSplitByCount(fake_abi::Resource*, unsigned*,
                                             const fake_abi::Resource*, fake_abi::Resource*,
                                             unsigned, unsigned);
fake_abi::Return cuDevResourceGenerateDesc(fake_abi::ResourceDesc*, fake_abi::Resource*, unsigned);
fake_abi::Return cuGreenCtxCreate(fake_abi::GreenContext*, fake_abi::ResourceDesc, fake_abi::Device,
                                  unsigned);
fake_abi::Return cuGreenCtxDestroy(fake_abi::GreenContext);
fake_abi::Return cuCtxFromGreenCtx(fake_abi::Context*, fake_abi::GreenContext);
fake_abi::Return cuGreenCtxGetDevResource(fake_abi::GreenContext, fake_abi::Resource*, int);
fake_abi::Return cuGreenCtxStreamCreate(fake_abi::Stream*, fake_abi::GreenContext, unsigned, int);

fake_abi::Return cuStreamCreate(fake_abi::Stream*, unsigned);
fake_abi::Return cuStreamDestroy_v2(fake_abi::Stream);
fake_abi::Return cuStreamQuery(fake_abi::Stream);
fake_abi::Return cuStreamSynchronize(fake_abi::Stream);
fake_abi::Return cuStreamWaitEvent(fake_abi::Stream, fake_abi::Event, unsigned);
fake_abi::Return cuEventCreate(fake_abi::Event*, unsigned);
fake_abi::Return cuEventDestroy_v2(fake_abi::Event);
fake_abi::Return cuEventRecord(fake_abi::Event, fake_abi::Stream);
fake_abi::Return cuEventQuery(fake_abi::Event);
fake_abi::Return cuEventSynchronize(fake_abi::Event);

fake_abi::Return cuLibraryLoadData(fake_abi::Library*, const void*, int*, void**, unsigned, int*,
                                   void**, unsigned);
fake_abi::Return cuLibraryUnload(fake_abi::Library);
fake_abi::Return cuLibraryGetKernel(fake_abi::Kernel*, fake_abi::Library, const char*);
fake_abi::Return cuKernelGetFunction(fake_abi::Function*, fake_abi::Kernel);
fake_abi::Return cuFuncLoad(fake_abi::Function);
fake_abi::Return cuLaunchKernel(fake_abi::Function, unsigned, unsigned, unsigned, unsigned,
                                unsigned, unsigned, unsigned, fake_abi::Stream, void**, void**);

fake_abi::Return cuMemGetInfo_v2(std::size_t*, std::size_t*);
fake_abi::Return cuMemAlloc_v2(fake_abi::DevicePointer*, std::size_t);
fake_abi::Return cuMemFree_v2(fake_abi::DevicePointer);
fake_abi::Return cuMemsetD8_v2(fake_abi::DevicePointer, unsigned char, std::size_t);
fake_abi::Return cuMemcpyDtoHAsync_v2(void*, fake_abi::DevicePointer, std::size_t,
                                      fake_abi::Stream);
fake_abi::Return cuMemHostAlloc(void**, std::size_t, unsigned);
fake_abi::Return cuMemFreeHost(void*);
fake_abi::Return cuMemHostGetDevicePointer_v2(fake_abi::DevicePointer*, void*, unsigned);

fake_abi::Return cuGraphCreate(fake_abi::Graph*, unsigned);
fake_abi::Return cuGraphDestroy(fake_abi::Graph);
fake_abi::Return cuGraphAddKernelNode_v2(fake_abi::GraphNode*, fake_abi::Graph,
                                         const fake_abi::GraphNode*, std::size_t,
                                         const fake_abi::KernelNodeParams*);
fake_abi::Return cuGraphKernelNodeGetParams_v2(fake_abi::GraphNode, fake_abi::KernelNodeParams*);
fake_abi::Return cuGraphInstantiateWithFlags(fake_abi::GraphExec*, fake_abi::Graph,
                                             unsigned long long);
fake_abi::Return cuGraphLaunch(fake_abi::GraphExec, fake_abi::Stream);
fake_abi::Return cuGraphExecDestroy(fake_abi::GraphExec);

fake_abi::Return cuGetProcAddress_v2(const char*, void**, int, std::uint64_t,
                                     fake_abi::SymbolStatus*);
}
// NOLINTEND(readability-identifier-naming)
