#include "server/cuda/driver_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace partita::remote::cuda {
namespace {

// The first that is missing is remembered.
struct Finder {
  void* handle;
  const char* missing = nullptr;
  template <class Function>
  void operator()(Function& function, const char* name) {
    void* const symbol = ::dlsym(handle, name);
    if (symbol == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<Function>(symbol);
  }
};

#define PARTITA_FIND(name) find(api.name, #name)

void find_memory(Finder& find, DriverApi& api) {
  PARTITA_FIND(cuGetErrorString);
  PARTITA_FIND(cuInit);
  PARTITA_FIND(cuDriverGetVersion);
  PARTITA_FIND(cuDeviceGetCount);
  PARTITA_FIND(cuDeviceGet);
  PARTITA_FIND(cuDeviceGetName);
  PARTITA_FIND(cuDeviceGetUuid_v2);
  PARTITA_FIND(cuDeviceTotalMem_v2);
  PARTITA_FIND(cuDeviceGetAttribute);
  PARTITA_FIND(cuDevicePrimaryCtxRetain);
  PARTITA_FIND(cuDevicePrimaryCtxRelease_v2);
  PARTITA_FIND(cuCtxSetCurrent);
  PARTITA_FIND(cuCtxSetLimit);
  PARTITA_FIND(cuMemGetAllocationGranularity);
  PARTITA_FIND(cuMemAddressReserve);
  PARTITA_FIND(cuMemAddressFree);
  PARTITA_FIND(cuMemCreate);
  PARTITA_FIND(cuMemRelease);
  PARTITA_FIND(cuMemMap);
  PARTITA_FIND(cuMemUnmap);
  PARTITA_FIND(cuMemSetAccess);
  PARTITA_FIND(cuMemHostAlloc);
  PARTITA_FIND(cuMemFreeHost);
  PARTITA_FIND(cuMemHostGetDevicePointer_v2);
  PARTITA_FIND(cuMemcpyHtoDAsync_v2);
  PARTITA_FIND(cuMemcpyDtoHAsync_v2);
  PARTITA_FIND(cuMemcpyDtoDAsync_v2);
  PARTITA_FIND(cuMemcpy2DAsync_v2);
  PARTITA_FIND(cuMemsetD2D8Async);
  PARTITA_FIND(cuMemsetD2D16Async);
  PARTITA_FIND(cuMemsetD2D32Async);
}

void find_work(Finder& find, DriverApi& api) {
  PARTITA_FIND(cuModuleLoadDataEx);
  PARTITA_FIND(cuModuleUnload);
  PARTITA_FIND(cuModuleGetFunction);
  PARTITA_FIND(cuModuleGetGlobal_v2);
  PARTITA_FIND(cuFuncGetParamInfo);
  PARTITA_FIND(cuFuncGetAttribute);
  PARTITA_FIND(cuFuncSetAttribute);
  PARTITA_FIND(cuLaunchKernel);
  PARTITA_FIND(cuLaunchCooperativeKernel);
  PARTITA_FIND(cuStreamCreateWithPriority);
  PARTITA_FIND(cuStreamDestroy_v2);
  PARTITA_FIND(cuStreamQuery);
  PARTITA_FIND(cuStreamSynchronize);
  PARTITA_FIND(cuStreamWaitEvent);
  PARTITA_FIND(cuStreamWaitValue32_v2);
  PARTITA_FIND(cuStreamBeginCapture_v2);
  PARTITA_FIND(cuStreamEndCapture);
  PARTITA_FIND(cuEventCreate);
  PARTITA_FIND(cuEventDestroy_v2);
  PARTITA_FIND(cuEventRecord);
  PARTITA_FIND(cuEventRecordWithFlags);
  PARTITA_FIND(cuEventQuery);
  PARTITA_FIND(cuEventSynchronize);
  PARTITA_FIND(cuEventElapsedTime);
  PARTITA_FIND(cuGraphInstantiateWithFlags);
  PARTITA_FIND(cuGraphDestroy);
  PARTITA_FIND(cuGraphExecDestroy);
  PARTITA_FIND(cuGraphLaunch);
}

void find_textures_and_conditions(Finder& find, DriverApi& api) {
  PARTITA_FIND(cuArray3DCreate_v2);
  PARTITA_FIND(cuArrayDestroy);
  PARTITA_FIND(cuMemcpy3DAsync_v2);
  PARTITA_FIND(cuTexObjectCreate);
  PARTITA_FIND(cuTexObjectDestroy);
  PARTITA_FIND(cuSurfObjectCreate);
  PARTITA_FIND(cuSurfObjectDestroy);
  PARTITA_FIND(cuGraphCreate);
  PARTITA_FIND(cuGraphConditionalHandleCreate);
  PARTITA_FIND(cuGraphAddNode_v2);
  PARTITA_FIND(cuStreamBeginCaptureToGraph);
  PARTITA_FIND(cuStreamGetCaptureInfo_v3);
  PARTITA_FIND(cuStreamUpdateCaptureDependencies_v2);
}

#undef PARTITA_FIND

}  // namespace

Result<std::shared_ptr<const DriverLibrary>> DriverLibrary::open(const std::string& file) {
  std::shared_ptr<DriverLibrary> library(new DriverLibrary());
  library->handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr)
    return failed({ErrorCode::no_driver, fmt::format("cannot be loaded: {}", ::dlerror()), file});
  Finder find{library->handle_};
  find_memory(find, library->api_);
  find_work(find, library->api_);
  find_textures_and_conditions(find, library->api_);
  if (find.missing != nullptr)
    return failed({ErrorCode::no_driver,
                   fmt::format("has no {}; a driver of CUDA 12.4 or later is needed", find.missing),
                   file});
  return std::shared_ptr<const DriverLibrary>(library);
}

DriverLibrary::~DriverLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

std::string DriverLibrary::words(const char* call, abi::Return code) const {
  const char* text = nullptr;
  if (api_.cuGetErrorString(code, &text) != 0 || text == nullptr) text = "an error without words";
  return fmt::format("{}: {} ({})", call, text, code);
}

}  // namespace partita::remote::cuda
