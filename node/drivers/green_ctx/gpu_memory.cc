#include "drivers/green_ctx/gpu_memory.h"

#include <fmt/format.h>

namespace partita::drivers::green_ctx {

using abi::Return;

GpuMemory::~GpuMemory() {
  const Current current(*gpu_);
  for (const abi::DevicePointer memory : device_) gpu_->api().free(memory);
  for (void* const memory : host_) gpu_->api().free_host(memory);
  for (const abi::Library library : libraries_) gpu_->api().unload_library(library);
}

Result<std::uint64_t> GpuMemory::allocate(std::size_t bytes) {
  const Current current(*gpu_);
  abi::DevicePointer memory = 0;
  TRY(gpu_->library().checked(gpu_->api().allocate(&memory, bytes),
                              fmt::format("allocate({} bytes)", bytes)));
  const std::lock_guard lock(mutex_);
  return device_.emplace_back(memory);
}

Result<std::span<std::byte>> GpuMemory::host_bytes(std::size_t bytes) {
  const Current current(*gpu_);
  void* memory = nullptr;
  TRY(gpu_->library().checked(gpu_->api().allocate_host(&memory, bytes, abi::kHostPortable),
                              fmt::format("host_bytes({} bytes)", bytes)));
  const std::lock_guard lock(mutex_);
  host_.push_back(memory);
  return std::span(static_cast<std::byte*>(memory), bytes);
}

Result<void> GpuMemory::copy(int lane, const std::vector<device::LaneCopy>& copies) {
  return give_(lane, "copy", [&](abi::Stream stream) {
    Return code = Return::success;
    for (const auto& [host, memory, in] : copies)
      if (code == Return::success)
        code = in ? gpu_->api().copy_in(memory, host.data(), host.size(), stream)
                  : gpu_->api().copy_out(host.data(), memory, host.size(), stream);
    return code;
  });
}

Result<int> GpuMemory::load(const std::string& code) {
  const Current current(*gpu_);
  abi::Library library = nullptr;
  TRY(gpu_->library().checked(
      gpu_->api().load_library(&library, code.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      fmt::format("load({} bytes)", code.size())));
  const std::lock_guard lock(mutex_);
  libraries_.push_back(library);
  return static_cast<int>(libraries_.size() - 1);
}

Result<void*> GpuMemory::find_kernel(int loaded, const std::string& name, std::uint32_t shared) {
  const Current current(*gpu_);
  const CudaApi& api = gpu_->api();
  const std::string call = fmt::format("find_kernel({})", name);
  std::unique_lock lock(mutex_);
  if (loaded < 0 || static_cast<std::size_t>(loaded) >= libraries_.size())
    return failed({ErrorCode::not_found, "no such code", call});
  const abi::Library library = libraries_[static_cast<std::size_t>(loaded)];
  lock.unlock();
  abi::Kernel kernel = nullptr;
  abi::Function function = nullptr;
  Return code = api.library_kernel(&kernel, library, name.c_str());
  if (code == Return::success) code = api.kernel_function(&function, kernel);
  if (code == Return::success) code = api.load_function(function);
  if (code == Return::success && shared > abi::kPlainShared)
    code = api.set_kernel_attribute(abi::kMaxDynamicShared, static_cast<int>(shared), kernel,
                                    gpu_->device());
  TRY(gpu_->library().checked(code, call));
  return static_cast<void*>(kernel);
}

}  // namespace partita::drivers::green_ctx
