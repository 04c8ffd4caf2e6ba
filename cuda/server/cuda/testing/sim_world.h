// What the parts of the simulated libcuda share: the device, and what is refused.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/cuda/driver_abi.h"

namespace cuda_sim {

namespace abi = partita::remote::cuda::abi;
using abi::DevicePointer;
using abi::Return;

constexpr Return kOk = 0, kInvalid = 1, kNoMemory = 2, kNotInitialised = 3, kBadImage = 200,
                 kNoContext = 201, kBadHandle = 400, kNotFound = 500, kNotReady = 600,
                 kIllegalAddress = 700, kCaptureInvalid = 901;
constexpr std::size_t kGranule = 2 << 20, kTotal = 256 << 20;
constexpr int kStepsPerQuery = 2;

struct Range {
  std::size_t bytes = 0;
  abi::AllocationHandle handle = 0;
  bool usable = false;  // access was set
};
struct Item {
  std::function<Return()> run = {};
  std::function<bool()> ready = {};
  std::vector<std::pair<DevicePointer, std::size_t>> uses = {};
  std::uint64_t serial = 0;
  const void* array = nullptr;  // that it uses
  // Of a node with an event: in its place, whenever the graph is launched.
  std::function<Return(abi::Stream)> at_launch = {};
};
struct SimGraph {
  std::vector<Item> items = {};
  std::vector<std::unique_ptr<char>> nodes = {};  // their addresses are the handles
  SimGraph* around = nullptr;                     // whose body it is
  std::vector<std::shared_ptr<SimGraph>> bodies = {};
  std::deque<std::vector<abi::Graph>> told = {};  // handles of bodies, by node
  std::set<abi::Condition> conditions = {};
  int execs = 0;
  bool is_captured = false;
  SimGraph& root() { return around == nullptr ? *this : around->root(); }
};
struct SimExec {
  std::vector<Item> items = {};
  SimGraph* of = nullptr;  // null once that is gone
};
struct SimCondition {
  bool assign = false, used = false;
  std::uint32_t first = 0, value = 0;
};
struct SimArray {
  abi::ArrayDescription as = {};
  std::size_t row = 0, rows = 0, slices = 0;
  std::vector<std::byte> bytes = {};
};
struct SimTexture {
  abi::Resource of = {};
  bool surface = false;
};
struct SimStream {
  bool blocking = true;
  std::deque<Item> items = {};
  SimGraph* captured = nullptr;
  std::vector<abi::GraphNode> after = {};
};
struct SimEvent {
  bool timing = true;
  std::shared_ptr<bool> done =
      std::make_shared<bool>(true);  // the last record; who waits keeps his
  float at = 0;
};
struct SimModule {
  std::unique_ptr<std::uint32_t> global = std::make_unique<std::uint32_t>(0);
};
struct SimFunction {
  SimModule* module = nullptr;
  std::string name = {};
  int dynamic_shared = 48 * 1024;
};
struct Parameter {
  std::size_t offset = 0, size = 0;
};
inline const std::vector<Parameter>& parameters_of(const SimFunction& function) {
  static const std::map<std::string, std::vector<Parameter>> all = {
      {"add", {{0, 8}, {8, 4}, {12, 4}}},
      {"fetch", {{0, 8}, {8, 8}, {16, 4}}},
      {"paint", {{0, 8}, {8, 8}, {16, 4}}},
      {"decide", {{0, 8}, {8, 4}}},
      {"crash", {}},
      {"print", {}}};
  return all.at(function.name);
}
inline std::size_t block_bytes(const SimFunction& function) {
  const auto& all = parameters_of(function);
  return all.empty() ? 0 : all.back().offset + all.back().size;
}

struct World {
  bool ready = false;
  int retained = 0;
  bool current = false;
  Return dead = 0;
  std::size_t used = 0;
  std::uint64_t serial = 1;
  float clock = 0;
  std::map<DevicePointer, std::size_t> reserved;
  std::map<DevicePointer, Range> mapped;
  std::map<abi::AllocationHandle, std::size_t> physical;
  std::set<abi::AllocationHandle> in_use;
  std::map<char*, std::size_t> pinned;
  SimStream legacy;
  std::set<SimStream*> streams;
  std::vector<std::unique_ptr<SimStream>> leaving;  // destroyed; what is on them goes on
  std::set<SimEvent*> events;
  std::set<SimModule*> modules;
  std::set<SimFunction*> functions;
  std::set<SimGraph*> graphs;
  std::set<SimExec*> execs;
  std::map<abi::Condition, SimCondition> conditions;  // of graphs that are there or were made
  std::set<SimArray*> arrays;
  std::map<abi::TextureNumber, SimTexture> textures;
  std::string said;  // by kernels, not written yet
  int violations = 0;
  std::string last;
};

inline World& world() {
  static World one;
  return one;
}

inline Return wrong(Return code, const char* what) {
  ++world().violations;
  world().last = what;
  return code;
}

// Why a call cannot be made at all.
inline Return closed() {
  if (!world().ready) return wrong(kNotInitialised, "a call before cuInit");
  if (!world().current) return wrong(kNoContext, "a call without a context");
  return world().dead;
}

inline bool usable(DevicePointer at, std::size_t bytes) {
  if (bytes == 0) return true;
  for (const SimModule* module : world().modules) {
    const auto global = reinterpret_cast<DevicePointer>(module->global.get());
    if (at >= global && at + bytes <= global + 4) return true;
  }
  const auto after = world().mapped.upper_bound(at);
  if (after == world().mapped.begin()) return false;
  const auto& [begin, range] = *std::prev(after);
  return range.usable && at - begin < range.bytes && bytes <= range.bytes - (at - begin);
}

inline bool pinned(const void* host, std::size_t bytes) {
  const char* const at = static_cast<const char*>(host);
  auto after = world().pinned.upper_bound(const_cast<char*>(at));
  if (after == world().pinned.begin()) return false;
  --after;
  return at + bytes <= after->first + after->second;
}

inline SimStream* stream_of(abi::Stream stream) {
  if (stream == nullptr) return &world().legacy;
  auto* const found = reinterpret_cast<SimStream*>(stream);
  return world().streams.contains(found) ? found : nullptr;
}

inline abi::GraphNode node_of(char& place) { return reinterpret_cast<abi::GraphNode>(&place); }

inline Return push(abi::Stream handle, Item item) {
  if (const Return code = closed(); code != kOk) return code;
  SimStream* const stream = stream_of(handle);
  if (stream == nullptr) return wrong(kBadHandle, "work on a stream that is not there");
  for (const auto& [at, bytes] : item.uses)
    if (!usable(at, bytes)) return wrong(kInvalid, "work on memory that is not mapped");
  if (SimGraph* const graph = stream->captured; graph != nullptr) {
    if (graph->around != nullptr && item.ready) return wrong(kInvalid, "a wait in a body");
    if (!graph->nodes.empty() && stream->after != std::vector{node_of(*graph->nodes.back())})
      return wrong(kInvalid, "captured work that does not wait for a node before");
    graph->items.push_back(std::move(item));
    graph->nodes.push_back(std::make_unique<char>());
    stream->after = {node_of(*graph->nodes.back())};
    return kOk;
  }
  item.serial = world().serial++;
  stream->items.push_back(std::move(item));
  return kOk;
}

inline std::byte* bytes_at(DevicePointer at) { return reinterpret_cast<std::byte*>(at); }

template <class T>
Return forget(std::set<T*>& all, void* handle, const char* what) {
  auto* const object = static_cast<T*>(handle);
  if (all.erase(object) == 0) return wrong(kBadHandle, what);
  delete object;
  return kOk;
}

}  // namespace cuda_sim
