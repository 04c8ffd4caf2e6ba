#include "client/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "client/session.h"
#include "image/sha256.h"

namespace partita::remote::client {
namespace {

// An image smaller than this is sent without asking whether the server has it.
constexpr std::size_t kSmallImage = 64 * 1024;
constexpr std::size_t kSmallBlock = 4096;  // of parameters
constexpr std::int64_t kUsualShared = 48 * 1024;

// Parameters one behind the other as the kernel expects them.
void pack(const image::Layout& layout, void** parameters, std::byte* block) {
  std::uint32_t end = 0;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const image::Place place = layout.parameters[i];
    if (place.offset > end) std::memset(block + end, 0, place.offset - end);
    std::memcpy(block + place.offset, parameters[i], place.size);
    end = place.offset + place.size;
  }
}

Digest digest_of(Bytes bytes) {
  Digest digest;
  const auto sum = image::sha256(bytes);
  std::copy(sum.begin(), sum.end(), digest.bytes);
  return digest;
}

}  // namespace

Status Kernels::send_image(Lock& lock, const Module& module) {
  const image::Member& member = *module.chosen;
  const Digest digest = digest_of(member.stored);
  bool have = false;
  if (member.stored.size() >= kSmallImage) {
    const Answer answer = core_.link->call_held(lock, ModuleHave{.digest = digest}, Cause::module);
    if (answer.status != kOk) return answer.status;
    const auto reply = decode<ModuleHave::Reply>(answer.reply);
    have = reply && reply->have != 0;
  }
  if (!have) {
    const ModulePut put{.digest = digest,
                        .compression = static_cast<std::uint32_t>(member.compression),
                        .raw_bytes = member.raw_bytes};
    if (const Status status = core_.link->post(lock, put, member.stored); status != kOk)
      return status;
  }
  return core_.link->post(lock, ModuleLoad{.module = module.handle, .digest = digest});
}

Status Kernels::load(Lock& lock, Module& module) {
  if (module.generation == core_.generation) return module.status;
  read_members(module, core_.device.sm());
  const bool ptx_only = core_.device.backend == "cpu";
  module.chosen = image::choose(module.members, core_.device.sm(), ptx_only);
  module.generation = core_.generation;
  module.handle = {core_.new_handle()};
  module.symbols.clear();
  if (module.chosen == nullptr) {
    if (module.problem.empty())
      module.problem =
          "the program has device code for " + image::targets_text(module.members) + " only";
    const std::string want =
        ptx_only ? "PTX (compile with -gencode arch=compute_XX,code=compute_XX)"
                 : "code for compute capability " + std::to_string(core_.device.sm());
    std::fprintf(stderr, "partita remote: %s; the server needs %s\n", module.problem.c_str(),
                 want.c_str());
    return module.status = kNoImageForDevice;
  }
  return module.status = send_image(lock, module);
}

Status Kernels::load(Module& module) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (const Status status = load(lock, module); status != kOk) return status;
  const Status status = read_layouts(module);
  if (status != kOk) std::fprintf(stderr, "partita remote: %s\n", module.problem.c_str());
  return status;
}

Status Kernels::confirm(const Module& module) {
  Lock lock(core_.mutex);
  if (core_.link == nullptr || core_.left) return kUnloading;
  const ModuleHave asked{.digest = digest_of(module.chosen->stored)};
  const Status status = core_.link->call_held(lock, asked, Cause::module).status;
  return status != kOk ? status : core_.link->failure();
}

Status Kernels::unload(Module& module) {
  modules_.forget(module);
  Lock lock(core_.mutex);
  if (core_.link == nullptr || core_.left || module.generation != core_.generation ||
      module.status != kOk)
    return kOk;
  for (const auto& [name, block] : module.symbols) all_.managed.unmap(lock, block.address);
  module.generation = 0;
  if (core_.link->is_lost()) return kLost;
  return core_.link->post(lock, ModuleUnload{.module = module.handle});
}

