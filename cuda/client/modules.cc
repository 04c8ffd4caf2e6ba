#include "client/modules.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace partita::remote::client {
namespace {

struct Wrapper {
  std::uint32_t magic = 0, version = 0;
  const void* data = nullptr;
  const void* file = nullptr;
};

// How much of the program's memory an image without a length may take at most.
constexpr std::uint64_t kMaxMemory = image::kMaxImage;

// The container that begins at `at`, its length taken from its header.
std::optional<image::Blob> container_at(const void* at) {
  const image::Blob head(static_cast<const std::byte*>(at), image::kContainerHeader);
  const auto size = image::container_bytes(head);
  if (!size || *size > kMaxMemory) return std::nullopt;
  return image::Blob(static_cast<const std::byte*>(at), *size);
}

// Behind the last table or section of the ELF file in memory at `at`.
std::uint64_t elf_length(const std::byte* at) {
  const image::Blob head(at, 64);
  const std::uint64_t sections = *image::read_at<std::uint64_t>(head, 40);
  const std::uint64_t programs = *image::read_at<std::uint64_t>(head, 32);
  const std::uint64_t many = *image::read_at<std::uint16_t>(head, 60);
  const std::uint64_t each = *image::read_at<std::uint16_t>(head, 58);
  const std::uint64_t segments = *image::read_at<std::uint16_t>(head, 56);
  const std::uint64_t segment = *image::read_at<std::uint16_t>(head, 54);
  if (sections > kMaxMemory || programs > kMaxMemory) return 0;
  std::uint64_t end = std::max(sections + many * each, programs + segments * segment);
  for (std::uint64_t i = 0; i < many; ++i) {
    const image::Blob section(at + sections + i * each, 64);
    constexpr std::uint32_t kNoBits = 8;
    if (*image::read_at<std::uint32_t>(section, 4) == kNoBits) continue;
    const std::uint64_t offset = *image::read_at<std::uint64_t>(section, 24);
    const std::uint64_t size = *image::read_at<std::uint64_t>(section, 32);
    if (offset > kMaxMemory || size > kMaxMemory) return 0;
    end = std::max(end, offset + size);
  }
  return end;
}

std::vector<std::byte> copy_of(image::Blob blob) { return {blob.begin(), blob.end()}; }

// The bytes of an image in the program's memory, which says itself how long it is.
std::vector<std::byte> image_in_memory(const void* at) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, at, sizeof magic);
  if (magic == image::kWrapperMagic) {
    Wrapper wrapper;
    std::memcpy(&wrapper, at, sizeof wrapper);
    return wrapper.data == nullptr ? std::vector<std::byte>{} : image_in_memory(wrapper.data);
  }
  if (magic == image::kContainerMagic) {
    const auto container = container_at(at);
    return container ? copy_of(*container) : std::vector<std::byte>{};
  }
  const auto* bytes = static_cast<const std::byte*>(at);
  constexpr std::uint32_t kElf = 0x464c457f;
  if (magic == kElf) return copy_of({bytes, elf_length(bytes)});
  return copy_of({bytes, ::strnlen(static_cast<const char*>(at), kMaxMemory)});
}

void take_members(Module& module, Result<std::vector<image::Member>> members) {
  if (members) {
    module.members = *std::move(members);
  } else {
    module.problem = to_string(members.error());
  }
}

// Relocatable code (-rdc=true) that the program's linker left apart, because it was PTX: the text
// of each of `containers`, ended by null, one behind the other. NVIDIA's device runtime among them
// asks its driver for what the server does itself.
void link_units(Module& module, const void* const* containers, std::uint32_t sm) {
  for (; *containers != nullptr; ++containers) {
    const auto container = container_at(*containers);
    auto members = container ? image::members_of(*container) : std::vector<image::Member>();
    if (!members) continue;
    const image::Member* const unit = image::choose(*members, sm, true);
    if (unit == nullptr) continue;
    const Result<std::vector<std::byte>> text = image::unpacked(*unit);
    if (!text) continue;
    const std::string_view words(reinterpret_cast<const char*>(text->data()), text->size());
    if (words.find("__cuda_syscall_cnp") != words.npos) continue;
    module.copy.insert(module.copy.end(), text->begin(), text->end());
    module.copy.push_back(std::byte{'\n'});
  }
  if (module.copy.empty()) return;
  module.members = {{.kind = image::MemberKind::ptx,
                     .sm = sm,
                     .stored = module.copy,
                     .raw_bytes = module.copy.size()}};
}

}  // namespace

void read_members(Module& module, std::uint32_t sm) {
  if (module.is_read) return;
  module.is_read = true;
  if (module.source != nullptr) {
    Wrapper wrapper;
    std::memcpy(&wrapper, module.source, sizeof wrapper);
    const auto container = wrapper.magic == image::kWrapperMagic && wrapper.data != nullptr
                               ? container_at(wrapper.data)
                               : std::nullopt;
    constexpr std::uint32_t kWithUnits = 2;
    if (container) {
      take_members(module, image::members_of(*container));
      if (module.members.empty() && wrapper.version == kWithUnits && wrapper.file != nullptr)
        link_units(module, static_cast<const void* const*>(wrapper.file), sm);
      return;
    }
    module.problem = "the program's fat binary is of an unknown form";
    return;
  }
  const image::Blob blob(module.copy);
  if (image::container_bytes(blob)) return take_members(module, image::members_of(blob));
  Result<image::Member> bare = image::bare_member(blob);
  if (bare) {
    module.members.push_back(*bare);
  } else {
    module.problem = to_string(bare.error());
  }
}

