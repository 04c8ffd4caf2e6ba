// cuGetProcAddress: functions by the names without versions, and since when there are any.
#include <string_view>

#include "drivers/green_ctx/testing/api.h"
#include "drivers/green_ctx/testing/world.h"

namespace partita::fake_cuda {

namespace {

struct Symbol {
  std::string_view name;
  int since;
  void* function;
};

#define SYMBOL(name, since, function) \
  { #name, since, reinterpret_cast < void*>(&function) }

const Symbol kSymbols[] = {
    SYMBOL(cuGetErrorName, 6000, cuGetErrorName),
    SYMBOL(cuGetErrorString, 6000, cuGetErrorString),
    SYMBOL(cuInit, 2000, cuInit),
    SYMBOL(cuDriverGetVersion, 2020, cuDriverGetVersion),
    SYMBOL(cuDeviceGetCount, 2000, cuDeviceGetCount),
    SYMBOL(cuDeviceGet, 2000, cuDeviceGet),
    SYMBOL(cuDeviceGetName, 2000, cuDeviceGetName),
    SYMBOL(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2),
    SYMBOL(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute),
    SYMBOL(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain),
    SYMBOL(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2),
    SYMBOL(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2),
    SYMBOL(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2),
    SYMBOL(cuDeviceGetDevResource, 12040, cuDeviceGetDevResource),
    SYMBOL(cuDevSmResourceSplitByCount, 12040, cuDevSmResourceSplitByCount),
    SYMBOL(cuDevResourceGenerateDesc, 12040, cuDevResourceGenerateDesc),
    SYMBOL(cuGreenCtxCreate, 12040, cuGreenCtxCreate),
    SYMBOL(cuGreenCtxDestroy, 12040, cuGreenCtxDestroy),
    SYMBOL(cuCtxFromGreenCtx, 12040, cuCtxFromGreenCtx),
    SYMBOL(cuGreenCtxGetDevResource, 12040, cuGreenCtxGetDevResource),
    SYMBOL(cuGreenCtxStreamCreate, 12050, cuGreenCtxStreamCreate),
    SYMBOL(cuStreamCreate, 2000, cuStreamCreate),
    SYMBOL(cuStreamDestroy, 4000, cuStreamDestroy_v2),
    SYMBOL(cuStreamQuery, 2000, cuStreamQuery),
    SYMBOL(cuStreamSynchronize, 2000, cuStreamSynchronize),
    SYMBOL(cuStreamWaitEvent, 3020, cuStreamWaitEvent),
    SYMBOL(cuEventCreate, 2000, cuEventCreate),
    SYMBOL(cuEventDestroy, 4000, cuEventDestroy_v2),
    SYMBOL(cuEventRecord, 2000, cuEventRecord),
    SYMBOL(cuEventQuery, 2000, cuEventQuery),
    SYMBOL(cuEventSynchronize, 2000, cuEventSynchronize),
    SYMBOL(cuLibraryLoadData, 12000, cuLibraryLoadData),
    SYMBOL(cuLibraryUnload, 12000, cuLibraryUnload),
    SYMBOL(cuLibraryGetKernel, 12000, cuLibraryGetKernel),
    SYMBOL(cuKernelGetFunction, 12000, cuKernelGetFunction),
    SYMBOL(cuFuncLoad, 12040, cuFuncLoad),
    SYMBOL(cuKernelSetAttribute, 12000, cuKernelSetAttribute),
    SYMBOL(cuLaunchKernel, 4000, cuLaunchKernel),
    SYMBOL(cuMemGetInfo, 3020, cuMemGetInfo_v2),
    SYMBOL(cuMemAlloc, 3020, cuMemAlloc_v2),
    SYMBOL(cuMemFree, 3020, cuMemFree_v2),
    SYMBOL(cuMemsetD8, 3020, cuMemsetD8_v2),
    SYMBOL(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2),
    SYMBOL(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2),
    SYMBOL(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2),
    SYMBOL(cuMemHostAlloc, 2020, cuMemHostAlloc),
    SYMBOL(cuMemFreeHost, 2000, cuMemFreeHost),
    SYMBOL(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2),
    SYMBOL(cuGraphCreate, 10000, cuGraphCreate),
    SYMBOL(cuGraphDestroy, 10000, cuGraphDestroy),
    SYMBOL(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2),
    SYMBOL(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams_v2),
    SYMBOL(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags),
    SYMBOL(cuGraphLaunch, 10000, cuGraphLaunch),
    SYMBOL(cuGraphExecDestroy, 10000, cuGraphExecDestroy),
};

}  // namespace

extern "C" Return cuGetProcAddress_v2(const char* name, void** function, int version,
                                      std::uint64_t flags, abi::SymbolStatus* status) {
  Call call("cuGetProcAddress", Call::Needs::nothing);
  if (call.code() != Return::success) return call.code();
  if (!name || !function || flags > 2) return Return::invalid_value;
  *function = nullptr;
  abi::SymbolStatus found = abi::SymbolStatus::not_found;
  for (const Symbol& symbol : kSymbols) {
    if (symbol.name != name || symbol.since > call->config.version) continue;
    found = symbol.since > version ? abi::SymbolStatus::version_too_old : abi::SymbolStatus::found;
    if (found == abi::SymbolStatus::found) *function = symbol.function;
  }
  if (status) *status = found;
  return found == abi::SymbolStatus::found ? Return::success : Return::not_found;
}

}  // namespace partita::fake_cuda
