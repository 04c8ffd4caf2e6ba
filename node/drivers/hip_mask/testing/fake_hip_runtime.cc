// The rest of the simulated libamdhip64, which programs of HIP call and our driver does not:
// streams without masks, <<< >>>, copies, functions of the host, captured graphs.
#include <cstring>
#include <utility>

#include "drivers/hip_mask/testing/fake_call.h"

namespace partita::drivers::hip_mask::fake {
namespace {

using abi::Status;

struct Dim3 {
  unsigned x, y, z;
};
struct Configured {
  Dim3 grid, block;
  std::size_t shared;
  abi::Stream stream;
  std::vector<std::uint64_t> arguments;
};
thread_local std::vector<Configured> configured;

Status push(const char* name, abi::Stream stream, std::function<void()> run) {
  return call(name, Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = m.find_stream(stream);
    if (!state) return Status::invalid_handle;
    m.push(*state, {[] { return true; }, std::move(run)});
    return Status::success;
  });
}

Status launch(const char* name, const void* function, Dim3 grid, void** arguments,
              abi::Stream stream) {
  return call(name, Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = m.find_stream(stream);
    const auto known = m.registered.find(function);
    if (!state) return Status::invalid_handle;
    if (known == m.registered.end()) return Status::invalid_device_function;
    m.launch(*state, *known->second, arguments, grid.x);
    return Status::success;
  });
}

}  // namespace

extern "C" {

// ---- controls ----

int fake_hip_launches() {
  const Lock lock(machine().mutex);
  return static_cast<int>(machine().launched.size());
}
const char* fake_hip_launch(int number, std::uint32_t* words, int count) {
  const Lock lock(machine().mutex);
  const Launched& one = machine().launched[static_cast<std::size_t>(number)];
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    words[i] = i < one.words.size() ? one.words[i] : 0;
  return one.kernel.c_str();
}

// ---- devices and streams ----

Status hipGetDevice(int* device) {
  *device = device_of_thread;
  return device_of_thread < 0 ? Status::no_device : Status::success;
}
Status hipStreamCreateWithFlags(abi::Stream* stream, unsigned flags) {
  return call("hipStreamCreateWithFlags", Kind::on_device, [&](Machine& m, Lock&) {
    auto state = std::make_unique<StreamState>();
    state->sites = m.sites_of(std::vector<std::uint32_t>(16, 0xFFFFFFFF));
    state->blocking = flags == 0;
    *stream = static_cast<abi::Stream>(m.next_handle());
    m.start(*state);
    m.streams.emplace(*stream, std::move(state));
    return Status::success;
  });
}
Status hipStreamGetFlags(abi::Stream stream, unsigned* flags) {
  return call("hipStreamGetFlags", Kind::on_device, [&](Machine& m, Lock&) {
    const StreamState* state = m.find_stream(stream);
    if (!state) return Status::invalid_handle;
    *flags = state->blocking ? 0 : 1;
    return Status::success;
  });
}
Status hipDeviceSynchronize() {
  return call("hipDeviceSynchronize", Kind::on_device, [&](Machine& m, Lock& lock) {
    m.changed.wait(lock, [&] { return m.idle(); });
    return Status::success;
  });
}

// ---- kernels ----

void __hipRegisterFunction(void**, const void* host, char*, const char* name, unsigned, void*,
                           void*, void*, void*, int*) {
  const Lock lock(machine().mutex);
  if (const HostFunction* known = host_function(name)) machine().registered[host] = known;
}
Status hipLaunchKernel(const void* function, Dim3 grid, Dim3, void** arguments, std::size_t,
                       abi::Stream stream) {
  return launch("hipLaunchKernel", function, grid, arguments, stream);
}
Status hipExtLaunchKernel(const void* function, Dim3 grid, Dim3, void** arguments, std::size_t,
                          abi::Stream stream, abi::Event, abi::Event, int) {
  return launch("hipExtLaunchKernel", function, grid, arguments, stream);
}
Status hipLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3, void** arguments, unsigned,
                                  abi::Stream stream) {
  return launch("hipLaunchCooperativeKernel", function, grid, arguments, stream);
}
Status hipOccupancyMaxActiveBlocksPerMultiprocessor(int* groups, const void*, int, std::size_t) {
  *groups = 1;
  return Status::success;
}
// NOLINTNEXTLINE(readability-function-size): the signature is HIP's
Status hipExtModuleLaunchKernel(abi::Function function, unsigned x, unsigned, unsigned,
                                unsigned block, unsigned, unsigned, std::size_t, abi::Stream stream,
                                void** arguments, void**, abi::Event, abi::Event, unsigned) {
  return call("hipExtModuleLaunchKernel", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = m.find_stream(stream);
    const auto found = m.functions.find(function);
    if (!state || found == m.functions.end()) return Status::invalid_handle;
    m.launch(*state, *found->second.second, arguments, x / block);
    return Status::success;
  });
}
Status __hipPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared, abi::Stream stream) {
  configured.push_back({grid, block, shared, stream, {}});
  return Status::success;
}
Status __hipPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared,
                                 abi::Stream* stream) {
  if (configured.empty()) return Status::invalid_configuration;
  const Configured& last = configured.back();
  *grid = last.grid, *block = last.block, *shared = last.shared, *stream = last.stream;
  configured.pop_back();
  return Status::success;
}
Status hipConfigureCall(Dim3 grid, Dim3 block, std::size_t shared, abi::Stream stream) {
  return __hipPushCallConfiguration(grid, block, shared, stream);
}
Status hipSetupArgument(const void* argument, std::size_t bytes, std::size_t offset) {
  if (configured.empty() || bytes != 8) return Status::invalid_configuration;
  auto& arguments = configured.back().arguments;
  arguments.resize(std::max(arguments.size(), offset / 8 + 1));
  std::memcpy(&arguments[offset / 8], argument, 8);
  return Status::success;
}
Status hipLaunchByPtr(const void* function) {
  if (configured.empty()) return Status::invalid_configuration;
  Configured last = std::move(configured.back());
  configured.pop_back();
  std::vector<void*> arguments;
  for (std::uint64_t& value : last.arguments) arguments.push_back(&value);
  return launch("hipLaunchByPtr", function, last.grid, arguments.data(), last.stream);
}

