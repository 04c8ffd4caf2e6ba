// Modules, kernels and launches.
#include <fmt/format.h>

#include <cstring>

#include "server/session_core.h"

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
  if (!layout.empty()) std::memcpy(layout.data(), bytes.data(), layout.size() * sizeof(layout[0]));
  return layout;
}

std::string to_text(const std::vector<KernelParameter>& layout) {
  std::string text;
  for (const KernelParameter& parameter : layout)
    text += fmt::format("{}{}+{}", text.empty() ? "" : " ", parameter.offset, parameter.size);
  return "(" + text + ")";
}

}  // namespace

// ---- images ----

Reply<ModuleHave> Session::Core::on(const ModuleHave& op) {
  return ModuleHave::Reply{images_.has(op.digest) ? 1u : 0u};
}

Done Session::Core::on(const ModulePut& op) {
  if (bulk_.left == 0 || bulk_.left > kMaxImageBytes || op.raw_bytes > kMaxImageBytes)
    return refuse(kInvalidImage, fmt::format("an image of {} bytes, {} unpacked; {} are the limit",
                                             bulk_.left, op.raw_bytes, kMaxImageBytes));
  bulk_.kind = Arriving::Kind::image;
  bulk_.put = op;
  return {};
}

bool Session::Core::go_on_with_image() {
  // Grows as it comes: what is only promised takes no memory.
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  if (bulk_.filled == bulk_.chunk.size())
    bulk_.chunk.resize(bulk_.filled + std::min(kStep, bulk_.left));
  const auto read = reader_.read_bulk(std::span(bulk_.chunk).subspan(bulk_.filled), Nanos(0));
  const std::size_t came = read ? bulk_.chunk.size() - bulk_.filled : reader_.taken();
  bulk_.filled += came;
  bulk_.left -= came;
  if (!read) {
    if (read.error().code != ErrorCode::timeout) broken(read.error());
    return false;
  }
  if (bulk_.left > 0) return true;
  const Arriving arrived = std::exchange(bulk_, {});
  if (digest_of(arrived.chunk) != arrived.put.digest) {
    refused("module_put", {kInvalidImage, "the image has another digest"});
    return true;
  }
  images_.put(arrived.put.digest,
              std::make_shared<const PackedImage>(
                  PackedImage{arrived.chunk, arrived.put.compression, arrived.put.raw_bytes}));
  return true;
}

// ---- modules ----

Done Session::Core::on(const ModuleLoad& op) {
  if (op.module.value == 0 || modules_.contains(op.module.value))
    return refuse(kInvalidHandle, fmt::format("module {} is there already", op.module.value));
  if (modules_.size() >= limits_.modules)
    return refuse(kOutOfMemory, fmt::format("{} modules are the limit", limits_.modules));
  const std::shared_ptr<const PackedImage> packed = images_.find(op.digest);
  if (packed == nullptr)
    return refuse(kInvalidImage, fmt::format("there is no image {}", hex_of(op.digest)));
  const Result<std::vector<std::byte>> image = unpack(*packed);
  if (!image) return refuse(kInvalidImage, to_string(image.error()));
  const std::string_view text(reinterpret_cast<const char*>(image->data()), image->size());
  const Answered<Id> made = backend_->create(ModuleSpec{text});
  if (!made) return tl::unexpected<Refused>(made.error());
  const std::uint64_t serial = next_serial_++;
  living_modules_.insert(serial);
  modules_.emplace(op.module.value, Module{*made, serial});
  return {};
}

Done Session::Core::on(const ModuleUnload& op) {
  const auto found = modules_.find(op.module.value);
  if (found == modules_.end())
    return refuse(kInvalidHandle, fmt::format("there is no module {}", op.module.value));
  const Module module = found->second;
  modules_.erase(found);
  living_modules_.erase(module.serial);
  allocations_.remove_of(module.serial);
  std::erase_if(kernels_,
                [&](const auto& kernel) { return kernel.second.module == module.serial; });
  std::erase_if(module_of_kernel_, [&](const auto& of) { return of.second == module.serial; });
  fence([this, id = module.id] { backend_->destroy(ObjectKind::module, id); });
  return {};
}

