// A libcuda for tests: the driver API's names over a simulated device in memory of this process.
// Strict: what a real driver would take badly, sooner or later, is an error here at once and
// counted (sim_violations): calls without a context, unknown or freed handles, memory that is not
// mapped, unmapping what queued work uses, copies from memory that is not pinned. Work is done a
// little at a time, whenever somebody asks whether something is finished. A module is a text with
// "sim cuda" in it, and "vprintf" where it prints; its kernels are add(u64 to, u32 count, u32
// more), crash() and print(), whose text is written when an event is waited for, as CUDA's, and
// those of server/testing/conformance.h for textures and conditions. Nodes of a graph that is
// captured come one behind the other. One thread.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "server/cuda/testing/sim_world.h"

namespace cuda_sim {

namespace {

bool may_run(const SimStream& stream, const Item& item) {
  if (item.ready && !item.ready()) return false;
  const auto earlier = [&](const SimStream& other) {
    return !other.items.empty() && other.items.front().serial < item.serial;
  };
  if (&stream != &world().legacy) return !stream.blocking || !earlier(world().legacy);
  for (const SimStream* other : world().streams)
    if (other->blocking && earlier(*other)) return false;
  return true;
}

void progress(int steps) {
  World& w = world();
  for (bool more = true; more && steps > 0;) {
    more = false;
    std::vector<SimStream*> all(w.streams.begin(), w.streams.end());
    all.push_back(&w.legacy);
    for (const auto& stream : w.leaving) all.push_back(stream.get());
    for (SimStream* stream : all) {
      if (stream->items.empty() || steps <= 0 || w.dead != 0) continue;
      if (!may_run(*stream, stream->items.front())) continue;
      Item item = std::move(stream->items.front());
      stream->items.pop_front();
      if (const Return code = item.run ? item.run() : kOk; code != kOk) w.dead = code;
      --steps;
      more = true;
    }
  }
  std::erase_if(w.leaving, [](const auto& stream) { return stream->items.empty(); });
}

template <class T>
Return set_rows(DevicePointer to, std::size_t pitch, T value, std::size_t width, std::size_t rows,
                abi::Stream stream) {
  Item item;
  for (std::size_t row = 0; row < rows; ++row)
    item.uses.emplace_back(to + row * pitch, width * sizeof(T));
  item.run = [=] {
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < width; ++i)
        std::memcpy(bytes_at(to + row * pitch + i * sizeof(T)), &value, sizeof(T));
    return kOk;
  };
  return push(stream, std::move(item));
}

Return run_add(const std::vector<std::byte>& block, unsigned threads) {
  DevicePointer to = 0;
  std::uint32_t count = 0, more = 0;
  std::memcpy(&to, block.data(), 8);
  std::memcpy(&count, block.data() + 8, 4);
  std::memcpy(&more, block.data() + 12, 4);
  for (std::uint32_t i = 0; i < count && i < threads; ++i) {
    if (!usable(to + i * 4ull, 4)) return kIllegalAddress;
    std::uint32_t value = 0;
    std::memcpy(&value, bytes_at(to + i * 4ull), 4);
    value += more;
    std::memcpy(bytes_at(to + i * 4ull), &value, 4);
  }
  return kOk;
}

template <class T>
T read_at(const std::vector<std::byte>& block, std::size_t at) {
  T value{};
  std::memcpy(&value, block.data() + at, sizeof(value));
  return value;
}

// Where a texel of 4 bytes lies that a kernel sees as (x, y); null beyond the edge.
std::byte* texel_of(const SimTexture& texture, std::size_t x, std::size_t y) {
  if (texture.of.type == abi::kResourceRows) {
    const auto& rows = texture.of.of.rows;
    const DevicePointer at = rows.at + y * rows.pitch + x * 4;
    return x < rows.width && y < rows.height && usable(at, 4) ? bytes_at(at) : nullptr;
  }
  auto* const array = reinterpret_cast<SimArray*>(texture.of.of.array);
  if (texture.of.type != abi::kResourceArray || !world().arrays.contains(array)) return nullptr;
  return x * 4 < array->row && y < array->rows ? array->bytes.data() + y * array->row + x * 4
                                               : nullptr;
}

// Threads over x, blocks over y; both as conformance.h has them.
Return run_texels(const std::vector<std::byte>& block, bool paints, unsigned threads,
                  unsigned blocks) {
  const auto found = world().textures.find(read_at<abi::TextureNumber>(block, 0));
  if (found == world().textures.end() || found->second.surface != paints) return kIllegalAddress;
  const auto to = read_at<DevicePointer>(block, 8);
  const auto more = read_at<std::uint32_t>(block, 16);
  for (unsigned y = 0; y < blocks; ++y) {
    for (unsigned x = 0; x < threads; ++x) {
      std::byte* const texel = texel_of(found->second, x, y);
      const DevicePointer out = to + (y * std::uint64_t{more} + x) * 4;
      if (texel == nullptr || (!paints && !usable(out, 4))) return kIllegalAddress;
      const std::uint32_t value = x + y * 16 + more;
      if (paints)
        std::memcpy(texel, &value, 4);
      else
        std::memcpy(bytes_at(out), texel, 4);
    }
  }
  return kOk;
}

Return run_kernel(const std::string& name, const std::vector<std::byte>& block, unsigned threads,
                  unsigned blocks) {
  if (name == "print") {
    world().said += "said by a kernel\n";
    return kOk;
  }
  if (name == "add") return run_add(block, threads);
  if (name == "fetch" || name == "paint")
    return run_texels(block, name == "paint", threads, blocks);
  if (name != "decide") return kIllegalAddress;
  const auto found = world().conditions.find(read_at<abi::Condition>(block, 0));
  if (found == world().conditions.end()) return kIllegalAddress;
  found->second.value = read_at<std::uint32_t>(block, 8);
  return kOk;
}

struct Shape {
  unsigned threads = 0, blocks = 0, shared = 0;
};

Return launch(abi::Function function, const Shape& shape, abi::Stream stream,
              std::vector<std::byte> block) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const kernel = reinterpret_cast<SimFunction*>(function);
  if (!world().functions.contains(kernel)) return wrong(kBadHandle, "a kernel that is not there");
  if (shape.threads == 0 || shape.threads > 1024 || shape.blocks == 0) return kInvalid;
  if (static_cast<int>(shape.shared) > kernel->dynamic_shared) return kInvalid;
  if (block.size() < block_bytes(*kernel) || block.size() > block_bytes(*kernel) + 4)
    return wrong(kInvalid, "a parameter block of another size");
  Item item;
  item.run = [name = kernel->name, shape, block = std::move(block)] {
    return run_kernel(name, block, shape.threads, shape.blocks);
  };
  return push(stream, std::move(item));
}

