// The simulated libcuda and libamdhip64 in one library that runs PTX, on ptx::Machine: what a graph
// comes to on a GPU can be compared with what it comes to on threads. Every access is checked;
// HIP's run-time compiler takes PTX for source here.
#include <cstring>
#include <memory>

#include "device/testing/code_engine.h"
#include "ptx/machine.h"

namespace partita::carry {
namespace {

class PtxEngine final : public device::CodeEngine {
 public:
  explicit PtxEngine(std::unique_ptr<ptx::Machine> machine) : machine_(std::move(machine)) {}

  std::uint64_t allocate(std::size_t bytes) override {
    return machine_->allocate(bytes).value_or(0);
  }
  void release(std::uint64_t address) override { static_cast<void>(machine_->release(address)); }
  std::byte* bytes_at(std::uint64_t address, std::size_t bytes) override {
    const auto found = machine_->writable(address, bytes);
    return found ? found->data() : nullptr;
  }
  std::uint64_t load(const char* image) override {
    const auto module = machine_->load(image, "the image");
    return module ? static_cast<std::uint64_t>(*module) + 1 : 0;
  }
  bool has(std::uint64_t module, const std::string& kernel) override {
    return machine_->find_kernel(ptx::ModuleId{module - 1}, kernel).has_value();
  }
  std::function<bool(std::int64_t group)> launch(const Launch& launch) override {
    const ptx::ModuleId module{launch.module - 1};
    const auto kernel = machine_->find_kernel(module, launch.kernel);
    if (!kernel) return nullptr;
    const ptx::KernelInfo info = (*machine_->kernels(module))[kernel->index];
    ptx::Launch made;
    made.kernel = *kernel;
    made.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
    made.block = {launch.block[0], launch.block[1], launch.block[2]};
    made.dynamic_shared = launch.shared;
    made.parameters.resize(info.parameter_bytes);
    for (std::size_t i = 0; i < info.parameters.size(); ++i)
      std::memcpy(&made.parameters[info.parameters[i].offset], launch.arguments[i],
                  info.parameters[i].size);
    const auto run = machine_->prepare(std::move(made));
    if (!run) return nullptr;
    return [run = *run](std::int64_t group) {
      run->execute(group);
      return run->faults().empty();
    };
  }

 private:
  const std::unique_ptr<ptx::Machine> machine_;
};

const bool kInstalled = [] {
  constexpr std::uint64_t kBytes = std::uint64_t{4} << 30;
  if (auto machine = ptx::Machine::open(kBytes))
    device::code_engine = new PtxEngine(std::move(*machine));  // threads may look to the end
  return true;
}();

}  // namespace
}  // namespace partita::carry
