// DriverLibrary: libcuda loaded with dlopen, its functions by name. Owns the loader's handle.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "server/cuda/driver_abi.h"

namespace partita::remote::cuda {

// None is null once the library is open.
struct DriverApi {
  using Return = abi::Return;
  using Pointer = abi::DevicePointer;
  Return (*cuGetErrorString)(Return, const char**);
  Return (*cuInit)(unsigned);
  Return (*cuDriverGetVersion)(int*);
  Return (*cuDeviceGetCount)(int*);
  Return (*cuDeviceGet)(abi::Device*, int);
  Return (*cuDeviceGetName)(char*, int, abi::Device);
  Return (*cuDeviceGetUuid_v2)(abi::Uuid*, abi::Device);
  Return (*cuDeviceTotalMem_v2)(std::size_t*, abi::Device);
  Return (*cuDeviceGetAttribute)(int*, int, abi::Device);
  Return (*cuDevicePrimaryCtxRetain)(abi::Context*, abi::Device);
  Return (*cuDevicePrimaryCtxRelease_v2)(abi::Device);
  Return (*cuCtxSetCurrent)(abi::Context);
  Return (*cuCtxSetLimit)(int, std::size_t);
  Return (*cuMemGetAllocationGranularity)(std::size_t*, const abi::AllocationProperties*, int);
  Return (*cuMemAddressReserve)(Pointer*, std::size_t, std::size_t, Pointer, unsigned long long);
  Return (*cuMemAddressFree)(Pointer, std::size_t);
  Return (*cuMemCreate)(abi::AllocationHandle*, std::size_t, const abi::AllocationProperties*,
                        unsigned long long);
  Return (*cuMemRelease)(abi::AllocationHandle);
  Return (*cuMemMap)(Pointer, std::size_t, std::size_t, abi::AllocationHandle, unsigned long long);
  Return (*cuMemUnmap)(Pointer, std::size_t);
  Return (*cuMemSetAccess)(Pointer, std::size_t, const abi::AccessDescription*, std::size_t);
  Return (*cuMemHostAlloc)(void**, std::size_t, unsigned);
  Return (*cuMemFreeHost)(void*);
  Return (*cuMemHostGetDevicePointer_v2)(Pointer*, void*, unsigned);
  Return (*cuMemcpyHtoDAsync_v2)(Pointer, const void*, std::size_t, abi::Stream);
  Return (*cuMemcpyDtoHAsync_v2)(void*, Pointer, std::size_t, abi::Stream);
  Return (*cuMemcpyDtoDAsync_v2)(Pointer, Pointer, std::size_t, abi::Stream);
  Return (*cuMemcpy2DAsync_v2)(const abi::Copy2D*, abi::Stream);
  Return (*cuMemsetD2D8Async)(Pointer, std::size_t, unsigned char, std::size_t, std::size_t,
                              abi::Stream);
  Return (*cuMemsetD2D16Async)(Pointer, std::size_t, unsigned short, std::size_t, std::size_t,
                               abi::Stream);
  Return (*cuMemsetD2D32Async)(Pointer, std::size_t, unsigned, std::size_t, std::size_t,
                               abi::Stream);
  Return (*cuModuleLoadDataEx)(abi::Module*, const void*, unsigned, int*, void**);
  Return (*cuModuleUnload)(abi::Module);
  Return (*cuModuleGetFunction)(abi::Function*, abi::Module, const char*);
  Return (*cuModuleGetGlobal_v2)(Pointer*, std::size_t*, abi::Module, const char*);
  Return (*cuFuncGetParamInfo)(abi::Function, std::size_t, std::size_t*, std::size_t*);
  Return (*cuFuncGetAttribute)(int*, int, abi::Function);
  Return (*cuFuncSetAttribute)(abi::Function, int, int);
  Return (*cuLaunchKernel)(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, unsigned, abi::Stream, void**, void**);
  Return (*cuLaunchCooperativeKernel)(abi::Function, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, unsigned, abi::Stream, void**);
  Return (*cuStreamCreateWithPriority)(abi::Stream*, unsigned, int);
  Return (*cuStreamDestroy_v2)(abi::Stream);
  Return (*cuStreamQuery)(abi::Stream);
  Return (*cuStreamSynchronize)(abi::Stream);
  Return (*cuStreamWaitEvent)(abi::Stream, abi::Event, unsigned);
  Return (*cuStreamWaitValue32_v2)(abi::Stream, Pointer, std::uint32_t, unsigned);
  Return (*cuStreamBeginCapture_v2)(abi::Stream, int);
  Return (*cuStreamEndCapture)(abi::Stream, abi::Graph*);
  Return (*cuEventCreate)(abi::Event*, unsigned);
  Return (*cuEventDestroy_v2)(abi::Event);
  Return (*cuEventRecord)(abi::Event, abi::Stream);
  Return (*cuEventRecordWithFlags)(abi::Event, abi::Stream, unsigned);
  Return (*cuEventQuery)(abi::Event);
  Return (*cuEventSynchronize)(abi::Event);
  Return (*cuEventElapsedTime)(float*, abi::Event, abi::Event);
  Return (*cuGraphInstantiateWithFlags)(abi::GraphExec*, abi::Graph, unsigned long long);
  Return (*cuGraphDestroy)(abi::Graph);
  Return (*cuGraphExecDestroy)(abi::GraphExec);
  Return (*cuGraphLaunch)(abi::GraphExec, abi::Stream);
  Return (*cuArray3DCreate_v2)(abi::Array*, const abi::ArrayDescription*);
  Return (*cuArrayDestroy)(abi::Array);
  Return (*cuMemcpy3DAsync_v2)(const abi::Copy3D*, abi::Stream);
  Return (*cuTexObjectCreate)(abi::TextureNumber*, const abi::Resource*, const abi::Sampling*,
                              const void*);
  Return (*cuTexObjectDestroy)(abi::TextureNumber);
  Return (*cuSurfObjectCreate)(abi::TextureNumber*, const abi::Resource*);
  Return (*cuSurfObjectDestroy)(abi::TextureNumber);
  Return (*cuGraphCreate)(abi::Graph*, unsigned);
  Return (*cuGraphConditionalHandleCreate)(abi::Condition*, abi::Graph, abi::Context, unsigned,
                                           unsigned);
  // Dependencies come with data about them, which is null here.
  Return (*cuGraphAddNode_v2)(abi::GraphNode*, abi::Graph, const abi::GraphNode*, const void*,
                              std::size_t, abi::NodeParameters*);
  Return (*cuStreamBeginCaptureToGraph)(abi::Stream, abi::Graph, const abi::GraphNode*, const void*,
                                        std::size_t, int);
  Return (*cuStreamGetCaptureInfo_v3)(abi::Stream, int*, unsigned long long*, abi::Graph*,
                                      const abi::GraphNode**, const void**, std::size_t*);
  Return (*cuStreamUpdateCaptureDependencies_v2)(abi::Stream, abi::GraphNode*, const void*,
                                                 std::size_t, unsigned);
};

class DriverLibrary {
 public:
  // no_driver when there is no such library, or one that lacks a function (of CUDA 12.4 or later).
  static Result<std::shared_ptr<const DriverLibrary>> open(const std::string& file);
  ~DriverLibrary();
  DriverLibrary(const DriverLibrary&) = delete;
  DriverLibrary& operator=(const DriverLibrary&) = delete;
  const DriverApi& api() const { return api_; }
  // "cuMemMap: out of memory (2)".
  std::string words(const char* call, abi::Return code) const;

 private:
  DriverLibrary() = default;
  void* handle_ = nullptr;
  DriverApi api_ = {};
};

}  // namespace partita::remote::cuda