// A record or a wait as a node of what is captured.
Return add_event(abi::Stream stream, unsigned flags, std::function<Return(abi::Stream)> does) {
  const SimStream* const on = stream_of(stream);
  if (flags != abi::kExternalEvent || on == nullptr || on->captured == nullptr ||
      on->captured->around != nullptr)
    return wrong(kInvalid, "an event as a node where nothing is captured, or of a body");
  return push(stream, {.at_launch = std::move(does)});
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int sim_violations(const char** last) {
  *last = world().last.c_str();
  return world().violations;
}
// Everything that exists; 0 when all was given back.
int sim_objects() {
  const World& w = world();
  return static_cast<int>(w.reserved.size() + w.mapped.size() + w.physical.size() +
                          w.pinned.size() + w.streams.size() + w.events.size() + w.modules.size() +
                          w.graphs.size() + w.execs.size() + w.arrays.size() + w.textures.size()) +
         w.retained;
}
int sim_captured() {
  return static_cast<int>(std::ranges::count_if(
      world().streams, [](const auto& stream) { return stream->captured != nullptr; }));
}
void sim_reset() {
  world().dead = 0, world().violations = 0, world().legacy.items.clear(), world().leaving.clear();
}

Return cuGetErrorString(Return code, const char** text) {
  *text = code == kIllegalAddress ? "an illegal memory access was encountered" : "some error";
  return kOk;
}
Return cuInit(unsigned flags) {
  if (flags != 0) return kInvalid;
  world().ready = true;
  return kOk;
}
Return cuDriverGetVersion(int* version) { return *version = 13000, kOk; }
Return cuDeviceGetCount(int* count) { return *count = 1, kOk; }
Return cuDeviceGet(int* device, int ordinal) {
  return ordinal == 0 && world().ready ? (*device = 0, kOk) : kInvalid;
}
// With the share of it that this process was told to keep to.
Return cuDeviceGetName(char* name, int bytes, int) {
  const char* const share = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const char* const device = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string text =
      share == nullptr ? "Simulated GPU"
                       : std::string("Simulated GPU, ") + share + " % of " + (device ? device : "");
  return std::strncpy(name, text.c_str(), static_cast<std::size_t>(bytes)), kOk;
}
Return cuDeviceGetUuid_v2(abi::Uuid* uuid, int) { return std::memset(uuid, 7, 16), kOk; }
Return cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = kTotal, kOk; }
Return cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kThreadsOfABlock = 1, kLastOfGrids = 7;
  if (attribute > 140) return kInvalid;
  if (attribute >= kThreadsOfABlock && attribute <= kLastOfGrids) return *value = 1024, kOk;
  return *value = attribute == 97 ? 227 * 1024 : attribute, kOk;
}
Return cuDevicePrimaryCtxRetain(abi::Context* context, int) {
  ++world().retained;
  return *context = reinterpret_cast<abi::Context>(&world()), kOk;
}
Return cuDevicePrimaryCtxRelease_v2(int) {
  if (world().retained == 0) return wrong(kInvalid, "a context released twice");
  if (--world().retained == 0) world().current = false;
  return kOk;
}
Return cuCtxSetCurrent(abi::Context context) { return world().current = context != nullptr, kOk; }
Return cuCtxSetLimit(int which, std::size_t) {
  if (const Return code = closed(); code != kOk) return code;
  return which == 2 ? kOk : kInvalid;
}