// ---- other work ----

Status hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int, abi::Stream stream) {
  void* const there = Machine::at(to, bytes);
  const void* const here = Machine::at(from, bytes);
  return push("hipMemcpyAsync", stream, [=] { std::memcpy(there, here, bytes); });
}
Status hipMemsetD32Async(void* to, int value, std::size_t count, abi::Stream stream) {
  return push("hipMemsetD32Async", stream, [=] {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(static_cast<char*>(to) + 4 * i, &value, 4);
  });
}
Status hipLaunchHostFunc(abi::Stream stream, void (*function)(void*), void* data) {
  return push("hipLaunchHostFunc", stream, [=] { function(data); });
}

// ---- graphs ----

Status hipStreamBeginCapture(abi::Stream stream, int) {
  return call("hipStreamBeginCapture", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = m.find_stream(stream);
    if (!state || state->captured) return Status::invalid_handle;
    state->captured = true;
    return Status::success;
  });
}
Status hipStreamEndCapture(abi::Stream stream, void** graph) {
  return call("hipStreamEndCapture", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = m.find_stream(stream);
    if (!state || !state->captured) return Status::invalid_handle;
    state->captured = false;
    *graph = m.next_handle();
    m.graphs[*graph] = std::exchange(state->kept, {});
    return Status::success;
  });
}
Status hipGraphLaunch(void* graph, abi::Stream stream) {
  return call("hipGraphLaunch", Kind::on_device, [&](Machine& m, Lock&) {
    StreamState* state = m.find_stream(stream);
    if (!state || !m.graphs.contains(graph)) return Status::invalid_handle;
    for (const Item& item : m.graphs[graph]) m.push(*state, item);
    return Status::success;
  });
}

}  // extern "C"

}  // namespace partita::drivers::hip_mask::fake
