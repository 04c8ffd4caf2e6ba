// A libcuda for tests: the driver API's names over a simulated device in memory of this process.
// Strict: what a real driver would take badly, sooner or later, is an error here at once and
// counted (sim_violations): calls without a context, unknown or freed handles, memory that is not
// mapped, unmapping what queued work uses, copies from memory that is not pinned. Work is done a
// little at a time, whenever somebody asks whether something is finished. A module is the text
// "sim cuda", or "sim cuda, vprintf"; its kernels are add(u64 to, u32 count, u32 more), crash() and
// print(), whose text is written when an event is waited for, as CUDA's. One thread.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
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

namespace {

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
};
struct SimStream {
  bool blocking = true;
  std::deque<Item> items = {};
  bool capturing = false;
  std::vector<Item> captured = {};
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
  bool add = false, print = false;
  int dynamic_shared = 48 * 1024;
};

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
  std::set<std::vector<Item>*> graphs, execs;
  std::string said;  // by kernels, not written yet
  int violations = 0;
  std::string last;
};

World& world() {
  static World one;
  return one;
}

Return wrong(Return code, const char* what) {
  ++world().violations;
  world().last = what;
  return code;
}

// Why a call cannot be made at all.
Return closed() {
  if (!world().ready) return wrong(kNotInitialised, "a call before cuInit");
  if (!world().current) return wrong(kNoContext, "a call without a context");
  return world().dead;
}