Return cuMemGetAllocationGranularity(std::size_t* bytes, const abi::AllocationProperties* of, int) {
  if (of->type != abi::kPinned || of->location.type != abi::kLocationDevice) return kInvalid;
  return *bytes = kGranule, kOk;
}
Return cuMemAddressReserve(DevicePointer* at, std::size_t bytes, std::size_t, DevicePointer,
                           unsigned long long) {
  if (const Return code = closed(); code != kOk) return code;
  if (bytes % kGranule != 0) return wrong(kInvalid, "a range between granules");
  // Aligned as granules are: a granule more is taken and cut off at the front.
  void* const place = ::mmap(nullptr, bytes + kGranule, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return kNoMemory;
  const auto begin = reinterpret_cast<DevicePointer>(place);
  *at = (begin + kGranule - 1) / kGranule * kGranule;
  world().reserved[*at] = bytes;
  return kOk;
}
Return cuMemAddressFree(DevicePointer at, std::size_t bytes) {
  const auto found = world().reserved.find(at);
  if (found == world().reserved.end() || found->second != bytes)
    return wrong(kInvalid, "a range that was not reserved");
  if (!world().mapped.empty()) return wrong(kInvalid, "a range with mapped memory");
  ::munmap(bytes_at(at), bytes);
  world().reserved.erase(found);
  return kOk;
}
Return cuMemCreate(abi::AllocationHandle* handle, std::size_t bytes,
                   const abi::AllocationProperties*, unsigned long long) {
  if (const Return code = closed(); code != kOk) return code;
  if (bytes == 0 || bytes % kGranule != 0) return wrong(kInvalid, "memory between granules");
  if (bytes > kTotal - world().used) return kNoMemory;
  world().used += bytes;
  *handle = world().serial++;
  world().physical[*handle] = bytes;
  return kOk;
}
Return cuMemRelease(abi::AllocationHandle handle) {
  const auto found = world().physical.find(handle);
  if (found == world().physical.end()) return wrong(kInvalid, "memory released twice");
  if (world().in_use.contains(handle)) return wrong(kInvalid, "mapped memory released");
  world().used -= found->second;
  world().physical.erase(found);
  return kOk;
}
Return cuMemMap(DevicePointer at, std::size_t bytes, std::size_t offset,
                abi::AllocationHandle handle, unsigned long long) {
  if (const Return code = closed(); code != kOk) return code;
  const auto physical = world().physical.find(handle);
  if (physical == world().physical.end() || physical->second != bytes || offset != 0)
    return wrong(kInvalid, "a mapping of memory that is not there");
  const auto range = world().reserved.upper_bound(at);
  if (range == world().reserved.begin() || at % kGranule != 0 ||
      at + bytes > std::prev(range)->first + std::prev(range)->second)
    return wrong(kInvalid, "a mapping outside what was reserved");
  const auto after = world().mapped.lower_bound(at);
  if ((after != world().mapped.end() && after->first < at + bytes) ||
      (after != world().mapped.begin() &&
       std::prev(after)->first + std::prev(after)->second.bytes > at))
    return wrong(kInvalid, "a mapping over another");
  world().mapped[at] = {bytes, handle, false};
  world().in_use.insert(handle);
  return kOk;
}
Return cuMemUnmap(DevicePointer at, std::size_t bytes) {
  const auto found = world().mapped.find(at);
  if (found == world().mapped.end() || found->second.bytes != bytes)
    return wrong(kInvalid, "unmapping what is not mapped");
  std::vector<SimStream*> all(world().streams.begin(), world().streams.end());
  all.push_back(&world().legacy);
  for (const SimStream* stream : all)
    for (const Item& item : stream->items)
      for (const auto& [use, size] : item.uses)
        if (world().dead == 0 && use < at + bytes && at < use + size)
          return wrong(kInvalid, "unmapping what queued work uses");
  ::mprotect(bytes_at(at), bytes, PROT_NONE);
  world().in_use.erase(found->second.handle);
  world().mapped.erase(found);
  return kOk;
}
Return cuMemSetAccess(DevicePointer at, std::size_t bytes, const abi::AccessDescription* to,
                      std::size_t count) {
  const auto found = world().mapped.find(at);
  if (found == world().mapped.end() || found->second.bytes != bytes || count != 1 ||
      to->flags != abi::kReadWrite)
    return wrong(kInvalid, "access to what is not mapped");
  found->second.usable = true;
  ::mprotect(bytes_at(at), bytes, PROT_READ | PROT_WRITE);
  return kOk;
}
Return cuMemHostAlloc(void** host, std::size_t bytes, unsigned) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const made = new char[bytes];
  world().pinned[made] = bytes;
  return *host = made, kOk;
}
Return cuMemFreeHost(void* host) {
  if (world().pinned.erase(static_cast<char*>(host)) == 0)
    return wrong(kInvalid, "pinned memory freed twice");
  delete[] static_cast<char*>(host);
  return kOk;
}
Return cuMemHostGetDevicePointer_v2(DevicePointer* at, void* host, unsigned) {
  if (!pinned(host, 1)) return wrong(kInvalid, "no pinned memory");
  return *at = reinterpret_cast<DevicePointer>(host), kOk;
}

