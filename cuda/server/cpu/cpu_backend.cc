#include "server/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "server/cpu/device_facts.h"
#include "server/gemm.h"
#include "server/library_calls.h"
#include "wire/operations.h"
#include "wire/products.h"

namespace partita::remote::cpu {

using server::Answered;
using server::Completed;
using server::Id;
using server::kDefaultStream;
using server::ObjectKind;
using server::refuse;
using server::Refused;

// Both sides of the threads: what completed, and whether anything may still run.
struct CpuBackend::Shared {
  Shared() : wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  void notify(Completed what) {
    const std::lock_guard lock(mutex);
    completed.push_back(std::move(what));
    if (completed.size() == 1) wake_up();
  }
  void wake_up() const { ::eventfd_write(wake.get(), 1); }
  bool skips() const { return dead || ending; }
  // The device is dead from now on, if it was not yet.
  void die(server::Status status, std::string text) {
    if (!dead.exchange(true))
      notify({.kind = Completed::Kind::fault, .status = status, .text = std::move(text)});
  }
  // What a launch left: what it printed, what checks found, why the device is dead.
  void tell_outcome(const ptx::Run& run);
  // The stream got there.
  void reach(Recorded& here);

  std::mutex mutex;
  std::vector<Completed> completed;
  std::set<std::shared_ptr<ptx::Run>> running;  // to be stopped at the end
  Descriptor wake;
  std::atomic<bool> dead = false, ending = false, starving = false;
};

struct CpuBackend::Recorded {
  std::atomic<bool> finished = false;
  std::atomic<std::uint64_t> nanoseconds = 0;
  std::vector<std::uint64_t> watched = {};  // under Shared::mutex
  bool pushed = false;                      // these two: the session's thread only
  int lane_event = 0;                       // of the driver; 0: none
};

namespace {

// Of each stream, as far as there are lanes, so that all streams' together are never more than the
// driver has, which sessions may share.
constexpr std::size_t kRecords = drivers::cpu_mask::kMaxEvents / drivers::cpu_mask::kMaxLanes - 1;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

Refused refusal_of(const Error& error) {
  const server::Status status = error.code == ErrorCode::no_room         ? server::kOutOfMemory
                                : error.code == ErrorCode::not_supported ? server::kInvalidPtx
                                : error.code == ErrorCode::bad_input     ? server::kInvalidPtx
                                : error.code == ErrorCode::limit         ? server::kInvalidPtx
                                : error.code == ErrorCode::not_found     ? server::kNotFound
                                                                         : server::kInvalidValue;
  return {status, to_string(error)};
}

tl::unexpected<Refused> refused(const Error& error) {
  return tl::unexpected<Refused>(refusal_of(error));
}

ptx::Extent extent(const Extent3& of) { return {of.x, of.y, of.z}; }

struct Progress {  // of the work-groups of a task
  std::atomic<std::int64_t> left;
  std::atomic<bool> begun = false;
};

// Each element at once, aligned as SetWork has it: a kernel of another stream may wait for it.
template <class Element>
void fill_with(std::span<std::byte> row, Element value) {
  for (std::size_t at = 0; at < row.size(); at += sizeof value)
    std::atomic_ref(*reinterpret_cast<Element*>(row.data() + at))
        .store(value, std::memory_order_relaxed);
}

void fill(std::span<std::byte> row, std::uint32_t value, std::uint32_t element) {
  if (element == 1)
    std::memset(row.data(), static_cast<int>(value & 0xff), row.size());
  else if (element == 2)
    fill_with(row, static_cast<std::uint16_t>(value));
  else
    fill_with(row, value);
}

}  // namespace

// ---- begin and end ----

CpuBackend::CpuBackend(CpuOptions options, std::shared_ptr<SharedUnits> units)
    : options_(std::move(options)),
      device_(describe_device({units->units(), options_.memory, options_.devices})),
      shared_(std::make_shared<Shared>()),
      units_(std::move(units)),
      driver_(&units_->driver()),
      times_(options_.measured),
      places_(options_.tenant, times_),
      lanes_(units_, options_.lanes) {}

Result<std::unique_ptr<CpuBackend>> CpuBackend::open(const CpuOptions& options) {
  if (options.units < 1 || options.units > hw::kMaxUnits)
    return bad_input("units", fmt::format("{}; 1 to {} can be", options.units, hw::kMaxUnits));
  auto units = TRY(options.shared ? options.shared : SharedUnits::open(options.units));
  std::unique_ptr<CpuBackend> backend(new CpuBackend(options, std::move(units)));
  backend->machine_ = TRY(ptx::Machine::open(
      std::min(kGlobalsBytes + backend->device_.arena_bytes, ptx::kMaxArenaBytes)));
  server::load_blas();
  auto lanes = TRY(StreamLanes::open(backend->lanes_));
  backend->streams_.emplace(kDefaultStream, Stream{.lanes = std::move(lanes)});
  return backend;
}

CpuBackend::~CpuBackend() {
  shared_->ending = true;
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& run : shared_->running) run->request_stop();
  }
  // What is queued does nothing any more.
  for (auto& [id, stream] : streams_) stream.lanes.end();
}