Done Session::Core::on(const KernelOpen& op) {
  if (op.kernel.value == 0 || kernels_.contains(op.kernel.value))
    return refuse(kInvalidHandle, fmt::format("kernel {} is there already", op.kernel.value));
  if (kernels_.size() >= limits_.kernels)
    return refuse(kOutOfMemory, fmt::format("{} kernels are the limit", limits_.kernels));
  const auto module = modules_.find(op.module.value);
  if (module == modules_.end())
    return refuse(kInvalidHandle, fmt::format("there is no module {}", op.module.value));
  Answered<KernelFacts> facts = backend_->find_kernel(module->second.id, std::string(op.name));
  if (!facts) return tl::unexpected<Refused>(facts.error());
  const std::vector<KernelParameter> layout = layout_of(op.layout);
  if (op.layout.size() % sizeof(KernelParameter) != 0 || layout != facts->parameters)
    return refuse(kInvalidValue, fmt::format("the parameters of {} lie at {}, the client says {}",
                                             op.name, to_text(facts->parameters), to_text(layout)));
  module_of_kernel_[facts->id] = module->second.serial;
  const std::uint32_t dynamic =
      facts->shared_bytes < kStaticShared ? kStaticShared - facts->shared_bytes : 0;
  kernels_.emplace(op.kernel.value, Kernel{*std::move(facts), module->second.serial, dynamic});
  return {};
}

Reply<KernelAttributes> Session::Core::on(const KernelAttributes& op) {
  const auto found = kernels_.find(op.kernel.value);
  if (found == kernels_.end())
    return refuse(kInvalidHandle, fmt::format("there is no kernel {}", op.kernel.value));
  const KernelFacts& facts = found->second.facts;
  KernelAttributes::Reply answer;
  answer.max_threads = facts.max_threads;
  answer.shared_bytes = facts.shared_bytes;
  answer.const_bytes = facts.const_bytes;
  answer.local_bytes = facts.local_bytes;
  answer.registers = facts.registers;
  answer.ptx_version = facts.ptx_version;
  answer.binary_version = facts.binary_version;
  answer.max_dynamic_shared = found->second.dynamic_shared;
  return answer;
}

Done Session::Core::on(const KernelSetAttribute& op) {
  const auto found = kernels_.find(op.kernel.value);
  if (found == kernels_.end())
    return refuse(kInvalidHandle, fmt::format("there is no kernel {}", op.kernel.value));
  if (op.attribute > kLastFunctionAttribute)
    return refuse(kInvalidValue, fmt::format("there is no attribute {}", op.attribute));
  if (op.attribute != kDynamicShared) return {};  // hints
  const std::vector<std::int32_t>& attributes = backend_->device().attributes;
  const std::int32_t most = attributes.size() > kMaxSharedOptIn ? attributes[kMaxSharedOptIn]
                                                                : std::int32_t{kStaticShared};
  const auto own = static_cast<std::int32_t>(found->second.facts.shared_bytes);
  if (op.value < 0 || op.value > most - own)
    return refuse(kInvalidValue, fmt::format("{} bytes of dynamic shared memory; {} are the most",
                                             op.value, most - own));
  found->second.dynamic_shared = static_cast<std::uint32_t>(op.value);
  return {};
}

Reply<GlobalAddress> Session::Core::on(const GlobalAddress& op) {
  const auto module = modules_.find(op.module.value);
  if (module == modules_.end())
    return refuse(kInvalidHandle, fmt::format("there is no module {}", op.module.value));
  const Answered<GlobalPlace> place =
      backend_->find_global(module->second.id, std::string(op.name));
  if (!place) return tl::unexpected<Refused>(place.error());
  if (allocations_.meets(place->address, place->bytes) == Allocations::Meets::nothing)
    allocations_.add(place->address, place->bytes, module->second.serial);
  return GlobalAddress::Reply{{place->address}, place->bytes};
}

// ---- launches ----

Answered<LaunchWork> Session::Core::checked(const Launch& op) const {
  const auto found = kernels_.find(op.kernel.value);
  if (found == kernels_.end())
    return refuse(kInvalidHandle, fmt::format("there is no kernel {}", op.kernel.value));
  const Kernel& kernel = found->second;
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

Done Session::Core::on(const Launch& op) {
  Answered<LaunchWork> work = checked(op);
  if (!work) return tl::unexpected<Refused>(work.error());
  ++counts_.launches;
  return submit(op.stream, *std::move(work));
}

}  // namespace partita::remote::server
