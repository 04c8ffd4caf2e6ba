#include "server/cuda/cuda_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partita::remote::cuda {

using server::Answered;
using server::Id;
using server::KernelFacts;

namespace {

constexpr std::size_t kMaxLog = 4096;
constexpr std::size_t kMaxParameters = 4096;

// What the driver knows of a function of a module.
KernelFacts facts_of(const DriverApi& api, abi::Function function) {
  KernelFacts facts;
  for (std::size_t i = 0; i < kMaxParameters; ++i) {
    std::size_t offset = 0, size = 0;
    if (api.cuFuncGetParamInfo(function, i, &offset, &size) != 0) break;
    facts.parameters.push_back(
        {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
    facts.parameter_bytes = static_cast<std::uint32_t>(offset + size);
  }
  const auto attribute = [&](int number) {
    int value = 0;
    return api.cuFuncGetAttribute(&value, number, function) == 0 && value > 0
               ? static_cast<std::uint32_t>(value)
               : 0u;
  };
  facts.max_threads = attribute(0);
  facts.shared_bytes = attribute(1);
  facts.const_bytes = attribute(2);
  facts.local_bytes = attribute(3);
  facts.registers = attribute(4);
  facts.ptx_version = attribute(5);
  facts.binary_version = attribute(6);
  return facts;
}

}  // namespace

Modules::~Modules() {
  for (const auto& [id, module] : modules_) context_.api().cuModuleUnload(module);
}

Answered<Id> Modules::load(std::string_view image) {
  // PTX must end in a NUL; the loader writes what it thinks of it.
  const std::string text(image);
  std::array<char, kMaxLog> log{};
  std::array<int, 2> options{abi::kJitErrorLog, abi::kJitErrorLogBytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  abi::Module module = nullptr;
  context_.api().cuCtxSetCurrent(context_.handle());  // a load has a thread of its own
  const abi::Return code =
      context_.api().cuModuleLoadDataEx(&module, text.c_str(), 2, options.data(), values.data());
  if (code != 0) {
    tl::unexpected<server::Refused> why = context_.refused("cuModuleLoadDataEx", code);
    if (log[0] != '\0') why.value().reason += fmt::format(": {}", log.data());
    return why;
  }
  if (image.find("vprintf") != image.npos) context_.catch_prints();
  const Id id = context_.next_id();
  modules_.emplace(id, module);
  return id;
}

void Modules::unload(Id id) {
  context_.api().cuModuleUnload(modules_.at(id));
  modules_.erase(id);
  std::erase_if(found_, [id](const auto& kernel) { return kernel.first.first == id; });
}

Answered<KernelFacts> Modules::find_kernel(Id module, const std::string& name) {
  if (const auto known = found_.find({module, name}); known != found_.end()) return known->second;
  Kernel kernel{.name = name};
  if (const abi::Return code =
          context_.api().cuModuleGetFunction(&kernel.function, modules_.at(module), name.c_str());
      code != 0)
    return context_.refused("cuModuleGetFunction", code);
  KernelFacts facts = facts_of(context_.api(), kernel.function);
  facts.id = static_cast<Id>(kernels_.size());
  kernel.parameters = facts.parameters;
  kernels_.push_back(std::move(kernel));
  return found_.emplace(std::pair(module, name), std::move(facts)).first->second;
}

Answered<server::GlobalPlace> Modules::find_global(Id module, const std::string& name) {
  abi::DevicePointer address = 0;
  std::size_t bytes = 0;
  if (const abi::Return code =
          context_.api().cuModuleGetGlobal_v2(&address, &bytes, modules_.at(module), name.c_str());
      code != 0)
    return context_.refused("cuModuleGetGlobal", code);
  return server::GlobalPlace{address, bytes};
}

Answered<void> Modules::make_room(Kernel& kernel, std::uint32_t shared_bytes) {
  constexpr std::uint32_t kWithoutAsking = 48 * 1024;
  if (shared_bytes <= std::max(kWithoutAsking, kernel.dynamic_shared)) return {};
  Answered<void> ok =
      context_.done("cuFuncSetAttribute",
                    context_.api().cuFuncSetAttribute(kernel.function, abi::kMaxDynamicShared,
                                                      static_cast<int>(shared_bytes)));
  if (ok) kernel.dynamic_shared = shared_bytes;
  return ok;
}

Answered<void> Modules::launch(abi::Stream stream, const server::LaunchWork& work) {
  Kernel& kernel = kernels_.at(work.kernel);
  if (Answered<void> ok = make_room(kernel, work.shared_bytes); !ok) return ok;
  auto* const block = const_cast<std::byte*>(work.parameters.data());
  if (work.cooperative) {
    std::vector<void*> each;
    for (const server::KernelParameter& parameter : kernel.parameters)
      each.push_back(block + parameter.offset);
    return context_.done("cuLaunchCooperativeKernel",
                         context_.api().cuLaunchCooperativeKernel(
                             kernel.function, work.grid.x, work.grid.y, work.grid.z, work.block.x,
                             work.block.y, work.block.z, work.shared_bytes, stream, each.data()));
  }
  std::size_t bytes = work.parameters.size();
  std::array<void*, 5> extra{reinterpret_cast<void*>(abi::kBufferPointer), block,
                             reinterpret_cast<void*>(abi::kBufferSize), &bytes, nullptr};
  return context_.done(
      "cuLaunchKernel",
      context_.api().cuLaunchKernel(kernel.function, work.grid.x, work.grid.y, work.grid.z,
                                    work.block.x, work.block.y, work.block.z, work.shared_bytes,
                                    stream, nullptr, bytes == 0 ? nullptr : extra.data()));
}

}  // namespace partita::remote::cuda