Return cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                            abi::Stream stream) {
  if (!pinned(from, bytes)) return wrong(kInvalid, "a copy from memory that is not pinned");
  return push(stream,
              {[=] { return std::memcpy(bytes_at(to), from, bytes), kOk; }, {}, {{to, bytes}}});
}
Return cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, abi::Stream stream) {
  if (!pinned(to, bytes)) return wrong(kInvalid, "a copy to memory that is not pinned");
  return push(stream,
              {[=] { return std::memcpy(to, bytes_at(from), bytes), kOk; }, {}, {{from, bytes}}});
}
Return cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes,
                            abi::Stream stream) {
  return push(stream, {[=] { return std::memmove(bytes_at(to), bytes_at(from), bytes), kOk; },
                       {},
                       {{to, bytes}, {from, bytes}}});
}
Return cuMemcpy2DAsync_v2(const abi::Copy2D* copy, abi::Stream stream) {
  if (copy->from_type != abi::kMemoryDevice || copy->to_type != abi::kMemoryDevice ||
      copy->width > copy->to_pitch || copy->width > copy->from_pitch)
    return wrong(kInvalid, "a copy of rows that overlap");
  Item item;
  for (std::size_t row = 0; row < copy->height; ++row) {
    item.uses.emplace_back(copy->to_device + row * copy->to_pitch, copy->width);
    item.uses.emplace_back(copy->from_device + row * copy->from_pitch, copy->width);
  }
  item.run = [plan = *copy] {
    for (std::size_t row = 0; row < plan.height; ++row)
      std::memmove(bytes_at(plan.to_device + row * plan.to_pitch),
                   bytes_at(plan.from_device + row * plan.from_pitch), plan.width);
    return kOk;
  };
  return push(stream, std::move(item));
}
Return cuMemsetD2D8Async(DevicePointer to, std::size_t pitch, unsigned char value,
                         std::size_t width, std::size_t rows, abi::Stream stream) {
  return set_rows(to, pitch, value, width, rows, stream);
}
Return cuMemsetD2D16Async(DevicePointer to, std::size_t pitch, unsigned short value,
                          std::size_t width, std::size_t rows, abi::Stream stream) {
  return set_rows(to, pitch, value, width, rows, stream);
}
Return cuMemsetD2D32Async(DevicePointer to, std::size_t pitch, unsigned value, std::size_t width,
                          std::size_t rows, abi::Stream stream) {
  return set_rows(to, pitch, value, width, rows, stream);
}

