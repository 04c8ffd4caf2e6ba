#include "drivers/green_ctx/testing/world.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

namespace partita::fake_cuda {

World& world() {
  static World* const the_world = new World;  // never destroyed: threads may look at it to the end
  return *the_world;
}

std::vector<abi::Context>& current_contexts() {
  thread_local std::vector<abi::Context> stack;
  return stack;
}

// SMs are numbered with gaps, and in no order: who wants to know which ones it got must look.
Place World::whole(int device) const {
  Place place{device, std::vector<int>(static_cast<std::size_t>(config.sms))};
  for (int i = 0; i < config.sms; ++i) place.sms[static_cast<std::size_t>(i)] = i + i / 18 * 2;
  std::mt19937_64 random(config.seed);
  for (std::size_t i = place.sms.size(); i > 1; --i)
    std::swap(place.sms[i - 1], place.sms[random() % i]);
  return place;
}

std::size_t World::taken() const {
  std::size_t bytes = greens.size() * kContextBytes;
  for (const auto& [address, block] : blocks) bytes += block.on_host ? 0 : block.bytes;
  return bytes;
}

bool World::holds(std::uint64_t address, std::size_t bytes) const {
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return false;
  --block;
  return address + bytes <= block->first + block->second.bytes;
}

bool World::pinned(const void* memory, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin()) return false;
  --block;
  return block->second.on_host && address + bytes <= block->first + block->second.bytes;
}

void* World::at(std::uint64_t address, std::size_t bytes) {
  std::byte* const own =
      device::code_engine ? device::code_engine->bytes_at(address, bytes) : nullptr;
  return own ? own : reinterpret_cast<void*>(address);
}

// Codes after which a real process can only start afresh.
static bool loses(int code) {
  return code == 214 || code == 220 || code == 226 || (code >= 700 && code < 800 && code != 701);
}

Call::Call(std::string_view name, Needs needs) : world_(world()), lock_(world_.mutex) {
  ++world_.calls[std::string(name)];
  ++world_.calls[""];
  for (const std::string_view of : {name, std::string_view()}) {
    const auto faults = world_.faults.find(of);
    if (faults == world_.faults.end()) continue;
    const auto fault = faults->second.find(world_.calls.find(of)->second);
    if (fault == faults->second.end()) continue;
    world_.failed = name;
    code_ = static_cast<Return>(fault->second);
    if (loses(static_cast<int>(code_))) world_.lost = code_;
    world_.changed.notify_all();
    return;
  }
  if (needs == Needs::nothing) return;
  if (!world_.initialised) {
    code_ = Return::not_initialized;
  } else if (world_.lost != Return::success) {
    code_ = world_.lost;
  } else if (needs == Needs::context) {
    code_ = Return::invalid_context;
    if (current_contexts().empty()) return;
    for (const auto& [device, context] : world_.contexts) {
      if (context != current_contexts().back() || world_.primary[device] == 0) continue;
      code_ = Return::success;
      device_ = device;
    }
  }
}

void lose(Return code) {
  World& lost = world();
  const std::lock_guard lock(lost.mutex);
  lost.lost = code;
  lost.changed.notify_all();
}

bool is_lost() {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  return asked.lost != Return::success;
}

}  // namespace partita::fake_cuda

using partita::fake_cuda::Config;
using partita::fake_cuda::Live;
using partita::fake_cuda::World;
using partita::fake_cuda::world;

extern "C" {

void fake_cuda_reset(const Config* config) {
  World& fresh = world();
  std::vector<std::shared_ptr<partita::fake_cuda::Stream>> streams;
  {
    const std::lock_guard lock(fresh.mutex);
    for (auto& [handle, stream] : fresh.streams) {
      stream->ending = true;
      streams.push_back(stream);
    }
    fresh.changed.notify_all();
  }
  for (const auto& stream : streams)
    if (stream->thread.joinable()) stream->thread.join();
  const std::lock_guard lock(fresh.mutex);
  for (const auto& [address, block] : fresh.blocks) {
    if (partita::device::code_engine && !block.on_host)
      partita::device::code_engine->release(address);
    else
      std::free(reinterpret_cast<void*>(address));
  }
  fresh.config = *config;
  fresh.initialised = false;
  fresh.lost = partita::fake_cuda::Return::success;
  fresh.calls.clear();
  fresh.faults.clear();
  fresh.failed.clear();
  fresh.primary.clear();
  fresh.contexts.clear();
  fresh.splits.clear();
  fresh.descriptions.clear();
  fresh.greens.clear();
  fresh.streams.clear();
  fresh.events.clear();
  fresh.libraries.clear();
  fresh.modules.clear();
  fresh.kernels.clear();
  fresh.most_shared.clear();
  fresh.launched.clear();
  fresh.functions.clear();
  fresh.graphs.clear();
  fresh.nodes.clear();
  fresh.execs.clear();
  fresh.blocks.clear();
  fresh.green_currents = 0;
}

Live fake_cuda_live() {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  Live live;
  for (const auto& [device, references] : asked.primary) live.primary += references;
  live.greens = static_cast<int>(asked.greens.size());
  live.streams = static_cast<int>(asked.streams.size());
  live.events = static_cast<int>(asked.events.size());
  live.libraries = static_cast<int>(asked.libraries.size());
  live.graphs = static_cast<int>(asked.graphs.size());
  live.execs = static_cast<int>(asked.execs.size());
  for (const auto& [address, block] : asked.blocks)
    ++(block.on_host ? live.host_blocks : live.device_blocks);
  live.green_currents = asked.green_currents;
  return live;
}

void fake_cuda_fail(const char* name, int call, int code) {
  World& failing = world();
  const std::lock_guard lock(failing.mutex);
  failing.faults[name][failing.calls[name] + call] = code;
}

const char* fake_cuda_failed() {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  return asked.failed.c_str();
}

int fake_cuda_calls(const char* name) {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  return asked.calls[name];
}

int fake_cuda_group(int index, int* sms, int room) {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  const auto& group = asked.splits.back().at(static_cast<std::size_t>(index)).sms;
  std::copy_n(group.begin(), std::min<std::size_t>(group.size(), static_cast<std::size_t>(room)),
              sms);
  return static_cast<int>(group.size());
}

int fake_cuda_launches() {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  return static_cast<int>(asked.launched.size());
}

const char* fake_cuda_launch(int number, int* sms) {
  World& asked = world();
  const std::lock_guard lock(asked.mutex);
  const auto& [kernel, on] = asked.launched.at(static_cast<std::size_t>(number));
  *sms = on;
  return kernel.c_str();
}
}
