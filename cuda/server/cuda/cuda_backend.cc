#include "server/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace partita::remote::cuda {

using server::Answered;
using server::Completed;
using server::Id;
using server::kDefaultStream;
using server::ObjectKind;
using server::refuse;
using server::Refused;

namespace {

constexpr std::size_t kAttributes = 160;
constexpr std::size_t kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr std::uint64_t kMostArena = std::uint64_t{1} << 40;
constexpr std::size_t kMaxLog = 4096;
constexpr std::size_t kMaxParameters = 4096;

}  // namespace

// ---- begin and end ----

CudaBackend::CudaBackend(std::shared_ptr<const DriverLibrary> library,
                         std::optional<SharedUse> shared)
    : library_(std::move(library)), shared_(std::move(shared)), api_(library_->api()) {}

Result<std::unique_ptr<CudaBackend>> CudaBackend::open(const CudaOptions& options) {
  auto library = DriverLibrary::open(options.vendor_library);
  if (!library) return failed(library.error());
  std::unique_ptr<CudaBackend> backend(new CudaBackend(*std::move(library), options.shared));
  if (auto started = backend->start(options); !started) return failed(started.error());
  return backend;
}

#define PARTITA_TRY(call)                            \
  if (const abi::Return code = api_.call; code != 0) \
  return failed({ErrorCode::no_driver, library_->words(#call, code), "the CUDA driver"})

Result<void> CudaBackend::start(const CudaOptions& options) {
  PARTITA_TRY(cuInit(0));
  PARTITA_TRY(cuDeviceGet(&number_, options.device));
  PARTITA_TRY(cuDevicePrimaryCtxRetain(&context_, number_));
  PARTITA_TRY(cuCtxSetCurrent(context_));
  ordinal_ = options.device;
  own_process_ = options.own_process;
  if (auto looked = look_at_device(options); !looked) return looked;
  if (auto reserved = reserve(options); !reserved) return reserved;
  // It calls the system's driver, so it is of no use beside another one.
  if (options.vendor_library == CudaOptions{}.vendor_library) blas_ = BlasLibrary::open();
  if (auto made = make_default_stream(); !made) return made;
  void* words = nullptr;
  PARTITA_TRY(cuMemHostAlloc(&words, kMaxHolds * 4, abi::kHostPortable | abi::kHostMapped));
  pinned_all_.push_back(words);
  holds_ = static_cast<std::uint32_t*>(words);
  PARTITA_TRY(cuMemHostGetDevicePointer_v2(&holds_on_device_, words, 0));
  for (std::uint32_t slot = 0; slot < kMaxHolds; ++slot) free_holds_.push_back(slot);
  for (std::size_t i = 0; i < options.pinned_ahead; ++i) {
    auto buffer = take_pinned();
    if (!buffer) return environment_error("pinned memory", buffer.error().reason);
    pinned_.insert(pinned_.begin(), *buffer);
  }
  return {};
}

Result<void> CudaBackend::make_default_stream() {
  Stream stream;
  if (shared_) {
    PARTITA_TRY(cuEventCreate(&joint_, abi::kEventDisableTiming));
    auto made = shared_->lanes.front().create_stream(0);
    if (!made) return failed(made.error());
    stream.stream = *made;
    stream.on = {*made};
  }
  streams_.emplace(kDefaultStream, std::move(stream));
  return {};
}

Result<void> CudaBackend::look_at_device(const CudaOptions& options) {
  std::array<char, 256> name{};
  abi::Uuid uuid{};
  std::size_t total = 0;
  int version = 0;
  PARTITA_TRY(cuDriverGetVersion(&version));
  PARTITA_TRY(cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), number_));
  PARTITA_TRY(cuDeviceGetUuid_v2(&uuid, number_));
  PARTITA_TRY(cuDeviceTotalMem_v2(&total, number_));
  device_.name = name.data();
  device_.backend = "cuda";
  device_.driver_version = static_cast<std::uint32_t>(version);
  device_.total_memory =
      options.memory == 0 ? total : std::min<std::uint64_t>(total, options.memory);
  device_.uuid.resize(sizeof(uuid));
  std::memcpy(device_.uuid.data(), &uuid, sizeof(uuid));
  device_.attributes.assign(kAttributes, 0);
  for (std::size_t i = 1; i < kAttributes; ++i) {
    int value = 0;  // those that this driver does not know stay 0
    if (api_.cuDeviceGetAttribute(&value, static_cast<int>(i), number_) == 0)
      device_.attributes[i] = value;
  }
  if (shared_) {
    const auto most = std::ranges::max_element(shared_->lanes, {}, &Lane::units);
    device_.attributes[kMultiprocessors] = most->units;
  }
  return {};
}

abi::AllocationProperties CudaBackend::properties() const {
  abi::AllocationProperties of{};
  of.type = abi::kPinned;
  of.location = {abi::kLocationDevice, ordinal_};
  return of;
}

// The range of addresses that the client hands out.
Result<void> CudaBackend::reserve(const CudaOptions&) {
  const abi::AllocationProperties of = properties();
  std::size_t granule = 0;
  PARTITA_TRY(cuMemGetAllocationGranularity(&granule, &of, 0));
  device_.granule = granule;
  const std::uint64_t wanted = std::min(device_.total_memory * 4, kMostArena);
  device_.arena_bytes = wanted / granule * granule;
  abi::DevicePointer base = 0;
  PARTITA_TRY(cuMemAddressReserve(&base, device_.arena_bytes, 0, 0, 0));
  device_.arena = base;
  return {};
}

#undef PARTITA_TRY

CudaBackend::~CudaBackend() {
  if (context_ == nullptr) return;
  if (dead_) [[maybe_unused]]
    BlasLibrary* const left = blas_.release();
  blas_.reset();
  // The context may be dead: what it refuses goes with the process.
  for (std::uint32_t i = 0; holds_ != nullptr && i < kMaxHolds; ++i)
    __atomic_store_n(holds_ + i, 1u, __ATOMIC_RELEASE);
  for (auto& [id, stream] : streams_)
    if (shared_ && !dead_ && stream.stream != nullptr) api_.cuStreamSynchronize(stream.stream);
  if (shared_ && shared_->measured) {
    end_request();
    take_times();
    shared_->measured(times_.request());
  }
  for (const Timed& timed : timed_)
    for (abi::Event event : {timed.begun, timed.ended})
      if (event != nullptr) spare_.push_back(event);
  spare_.insert(spare_.end(), spare_timing_.begin(), spare_timing_.end());
  if (joint_ != nullptr) api_.cuEventDestroy_v2(joint_);
  for (auto& [id, graph] : graphs_)
    if (graph.exec != nullptr) api_.cuGraphExecDestroy(graph.exec);
  for (auto& [id, stream] : streams_) {
    for (Mark& mark : stream.marks)
      if (mark.event != nullptr) spare_.push_back(mark.event);
    destroy_streams(stream);
  }
  for (auto& [id, event] : events_) api_.cuEventDestroy_v2(event.event);
  for (abi::Event event : spare_) api_.cuEventDestroy_v2(event);
  for (auto& [id, module] : modules_) api_.cuModuleUnload(module);
  for (auto& [address, memory] : memory_) {
    api_.cuMemUnmap(address, memory.bytes);
    api_.cuMemRelease(memory.handle);
  }
  if (device_.arena != 0) api_.cuMemAddressFree(device_.arena, device_.arena_bytes);
  for (void* host : pinned_all_) api_.cuMemFreeHost(host);
  api_.cuDevicePrimaryCtxRelease_v2(number_);
}

// ---- errors ----

tl::unexpected<Refused> CudaBackend::refused(const char* call, abi::Return code) {
  const bool of_the_device = code >= server::kIllegalAddress && code <= server::kLaunchFailure &&
                             code != server::kLaunchOutOfResources;
  if (of_the_device) die(code, library_->words(call, code));
  return refuse(code, library_->words(call, code));
}

Answered<void> CudaBackend::done(const char* call, abi::Return code) {
  if (code == 0) return {};
  return refused(call, code);
}

// Nothing works in this context any more.
void CudaBackend::die(abi::Return code, const std::string& text) {
  if (std::exchange(dead_, true)) return;
  const char* const whose = shared_ ? "; this session's, or one's that shares its process" : "";
  told_.push_back({.kind = Completed::Kind::fault, .status = code, .text = text + whose});
  if (shared_) shared_->lost();
}

// ---- marks: what happens when a stream got there ----

Answered<CudaBackend::Pinned> CudaBackend::take_pinned() {
  if (!pinned_.empty()) {
    const Pinned buffer = pinned_.back();
    pinned_.pop_back();
    return buffer;
  }
  void* host = nullptr;
  if (const abi::Return code = api_.cuMemHostAlloc(&host, kPinnedBytes, abi::kHostPortable);
      code != 0)
    return refused("cuMemHostAlloc", code);
  pinned_all_.push_back(host);
  return Pinned{host};
}

Answered<void> CudaBackend::mark(Stream& stream, Mark mark) {
  if (spare_.empty()) {
    abi::Event made = nullptr;
    if (Answered<void> ok =
            done("cuEventCreate", api_.cuEventCreate(&made, abi::kEventDisableTiming));
        !ok && !dead_)
      return ok;
    if (made != nullptr) spare_.push_back(made);
  }
  if (!dead_) {
    mark.event = spare_.back();
    if (Answered<void> ok = done("cuEventRecord", api_.cuEventRecord(mark.event, stream.stream));
        !ok && !dead_)
      return ok;
    spare_.pop_back();
  }
  if (stream.marks.empty()) busy_since_ = Clock::now();
  stream.marks.push_back(std::move(mark));
  return {};
}

// The driver writes what kernels printed when it is asked to wait for what has ended already.
void CudaBackend::tell_printed(const Mark& passed) {
  if (printed_ == nullptr || passed.event == nullptr || dead_) return;
  api_.cuEventSynchronize(passed.event);
  if (std::string text = printed_->take(); !text.empty())
    told_.push_back({.kind = Completed::Kind::printed, .text = std::move(text)});
}

void CudaBackend::deliver(Mark& mark) {
  tell_printed(mark);
  if (mark.into != nullptr && !dead_)
    std::memcpy(mark.into->data() + mark.offset, mark.buffer.host, mark.bytes);
  if (mark.tell) {
    if (mark.into != nullptr && !dead_) mark.tell->bytes = std::move(*mark.into);
    told_.push_back(*std::move(mark.tell));
  }
  if (mark.buffer.host != nullptr) pinned_.push_back(mark.buffer);
  if (mark.event != nullptr) spare_.push_back(mark.event);
}

server::DeviceBackend::Polled CudaBackend::poll() {
  Polled polled;
  bool any = false;
  for (auto& [id, stream] : streams_) {
    while (!stream.marks.empty()) {
      Mark& first = stream.marks.front();
      const abi::Return code = dead_ ? 0 : api_.cuEventQuery(first.event);
      if (code == server::kNotReady) break;
      if (code != 0) die(code, library_->words("a kernel or copy", code));
      deliver(first);
      stream.marks.pop_front();
    }
    polled.queued += stream.marks.size();
    any = any || !stream.marks.empty();
  }
  std::erase_if(watched_, [this](const Watched& watched) {
    if (!finished(ObjectKind::event, watched.event)) return false;
    told_.push_back({.kind = Completed::Kind::reached, .tag = watched.tag});
    return true;
  });
  if (!dead_) take_times();
  polled.completed = std::exchange(told_, {});
  if (!polled.completed.empty()) busy_since_ = Clock::now();
  if (any || !watched_.empty()) {
    // An eighth of the time waited so far: late by an eighth at most, and seldom for long kernels.
    constexpr std::chrono::nanoseconds kLeast(1'000), kMost(1'000'000);
    polled.again =
        std::clamp<std::chrono::nanoseconds>((Clock::now() - busy_since_) / 8, kLeast, kMost);
  }
  return polled;
}

// ---- memory ----

Answered<void> CudaBackend::allocate(std::uint64_t address, std::uint64_t bytes) {
  const abi::AllocationProperties of = properties();
  Memory memory{bytes, 0};
  if (const abi::Return code = api_.cuMemCreate(&memory.handle, bytes, &of, 0); code != 0)
    return refused("cuMemCreate", code);
  if (const abi::Return code = api_.cuMemMap(address, bytes, 0, memory.handle, 0); code != 0) {
    api_.cuMemRelease(memory.handle);
    return refused("cuMemMap", code);
  }
  const abi::AccessDescription access{of.location, abi::kReadWrite};
  if (const abi::Return code = api_.cuMemSetAccess(address, bytes, &access, 1); code != 0) {
    api_.cuMemUnmap(address, bytes);
    api_.cuMemRelease(memory.handle);
    return refused("cuMemSetAccess", code);
  }
  memory_.emplace(address, memory);
  return {};
}

void CudaBackend::release(std::uint64_t address) {
  const auto found = memory_.find(address);
  CHECK(found != memory_.end());
  api_.cuMemUnmap(address, found->second.bytes);
  api_.cuMemRelease(found->second.handle);
  memory_.erase(found);
}

// ---- objects ----

Answered<Id> CudaBackend::load(std::string_view image) {
  // PTX must end in a NUL; the loader writes what it thinks of it.
  const std::string text(image);
  std::array<char, kMaxLog> log{};
  std::array<int, 2> options{abi::kJitErrorLog, abi::kJitErrorLogBytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  abi::Module module = nullptr;
  const abi::Return code =
      api_.cuModuleLoadDataEx(&module, text.c_str(), 2, options.data(), values.data());
  if (code != 0) {
    tl::unexpected<Refused> why = refused("cuModuleLoadDataEx", code);
    if (log[0] != '\0') why.value().reason += fmt::format(": {}", log.data());
    return why;
  }
  modules_.emplace(next_, module);
  if (own_process_ && printed_ == nullptr && image.find("vprintf") != image.npos)
    if (auto begun = PrintedText::begin()) printed_ = *std::move(begun);
  return next_++;
}

Answered<Id> CudaBackend::create(const server::ObjectSpec& spec) {
  if (const auto* module = std::get_if<server::ModuleSpec>(&spec)) return load(module->image);
  if (const auto* stream = std::get_if<server::StreamSpec>(&spec)) {
    const auto made = make_stream(stream->blocking, stream->priority);
    if (!made) return tl::unexpected<Refused>(made.error());
    streams_.emplace(next_, Stream{.stream = *made,
                                   .blocking = stream->blocking,
                                   .priority = stream->priority,
                                   .on = {*made}});
  } else if (const auto* event = std::get_if<server::EventSpec>(&spec)) {
    Event made;
    if (const abi::Return code =
            api_.cuEventCreate(&made.event, event->timing ? 0 : abi::kEventDisableTiming);
        code != 0)
      return refused("cuEventCreate", code);
    events_.emplace(next_, made);
  } else {
    const Id id = next_++;  // to capture takes numbers, too
    Graph& graph = graphs_[id];
    graph.spec = std::get<server::GraphSpec>(spec);
    const bool by_hand = std::ranges::any_of(graph.spec.nodes, [](const auto& node) {
      return !node.empty && (std::holds_alternative<server::CopyOutWork>(node.work) ||
                             std::holds_alternative<server::HoldWork>(node.work));
    });
    if (const Answered<void> ok = by_hand ? Answered<void>() : capture(graph); !ok) {
      destroy(ObjectKind::graph, id);
      return tl::unexpected<Refused>(ok.error());
    }
    return id;
  }
  return next_++;
}

Answered<abi::Stream> CudaBackend::make_stream(bool blocking, int priority) {
  if (shared_) {
    const auto made = shared_->lanes.front().create_stream(priority);
    if (!made) return refuse(server::kLaunchOutOfResources, to_string(made.error()));
    return *made;
  }
  abi::Stream made = nullptr;
  if (Answered<void> ok = done(
          "cuStreamCreateWithPriority",
          api_.cuStreamCreateWithPriority(&made, blocking ? 0 : abi::kStreamNonBlocking, priority));
      !ok)
    return tl::unexpected<Refused>(ok.error());
  return made;
}

void CudaBackend::destroy_streams(Stream& stream) {
  if (stream.on.empty() && stream.stream != nullptr) stream.on = {stream.stream};
  for (abi::Stream one : stream.on)
    if (one != nullptr) api_.cuStreamDestroy_v2(one);
}

void CudaBackend::destroy(ObjectKind kind, Id id) {
  if (kind == ObjectKind::stream) {
    Stream& stream = streams_.at(id);
    // What the default stream would have waited for it still does.
    if (shared_ && !dead_ && stream.blocking && stream.fresh)
      static_cast<void>(wait_for(streams_.at(kDefaultStream).stream, stream.stream));
    for (Mark& mark : stream.marks) deliver(mark);
    destroy_streams(stream);
    streams_.erase(id);
  } else if (kind == ObjectKind::event) {
    std::erase_if(watched_, [this, id](const Watched& watched) {
      if (watched.event == id)
        told_.push_back({.kind = Completed::Kind::reached, .tag = watched.tag});
      return watched.event == id;
    });
    api_.cuEventDestroy_v2(events_.at(id).event);
    events_.erase(id);
  } else if (kind == ObjectKind::graph) {
    Graph& graph = graphs_.at(id);
    if (graph.exec != nullptr) api_.cuGraphExecDestroy(graph.exec);
    pinned_.insert(pinned_.end(), graph.buffers.begin(), graph.buffers.end());
    graphs_.erase(id);
  } else {
    api_.cuModuleUnload(modules_.at(id));
    modules_.erase(id);
    std::erase_if(found_, [id](const auto& kernel) { return kernel.first.first == id; });
  }
}

Answered<server::KernelFacts> CudaBackend::find_kernel(Id module, const std::string& name) {
  if (const auto known = found_.find({module, name}); known != found_.end()) return known->second;
  Kernel kernel;
  if (const abi::Return code =
          api_.cuModuleGetFunction(&kernel.function, modules_.at(module), name.c_str());
      code != 0)
    return refused("cuModuleGetFunction", code);
  server::KernelFacts facts;
  facts.id = static_cast<Id>(kernels_.size());
  for (std::size_t i = 0; i < kMaxParameters; ++i) {
    std::size_t offset = 0, size = 0;
    if (api_.cuFuncGetParamInfo(kernel.function, i, &offset, &size) != 0) break;
    facts.parameters.push_back(
        {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
    facts.parameter_bytes = static_cast<std::uint32_t>(offset + size);
  }
  const auto attribute = [&](int number) {
    int value = 0;
    return api_.cuFuncGetAttribute(&value, number, kernel.function) == 0 && value > 0
               ? static_cast<std::uint32_t>(value)
               : 0u;
  };
  facts.max_threads = attribute(0);
  facts.shared_bytes = attribute(1);
  facts.const_bytes = attribute(2);
  facts.local_bytes = attribute(3);
  facts.registers = attribute(4);
  facts.ptx_version = attribute(5);
  facts.binary_version = attribute(6);
  kernel.parameters = facts.parameters;
  kernel.name = name;
  kernels_.push_back(std::move(kernel));
  return found_.emplace(std::pair(module, name), std::move(facts)).first->second;
}

Answered<server::GlobalPlace> CudaBackend::find_global(Id module, const std::string& name) {
  abi::DevicePointer address = 0;
  std::size_t bytes = 0;
  if (const abi::Return code =
          api_.cuModuleGetGlobal_v2(&address, &bytes, modules_.at(module), name.c_str());
      code != 0)
    return refused("cuModuleGetGlobal", code);
  return server::GlobalPlace{address, bytes};
}

// ---- work ----

// What is put on `stream` from now on begins after what is on `earlier` by now.
Answered<void> CudaBackend::wait_for(abi::Stream stream, abi::Stream earlier) {
  if (Answered<void> ok = done("cuEventRecord", api_.cuEventRecord(joint_, earlier)); !ok)
    return ok;
  return done("cuStreamWaitEvent", api_.cuStreamWaitEvent(stream, joint_, 0));
}

// The work after this is on another lane; it waits for what is on the one before, if that runs
// still.
Answered<void> CudaBackend::go_to_lane(Stream& stream, std::size_t lane) {
  if (stream.on.size() <= lane) stream.on.resize(lane + 1, nullptr);
  abi::Stream& there = stream.on[lane];
  if (there == stream.stream) return {};
  if (there == nullptr) {
    const auto made = shared_->lanes[lane].create_stream(stream.priority);
    if (!made) return refuse(server::kLaunchOutOfResources, to_string(made.error()));
    there = *made;
  }
  const abi::Return before = api_.cuStreamQuery(stream.stream);
  if (before != 0 && before != server::kNotReady) return refused("cuStreamQuery", before);
  const abi::Stream from = std::exchange(stream.stream, there);
  return before == 0 ? Answered<void>() : wait_for(there, from);
}

// On a lane, before work is put on a stream: the default stream waits for the blocking ones and
// they for it, where CUDA's own do so by themselves. Nothing waits for what it has waited for
// already.
Answered<void> CudaBackend::order(Id id, Stream& stream) {
  if (!shared_ || dead_ || capturing_ != nullptr) return {};
  if (id == kDefaultStream) {
    for (auto& [number, other] : streams_) {
      if (number == kDefaultStream || !other.blocking || !std::exchange(other.fresh, false))
        continue;
      if (Answered<void> ok = wait_for(stream.stream, other.stream); !ok) return ok;
    }
    ++default_epoch_;
  } else if (stream.blocking) {
    stream.fresh = true;
    if (std::exchange(stream.joined, default_epoch_) != default_epoch_)
      return wait_for(stream.stream, streams_.at(kDefaultStream).stream);
  }
  return {};
}

Answered<void> CudaBackend::enqueue(Id id, server::StreamWork work) {
  Stream& stream = streams_.at(id);
  if (Answered<void> ok = order(id, stream); !ok) return ok;
  return std::visit(
      [&]<class Work>(const Work& what) -> Answered<void> {
        if constexpr (std::is_same_v<Work, server::CopyOutWork>) {
          return copy_out(stream, what);
        } else if constexpr (std::is_same_v<Work, server::HoldWork>) {
          return hold(stream, what);
        } else {
          if (dead_) return {};
          if constexpr (std::is_same_v<Work, server::CopyInWork>) return copy_in(stream, what);
          if constexpr (std::is_same_v<Work, server::CopyWork>) return copy(stream, what);
          if constexpr (std::is_same_v<Work, server::SetWork>) return set(stream, what);
          if constexpr (std::is_same_v<Work, server::GemmWork>) return multiply(stream, what.what);
          if constexpr (std::is_same_v<Work, server::LaunchWork>) return launch(stream, what);
          if constexpr (std::is_same_v<Work, server::RecordWork>) return record(stream, what.event);
          if constexpr (std::is_same_v<Work, server::GraphWork>)
            return launch_graph(id, graphs_.at(what.graph));
          if constexpr (std::is_same_v<Work, server::WaitWork>) {
            const Event& event = events_.at(what.event);
            if (!event.recorded) return {};
            return done("cuStreamWaitEvent", api_.cuStreamWaitEvent(stream.stream, event.event, 0));
          }
          return {};
        }
      },
      work);
}

Answered<void> CudaBackend::copy_in(Stream& stream, const server::CopyInWork& work) {
  for (std::size_t at = 0; at < work.bytes->size(); at += kPinnedBytes) {
    const std::size_t bytes = std::min(kPinnedBytes, work.bytes->size() - at);
    Answered<Pinned> buffer = take_pinned();
    if (!buffer) return tl::unexpected<Refused>(buffer.error());
    std::memcpy(buffer->host, work.bytes->data() + at, bytes);
    if (capturing_ != nullptr) capturing_->buffers.push_back(*buffer);
    if (Answered<void> ok =
            done("cuMemcpyHtoDAsync",
                 api_.cuMemcpyHtoDAsync_v2(work.to + at, buffer->host, bytes, stream.stream));
        !ok)
      return ok;
    if (capturing_ != nullptr) continue;
    if (Answered<void> ok = mark(stream, {.buffer = *buffer}); !ok) return ok;
  }
  return {};
}

Answered<void> CudaBackend::copy_out(Stream& stream, const server::CopyOutWork& work) {
  Completed tell{.kind = Completed::Kind::copied, .tag = work.tag};
  if (capturing_ == nullptr) end_request();
  if (dead_ || work.bytes == 0) return mark(stream, {.tell = std::move(tell)});
  const auto into = std::make_shared<std::vector<std::byte>>(work.bytes);
  for (std::size_t at = 0; at < work.bytes; at += kPinnedBytes) {
    const std::size_t bytes = std::min<std::size_t>(kPinnedBytes, work.bytes - at);
    Answered<Pinned> buffer = take_pinned();
    if (!buffer) return tl::unexpected<Refused>(buffer.error());
    if (Answered<void> ok =
            done("cuMemcpyDtoHAsync",
                 api_.cuMemcpyDtoHAsync_v2(buffer->host, work.from + at, bytes, stream.stream));
        !ok)
      return ok;
    Mark part{.buffer = *buffer, .into = into, .offset = at, .bytes = bytes};
    if (at + bytes == work.bytes) part.tell = std::move(tell);
    if (Answered<void> ok = mark(stream, std::move(part)); !ok) return ok;
  }
  return {};
}

Answered<void> CudaBackend::copy(Stream& stream, const server::CopyWork& work) {
  if (work.rows == 0 || work.width == 0) return {};
  if (work.rows == 1)
    return done("cuMemcpyDtoDAsync",
                api_.cuMemcpyDtoDAsync_v2(work.to, work.from, work.width, stream.stream));
  abi::Copy2D copy{};
  copy.from_type = copy.to_type = abi::kMemoryDevice;
  copy.from_device = work.from;
  copy.from_pitch = work.from_pitch;
  copy.to_device = work.to;
  copy.to_pitch = work.to_pitch;
  copy.width = work.width;
  copy.height = work.rows;
  return done("cuMemcpy2DAsync", api_.cuMemcpy2DAsync_v2(&copy, stream.stream));
}

Answered<void> CudaBackend::set(Stream& stream, const server::SetWork& work) {
  if (work.rows == 0 || work.count == 0) return {};
  const std::uint64_t pitch = work.rows == 1 ? work.count * work.element : work.pitch;
  if (work.element == 1)
    return done("cuMemsetD2D8Async",
                api_.cuMemsetD2D8Async(work.to, pitch, static_cast<unsigned char>(work.value),
                                       work.count, work.rows, stream.stream));
  if (work.element == 2)
    return done("cuMemsetD2D16Async",
                api_.cuMemsetD2D16Async(work.to, pitch, static_cast<unsigned short>(work.value),
                                        work.count, work.rows, stream.stream));
  return done("cuMemsetD2D32Async", api_.cuMemsetD2D32Async(work.to, pitch, work.value, work.count,
                                                            work.rows, stream.stream));
}

Answered<void> CudaBackend::multiply(Stream& stream, const Gemm& op) {
  if (blas_ == nullptr)
    return server::refuse(server::kNotSupported, "cuBLAS is not installed at the server");
  if ((op.alpha_at.value == 0) != (op.beta_at.value == 0))
    return server::refuse(server::kNotSupported, "one factor here and one on the device");
  if (op.m == 0 || op.n == 0 || op.batch == 0) return {};
  if (const int status = blas_->multiply(op, stream.stream); status != 0)
    return server::refuse(server::kUnknown, fmt::format("cuBLAS: status {}", status));
  return {};
}

Answered<void> CudaBackend::launch(Stream& stream, const server::LaunchWork& work) {
  constexpr std::uint32_t kWithoutAsking = 48 * 1024;
  Kernel& kernel = kernels_.at(work.kernel);
  if (work.shared_bytes > std::max(kWithoutAsking, kernel.dynamic_shared)) {
    if (Answered<void> ok = done("cuFuncSetAttribute",
                                 api_.cuFuncSetAttribute(kernel.function, abi::kMaxDynamicShared,
                                                         static_cast<int>(work.shared_bytes)));
        !ok)
      return ok;
    kernel.dynamic_shared = work.shared_bytes;
  }
  if (Answered<void> ok = begin_kernel(stream, kernel); !ok) return ok;
  Answered<void> ok = launch_on(stream.stream, kernel, work);
  end_kernel(stream, ok.has_value());
  return ok;
}

Answered<void> CudaBackend::launch_on(abi::Stream stream, const Kernel& kernel,
                                      const server::LaunchWork& work) {
  auto* const block = const_cast<std::byte*>(work.parameters.data());
  if (work.cooperative) {
    std::vector<void*> each;
    for (const server::KernelParameter& parameter : kernel.parameters)
      each.push_back(block + parameter.offset);
    return done("cuLaunchCooperativeKernel",
                api_.cuLaunchCooperativeKernel(
                    kernel.function, work.grid.x, work.grid.y, work.grid.z, work.block.x,
                    work.block.y, work.block.z, work.shared_bytes, stream, each.data()));
  }
  std::size_t bytes = work.parameters.size();
  std::array<void*, 5> extra{reinterpret_cast<void*>(abi::kBufferPointer), block,
                             reinterpret_cast<void*>(abi::kBufferSize), &bytes, nullptr};
  return done("cuLaunchKernel",
              api_.cuLaunchKernel(kernel.function, work.grid.x, work.grid.y, work.grid.z,
                                  work.block.x, work.block.y, work.block.z, work.shared_bytes,
                                  stream, nullptr, bytes == 0 ? nullptr : extra.data()));
}

// On lanes: where the kernel is to run, and when it began.
Answered<void> CudaBackend::begin_kernel(Stream& stream, const Kernel& kernel) {
  if (!shared_ || capturing_ != nullptr) return {};
  if (shared_->cursor)
    if (Answered<void> ok = go_to_lane(stream, shared_->cursor->lane_of(kernel.name)); !ok)
      return ok;
  if (!shared_->measured) return {};
  const auto begun = timing_event(), ended = timing_event();
  if (!begun || !ended) return tl::unexpected<Refused>(begun ? ended.error() : begun.error());
  timed_.push_back({kernel.name, *begun, *ended});
  return done("cuEventRecord", api_.cuEventRecord(*begun, stream.stream));
}

void CudaBackend::end_kernel(const Stream& stream, bool launched) {
  if (!shared_ || !shared_->measured || capturing_ != nullptr) return;
  const Timed& last = timed_.back();
  if (launched) {
    static_cast<void>(done("cuEventRecord", api_.cuEventRecord(last.ended, stream.stream)));
    return;
  }
  spare_timing_.insert(spare_timing_.end(), {last.begun, last.ended});
  timed_.pop_back();
}

Answered<abi::Event> CudaBackend::timing_event() {
  abi::Event event = nullptr;
  if (!spare_timing_.empty()) {
    event = spare_timing_.back();
    spare_timing_.pop_back();
  } else if (Answered<void> ok = done("cuEventCreate", api_.cuEventCreate(&event, 0)); !ok) {
    return tl::unexpected<Refused>(ok.error());
  }
  return event;
}

// The client waits: what it launched until now was a request.
void CudaBackend::end_request() {
  if (!shared_) return;
  if (shared_->cursor) shared_->cursor->request_ended();
  if (shared_->measured) timed_.push_back({});
}

void CudaBackend::take_times() {
  while (!timed_.empty()) {
    const Timed& first = timed_.front();
    if (first.kernel.empty()) {
      times_.request_ended();
    } else {
      float ms = 0;
      const abi::Return code = api_.cuEventElapsedTime(&ms, first.begun, first.ended);
      if (code == server::kNotReady) return;
      constexpr double kMicrosPerMs = 1e3;
      if (code == 0) times_.add(first.kernel, double{ms} * kMicrosPerMs);
      spare_timing_.insert(spare_timing_.end(), {first.begun, first.ended});
    }
    timed_.pop_front();
  }
}

// The stream says where it is, then waits until a word becomes 1.
Answered<void> CudaBackend::hold(Stream& stream, const server::HoldWork& work) {
  if (free_holds_.empty())
    return refuse(server::kLaunchOutOfResources,
                  fmt::format("{} functions of the client wait to be called", kMaxHolds));
  const std::uint32_t slot = free_holds_.back();
  free_holds_.pop_back();
  __atomic_store_n(holds_ + slot, 0u, __ATOMIC_RELEASE);
  Completed tell{.kind = Completed::Kind::held, .tag = work.tag, .hold = slot + 1};
  if (Answered<void> ok = mark(stream, {.tell = std::move(tell)}); !ok || dead_) return ok;
  return done(
      "cuStreamWaitValue32",
      api_.cuStreamWaitValue32_v2(stream.stream, holds_on_device_ + slot * 4, 1, abi::kWaitEqual));
}

// The word is used again only when the stream has seen it: behind the next mark at the latest it
// would be, so slots go round in the order of their use.
void CudaBackend::resume(std::uint64_t hold) {
  CHECK(hold >= 1 && hold <= kMaxHolds);
  const auto slot = static_cast<std::uint32_t>(hold - 1);
  __atomic_store_n(holds_ + slot, 1u, __ATOMIC_RELEASE);
  free_holds_.insert(free_holds_.begin(), slot);
}

Answered<void> CudaBackend::record(Stream& stream, Id id) {
  Event& event = events_.at(id);
  Answered<void> ok = done("cuEventRecord", api_.cuEventRecord(event.event, stream.stream));
  if (ok) event.recorded = true;
  return ok;
}

void CudaBackend::watch(ObjectKind kind, Id id, std::uint64_t tag) {
  Completed tell{.kind = Completed::Kind::reached, .tag = tag};
  if (kind == ObjectKind::event) {
    if (watched_.empty()) busy_since_ = Clock::now();
    end_request();
    return watched_.push_back({id, tag});
  }
  end_request();
  Stream& stream = streams_.at(id);
  Answered<void> ok = order(id, stream);
  if (ok) ok = mark(stream, {.tell = tell});
  if (!ok) told_.push_back(std::move(tell));
}

bool CudaBackend::finished(ObjectKind kind, Id id) {
  if (dead_) return true;
  const auto ended = [this](const char* call, abi::Return code) {
    if (code == server::kNotReady) return false;
    if (code != 0) die(code, library_->words(call, code));
    return true;
  };
  if (kind == ObjectKind::event) {
    const Event& event = events_.at(id);
    return !event.recorded || ended("an event", api_.cuEventQuery(event.event));
  }
  const auto idle = [&](const Stream& stream) {
    return ended("a stream", api_.cuStreamQuery(stream.stream));
  };
  const Stream& stream = streams_.at(id);
  if (!idle(stream)) return false;
  if (id != kDefaultStream) return !stream.blocking || idle(streams_.at(kDefaultStream));
  return std::ranges::all_of(
      streams_, [&](const auto& other) { return !other.second.blocking || idle(other.second); });
}

Answered<std::uint64_t> CudaBackend::elapsed(Id from, Id to) {
  if (!events_.at(from).recorded || !events_.at(to).recorded)
    return refuse(server::kInvalidHandle, "the event was not recorded");
  float ms = 0;
  const abi::Return code =
      api_.cuEventElapsedTime(&ms, events_.at(from).event, events_.at(to).event);
  if (code == server::kNotReady) return refuse(code, {});
  if (code != 0) return refused("cuEventElapsedTime", code);
  constexpr double kNanosPerMs = 1e6;
  return static_cast<std::uint64_t>(std::max(0.0, double{ms} * kNanosPerMs));
}

// ---- graphs ----

// One of CUDA's, by doing its nodes on a stream that is captured.
Answered<void> CudaBackend::capture(Graph& graph) {
  const auto made = make_stream(false, 0);
  if (!made) return tl::unexpected<Refused>(made.error());
  const Id id = next_++;
  const abi::Stream raw = *made;
  streams_.emplace(id, Stream{.stream = raw, .blocking = false, .on = {raw}});
  Answered<void> ok =
      done("cuStreamBeginCapture", api_.cuStreamBeginCapture_v2(raw, abi::kCaptureThreadLocal));
  capturing_ = &graph;
  for (const server::GraphSpec::Node& node : graph.spec.nodes) {
    if (!ok) break;
    if (!node.empty) ok = enqueue(id, node.work);
  }
  capturing_ = nullptr;
  abi::Graph captured = nullptr;
  const abi::Return end = api_.cuStreamEndCapture(raw, &captured);
  if (ok && end != 0) ok = refused("cuStreamEndCapture", end);
  if (ok)
    ok = done("cuGraphInstantiate", api_.cuGraphInstantiateWithFlags(&graph.exec, captured, 0));
  if (captured != nullptr) api_.cuGraphDestroy(captured);
  destroy(ObjectKind::stream, id);
  return ok;
}

Answered<void> CudaBackend::launch_graph(Id id, Graph& graph) {
  if (graph.exec != nullptr)
    return done("cuGraphLaunch", api_.cuGraphLaunch(graph.exec, streams_.at(id).stream));
  for (const server::GraphSpec::Node& node : graph.spec.nodes) {
    if (node.empty) continue;
    if (Answered<void> ok = enqueue(id, node.work); !ok) return ok;
  }
  return {};
}

}  // namespace partita::remote::cuda
