// Modules of a session on the GPU: images loaded, their kernels and variables by name, and kernels
// launched. Thread rule: the context's.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/backend.h"
#include "server/cuda/context.h"

namespace partita::remote::cuda {

class Modules {
 public:
  explicit Modules(Context& context) : context_(context) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // PTX or a cubin; refused with what the loader thinks of it.
  server::Answered<server::Id> load(std::string_view image);
  void unload(server::Id id);
  server::Answered<server::KernelFacts> find_kernel(server::Id module, const std::string& name);
  server::Answered<server::GlobalPlace> find_global(server::Id module, const std::string& name);
  const std::string& name_of(server::Id kernel) const { return kernels_.at(kernel).name; }
  server::Answered<void> launch(abi::Stream stream, const server::LaunchWork& work);

 private:
  struct Kernel {
    abi::Function function = nullptr;
    std::string name = {};
    std::vector<server::KernelParameter> parameters = {};
    std::uint32_t dynamic_shared = 0;  // that was asked for so far
  };
  server::Answered<void> make_room(Kernel& kernel, std::uint32_t shared_bytes);

  Context& context_;
  std::map<server::Id, abi::Module> modules_;
  std::map<std::pair<server::Id, std::string>, server::KernelFacts> found_;
  std::vector<Kernel> kernels_;
};

}  // namespace partita::remote::cuda
