#include "server/modules.h"

#include <algorithm>
#include <cstring>

namespace partita::remote::server {
namespace {

constexpr std::uint32_t kMaxGridX = 0x7fff'ffff, kMaxGridYZ = 65'535, kMaxBlockXY = 1024,
                        kMaxBlockZ = 64;
constexpr std::uint32_t kStaticShared = 48 * 1024;    // what a launch has without asking
constexpr std::size_t kMaxSharedOptIn = 97;           // CUdevice_attribute
constexpr std::uint32_t kDynamicShared = 8;           // CUfunction_attribute
constexpr std::uint32_t kLastFunctionAttribute = 15;  // that there is

std::vector<KernelParameter> layout_of(Bytes bytes) {
  std::vector<KernelParameter> layout(bytes.size() / sizeof(KernelParameter));
  if (!layout.empty())
    std::memcpy(layout.data(), bytes.data(), layout.size() * sizeof(KernelParameter));
  return layout;
}

std::string to_text(const std::vector<KernelParameter>& layout) {
  std::string text;
  for (const KernelParameter& parameter : layout)
    text += fmt::format("{}{}+{}", text.empty() ? "" : " ", parameter.offset, parameter.size);
  return "(" + text + ")";
}

}  // namespace

Modules::Modules(DeviceWork& work, Allocations& allocations, Images& images,
                 const SessionLimits& limits)
    : work_(work),
      allocations_(allocations),
      images_(images),
      load_at_once_(limits.load_at_once),
      modules_("module", limits.modules),
      kernels_("kernel", limits.kernels) {}

Reply<ModuleHave> Modules::on(const ModuleHave& op) {
  return ModuleHave::Reply{images_.has(op.digest) ? 1u : 0u};
}

Done Modules::on(const ModuleLoad& op) {
  if (!load_.valid()) {
    if (Done room = modules_.room(op.module.value); !room) return room;
    std::shared_ptr<const PackedImage> packed = images_.find(op.digest);
    if (packed == nullptr)
      return refuse(kInvalidImage, fmt::format("there is no image {}", hex_of(op.digest)));
    load_ = std::async([this, packed = std::move(packed)]() -> Answered<Id> {
      const Result<std::vector<std::byte>> image = unpack(*packed);
      if (!image) return refuse(kInvalidImage, to_string(image.error()));
      const std::string_view text(reinterpret_cast<const char*>(image->data()), image->size());
      return work_.backend().create(ModuleSpec{text});
    });
    loading_ = load_.wait_for(load_at_once_) == std::future_status::timeout;
    if (loading_) return {};
  }
  const Answered<Id> made = load_.get();
  if (!made) return tl::unexpected<Refused>(made.error());
  living_.insert(next_serial_);
  modules_.add(op.module.value, {*made, next_serial_++});
  return {};
}

void Modules::look() {
  if (loading_) loading_ = load_.wait_for(kNoWait) == std::future_status::timeout;
}

Done Modules::on(const ModuleUnload& op) {
  const Module* const found = modules_.find(op.module.value);
  if (found == nullptr) return modules_.missing(op.module.value);
  const Module module = *found;
  modules_.erase(op.module.value);
  living_.erase(module.serial);
  allocations_.remove_of(module.serial);
  std::erase_if(kernels_.all(),
                [&](const auto& kernel) { return kernel.second.module == module.serial; });
  std::erase_if(module_of_kernel_, [&](const auto& of) { return of.second == module.serial; });
  work_.fence([this, id = module.id] { work_.backend().destroy(ObjectKind::module, id); });
  return {};
}

Done Modules::on(const KernelOpen& op) {
  if (Done room = kernels_.room(op.kernel.value); !room) return room;
  const Module* const module = modules_.find(op.module.value);
  if (module == nullptr) return modules_.missing(op.module.value);
  Answered<KernelFacts> facts = work_.backend().find_kernel(module->id, std::string(op.name));
  if (!facts) return tl::unexpected<Refused>(facts.error());
  const std::vector<KernelParameter> layout = layout_of(op.layout);
  if (op.layout.size() % sizeof(KernelParameter) != 0 || layout != facts->parameters)
    return refuse(kInvalidValue, fmt::format("the parameters of {} lie at {}, the client says {}",
                                             op.name, to_text(facts->parameters), to_text(layout)));
  module_of_kernel_[facts->id] = module->serial;
  const std::uint32_t dynamic = kStaticShared - std::min(kStaticShared, facts->shared_bytes);
  kernels_.add(op.kernel.value, {*std::move(facts), module->serial, dynamic});
  return {};
}

Reply<KernelAttributes> Modules::on(const KernelAttributes& op) {
  const Kernel* const kernel = kernels_.find(op.kernel.value);
  if (kernel == nullptr) return kernels_.missing(op.kernel.value);
  const KernelFacts& facts = kernel->facts;
  KernelAttributes::Reply answer;
  answer.max_threads = facts.max_threads;
  answer.shared_bytes = facts.shared_bytes;
  answer.const_bytes = facts.const_bytes;
  answer.local_bytes = facts.local_bytes;
  answer.registers = facts.registers;
  answer.ptx_version = facts.ptx_version;
  answer.binary_version = facts.binary_version;
  answer.max_dynamic_shared = kernel->dynamic_shared;
  return answer;
}

Done Modules::on(const KernelSetAttribute& op) {
  Kernel* const kernel = kernels_.find(op.kernel.value);
  if (kernel == nullptr) return kernels_.missing(op.kernel.value);
  if (op.attribute > kLastFunctionAttribute)
    return refuse(kInvalidValue, fmt::format("there is no attribute {}", op.attribute));
  if (op.attribute != kDynamicShared) return {};  // hints
  const std::vector<std::int32_t>& attributes = work_.backend().device().attributes;
  const std::int32_t most = attributes.size() > kMaxSharedOptIn ? attributes[kMaxSharedOptIn]
                                                                : std::int32_t{kStaticShared};
  const auto own = static_cast<std::int32_t>(kernel->facts.shared_bytes);
  if (op.value < 0 || op.value > most - own)
    return refuse(kInvalidValue, fmt::format("{} bytes of dynamic shared memory; {} are the most",
                                             op.value, most - own));
  kernel->dynamic_shared = static_cast<std::uint32_t>(op.value);
  return {};
}

Reply<GlobalAddress> Modules::on(const GlobalAddress& op) {
  const Module* const module = modules_.find(op.module.value);
  if (module == nullptr) return modules_.missing(op.module.value);
  const Answered<GlobalPlace> place = work_.backend().find_global(module->id, std::string(op.name));
  if (!place) return tl::unexpected<Refused>(place.error());
  if (allocations_.meets(place->address, place->bytes) == Allocations::Meets::nothing)
    allocations_.add(place->address, place->bytes, module->serial);
  return GlobalAddress::Reply{{place->address}, place->bytes};
}

Done Modules::are_loaded(const std::set<std::uint64_t>& modules) const {
  for (const std::uint64_t module : modules)
    if (!living_.contains(module))
      return refuse(kInvalidHandle, "a kernel of the graph has been unloaded");
  return {};
}

std::uint64_t Modules::handle_of(Id kernel) const {
  for (const auto& [handle, known] : kernels_.all())
    if (known.facts.id == kernel && living_.contains(known.module)) return handle;
  return 0;
}

Answered<LaunchWork> Modules::checked(const Launch& op) const {
  const Kernel* const found = kernels_.find(op.kernel.value);
  if (found == nullptr) return kernels_.missing(op.kernel.value);
  const Kernel& kernel = *found;
  const std::uint64_t threads = std::uint64_t{op.block.x} * op.block.y * op.block.z;
  const bool sizes = op.grid.x > 0 && op.grid.y > 0 && op.grid.z > 0 && op.grid.x <= kMaxGridX &&
                     op.grid.y <= kMaxGridYZ && op.grid.z <= kMaxGridYZ && op.block.x > 0 &&
                     op.block.y > 0 && op.block.z > 0 && op.block.x <= kMaxBlockXY &&
                     op.block.y <= kMaxBlockXY && op.block.z <= kMaxBlockZ;
  if (!sizes || threads > kernel.facts.max_threads)
    return refuse(
        kInvalidConfiguration,
        fmt::format("a grid of {}x{}x{} blocks of {}x{}x{} threads; {} threads are the most",
                    op.grid.x, op.grid.y, op.grid.z, op.block.x, op.block.y, op.block.z,
                    kernel.facts.max_threads));
  if (op.shared_bytes > kernel.dynamic_shared)
    return refuse(kInvalidValue, fmt::format("{} bytes of dynamic shared memory; {} may be used",
                                             op.shared_bytes, kernel.dynamic_shared));
  if (op.parameters.size() != kernel.facts.parameter_bytes)
    return refuse(kInvalidValue, fmt::format("{} bytes of parameters; the kernel has {}",
                                             op.parameters.size(), kernel.facts.parameter_bytes));
  if ((op.flags & ~std::uint32_t{kCooperative}) != 0)
    return refuse(kInvalidValue, fmt::format("flags {:#x} of a launch", op.flags));
  return LaunchWork{kernel.facts.id,
                    op.grid,
                    op.block,
                    op.shared_bytes,
                    (op.flags & kCooperative) != 0,
                    {op.parameters.begin(), op.parameters.end()}};
}

}  // namespace partita::remote::server
