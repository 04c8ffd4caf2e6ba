// Between the C interface and the simulated machine: the library's state in this process (the C
// interface has no other place for it), its count of initialisations, and the way from a handle to
// the thing it stands for. Every entry point goes through one of the functions below, which check
// in NVML's order: initialised, arguments, handle, GPU lost. No exception leaves them.
// Thread-safe: the machine and the handles have their own locks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "drivers/nvml_mig/nvml_functions.h"
#include "drivers/sim/figures.h"
#include "drivers/sim/shared_machine.h"
#include "event_sets.h"
#include "gpm_samples.h"
#include "handles.h"

namespace partita::nvml_sim {

namespace abi = drivers::nvml_mig::abi;
using abi::ComputeInstance;
using abi::Device;
using abi::GpuInstance;
using abi::Return;
using drivers::sim::Figures;
using drivers::sim::figures_of;
using drivers::sim::kDriverVersion;
using drivers::sim::Machine;
using drivers::sim::memory_mib;
using drivers::sim::multiprocessors;
using drivers::sim::SimComputeInstance;
using drivers::sim::SimGpu;
using drivers::sim::SimInstance;
using drivers::sim::total_mib;

// The library in this process.
class Library {
 public:
  static Library& here();

  // Opens the machine at the first call and counts. driver_not_loaded, with the reason on standard
  // error, when its description is refused.
  Return initialise();
  Return shut_down();
  // Null before initialise() and after as many shut_down().
  std::shared_ptr<drivers::sim::SharedMachine> machine();
  // The machine as it was at initialise(); null as machine().
  std::shared_ptr<Machine> boards();

  Handles handles;
  RealClock clock;
  GpmSamples gpm;
  EventSets event_sets;

  // Whether this process looked at the processes of this computer a moment ago; if not, it is
  // about to.
  bool looked_lately();

 private:
  std::mutex mutex_;
  int users_ = 0;
  std::shared_ptr<drivers::sim::SharedMachine> machine_;
  std::shared_ptr<Machine> boards_;
  std::string opened_;  // description that machine_ came from
  std::int64_t looked_ns_ = -1;
};

// What a handle stands for, on the present machine.
struct Target {
  const Machine& machine;
  int index = 0;  // of the GPU
  const SimGpu& gpu;
  const SimInstance* instance = nullptr;        // of instances and MIG devices
  const SimComputeInstance* compute = nullptr;  // of compute instances and MIG devices

  const hw::MigProfile& profile() const {
    return gpu.model->profiles[static_cast<std::size_t>(instance->profile)];
  }
};
using Use = std::function<Return(const Target&)>;

// Whether the client gave a place for every answer.
template <class... Answer>
bool given(const Answer*... answers) {
  return (... && (answers != nullptr));
}

// Runs `use` on the machine, whose processes need not be those of this moment.
Return on_machine(bool arguments, const std::function<Return(const Machine&)>& use);
// ... with the processes that this computer has now.
Return with_processes(bool arguments, const std::function<Return(const Machine&)>& use);
// Runs `use` on the boards of the machine, for what no change of it alters; without looking at its
// state, as the driver answers such questions without asking the GPU.
Return on_boards(bool arguments, const std::function<Return(const Machine&)>& use);
// ... on a GPU or MIG device; not on a lost one.
Return on_device(Device device, bool arguments, const Use& use);
// ... with the processes that this computer has now.
Return on_used_device(Device device, bool arguments, const Use& use);
// ... what no change alters, of a lost GPU too.
Return on_any_device(Device device, bool arguments, const Use& use);
// ... on the board of a GPU, likewise; a MIG device is not_supported.
Return on_board(Device device, bool arguments, const Use& use);
// ... on a GPU; a MIG device is not_supported.
Return on_gpu(Device device, bool arguments, const Use& use);
// ... on a GPU with its power at this moment; a MIG device is not_supported.
using PowerUse = std::function<Return(const Target&, const drivers::sim::SimPower&)>;
Return on_power(Device device, bool arguments, const PowerUse& use);
// Changes the GPU's power settings: `change_one` gets those of now.
Return set_power(Device device, const std::function<void(device::PowerSettings&)>& change_one);
// ... on a MIG device; a GPU is invalid_argument.
Return on_mig_device(Device device, bool arguments, const Use& use);
// ... on a GPU in MIG mode; without it not_supported, a MIG device is invalid_argument.
Return on_mig_gpu(Device device, bool arguments, const Use& use);
Return on_gpu_instance(GpuInstance instance, bool arguments, const Use& use);
Return on_compute_instance(ComputeInstance instance, bool arguments, const Use& use);

// Whether the entity is on this machine: nobody took it since its handle was looked at.
Result<void> still_there(const Machine& machine, const Entity& entity);

// What a changing call is to do: the duration, or the refusal.
using Effect = std::function<Result<std::int64_t>(Machine&)>;
// Runs a change under the name that NodeDriver has for it, with the faults of the machine's script.
Return change(std::string_view method, const Effect& effect);

Return code_of(const Error& error);

// Handles of what was found.
Device device_handle(int gpu);
Device mig_device_handle(int gpu, const SimInstance& instance, const SimComputeInstance&);
GpuInstance instance_handle(int gpu, const SimInstance& instance);
ComputeInstance compute_handle(int gpu, const SimInstance& instance,
                               const SimComputeInstance& compute);
Entity entity_of(int gpu, const SimInstance& instance);
Entity entity_of(int gpu, const SimInstance& instance, const SimComputeInstance& compute);

// Text of at most `length` bytes with its zero; insufficient_size when it is longer.
Return put(std::string_view text, char* out, unsigned length);

// A list whose count goes in as room and out as number.
template <class Items, class Item>
Return put_list(const Items& items, unsigned* count, Item* out) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(items.size());
  if (*count > room) return Return::insufficient_size;
  if (*count > 0 && out == nullptr) return Return::invalid_argument;
  for (const auto& item : items) *out++ = item;
  return Return::success;
}

// The same for lists of near GPUs, where no room asks for the number.
template <class Items>
Return put_near(const Items& items, unsigned* count, Device* out) {
  if (*count > 0) return put_list(items, count, out);
  *count = static_cast<unsigned>(items.size());
  return Return::success;
}

// Sets `*out`.
template <class Answer, class Value>
Return answer(Answer* out, Value value) {
  *out = static_cast<Answer>(value);
  return Return::success;
}

}  // namespace partita::nvml_sim
