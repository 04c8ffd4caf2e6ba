// Streams, events, kernels.
#include <algorithm>
#include <cstring>
#include <utility>

#include "drivers/green_ctx/testing/api.h"
#include "drivers/green_ctx/testing/world.h"

namespace partita::fake_cuda {
namespace {

using Needs = Call::Needs;

// The entries of a PTX text and how many parameters each has; none when it is no PTX.
std::vector<Entry> entries_of(std::string_view ptx) {
  std::vector<Entry> entries;
  if (ptx.find(".version") == ptx.npos) return entries;
  constexpr std::string_view kEntry = ".entry ", kParameter = ".param .u64";
  for (std::size_t at = ptx.find(kEntry); at != ptx.npos; at = ptx.find(kEntry, at + 1)) {
    const std::size_t open = ptx.find('(', at), close = ptx.find(')', at);
    if (open == ptx.npos || close == ptx.npos) return {};
    Entry entry{std::string(ptx.substr(at + kEntry.size(), open - at - kEntry.size()))};
    for (std::size_t p = ptx.find(kParameter, open); p < close; p = ptx.find(kParameter, p + 1))
      ++entry.parameters;
    entries.push_back(std::move(entry));
  }
  return entries;
}

void wait_until(Call& call, const std::function<bool()>& done) {
  call->changed.wait(call.lock(), [&] { return done() || call->lost != Return::success; });
}

}  // namespace

extern "C" {

Return cuStreamCreate(abi::Stream* stream, unsigned flags) {
  Call call("cuStreamCreate", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (flags > 1) return Return::invalid_value;
  *stream = call->handle<abi::Stream>();
  auto place = std::make_shared<const Place>(call->whole(call.device()));
  call->streams[*stream] = std::make_shared<Stream>(Stream{.place = std::move(place)});
  return Return::success;
}

Return cuStreamDestroy_v2(abi::Stream stream) {
  Call call("cuStreamDestroy", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> ended;
  if (const Return found = find_stream(*call, stream, ended); found != Return::success)
    return found;
  call->streams.erase(stream);
  ended->ending = true;
  call->changed.notify_all();
  call.lock().unlock();
  if (ended->thread.joinable()) ended->thread.join();
  return Return::success;
}

Return cuStreamQuery(abi::Stream stream) {
  Call call("cuStreamQuery", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  return on->running || !on->work.empty() ? Return::not_ready : Return::success;
}

Return cuStreamSynchronize(abi::Stream stream) {
  Call call("cuStreamSynchronize", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  wait_until(call, [&] { return !on->running && on->work.empty(); });
  return call->lost;
}

Return cuStreamWaitEvent(abi::Stream stream, abi::Event event, unsigned flags) {
  Call call("cuStreamWaitEvent", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  const auto known = call->events.find(event);
  if (known == call->events.end()) return Return::invalid_handle;
  if (flags > 1) return Return::invalid_value;
  enqueue(*call, on, [completion = known->second.completion] {
    World& at = world();
    std::unique_lock lock(at.mutex);
    at.changed.wait(lock,
                    [&] { return !completion || completion->done || at.lost != Return::success; });
  });
  return Return::success;
}

Return cuEventCreate(abi::Event* event, unsigned flags) {
  Call call("cuEventCreate", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (flags > 7) return Return::invalid_value;
  *event = call->handle<abi::Event>();
  call->events[*event] = {.device = call.device()};
  return Return::success;
}

Return cuEventDestroy_v2(abi::Event event) {
  Call call("cuEventDestroy", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  return call->events.erase(event) == 1 ? Return::success : Return::invalid_handle;
}

Return cuEventRecord(abi::Event event, abi::Stream stream) {
  Call call("cuEventRecord", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  const auto known = call->events.find(event);
  if (known == call->events.end() || known->second.device != on->place->device)
    return Return::invalid_handle;
  const auto completion = std::make_shared<Completion>();
  known->second.completion = completion;
  enqueue(*call, on, [completion] {
    World& at = world();
    const std::lock_guard lock(at.mutex);
    completion->done = true;
    at.changed.notify_all();
  });
  return Return::success;
}

Return cuEventQuery(abi::Event event) {
  Call call("cuEventQuery", Needs::context);
  if (call.code() != Return::success) return call.code();
  const auto known = call->events.find(event);
  if (known == call->events.end()) return Return::invalid_handle;
  const auto& completion = known->second.completion;
  return completion && !completion->done ? Return::not_ready : Return::success;
}

Return cuEventSynchronize(abi::Event event) {
  Call call("cuEventSynchronize", Needs::context);
  if (call.code() != Return::success) return call.code();
  const auto known = call->events.find(event);
  if (known == call->events.end()) return Return::invalid_handle;
  const auto completion = known->second.completion;
  wait_until(call, [&] { return !completion || completion->done; });
  return call->lost;
}

Return cuLibraryLoadData(abi::Library* library, const void* image, int*, void**, unsigned options,
                         int*, void**, unsigned library_options) {
  Call call("cuLibraryLoadData", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (!image || options != 0 || library_options != 0) return Return::invalid_value;
  auto entries = entries_of(static_cast<const char*>(image));
  if (entries.empty()) return Return::invalid_image;
  const bool probes =
      std::ranges::all_of(entries, [](const Entry& entry) { return known_kernel(entry.name); });
  const std::uint64_t module = probes || !device::code_engine
                                   ? 0
                                   : device::code_engine->load(static_cast<const char*>(image));
  if (!probes && device::code_engine && module == 0) return Return::invalid_ptx;
  *library = call->handle<abi::Library>();
  if (module != 0) call->modules[*library] = module;
  call->libraries[*library] = std::move(entries);
  return Return::success;
}

Return cuLibraryUnload(abi::Library library) {
  Call call("cuLibraryUnload", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  return call->libraries.erase(library) == 1 ? Return::success : Return::invalid_handle;
}

Return cuLibraryGetKernel(abi::Kernel* kernel, abi::Library library, const char* name) {
  Call call("cuLibraryGetKernel", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  const auto known = call->libraries.find(library);
  if (known == call->libraries.end()) return Return::invalid_handle;
  for (const Entry& entry : known->second) {
    if (entry.name != name) continue;
    *kernel = call->handle<abi::Kernel>();
    call->kernels[*kernel] = {library, entry, *kernel};
    return Return::success;
  }
  return Return::not_found;
}

Return cuKernelGetFunction(abi::Function* function, abi::Kernel kernel) {
  Call call("cuKernelGetFunction", Needs::context);
  if (call.code() != Return::success) return call.code();
  if (!call->kernels.contains(kernel)) return Return::invalid_handle;
  *function = call->handle<abi::Function>();
  call->functions[*function] = kernel;
  return Return::success;
}

Return cuFuncLoad(abi::Function function) {
  Call call("cuFuncLoad", Needs::context);
  if (call.code() != Return::success) return call.code();
  return call->functions.contains(function) ? Return::success : Return::invalid_handle;
}

Return cuKernelSetAttribute(int attribute, int value, abi::Kernel kernel, abi::Device device) {
  Call call("cuKernelSetAttribute", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (!call->kernels.contains(kernel)) return Return::invalid_handle;
  if (attribute != abi::kMaxDynamicShared || device < 0 || device >= call->config.devices ||
      value < 0 || value > 227 * 1024)
    return Return::invalid_value;
  call->most_shared[kernel] = static_cast<unsigned>(value);
  return Return::success;
}

// Copies of memory that is not pinned would wait for the stream.
static Return copy(const char* name, abi::Stream stream, abi::DevicePointer memory, void* host,
                   std::size_t bytes, bool in) {
  Call call(name, Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  if (!call->holds(memory, bytes) || !call->pinned(host, bytes)) return Return::invalid_value;
  void* const there = World::at(memory, bytes);
  enqueue(*call, on,
          [=] { in ? std::memcpy(there, host, bytes) : std::memcpy(host, there, bytes); });
  return Return::success;
}

Return cuMemcpyHtoDAsync_v2(abi::DevicePointer to, const void* from, std::size_t bytes,
                            abi::Stream stream) {
  return copy("cuMemcpyHtoDAsync", stream, to, const_cast<void*>(from), bytes, true);
}

Return cuMemcpyDtoHAsync_v2(void* to, abi::DevicePointer from, std::size_t bytes,
                            abi::Stream stream) {
  return copy("cuMemcpyDtoHAsync", stream, from, to, bytes, false);
}

Return cuLaunchKernel(abi::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      abi::Stream stream, void** arguments, void** extra) {
  Call call("cuLaunchKernel", Needs::context);
  if (call.code() != Return::success) return call.code();
  std::shared_ptr<Stream> on;
  if (const Return found = find_stream(*call, stream, on); found != Return::success) return found;
  const auto of = call->functions.find(function);
  const auto kernel = call->kernels.find(
      of == call->functions.end() ? reinterpret_cast<abi::Kernel>(function) : of->second);
  if (kernel == call->kernels.end()) return Return::invalid_handle;
  const abi::KernelNodeParams params{.function = function,
                                     .grid_x = grid_x,
                                     .grid_y = grid_y,
                                     .grid_z = grid_z,
                                     .block_x = block_x,
                                     .block_y = block_y,
                                     .block_z = block_z,
                                     .shared_bytes = shared_bytes,
                                     .arguments = arguments,
                                     .extra = extra,
                                     .kernel = nullptr,
                                     .context = nullptr};
  auto run = kernel_run(*call, kernel->second, *on->place, params);
  if (!run) return Return::invalid_value;
  enqueue(*call, on, std::move(run));
  return Return::success;
}
}

}  // namespace partita::fake_cuda