int CpuBackend::descriptor() const { return shared_->wake.get(); }

server::DeviceBackend::Polled CpuBackend::poll() {
  Polled polled;
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->completed.empty() || shared_->starving) {
      eventfd_t ignored = 0;  // before the look: what comes afterwards wakes us
      ::eventfd_read(shared_->wake.get(), &ignored);
    }
    polled.completed = std::exchange(shared_->completed, {});
  }
  if (shared_->starving.exchange(false)) pump();
  for (const auto& [id, stream] : streams_)
    polled.queued += static_cast<std::size_t>(stream.counters->unfinished.load());
  return polled;
}

// ---- memory ----

Answered<void> CpuBackend::allocate(std::uint64_t address, std::uint64_t bytes) {
  if (auto done = machine_->allocate_at(address, bytes); !done) return refused(done.error());
  return {};
}

Answered<void> CpuBackend::limit_heap(std::uint64_t bytes) {
  static_assert(kHeapBytes == ptx::kHeapBytes);
  if (auto done = machine_->limit_heap(bytes); !done) return refused(done.error());
  return {};
}

void CpuBackend::release(std::uint64_t address) { static_cast<void>(machine_->release(address)); }

std::span<std::byte> CpuBackend::mapped(std::uint64_t address, std::uint64_t bytes, bool write) {
  if (write) return machine_->writable(address, bytes).value_or(std::span<std::byte>());
  const auto bytes_there = machine_->readable(address, bytes);
  if (!bytes_there) return {};
  return {const_cast<std::byte*>(bytes_there->data()), bytes_there->size()};
}

Answered<void> CpuBackend::put_into(std::uint64_t address, int file, bool keep) {
  const auto done = machine_->put_into(address, file, keep);
  if (done) return {};
  return refuse(done.error().code == ErrorCode::not_supported ? server::kNotSupported
                                                              : refusal_of(done.error()).status,
                to_string(done.error()));
}

// ---- objects ----

Answered<Id> CpuBackend::create(const server::ObjectSpec& spec) {
  if (const auto* module = std::get_if<server::ModuleSpec>(&spec)) {
    if (module->image.starts_with("\x7f"
                                  "ELF"))
      return refuse(kNoBinary, "this is machine code of a GPU; the processor needs its PTX");
    const auto loaded = machine_->load(module->image, "ptx");
    if (!loaded) return refused(loaded.error());
    modules_.emplace(next_, *loaded);
  } else if (const auto* stream = std::get_if<server::StreamSpec>(&spec)) {
    auto lanes = StreamLanes::open(lanes_);
    if (!lanes) return refuse(server::kOutOfMemory, to_string(lanes.error()));
    streams_.emplace(next_, Stream{.id = next_,
                                   .lanes = *std::move(lanes),
                                   .blocking = stream->blocking,
                                   .priority = stream->priority});
  } else if (std::holds_alternative<server::EventSpec>(spec)) {
    events_.emplace(next_, Event{});
  } else {
    graphs_.emplace(next_, std::get<server::GraphSpec>(spec));
  }
  return next_++;
}

