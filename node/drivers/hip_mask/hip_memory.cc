#include "drivers/hip_mask/hip_memory.h"

#include <fmt/format.h>

#include <utility>

namespace partita::drivers::hip_mask {
namespace {

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// An object for the loader, or several of them in a bundle.
bool is_object(const std::string& code) {
  return code.starts_with(
             "\x7f"
             "ELF") ||
         code.starts_with("__CLANG_OFFLOAD_BUNDLE__") || code.starts_with("CCOB");
}

}  // namespace

HipMemory::~HipMemory() {
  const abi::HipApi& api = library_->api();
  (void)api.set_device(device_);
  for (void* const memory : device_memory_) (void)api.device_free(memory);
  for (void* const memory : host_) (void)api.host_free(memory);
  for (const abi::Module module : modules_) (void)api.unload_module(module);
}

Result<void> HipMemory::use_device() const {
  return library_->call("hipSetDevice", library_->api().set_device, device_);
}

Result<std::uint64_t> HipMemory::allocate(std::size_t bytes) {
  TRY(use_device());
  void* memory = nullptr;
  TRY(library_->call("hipMalloc", library_->api().device_malloc, &memory, bytes));
  const std::lock_guard lock(mutex_);
  return reinterpret_cast<std::uintptr_t>(device_memory_.emplace_back(memory));
}

Result<std::span<std::byte>> HipMemory::host_bytes(std::size_t bytes) {
  TRY(use_device());
  void* memory = nullptr;
  TRY(library_->call("hipHostMalloc", library_->api().host_malloc, &memory, bytes,
                     abi::kHostPortable | abi::kHostMapped | abi::kHostCoherent));
  const std::lock_guard lock(mutex_);
  host_.push_back(memory);
  return std::span(static_cast<std::byte*>(memory), bytes);
}

Result<void> HipMemory::copy(int lane, const std::vector<device::LaneCopy>& copies) {
  return give_(lane, "copy", [&](abi::Stream stream) -> Result<void> {
    for (const auto& [host, memory, in] : copies) {
      void* const to = in ? pointer(memory) : host.data();
      const void* const from = in ? host.data() : pointer(memory);
      TRY(library_->call("hipMemcpyAsync", library_->api().copy, to, from, host.size(),
                         in ? abi::CopyKind::to_device : abi::CopyKind::to_host, stream));
    }
    return {};
  });
}

Result<int> HipMemory::load(const std::string& code) {
  TRY(use_device());
  const std::string object = is_object(code) ? code : TRY(library_->compile(code, "the code"));
  abi::Module module = nullptr;
  TRY(library_->call("hipModuleLoadData", library_->api().load_module, &module,
                     static_cast<const void*>(object.data())));
  const std::lock_guard lock(mutex_);
  modules_.push_back(module);
  return static_cast<int>(modules_.size() - 1);
}

Result<void*> HipMemory::find_kernel(int loaded, const std::string& name, std::uint32_t) {
  TRY(use_device());
  const std::lock_guard lock(mutex_);
  if (loaded < 0 || static_cast<std::size_t>(loaded) >= modules_.size())
    return failed({ErrorCode::not_found, "no such code", fmt::format("find_kernel({})", name)});
  abi::Function function = nullptr;
  TRY(library_->call("hipModuleGetFunction", library_->api().get_function, &function,
                     modules_[static_cast<std::size_t>(loaded)], name.c_str()));
  return static_cast<void*>(function);
}

}  // namespace partita::drivers::hip_mask