Status read_layouts(Module& module) {
  if (module.has_layouts) return kOk;
  if (module.chosen == nullptr) return kInvalidImage;
  const Result<std::vector<std::byte>> raw = image::unpacked(*module.chosen);
  if (!raw) {
    module.problem = to_string(raw.error());
    return kInvalidImage;
  }
  Result<image::Layouts> layouts =
      module.chosen->kind == image::MemberKind::elf
          ? image::cubin_layouts(*raw)
          : image::ptx_layouts({reinterpret_cast<const char*>(raw->data()), raw->size()});
  if (!layouts) {
    module.problem = to_string(layouts.error());
    return kInvalidImage;
  }
  module.layouts = *std::move(layouts);
  module.has_layouts = true;
  return kOk;
}

Module* Modules::add_registered(const void* wrapper) {
  const std::lock_guard lock(mutex_);
  modules_.push_back({.source = wrapper, .copy = {}});
  return &modules_.back();
}

bool Modules::has_registered() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(modules_, [](const Module& one) { return one.source != nullptr; });
}

Module* Modules::add_loaded(const void* source) {
  std::vector<std::byte> copy = image_in_memory(source);
  const std::lock_guard lock(mutex_);
  modules_.push_back({.source = nullptr, .copy = std::move(copy)});
  return &modules_.back();
}

Kernel* Modules::add_kernel(Module& module, const void* host, std::string name) {
  const std::lock_guard lock(mutex_);
  Kernel* const kernel = kernel_in(module, std::move(name));
  if (host != nullptr) by_host_[host] = kernel;
  return kernel;
}

Kernel* Modules::kernel_in(Module& module, std::string name) {
  Kernel*& kernel = module.kernels[name];
  if (kernel == nullptr) {
    kernels_.push_back({.module = &module, .name = std::move(name)});
    kernel = &kernels_.back();
    known_[kernel] = kernel;
  }
  return kernel;
}

Module* Modules::on_device(Module* module) {
  if (module->original != nullptr) module = module->original;
  const int device = current_device();
  const auto of_module = [&](const auto& entry) { return entry.second.module == module; };
  if (device == 0 || module->source == nullptr || std::ranges::any_of(managed_, of_module))
    return module;
  Module*& twin = twins_[{module, device}];
  if (twin == nullptr) {
    modules_.push_back({.original = module, .source = module->source, .copy = {}});
    twin = &modules_.back();
  }
  return twin;
}

void Modules::add_variable(Module& module, const void* host, const char* name,
                           std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  variables_[host] = {&module, name, bytes};
}

void Modules::add_managed(Module& module, void** shared, const char* name, std::uint64_t bytes) {
  add_variable(module, shared, name, bytes);
  const std::lock_guard lock(mutex_);
  managed_[shared] = {&module, name, bytes};
}

std::vector<std::pair<void**, std::string>> Modules::managed_of(const Module& module) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<void**, std::string>> found;
  for (const auto& [shared, variable] : managed_)
    if (variable.module == &module) found.emplace_back(shared, variable.name);
  return found;
}

void Modules::forget(Module& module) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_host_, [&](const auto& entry) { return entry.second->module == &module; });
  std::erase_if(managed_, [&](const auto& entry) { return entry.second.module == &module; });
  std::erase_if(variables_, [&](const auto& entry) { return entry.second.module == &module; });
}

Kernel* Modules::kernel_of(const void* host) {
  const std::lock_guard lock(mutex_);
  const auto found = by_host_.find(host), known = known_.find(host);
  if (found == by_host_.end() && known == known_.end()) return nullptr;
  Kernel* const kernel = found != by_host_.end() ? found->second : known->second;
  Module* const module = on_device(kernel->module);
  return module == kernel->module ? kernel : kernel_in(*module, kernel->name);
}

Kernel* Modules::here(Kernel* kernel) {
  if (current_device() == 0 && kernel->module->original == nullptr) return kernel;
  return kernel_of(kernel);
}

Kernel* Modules::kernel_by(KernelHandle handle, std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  for (Kernel& kernel : kernels_)
    if (kernel.generation == generation && kernel.handle == handle) return &kernel;
  return nullptr;
}

const void* Modules::host_of(const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  const Module& module =
      kernel.module->original == nullptr ? *kernel.module : *kernel.module->original;
  for (const auto& [host, known] : by_host_)
    if (known->module == &module && known->name == kernel.name) return host;
  return &kernel;
}

std::optional<Variable> Modules::variable_of(const void* host) {
  const std::lock_guard lock(mutex_);
  const auto found = variables_.find(host);
  if (found == variables_.end()) return std::nullopt;
  Variable variable = found->second;
  variable.module = on_device(variable.module);
  return variable;
}

Kernel* Modules::kernel_named(Module& module, std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = module.kernels.find(name);
    if (found != module.kernels.end()) return found->second;
  }
  if (module.layouts.find(name) == module.layouts.end()) return nullptr;
  return add_kernel(module, nullptr, std::string(name));
}

bool Modules::is_kernel(const void* handle) {
  const std::lock_guard lock(mutex_);
  return known_.contains(handle);
}

}  // namespace partita::remote::client