void CpuBackend::destroy(ObjectKind kind, Id id) {
  if (kind == ObjectKind::event) {
    events_.erase(id);
  } else if (kind == ObjectKind::graph) {
    graphs_.erase(id);
  } else if (kind == ObjectKind::stream) {
    const auto found = streams_.find(id);
    CHECK(found != streams_.end() && id != kDefaultStream);
    found->second.lanes.end();
    streams_.erase(found);
  } else {
    const auto found = modules_.find(id);
    CHECK(found != modules_.end());
    static_cast<void>(machine_->unload(found->second));
    modules_.erase(found);
    std::erase_if(found_, [id](const auto& kernel) { return kernel.first.first == id; });
  }
}

Answered<server::KernelFacts> CpuBackend::find_kernel(Id module, const std::string& name) {
  if (const auto known = found_.find({module, name}); known != found_.end()) return known->second;
  const ptx::ModuleId in = modules_.at(module);
  const auto kernel = machine_->find_kernel(in, name);
  if (!kernel) return refused(kernel.error());
  const auto all = machine_->kernels(in);
  if (!all) return refused(all.error());
  const ptx::KernelInfo& info = all->at(kernel->index);
  server::KernelFacts facts;
  facts.id = static_cast<Id>(kernels_.size());
  for (const ptx::ParameterLayout& parameter : info.parameters)
    facts.parameters.push_back({parameter.offset, parameter.size});
  facts.parameter_bytes = info.parameter_bytes;
  facts.max_threads = info.max_threads;
  facts.shared_bytes = info.shared_bytes;
  facts.const_bytes = info.const_bytes;
  facts.local_bytes = info.local_bytes;
  // What a compiler would leave of them in registers, so that the largest block fits.
  const auto each = kRegistersPerBlock / std::max(info.max_threads, 1U) / 8 * 8;
  facts.registers = std::min({info.registers, kMostRegisters, each});
  facts.ptx_version = info.target;
  facts.binary_version = kComputeVersion;
  kernels_.push_back({*kernel, name});
  return found_.emplace(std::pair(module, name), std::move(facts)).first->second;
}

Answered<server::GlobalPlace> CpuBackend::find_global(Id module, const std::string& name) {
  const auto global = machine_->find_global(modules_.at(module), name);
  if (!global) return refused(global.error());
  return server::GlobalPlace{global->address, global->bytes};
}

// ---- what work is ----

Answered<CpuBackend::Item> CpuBackend::item_of(Id stream, server::LaunchWork work) {
  ptx::Launch launch;
  const Kernel& kernel = kernels_.at(work.kernel);
  launch.kernel = kernel.id;
  launch.grid = extent(work.grid);
  launch.block = extent(work.block);
  launch.dynamic_shared = work.shared_bytes;
  launch.parameters = std::move(work.parameters);
  launch.cooperative = work.cooperative;
  launch.units = static_cast<std::uint32_t>(units_->units());
  launch.stuck = [shared = shared_](const std::string& text) {
    shared->notify({.kind = Completed::Kind::noted, .text = text});
  };
  launch.others = [units = units_] { return units->driver().wanted(); };
  launch.checks.uninitialised = (options_.flags & kCheckMemory) != 0;
  launch.checks.races = (options_.flags & kCheckRaces) != 0;
  launch.checks.global_races = launch.checks.races;
  launch.checks.barriers = (options_.flags & kCheckBarriers) != 0;
  auto prepared = machine_->prepare(std::move(launch));
  if (!prepared) return refused(prepared.error());
  const std::shared_ptr<ptx::Run> run = *std::move(prepared);
  const std::int64_t groups = run->groups();
  if (groups < 1) return Item(Task{});
  const std::shared_ptr<Stamps> stamps = times_.next(kernel.name, work);
  const auto progress = std::make_shared<Progress>(groups);
  return Item(Task{.run =
                       [shared = shared_, run, progress, stamps](std::int64_t group) {
                         if (!progress->begun.exchange(true)) {
                           if (stamps) stamps->begun = static_cast<std::int64_t>(now_ns());
                           const std::lock_guard lock(shared->mutex);
                           if (!shared->ending) shared->running.insert(run);
                         }
                         if (!shared->skips() && !run->execute(group)) return false;
                         if (--progress->left > 0) return true;
                         if (stamps) stamps->ended = static_cast<std::int64_t>(now_ns());
                         shared->tell_outcome(*run);
                         const std::lock_guard lock(shared->mutex);
                         shared->running.erase(run);
                         return true;
                       },
                   .groups = groups,
                   .place = places_.next(kernel.name, work, stream, streams_.at(stream).priority)});
}