// The kernel is known at the server, under a handle of this generation.
Status Kernels::open(Lock& lock, Kernel& kernel) {
  Module& module = *kernel.module;
  if (kernel.generation == core_.generation && module.generation == core_.generation) return kOk;
  if (const Status status = load(lock, module); status != kOk) return status;
  if (const Status status = read_layouts(module); status != kOk) {
    std::fprintf(stderr, "partita remote: %s\n", module.problem.c_str());
    return status;
  }
  const auto found = module.layouts.find(kernel.name);
  if (found == module.layouts.end()) return kInvalidFunction;
  kernel.layout = &found->second;
  kernel.handle = {core_.new_handle()};
  kernel.attributes.reset();
  static_assert(sizeof(image::Place) == 8);
  const auto* places = reinterpret_cast<const std::byte*>(kernel.layout->parameters.data());
  const KernelOpen open{.kernel = kernel.handle,
                        .module = module.handle,
                        .name = kernel.name,
                        .layout = {places, kernel.layout->parameters.size() * 8}};
  const Status status = core_.link->post(lock, open);
  if (status == kOk) kernel.generation = core_.generation;
  return status;
}

Got<const image::Layout*> Kernels::layout_of(Kernel& kernel) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = open(lock, kernel); status != kOk) return refused(status);
  return kernel.layout;
}

Got<KernelAttributes::Reply> Kernels::attributes_of(Kernel& kernel) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = open(lock, kernel); status != kOk) return refused(status);
  const auto found = attributes_of(lock, kernel);
  if (!found) return refused(found.error());
  KernelAttributes::Reply known = **found;
  if (kernel.dynamic_limit) known.max_dynamic_shared = *kernel.dynamic_limit;
  return known;
}

// Of a kernel that is open; asked for once.
Got<const KernelAttributes::Reply*> Kernels::attributes_of(Lock& lock, Kernel& kernel) {
  if (!kernel.attributes) {
    const Answer answer =
        core_.link->call_held(lock, KernelAttributes{.kernel = kernel.handle}, Cause::attributes);
    if (answer.status != kOk) return refused(answer.status);
    kernel.attributes = decode<KernelAttributes::Reply>(answer.reply);
    if (!kernel.attributes) return refused(kUnknown);
  }
  return &*kernel.attributes;
}

Status Kernels::set_attribute(Kernel& kernel, std::uint32_t attribute, std::int32_t value) {
  constexpr std::uint32_t kMaxDynamic = 8;
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  if (const Status status = open(lock, kernel); status != kOk) return status;
  if (attribute == kMaxDynamic) {
    std::int64_t most = core_.device.limit(Attribute::shared_per_block_optin, kUsualShared);
    if (value > most - kUsualShared) {  // what it has of its own counts
      const auto known = attributes_of(lock, kernel);
      if (!known) return known.error();
      most -= (*known)->shared_bytes;
    }
    if (value < 0 || value > most) return kInvalidValue;
    kernel.dynamic_limit = static_cast<std::uint32_t>(value);
  }
  return core_.link->post(
      lock, KernelSetAttribute{.kernel = kernel.handle, .attribute = attribute, .value = value});
}

Got<Block> Kernels::symbol(Module& module, const std::string& name) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = load(lock, module); status != kOk) return refused(status);
  const auto found = module.symbols.find(name);
  if (found != module.symbols.end()) return found->second;
  const GlobalAddress asked{.module = module.handle, .name = name};
  const Answer answer = core_.link->call_held(lock, asked, Cause::symbol);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<GlobalAddress::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  all_.memory.add_global({reply->address.value, reply->bytes});
  return module.symbols[name] = {reply->address.value, reply->bytes};
}

Got<int> Kernels::blocks_per_unit(Kernel& kernel, int threads, std::uint64_t dynamic_shared) {
  const auto attributes = attributes_of(kernel);
  if (!attributes) return refused(attributes.error());
  return resident_blocks(core_.device, *attributes, threads, dynamic_shared);
}

// What the device could never run is refused at once, as CUDA does. The server is asked for what
// the kernel needs where that may matter: beside shared memory of its own, and where registers may
// not suffice for so many threads and the compiler was told of no limit.
Status Kernels::check_shape(Lock& lock, Kernel& kernel, const LaunchShape& shape) {
  constexpr std::uint64_t kAlwaysFit = 256;  // threads of 255 registers, the most of one
  const auto within = [&](std::uint64_t value, Attribute limit, std::int64_t usual) {
    return value > 0 && value <= static_cast<std::uint64_t>(core_.device.limit(limit, usual));
  };
  const auto& [grid, block] = std::pair(shape.grid, shape.block);
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (!within(grid.x, Attribute::max_grid_x, 0x7fffffff) ||
      !within(grid.y, Attribute::max_grid_y, 65535) ||
      !within(grid.z, Attribute::max_grid_z, 65535) ||
      !within(block.x, Attribute::max_block_x, 1024) ||
      !within(block.y, Attribute::max_block_y, 1024) ||
      !within(block.z, Attribute::max_block_z, 64) ||
      !within(threads, Attribute::max_threads_per_block, 1024))
    return kInvalidConfiguration;
  const std::uint32_t said = kernel.layout->threads;
  if (said > 0 && threads > said) return kOutOfResources;
  const bool registers_matter = said == 0 && threads > kAlwaysFit && core_.device.backend != "cpu";
  if (shape.shared_bytes > 0 || registers_matter) {
    const auto known = attributes_of(lock, kernel);
    if (!known) return known.error();
    if (shape.shared_bytes > kernel.dynamic_limit.value_or((*known)->max_dynamic_shared))
      return kInvalidValue;
    if (threads > (*known)->max_threads) return kOutOfResources;
  }
  return kOk;
}