Return cuModuleLoadDataEx(abi::Module* module, const void* image, unsigned count, int* options,
                          void** values) {
  if (const Return code = closed(); code != kOk) return code;
  const std::string_view text = static_cast<const char*>(image);
  if (text.find("sim cuda") == text.npos) {
    if (count == 2 && options[0] == abi::kJitErrorLog)
      std::strcpy(static_cast<char*>(values[0]), "line 1: nonsense");
    return kBadImage;
  }
  auto* const made = new SimModule;
  world().modules.insert(made);
  return *module = reinterpret_cast<abi::Module>(made), kOk;
}
Return cuModuleUnload(abi::Module module) {
  std::erase_if(world().functions, [module](SimFunction* function) {
    if (function->module != reinterpret_cast<SimModule*>(module)) return false;
    delete function;
    return true;
  });
  return forget(world().modules, module, "a module unloaded twice");
}
Return cuModuleGetFunction(abi::Function* function, abi::Module module, const char* name) {
  auto* const in = reinterpret_cast<SimModule*>(module);
  if (!world().modules.contains(in)) return wrong(kBadHandle, "a module that is not there");
  constexpr std::string_view kAll[] = {"add", "crash", "print", "fetch", "paint", "decide"};
  if (std::find(std::begin(kAll), std::end(kAll), name) == std::end(kAll)) return kNotFound;
  auto* const made = new SimFunction{in, name};
  world().functions.insert(made);
  return *function = reinterpret_cast<abi::Function>(made), kOk;
}
Return cuModuleGetGlobal_v2(DevicePointer* at, std::size_t* bytes, abi::Module module,
                            const char* name) {
  auto* const in = reinterpret_cast<SimModule*>(module);
  if (!world().modules.contains(in)) return wrong(kBadHandle, "a module that is not there");
  if (std::string_view(name) != "counter") return kNotFound;
  *bytes = 4;
  return *at = reinterpret_cast<DevicePointer>(in->global.get()), kOk;
}
Return cuFuncGetParamInfo(abi::Function function, std::size_t index, std::size_t* offset,
                          std::size_t* size) {
  const auto& all = parameters_of(*reinterpret_cast<SimFunction*>(function));
  if (index >= all.size()) return kInvalid;
  return *offset = all[index].offset, *size = all[index].size, kOk;
}
Return cuFuncGetAttribute(int* value, int attribute, abi::Function) {
  return *value = attribute == 0 ? 1024 : 0, kOk;
}
Return cuFuncSetAttribute(abi::Function function, int attribute, int value) {
  if (attribute == abi::kMaxDynamicShared)
    reinterpret_cast<SimFunction*>(function)->dynamic_shared = value;
  return kOk;
}
Return cuLaunchKernel(abi::Function function, unsigned blocks, unsigned, unsigned, unsigned x,
                      unsigned y, unsigned z, unsigned shared, abi::Stream stream,
                      void** parameters, void** extra) {
  if (parameters != nullptr) return wrong(kInvalid, "parameters as pointers are not simulated");
  std::vector<std::byte> block;
  if (extra != nullptr) {
    const auto* const bytes = static_cast<const std::byte*>(extra[1]);
    block.assign(bytes, bytes + *static_cast<std::size_t*>(extra[3]));
  }
  return launch(function, {x * y * z, blocks, shared}, stream, std::move(block));
}
Return cuLaunchCooperativeKernel(abi::Function function, unsigned blocks, unsigned, unsigned,
                                 unsigned x, unsigned y, unsigned z, unsigned shared,
                                 abi::Stream stream, void** parameters) {
  auto* const kernel = reinterpret_cast<SimFunction*>(function);
  if (!world().functions.contains(kernel)) return wrong(kBadHandle, "a kernel that is not there");
  std::vector<std::byte> block(block_bytes(*kernel));
  for (const Parameter& one : parameters_of(*kernel))
    std::memcpy(block.data() + one.offset, *parameters++, one.size);
  return launch(function, {x * y * z, blocks, shared}, stream, std::move(block));
}