void CpuBackend::Shared::tell_outcome(const ptx::Run& run) {
  if (std::string printed = run.printed(); !printed.empty())
    notify({.kind = Completed::Kind::printed, .text = std::move(printed)});
  if (ending) return;
  std::vector<ptx::Fault> found;  // what does not end the launch
  std::optional<ptx::Fault> fatal;
  for (const ptx::Fault& fault : run.faults()) {
    if (status_of(fault.kind) == server::kSuccess)
      found.push_back(fault);
    else if (!fatal)
      fatal = fault;
  }
  if (!found.empty()) notify({.kind = Completed::Kind::found, .text = ptx::to_text(found)});
  if (fatal) die(status_of(fatal->kind), ptx::to_text(*fatal));
}

Answered<CpuBackend::Item> CpuBackend::item_of(Id stream, server::StreamWork work) {
  const auto task = [this](auto what) {
    return Item(Task{[shared = shared_, what = std::move(what)](std::int64_t) {
      if (!shared->skips()) what();
      return true;
    }});
  };
  if (auto* launch = std::get_if<server::LaunchWork>(&work))
    return item_of(stream, std::move(*launch));
  if (auto* in = std::get_if<server::CopyInWork>(&work)) {
    const auto to = machine_->writable(in->to, in->bytes->size());
    if (!to) return refused(to.error());
    return task([to = *to, bytes = in->bytes] { std::ranges::copy(*bytes, to.begin()); });
  }
  if (auto* out = std::get_if<server::CopyOutWork>(&work)) {
    const auto from = machine_->readable(out->from, out->bytes);
    if (!from) return refused(from.error());
    const auto copied =
        std::make_shared<Completed>(Completed{.kind = Completed::Kind::copied, .tag = out->tag});
    return Item(Task{.run =
                         [shared = shared_, from = *from, copied](std::int64_t) {
                           if (!shared->skips()) copied->bytes.assign(from.begin(), from.end());
                           return true;
                         },
                     .then = [shared = shared_, copied] { shared->notify(std::move(*copied)); }});
  }
  if (auto* copy = std::get_if<server::CopyWork>(&work)) {
    if (copy->rows == 0 || copy->width == 0) return task([] {});
    const auto to = machine_->writable(copy->to, (copy->rows - 1) * copy->to_pitch + copy->width);
    const auto from =
        machine_->readable(copy->from, (copy->rows - 1) * copy->from_pitch + copy->width);
    if (!to || !from) return refused(to ? from.error() : to.error());
    return task([to = to->data(), from = from->data(), plan = *copy] {
      for (std::uint64_t row = 0; row < plan.rows; ++row)
        std::memmove(to + row * plan.to_pitch, from + row * plan.from_pitch, plan.width);
    });
  }
  if (auto* set = std::get_if<server::SetWork>(&work)) {
    const std::uint64_t width = set->count * set->element;
    if (set->rows == 0 || width == 0) return task([] {});
    const auto to = machine_->writable(set->to, (set->rows - 1) * set->pitch + width);
    if (!to) return refused(to.error());
    return task([to = *to, width, plan = *set] {
      for (std::uint64_t row = 0; row < plan.rows; ++row)
        fill(to.subspan(row * plan.pitch, width), plan.value, plan.element);
    });
  }
  if (auto* gemm = std::get_if<server::GemmWork>(&work)) return item_of(stream, gemm->what);
  if (const auto* call = std::get_if<server::CallWork>(&work))
    return server::refuse(server::kNotSupported,
                          fmt::format("{}, on this device", call->function->name));
  if (auto* record = std::get_if<server::RecordWork>(&work)) {
    events_.at(record->event).last = std::make_shared<Recorded>();
    return Item(Record{events_.at(record->event).last});
  }
  if (auto* wait = std::get_if<server::WaitWork>(&work))
    return Item(Wait{events_.at(wait->event).last});
  if (auto* branch = std::get_if<server::BranchWork>(&work))
    return Item(Branch{.work = std::move(*branch)});
  return Item(Hold{std::get<server::HoldWork>(work).tag});
}