bool usable(DevicePointer at, std::size_t bytes) {
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

bool pinned(const void* host, std::size_t bytes) {
  const char* const at = static_cast<const char*>(host);
  auto after = world().pinned.upper_bound(const_cast<char*>(at));
  if (after == world().pinned.begin()) return false;
  --after;
  return at + bytes <= after->first + after->second;
}

SimStream* stream_of(abi::Stream stream) {
  if (stream == nullptr) return &world().legacy;
  auto* const found = reinterpret_cast<SimStream*>(stream);
  return world().streams.contains(found) ? found : nullptr;
}

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

Return push(abi::Stream handle, Item item) {
  if (const Return code = closed(); code != kOk) return code;
  SimStream* const stream = stream_of(handle);
  if (stream == nullptr) return wrong(kBadHandle, "work on a stream that is not there");
  for (const auto& [at, bytes] : item.uses)
    if (!usable(at, bytes)) return wrong(kInvalid, "work on memory that is not mapped");
  if (stream->capturing) {
    stream->captured.push_back(std::move(item));
    return kOk;
  }
  item.serial = world().serial++;
  stream->items.push_back(std::move(item));
  return kOk;
}

std::byte* bytes_at(DevicePointer at) { return reinterpret_cast<std::byte*>(at); }

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

Return launch(abi::Function function, unsigned threads, unsigned shared, abi::Stream stream,
              std::vector<std::byte> block) {
  if (const Return code = closed(); code != kOk) return code;
  auto* const kernel = reinterpret_cast<SimFunction*>(function);
  if (!world().functions.contains(kernel)) return wrong(kBadHandle, "a kernel that is not there");
  if (threads == 0 || threads > 1024) return kInvalid;
  if (static_cast<int>(shared) > kernel->dynamic_shared) return kInvalid;
  if (block.size() != (kernel->add ? 16u : 0u))
    return wrong(kInvalid, "a parameter block of another size");
  Item item;
  item.run = [add = kernel->add, print = kernel->print, threads, block = std::move(block)] {
    if (print) world().said += "said by a kernel\n";
    return print ? kOk : add ? run_add(block, threads) : kIllegalAddress;
  };
  return push(stream, std::move(item));
}

template <class T>
Return forget(std::set<T*>& all, void* handle, const char* what) {
  auto* const object = static_cast<T*>(handle);
  if (all.erase(object) == 0) return wrong(kBadHandle, what);
  delete object;
  return kOk;
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
                          w.graphs.size() + w.execs.size()) +
         w.retained;
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
  if (attribute > 140) return kInvalid;
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
  if (text != "sim cuda" && text != "sim cuda, vprintf") {
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
  const std::string_view which = name;
  if (which != "add" && which != "crash" && which != "print") return kNotFound;
  auto* const made = new SimFunction{in, which == "add", which == "print"};
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
  constexpr std::size_t kOffsets[] = {0, 8, 12}, kSizes[] = {8, 4, 4};
  if (!reinterpret_cast<SimFunction*>(function)->add || index > 2) return kInvalid;
  return *offset = kOffsets[index], *size = kSizes[index], kOk;
}
Return cuFuncGetAttribute(int* value, int attribute, abi::Function) {
  return *value = attribute == 0 ? 1024 : 0, kOk;
}
Return cuFuncSetAttribute(abi::Function function, int attribute, int value) {
  if (attribute == abi::kMaxDynamicShared)
    reinterpret_cast<SimFunction*>(function)->dynamic_shared = value;
  return kOk;
}
Return cuLaunchKernel(abi::Function function, unsigned, unsigned, unsigned, unsigned x, unsigned y,
                      unsigned z, unsigned shared, abi::Stream stream, void** parameters,
                      void** extra) {
  if (parameters != nullptr) return wrong(kInvalid, "parameters as pointers are not simulated");
  std::vector<std::byte> block;
  if (extra != nullptr) {
    const auto* const bytes = static_cast<const std::byte*>(extra[1]);
    block.assign(bytes, bytes + *static_cast<std::size_t*>(extra[3]));
  }
  return launch(function, x * y * z, shared, stream, std::move(block));
}
Return cuLaunchCooperativeKernel(abi::Function function, unsigned, unsigned, unsigned, unsigned x,
                                 unsigned y, unsigned z, unsigned shared, abi::Stream stream,
                                 void** parameters) {
  std::vector<std::byte> block(16);
  constexpr std::size_t kOffsets[] = {0, 8, 12}, kSizes[] = {8, 4, 4};
  for (int i = 0; i < 3; ++i) std::memcpy(block.data() + kOffsets[i], parameters[i], kSizes[i]);
  return launch(function, x * y * z, shared, stream, std::move(block));
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
Return cuStreamWaitEvent(abi::Stream stream, abi::Event handle, unsigned) {
  auto* const event = reinterpret_cast<SimEvent*>(handle);
  if (!world().events.contains(event)) return wrong(kBadHandle, "an event that is not there");
  return push(stream, {{}, [done = event->done] { return *done; }});
}
Return cuStreamWaitValue32_v2(abi::Stream stream, DevicePointer at, std::uint32_t value,
                              unsigned flags) {
  auto* const word = reinterpret_cast<std::uint32_t*>(at);
  if (!pinned(word, 4) || flags != abi::kWaitEqual) return wrong(kInvalid, "a word not pinned");
  return push(stream,
              {{}, [word, value] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value; }});
}
Return cuStreamBeginCapture_v2(abi::Stream handle, int) {
  SimStream* const stream = stream_of(handle);
  if (handle == nullptr || stream == nullptr || stream->capturing)
    return wrong(kCaptureInvalid, "a stream that cannot be captured");
  return stream->capturing = true, kOk;
}
Return cuStreamEndCapture(abi::Stream handle, abi::Graph* graph) {
  SimStream* const stream = stream_of(handle);
  if (stream == nullptr || !stream->capturing) return wrong(kCaptureInvalid, "no capture");
  stream->capturing = false;
  auto* const made = new std::vector<Item>(std::move(stream->captured));
  world().graphs.insert(made);
  return *graph = reinterpret_cast<abi::Graph>(made), kOk;
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

Return cuGraphInstantiateWithFlags(abi::GraphExec* exec, abi::Graph graph, unsigned long long) {
  auto* const from = reinterpret_cast<std::vector<Item>*>(graph);
  if (!world().graphs.contains(from)) return wrong(kBadHandle, "a graph that is not there");
  auto* const made = new std::vector<Item>(*from);
  world().execs.insert(made);
  return *exec = reinterpret_cast<abi::GraphExec>(made), kOk;
}
Return cuGraphDestroy(abi::Graph graph) {
  return forget(world().graphs, graph, "a graph destroyed twice");
}
Return cuGraphExecDestroy(abi::GraphExec exec) {
  return forget(world().execs, exec, "an executable graph destroyed twice");
}
Return cuGraphLaunch(abi::GraphExec exec, abi::Stream stream) {
  auto* const items = reinterpret_cast<std::vector<Item>*>(exec);
  if (!world().execs.contains(items)) return wrong(kBadHandle, "a graph that is not there");
  for (const Item& item : *items)
    if (const Return code = push(stream, item); code != kOk) return code;
  return kOk;
}

}  // extern "C"
#pragma GCC visibility pop