Return cuStreamCreateWithPriority(abi::Stream* stream, unsigned flags, int) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const made = new SimStream{.blocking = (flags & abi::kStreamNonBlocking) == 0};
  world().streams.insert(made);
  return *stream = reinterpret_cast<abi::Stream>(made), kOk;
}
Return cuStreamDestroy_v2(abi::Stream stream) {
  auto* const left = reinterpret_cast<SimStream*>(stream);
  if (world().streams.erase(left) == 0) return wrong(kBadHandle, "a stream destroyed twice");
  world().leaving.emplace_back(left);
  return kOk;
}
Return cuStreamQuery(abi::Stream handle) {
  if (const Return code = closed(); code != kOk) return code;
  const SimStream* const stream = stream_of(handle);
  if (stream == nullptr) return wrong(kBadHandle, "a stream that is not there");
  progress(kStepsPerQuery);
  if (world().dead != 0) return world().dead;
  return stream->items.empty() ? kOk : kNotReady;
}
Return cuStreamSynchronize(abi::Stream handle) {
  Return code = kNotReady;
  while (code == kNotReady) code = cuStreamQuery(handle);
  return code;
}
Return cuStreamWaitEvent(abi::Stream stream, abi::Event handle, unsigned flags) {
  auto* const event = reinterpret_cast<SimEvent*>(handle);
  if (!world().events.contains(event)) return wrong(kBadHandle, "an event that is not there");
  if (flags != 0)
    return add_event(stream, flags,
                     [handle](abi::Stream on) { return cuStreamWaitEvent(on, handle, 0); });
  return push(stream, {{}, [done = event->done] { return *done; }});
}
Return cuStreamWaitValue32_v2(abi::Stream stream, DevicePointer at, std::uint32_t value,
                              unsigned flags) {
  auto* const word = reinterpret_cast<std::uint32_t*>(at);
  if (!pinned(word, 4) || flags != abi::kWaitEqual) return wrong(kInvalid, "a word not pinned");
  return push(stream,
              {{}, [word, value] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value; }});
}
Return cuEventCreate(abi::Event* event, unsigned flags) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const made = new SimEvent{.timing = (flags & abi::kEventDisableTiming) == 0};
  world().events.insert(made);
  return *event = reinterpret_cast<abi::Event>(made), kOk;
}
Return cuEventDestroy_v2(abi::Event event) {
  return forget(world().events, event, "an event destroyed twice");
}
Return cuEventRecord(abi::Event handle, abi::Stream stream) {
  auto* const event = reinterpret_cast<SimEvent*>(handle);
  if (!world().events.contains(event)) return wrong(kBadHandle, "an event that is not there");
  event->done = std::make_shared<bool>(false);
  return push(stream, {[event, done = event->done] {
                *done = true;
                if (!world().events.contains(event)) return kOk;
                event->at = world().clock += 1;
                return kOk;
              }});
}
Return cuEventRecordWithFlags(abi::Event handle, abi::Stream stream, unsigned flags) {
  if (flags == 0) return cuEventRecord(handle, stream);
  return add_event(stream, flags, [handle](abi::Stream on) { return cuEventRecord(handle, on); });
}
Return cuEventQuery(abi::Event handle) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const event = reinterpret_cast<SimEvent*>(handle);
  if (!world().events.contains(event)) return wrong(kBadHandle, "an event that is not there");
  progress(kStepsPerQuery);
  if (world().dead != 0) return world().dead;
  return *event->done ? kOk : kNotReady;
}
Return cuEventSynchronize(abi::Event handle) {
  Return code = kNotReady;
  while (code == kNotReady) code = cuEventQuery(handle);
  const std::string said = std::exchange(world().said, {});
  if (::write(STDOUT_FILENO, said.data(), said.size()) < 0) return kInvalid;
  return code;
}
Return cuEventElapsedTime(float* ms, abi::Event from, abi::Event to) {
  auto* const begin = reinterpret_cast<SimEvent*>(from);
  auto* const end = reinterpret_cast<SimEvent*>(to);
  if (!begin->timing || !end->timing) return kInvalid;
  if (!*begin->done || !*end->done) return kNotReady;
  return *ms = end->at - begin->at, kOk;
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace cuda_sim
