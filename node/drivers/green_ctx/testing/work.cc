// What runs: a thread per stream takes its work in order; kernels are functions of this process,
// called once per work-group with the SM that it is on.
#include <atomic>
#include <chrono>
#include <random>
#include <utility>

#include "drivers/green_ctx/testing/world.h"

namespace partita::fake_cuda {
namespace {

using Arguments = std::vector<std::uint64_t>;

struct GroupAt {
  std::uint64_t group = 0;
  int sm = 0;
};

bool is_memory(std::uint64_t address, std::size_t bytes) {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  return asked.holds(address, bytes);
}

std::atomic_ref<std::uint64_t> word(std::uint64_t address) {
  const std::lock_guard lock(world().mutex);
  return std::atomic_ref(*static_cast<std::uint64_t*>(World::at(address, 8)));
}

// Of the kernels of node/drivers/green_ctx/probe_ptx.h, by their description.
void noting(const Arguments& arguments, const GroupAt& at) {
  const std::uint64_t cell = arguments[0] + at.group * 32;
  if (!is_memory(cell, 32) || !is_memory(arguments[1], 8) ||
      (arguments[2] != 0 && !is_memory(arguments[2], 4)))
    return lose(Return::illegal_address);
  const std::uint64_t begin = word(arguments[1]).fetch_add(1) + 1;
  if (arguments[2] != 0) {
    const std::atomic_ref flag(*reinterpret_cast<std::uint32_t*>(arguments[2]));
    while (flag.load() == 0 && !is_lost())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  word(cell).fetch_add(1);
  word(cell + 8).store(static_cast<std::uint64_t>(at.sm));
  word(cell + 16).store(begin);
  word(cell + 24).store(word(arguments[1]).fetch_add(1) + 1);
}

void computing(const Arguments& arguments, const GroupAt& at) {
  std::uint64_t value = at.group;
  for (std::uint64_t i = 0; i < arguments[0]; ++i)
    value = value * 6364136223846793005u + 1442695040888963407u;
  if (value == 11400714819323198485u) word(arguments[1]).store(value);
}

void reading(const Arguments& arguments, const GroupAt& at) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < arguments[2]; ++i) {
    const std::uint64_t offset = (at.group * arguments[2] + i) * 4096 & arguments[1];
    if (!is_memory(arguments[0] + offset, 4096)) return lose(Return::illegal_address);
    sum |= word(arguments[0] + offset).load();
  }
  if (sum != 0) word(arguments[3]).store(sum);
}

using Function = void (*)(const Arguments&, const GroupAt&);

Function function_of(std::string_view name) {
  if (name == "partita_noting") return noting;
  if (name == "partita_computing") return computing;
  if (name == "partita_reading") return reading;
  return nullptr;
}

// Spreads work-groups over SMs: in turn from a random one on, but every fourth wherever it likes.
void run_groups(const std::function<void(const GroupAt&)>& run, const Place& place,
                std::uint64_t groups) {
  thread_local std::mt19937_64 random(std::hash<std::thread::id>{}(std::this_thread::get_id()));
  const std::uint64_t first = random();
  for (std::uint64_t group = 0; group < groups && !is_lost(); ++group) {
    const std::uint64_t at = random() % 4 == 0 ? random() : first + group;
    run({group, place.sms[at % place.sms.size()]});
  }
}

void work_of(const std::shared_ptr<Stream>& stream) {
  World& at = world();
  std::unique_lock lock(at.mutex);
  while (true) {
    at.changed.wait(lock, [&] { return stream->ending || !stream->work.empty(); });
    if (stream->work.empty()) return;
    const auto work = std::move(stream->work.front());
    stream->work.pop_front();
    stream->running = true;
    lock.unlock();
    work();
    lock.lock();
    stream->running = false;
    at.changed.notify_all();
  }
}

}  // namespace

void enqueue(World& world, const std::shared_ptr<Stream>& stream, std::function<void()> work) {
  stream->work.push_back(std::move(work));
  if (!stream->thread.joinable()) stream->thread = std::thread(work_of, stream);
  world.changed.notify_all();
}

Return find_stream(World& world, abi::Stream handle, std::shared_ptr<Stream>& found) {
  const auto at = world.streams.find(handle);
  if (at == world.streams.end()) return Return::invalid_handle;
  if (at->second->green && !world.greens.contains(at->second->green))
    return Return::context_is_destroyed;
  found = at->second;
  return Return::success;
}

bool known_kernel(std::string_view name) { return function_of(name) != nullptr; }

// A launch that the engine runs; a fault loses the device.
static std::function<void(const GroupAt&)> engine_run(const World& world, const KernelOf& kernel,
                                                      const abi::KernelNodeParams& params) {
  const auto module = world.modules.find(kernel.library);
  if (module == world.modules.end()) return nullptr;
  auto run = device::code_engine->launch({.module = module->second,
                                          .kernel = kernel.entry.name,
                                          .grid = {params.grid_x, params.grid_y, params.grid_z},
                                          .block = {params.block_x, params.block_y, params.block_z},
                                          .shared = params.shared_bytes,
                                          .arguments = params.arguments});
  if (!run) return nullptr;
  return [run = std::move(run)](const GroupAt& at) {
    if (!run(static_cast<std::int64_t>(at.group))) lose(Return::illegal_address);
  };
}

std::function<void()> kernel_run(World& world, const KernelOf& kernel, const Place& place,
                                 const abi::KernelNodeParams& params) {
  constexpr unsigned kMostX = 0x7FFFFFFF, kMostOther = 65'535;
  if (!world.libraries.contains(kernel.library) || params.extra ||
      (kernel.entry.parameters > 0 && !params.arguments))
    return nullptr;
  const auto most = world.most_shared.find(kernel.handle);
  if (params.grid_x < 1 || params.grid_x > kMostX || params.grid_y < 1 ||
      params.grid_y > kMostOther || params.grid_z < 1 || params.grid_z > kMostOther ||
      params.block_x < 1 || params.block_y < 1 || params.block_z < 1 || params.block_z > 64 ||
      std::uint64_t{params.block_x} * params.block_y * params.block_z > 1024 ||
      params.shared_bytes > (most == world.most_shared.end() ? 48 * 1024 : most->second))
    return nullptr;
  const std::uint64_t groups = std::uint64_t{params.grid_x} * params.grid_y * params.grid_z;
  std::function<void(const GroupAt&)> run;
  if (const Function function = function_of(kernel.entry.name)) {
    if (groups != params.grid_x) return nullptr;
    Arguments arguments;
    for (std::size_t i = 0; i < kernel.entry.parameters; ++i) {
      if (!params.arguments[i]) return nullptr;
      arguments.push_back(*static_cast<const std::uint64_t*>(params.arguments[i]));
    }
    run = [function, arguments](const GroupAt& at) { function(arguments, at); };
  } else {
    run = engine_run(world, kernel, params);
  }
  if (!run) return nullptr;
  world.launched.emplace_back(kernel.entry.name, static_cast<int>(place.sms.size()));
  return [run = std::move(run), place, groups] { run_groups(run, place, groups); };
}

}  // namespace partita::fake_cuda