Answered<CpuBackend::Item> CpuBackend::item_of(Id stream, const Gemm& gemm) {
  std::vector<std::byte*> places;
  for (const auto& [at, bytes] : server::operands(gemm)) {
    if (places.empty()) {
      const auto to = machine_->writable(at, bytes);
      if (!to) return refused(to.error());
      places.push_back(to->data());
    } else {
      const auto from = machine_->readable(at, bytes);
      if (!from) return refused(from.error());
      places.push_back(const_cast<std::byte*>(from->data()));  // only read
    }
  }
  const std::int64_t parts = server::parts_of(gemm, units_->units());
  const auto [grid, block] = product_shape(gemm);
  const server::LaunchWork as{.grid = grid, .block = block};
  const std::shared_ptr<Stamps> stamps = times_.next(kProduct, as);
  const auto progress = std::make_shared<Progress>(parts);
  const auto reach = [machine = machine_.get()](const server::Operand& matrix,
                                                bool write) -> std::byte* {
    const auto there = write ? machine->writable(matrix.at, matrix.bytes)
                             : machine->readable(matrix.at, matrix.bytes).map([](auto bytes) {
                                 return std::span(const_cast<std::byte*>(bytes.data()),
                                                  bytes.size());  // only read
                               });
    return there ? there->data() : nullptr;
  };
  return Item(
      Task{.run =
               [shared = shared_, gemm, places, parts, stamps, progress, reach](std::int64_t part) {
                 if (stamps && !progress->begun.exchange(true))
                   stamps->begun = static_cast<std::int64_t>(now_ns());
                 const auto stop = [&] { return shared->skips(); };
                 if ((gemm.form & kByPointers) == 0)
                   server::multiply(gemm, places, part, parts, stop);
                 else if (const char* const wrong =
                              server::multiply_each(gemm, places, part, parts, stop, reach))
                   shared->die(server::kIllegalAddress, wrong);
                 if (--progress->left == 0 && stamps)
                   stamps->ended = static_cast<std::int64_t>(now_ns());
                 return true;
               },
           .groups = parts,
           .place = places_.next(kProduct, as, stream, streams_.at(stream).priority)});
}

// Nodes stand in an order that suits their dependencies.
Answered<void> CpuBackend::add_items(Id stream, const server::GraphSpec& graph,
                                     std::vector<Item>& items) {
  for (const server::GraphSpec::Node& node : graph.nodes) {
    if (node.empty) continue;
    const auto* branch = std::get_if<server::BranchWork>(&node.work);
    if (branch != nullptr && branch->kind == kOnce) {
      if (Answered<void> ok = add_items(stream, *branch->bodies.front(), items); !ok) return ok;
      continue;
    }
    Answered<Item> item = item_of(stream, node.work);
    if (!item) return tl::unexpected<Refused>(item.error());
    items.push_back(*std::move(item));
  }
  return {};
}

// Puts what is to run in the branch's place, first of what is pending; false where its time has
// not come.
bool CpuBackend::decide(Stream& stream, Branch branch) {
  if (branch.reached == nullptr) {
    branch.reached = std::make_shared<std::atomic<bool>>(false);
    stream.pending.front() = branch;
    ++stream.counters->unfinished;
    launch(stream, {.then = [shared = shared_, reached = branch.reached] {
             *reached = true;
             shared->starving = true;
             shared->wake_up();
           }});
    return false;
  }
  if (!*branch.reached) return false;
  stream.pending.pop_front();
  --stream.counters->unfinished;
  const auto word = machine_->readable(branch.work.condition, sizeof(std::uint32_t));
  if (shared_->skips() || !word) return true;
  std::uint32_t value = 0;
  std::memcpy(&value, word->data(), sizeof(value));
  const server::GraphSpec* const body = server::body_at(branch.work, value);
  if (body == nullptr) return true;
  std::vector<Item> items;
  if (const Answered<void> ok = add_items(stream.id, *body, items); !ok) {
    shared_->die(ok.error().status, "a branch of a graph: " + ok.error().reason);
    return true;
  }
  if (branch.work.kind == kWhile) items.push_back(Branch{.work = std::move(branch.work)});
  stream.counters->unfinished += static_cast<std::int64_t>(items.size());
  stream.pending.insert(stream.pending.begin(), std::make_move_iterator(items.begin()),
                        std::make_move_iterator(items.end()));
  return true;
}

