// DriverLibrary: libcuda loaded with dlopen, its functions by name. Owns the loader's handle.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/shared_library.h"
#include "server/cuda/driver_abi.h"

namespace partita::remote::cuda {

// None is null once the library is open.
struct DriverApi {
  using Return = abi::Return;
  using Pointer = abi::DevicePointer;
  SharedLibrary::Finder find;
  Return (*cuGetErrorString)(Return, const char**) = find("cuGetErrorString");
  Return (*cuInit)(unsigned) = find("cuInit");
  Return (*cuDriverGetVersion)(int*) = find("cuDriverGetVersion");
  Return (*cuDeviceGetCount)(int*) = find("cuDeviceGetCount");
  Return (*cuDeviceGet)(abi::Device*, int) = find("cuDeviceGet");
  Return (*cuDeviceGetName)(char*, int, abi::Device) = find("cuDeviceGetName");
  Return (*cuDeviceGetUuid_v2)(abi::Uuid*, abi::Device) = find("cuDeviceGetUuid_v2");
  Return (*cuDeviceTotalMem_v2)(std::size_t*, abi::Device) = find("cuDeviceTotalMem_v2");
  Return (*cuDeviceGetAttribute)(int*, int, abi::Device) = find("cuDeviceGetAttribute");
  Return (*cuDevicePrimaryCtxRetain)(abi::Context*, abi::Device) = find("cuDevicePrimaryCtxRetain");
  Return (*cuDevicePrimaryCtxRelease_v2)(abi::Device) = find("cuDevicePrimaryCtxRelease_v2");
  Return (*cuCtxSetCurrent)(abi::Context) = find("cuCtxSetCurrent");
  Return (*cuCtxSetLimit)(int, std::size_t) = find("cuCtxSetLimit");
  Return (*cuMemGetAllocationGranularity)(std::size_t*, const abi::AllocationProperties*,
                                          int) = find("cuMemGetAllocationGranularity");
  Return (*cuMemAddressReserve)(Pointer*, std::size_t, std::size_t, Pointer,
                                unsigned long long) = find("cuMemAddressReserve");
  Return (*cuMemAddressFree)(Pointer, std::size_t) = find("cuMemAddressFree");
  Return (*cuMemCreate)(abi::AllocationHandle*, std::size_t, const abi::AllocationProperties*,
                        unsigned long long) = find("cuMemCreate");
  Return (*cuMemRelease)(abi::AllocationHandle) = find("cuMemRelease");
  Return (*cuMemMap)(Pointer, std::size_t, std::size_t, abi::AllocationHandle,
                     unsigned long long) = find("cuMemMap");
  Return (*cuMemUnmap)(Pointer, std::size_t) = find("cuMemUnmap");
  Return (*cuMemSetAccess)(Pointer, std::size_t, const abi::AccessDescription*,
                           std::size_t) = find("cuMemSetAccess");
  Return (*cuMemHostAlloc)(void**, std::size_t, unsigned) = find("cuMemHostAlloc");
  Return (*cuMemFreeHost)(void*) = find("cuMemFreeHost");
  Return (*cuMemHostGetDevicePointer_v2)(Pointer*, void*,
                                         unsigned) = find("cuMemHostGetDevicePointer_v2");
  Return (*cuMemcpyHtoDAsync_v2)(Pointer, const void*, std::size_t,
                                 abi::Stream) = find("cuMemcpyHtoDAsync_v2");
  Return (*cuMemcpyDtoHAsync_v2)(void*, Pointer, std::size_t,
                                 abi::Stream) = find("cuMemcpyDtoHAsync_v2");
  Return (*cuMemcpyDtoDAsync_v2)(Pointer, Pointer, std::size_t,
                                 abi::Stream) = find("cuMemcpyDtoDAsync_v2");
  Return (*cuMemcpy2DAsync_v2)(const abi::Copy2D*, abi::Stream) = find("cuMemcpy2DAsync_v2");
  Return (*cuMemsetD2D8Async)(Pointer, std::size_t, unsigned char, std::size_t, std::size_t,
                              abi::Stream) = find("cuMemsetD2D8Async");
  Return (*cuMemsetD2D16Async)(Pointer, std::size_t, unsigned short, std::size_t, std::size_t,
                               abi::Stream) = find("cuMemsetD2D16Async");
  Return (*cuMemsetD2D32Async)(Pointer, std::size_t, unsigned, std::size_t, std::size_t,
                               abi::Stream) = find("cuMemsetD2D32Async");
  Return (*cuModuleLoadDataEx)(abi::Module*, const void*, unsigned, int*,
                               void**) = find("cuModuleLoadDataEx");
  Return (*cuModuleUnload)(abi::Module) = find("cuModuleUnload");
  Return (*cuModuleGetFunction)(abi::Function*, abi::Module,
                                const char*) = find("cuModuleGetFunction");
  Return (*cuModuleGetGlobal_v2)(Pointer*, std::size_t*, abi::Module,
                                 const char*) = find("cuModuleGetGlobal_v2");
  Return (*cuFuncGetParamInfo)(abi::Function, std::size_t, std::size_t*,
                               std::size_t*) = find("cuFuncGetParamInfo");
  Return (*cuFuncGetAttribute)(int*, int, abi::Function) = find("cuFuncGetAttribute");
  Return (*cuFuncSetAttribute)(abi::Function, int, int) = find("cuFuncSetAttribute");
  Return (*cuLaunchKernel)(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, unsigned, abi::Stream, void**,
                           void**) = find("cuLaunchKernel");
  Return (*cuLaunchCooperativeKernel)(abi::Function, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, unsigned, abi::Stream,
                                      void**) = find("cuLaunchCooperativeKernel");
  Return (*cuStreamCreateWithPriority)(abi::Stream*, unsigned,
                                       int) = find("cuStreamCreateWithPriority");
  Return (*cuStreamDestroy_v2)(abi::Stream) = find("cuStreamDestroy_v2");
  Return (*cuStreamQuery)(abi::Stream) = find("cuStreamQuery");
  Return (*cuStreamSynchronize)(abi::Stream) = find("cuStreamSynchronize");
  Return (*cuStreamWaitEvent)(abi::Stream, abi::Event, unsigned) = find("cuStreamWaitEvent");
  Return (*cuStreamWaitValue32_v2)(abi::Stream, Pointer, std::uint32_t,
                                   unsigned) = find("cuStreamWaitValue32_v2");
  Return (*cuStreamBeginCapture_v2)(abi::Stream, int) = find("cuStreamBeginCapture_v2");
  Return (*cuStreamEndCapture)(abi::Stream, abi::Graph*) = find("cuStreamEndCapture");
  Return (*cuEventCreate)(abi::Event*, unsigned) = find("cuEventCreate");
  Return (*cuEventDestroy_v2)(abi::Event) = find("cuEventDestroy_v2");
  Return (*cuEventRecord)(abi::Event, abi::Stream) = find("cuEventRecord");
  Return (*cuEventRecordWithFlags)(abi::Event, abi::Stream,
                                   unsigned) = find("cuEventRecordWithFlags");
  Return (*cuEventQuery)(abi::Event) = find("cuEventQuery");
  Return (*cuEventSynchronize)(abi::Event) = find("cuEventSynchronize");
  Return (*cuEventElapsedTime)(float*, abi::Event, abi::Event) = find("cuEventElapsedTime");
  Return (*cuGraphInstantiateWithFlags)(abi::GraphExec*, abi::Graph,
                                        unsigned long long) = find("cuGraphInstantiateWithFlags");
  Return (*cuGraphDestroy)(abi::Graph) = find("cuGraphDestroy");
  Return (*cuGraphExecDestroy)(abi::GraphExec) = find("cuGraphExecDestroy");
  Return (*cuGraphLaunch)(abi::GraphExec, abi::Stream) = find("cuGraphLaunch");
  Return (*cuArray3DCreate_v2)(abi::Array*,
                               const abi::ArrayDescription*) = find("cuArray3DCreate_v2");
  Return (*cuArrayDestroy)(abi::Array) = find("cuArrayDestroy");
  Return (*cuMemcpy3DAsync_v2)(const abi::Copy3D*, abi::Stream) = find("cuMemcpy3DAsync_v2");
  Return (*cuTexObjectCreate)(abi::TextureNumber*, const abi::Resource*, const abi::Sampling*,
                              const void*) = find("cuTexObjectCreate");
  Return (*cuTexObjectDestroy)(abi::TextureNumber) = find("cuTexObjectDestroy");
  Return (*cuSurfObjectCreate)(abi::TextureNumber*,
                               const abi::Resource*) = find("cuSurfObjectCreate");
  Return (*cuSurfObjectDestroy)(abi::TextureNumber) = find("cuSurfObjectDestroy");
  Return (*cuGraphCreate)(abi::Graph*, unsigned) = find("cuGraphCreate");
  Return (*cuGraphConditionalHandleCreate)(abi::Condition*, abi::Graph, abi::Context, unsigned,
                                           unsigned) = find("cuGraphConditionalHandleCreate");
  // Dependencies come with data about them, which is null here.
  Return (*cuGraphAddNode_v2)(abi::GraphNode*, abi::Graph, const abi::GraphNode*, const void*,
                              std::size_t, abi::NodeParameters*) = find("cuGraphAddNode_v2");
  Return (*cuStreamBeginCaptureToGraph)(abi::Stream, abi::Graph, const abi::GraphNode*, const void*,
                                        std::size_t, int) = find("cuStreamBeginCaptureToGraph");
  Return (*cuStreamGetCaptureInfo_v3)(abi::Stream, int*, unsigned long long*, abi::Graph*,
                                      const abi::GraphNode**, const void**,
                                      std::size_t*) = find("cuStreamGetCaptureInfo_v3");
  Return (*cuStreamUpdateCaptureDependencies_v2)(abi::Stream, abi::GraphNode*, const void*,
                                                 std::size_t, unsigned) =
      find("cuStreamUpdateCaptureDependencies_v2");
};

class DriverLibrary {
 public:
  // no_driver when there is no such library, or one that lacks a function (of CUDA 12.4 or later).
  static Result<std::shared_ptr<const DriverLibrary>> open(const std::string& file);
  const DriverApi& api() const { return api_; }
  // "cuMemMap: out of memory (2)".
  std::string words(const char* call, abi::Return code) const;

 private:
  explicit DriverLibrary(SharedLibrary library) : library_(std::move(library)) {}
  const SharedLibrary library_;
  const DriverApi api_{{library_}};
};

}  // namespace partita::remote::cuda