// A launch without its parameters, everything checked.
Got<Launch> Kernels::prepared(Lock& lock, Kernel& kernel, const LaunchShape& shape) {
  if (const Status status = open(lock, kernel); status != kOk) return refused(status);
  if (const Status status = check_shape(lock, kernel, shape); status != kOk) return refused(status);
  return Launch{.kernel = kernel.handle,
                .grid = shape.grid,
                .block = shape.block,
                .shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes),
                .flags = shape.cooperative ? kCooperative : 0U};
}

Status Kernels::launch(Kernel& kernel, const LaunchShape& shape, void** parameters, Bytes block) {
  if (shape.cooperative) {
    const auto blocks =
        blocks_per_unit(kernel, static_cast<int>(shape.block.x * shape.block.y * shape.block.z),
                        shape.shared_bytes);
    if (!blocks) return blocks.error();
    const std::uint64_t wanted = std::uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    if (wanted > static_cast<std::uint64_t>(*blocks) *
                     static_cast<std::uint64_t>(core_.device.limit(Attribute::units, 1)))
      return kCooperativeTooLarge;
  }
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, shape.stream);
  if (!real) return real.error();
  Got<Launch> launch = prepared(lock, kernel, shape);
  if (!launch) return launch.error();
  launch->stream = {*real};
  std::byte small[kSmallBlock];
  std::vector<std::byte> large;
  const image::Layout& layout = *kernel.layout;
  if (block.empty() && layout.bytes > 0) {
    if (parameters == nullptr) return kInvalidValue;
    std::byte* place = small;
    if (layout.bytes > kSmallBlock) {
      large.resize(layout.bytes);
      place = large.data();
    }
    pack(layout, parameters, place);
    block = {place, layout.bytes};
    if (const Status status = all_.host.map_parameters(lock, {place, layout.bytes}); status != kOk)
      return status;
  } else if (all_.host.any()) {
    large.assign(block.begin(), block.end());
    block = large;
    if (const Status status = all_.host.map_parameters(lock, large); status != kOk) return status;
  }
  launch->parameters = block;
  if (const Status status = all_.managed.begin_work(lock, launch->stream.value); status != kOk)
    return status;
  if (all_.captures.at(launch->stream.value) == nullptr)
    all_.streams.note_work(launch->stream.value);
  core_.stats.kernels.fetch_add(1, std::memory_order_relaxed);
  return core_.link->post(lock, *launch);
}

Status Kernels::call_host(std::uint64_t stream, Callback callback) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return real.error();
  if (const Status status = all_.managed.check_callback(); status != kOk) return status;
  callback.again = all_.captures.at(*real) != nullptr;
  if (!callback.again) all_.streams.note_work(*real), all_.streams.note_write(*real);
  const std::uint64_t token = core_.add_callback(callback);
  if (Captures::Capture* const capture = all_.captures.at(*real))
    capture->copies.add_call(token, callback);
  return core_.link->post(lock, HostCall{.stream = {*real}, .token = {token}});
}

Got<NodeLaunch> Kernels::launch_of_node(Kernel& kernel, const LaunchShape& shape,
                                        void** parameters) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const Got<Launch> launch = prepared(lock, kernel, shape);
  if (!launch) return refused(launch.error());
  NodeLaunch node{*launch, std::vector<std::byte>(kernel.layout->bytes)};
  if (!node.block.empty() && parameters == nullptr) return refused(kInvalidValue);
  pack(*kernel.layout, parameters, node.block.data());
  if (const Status status = all_.host.map_parameters(lock, node.block); status != kOk)
    return refused(status);
  return node;
}

}  // namespace partita::remote::client