// ---- order ----

Answered<void> CpuBackend::enqueue(Id id, server::StreamWork work) {
  CHECK(streams_.contains(id));
  if (std::holds_alternative<server::CopyOutWork>(work)) places_.request_ended(false);
  std::vector<Item> items;
  if (const auto* graph = std::get_if<server::GraphWork>(&work)) {
    const Answered<void> ok = add_items(id, graphs_.at(graph->graph), items);
    for (Item& item : items)  // nothing comes of what would have been recorded
      if (auto* record = std::get_if<Record>(&item); record != nullptr && !ok)
        shared_->reach(*record->here);
    if (!ok) return ok;
  } else {
    Answered<Item> item = item_of(id, std::move(work));
    if (!item) return tl::unexpected<Refused>(item.error());
    items.push_back(*std::move(item));
  }
  for (Item& item : items) push(id, std::move(item));
  return {};
}

// The default stream waits for all blocking ones, and they for it.
void CpuBackend::push(Id id, Item item) {
  Stream& stream = streams_.at(id);
  // `waits` goes on once `other` got to where it is now.
  const auto wait_here = [this](Stream& waits, Stream& other) {
    const auto here = std::make_shared<Recorded>();
    ++other.counters->unfinished;
    other.pending.push_back(Record{here});
    ++waits.counters->unfinished;
    waits.pending.push_back(Wait{here});
    pump();
  };
  Stream& first = streams_.at(kDefaultStream);
  if (stream.blocking && id != kDefaultStream) {
    if (first.enqueued != stream.seen_default && first.counters->unfinished > 0)
      wait_here(stream, first);
    stream.seen_default = first.enqueued;
  }
  if (id == kDefaultStream) {
    for (auto& [other_id, other] : streams_) {
      if (other_id == kDefaultStream || !other.blocking) continue;
      std::int64_t& seen = stream.seen[other_id];
      if (other.enqueued != seen && other.counters->unfinished > 0) wait_here(stream, other);
      seen = other.enqueued;
    }
  }
  ++stream.counters->unfinished;
  ++stream.enqueued;
  stream.pending.push_back(std::move(item));
  if (stream.pending.size() == 1) pump();
}

void CpuBackend::pump() {
  for (bool more = true; more;) {
    more = false;
    for (auto& [id, stream] : streams_) more = pump(stream) || more;
  }
}

// Runs on the stream's lane, then counts as finished.
void CpuBackend::launch(Stream& stream, Task task) {
  const std::int64_t groups = task.groups;
  const auto left = std::make_shared<std::atomic<std::int64_t>>(groups);
  auto counted = [shared = shared_, counters = stream.counters, left, units = units_,
                  task = std::move(task)](std::int64_t group) {
    if (task.run && !task.run(group)) return drivers::cpu_mask::come_again();
    if (--*left > 0) return;
    --counters->unfinished;
    if (task.then) task.then();
    const std::int64_t pushed = --counters->pushed;
    if (task.place && task.place->taken) units->give_back(*task.place->taken);
    const bool of_phase = task.place && std::exchange(task.place->of_phase, nullptr);
    if ((pushed == kMaxPushed / 2 || pushed == 0 || (of_phase && pushed == kAhead / 2)) &&
        shared->starving)
      shared->wake_up();
  };
  ++stream.counters->pushed;
  const auto launched =
      driver_->launch(stream.lanes.now(), {groups, device::HostKernel{std::move(counted)}});
  CHECK(launched.has_value());
}

// Pushes what may begin of a stream; whether it pushed anything.
bool CpuBackend::pump(Stream& stream) {
  bool any = false;
  while (!stream.pending.empty() && stream.held == 0) {
    const bool shares = stream.lanes.shares();
    if (shares) shared_->starving = true;  // before the look: who ends afterwards wakes us
    if (stream.counters->pushed >= kMaxPushed || (shares && stream.lanes.full())) {
      shared_->starving = true;
      return any;
    }
    Item& item = stream.pending.front();
    if (auto* task = std::get_if<Task>(&item)) {
      const auto again = [shared = shared_] {
        shared->starving = true;
        shared->wake_up();
      };
      if (task->place && !settle(*task->place, stream.lanes, *units_,
                                 {stream.counters->pushed, shared_->starving, again}))
        return any;
      launch(stream, std::move(*task));
    } else if (auto* wait = std::get_if<Wait>(&item)) {
      if (wait->on != nullptr && !wait->on->finished) {
        if (!wait->on->pushed) return any;
        CHECK(driver_->wait_event(stream.lanes.now(), wait->on->lane_event).has_value());
      }
      launch(stream, {});
    } else if (auto* record = std::get_if<Record>(&item)) {
      if (!push_record(stream, record->here)) return any;
    } else if (auto* branch = std::get_if<Branch>(&item)) {
      if (!decide(stream, *branch)) return any;
      any = true;
      continue;
    } else {
      stream.held = next_hold_++;
      ++stream.counters->unfinished;  // until resume()
      launch(stream,
             {.then = [shared = shared_, tag = std::get<Hold>(item).tag, hold = stream.held] {
               shared->notify({.kind = Completed::Kind::held, .tag = tag, .hold = hold});
             }});
    }
    stream.pending.pop_front();
    any = true;
  }
  return any;
}

void CpuBackend::Shared::reach(Recorded& here) {
  here.nanoseconds = now_ns();
  std::vector<std::uint64_t> watched;
  {
    const std::lock_guard lock(mutex);
    here.finished = true;
    watched = std::exchange(here.watched, {});
  }
  for (const std::uint64_t tag : watched) notify({.kind = Completed::Kind::reached, .tag = tag});
}

// Not where there are too many that are not finished; gives back the events of those that are.
bool CpuBackend::push_record(Stream& stream, const std::shared_ptr<Recorded>& here) {
  const std::size_t most = kRecords * std::min(streams_.size(), options_.lanes);
  if (recorded_.size() >= most) {
    shared_->starving = true;  // before the look: who ends afterwards wakes us
    std::erase_if(recorded_, [this](const std::shared_ptr<Recorded>& record) {
      if (!record->finished) return false;
      static_cast<void>(driver_->destroy_event(record->lane_event));
      return true;
    });
    if (recorded_.size() >= most) return false;
  }
  launch(stream, {.then = [shared = shared_, here] { shared->reach(*here); }});
  const auto event = driver_->record_event(stream.lanes.now());
  CHECK(event.has_value());
  here->lane_event = *event;
  here->pushed = true;
  recorded_.push_back(here);
  return true;
}

void CpuBackend::resume(std::uint64_t hold) {
  for (auto& [id, stream] : streams_) {
    if (stream.held != hold) continue;
    stream.held = 0;
    --stream.counters->unfinished;
    return pump();
  }
  CHECK(false);  // no such hold
}

void CpuBackend::watch(ObjectKind kind, Id id, std::uint64_t tag) {
  if (kind == ObjectKind::stream) {
    push(id, Task{.then = [shared = shared_, tag] {
           shared->notify({.kind = Completed::Kind::reached, .tag = tag});
         }});
    return;
  }
  const std::shared_ptr<Recorded>& last = events_.at(id).last;
  if (last != nullptr) {
    const std::lock_guard lock(shared_->mutex);
    if (!last->finished) return last->watched.push_back(tag);
  }
  shared_->notify({.kind = Completed::Kind::reached, .tag = tag});
}

bool CpuBackend::finished(ObjectKind kind, Id id) {
  if (kind == ObjectKind::event) {
    const Event& event = events_.at(id);
    return event.last == nullptr || event.last->finished;
  }
  const Stream& stream = streams_.at(id);
  if (stream.counters->unfinished > 0) return false;
  if (id != kDefaultStream)
    return !stream.blocking || streams_.at(kDefaultStream).counters->unfinished == 0;
  return std::ranges::all_of(streams_, [](const auto& entry) {
    return !entry.second.blocking || entry.second.counters->unfinished == 0;
  });
}

Answered<std::uint64_t> CpuBackend::elapsed(Id from, Id to) {
  const auto& begin = events_.at(from).last;
  const auto& end = events_.at(to).last;
  if (begin == nullptr || end == nullptr)
    return refuse(server::kInvalidHandle, "the event was not recorded");
  if (!begin->finished || !end->finished) return refuse(server::kNotReady, {});
  return end->nanoseconds.load() - begin->nanoseconds.load();
}

}  // namespace partita::remote::cpu
