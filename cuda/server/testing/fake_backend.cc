#include "server/testing/fake_backend.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "server/gemm.h"
#include "server/library_calls.h"

namespace partita::remote::server {
namespace {

constexpr std::uint64_t kGlobals = 0x6000'0000'0000;
constexpr std::uint64_t kGranule = 256;
constexpr std::string_view kImage = "fake";

enum Kernel : Id { kAdd = 1, kNothing, kMany, kCrash, kPrint, kFind };
constexpr std::array<std::string_view, 7> kKernels = {"",      "add",   "nothing", "many",
                                                      "crash", "print", "find"};

std::vector<KernelParameter> parameters_of(Id kernel) {
  if (kernel == kAdd) return {{0, 8}, {8, 4}, {12, 4}};
  if (kernel != kMany) return {};
  std::vector<KernelParameter> eight;
  for (std::uint32_t i = 0; i < 8; ++i) eight.push_back({i * 8, 8});
  return eight;
}

}  // namespace

FakeBackend::FakeBackend(Options options)
    : FakeKeeper([this](std::uint64_t at, std::uint64_t bytes) { return bytes_at(at, bytes); }),
      options_(options),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  device_.name = "Fake";
  device_.backend = "fake";
  device_.arena = kFakeArena;
  device_.arena_bytes = std::uint64_t{1} << 40;
  device_.granule = kGranule;
  device_.total_memory = options.memory;
  device_.uuid.resize(16);
  device_.attributes.assign(120, 0);
  device_.attributes[97] = 227 * 1024;
  streams_[kDefaultStream];
}

void FakeBackend::notify(Completed completed) {
  completed_.push_back(std::move(completed));
  if (completed_.size() == 1) ::eventfd_write(wake_.get(), 1);
}

DeviceBackend::Polled FakeBackend::poll() {
  Polled polled;
  for (const auto& [id, stream] : streams_) polled.queued += stream.items.size();
  if (completed_.empty()) return polled;
  polled.completed = std::exchange(completed_, {});
  eventfd_t ignored = 0;
  ::eventfd_read(wake_.get(), &ignored);
  return polled;
}

// ---- memory ----

Answered<void> FakeBackend::allocate(std::uint64_t address, std::uint64_t bytes) {
  CHECK(address % kGranule == 0 && bytes % kGranule == 0 && bytes > 0 && address >= kFakeArena);
  const auto after = memory_.lower_bound(address);
  CHECK(after == memory_.end() || after->first - address >= bytes);
  if (after != memory_.begin()) {
    const auto& [before, held] = *std::prev(after);
    CHECK(address - before >= held.size());
  }
  if (bytes > options_.memory - used_)
    return refuse(kOutOfMemory, fmt::format("{} bytes are in use", used_));
  memory_[address].resize(bytes);
  used_ += bytes;
  return {};
}

void FakeBackend::release(std::uint64_t address) {
  const auto found = memory_.find(address);
  CHECK(found != memory_.end());
  used_ -= found->second.size();
  memory_.erase(found);
}

static bool is_held(const std::map<std::uint64_t, std::vector<std::byte>>& memory,
                    std::uint64_t address, std::uint64_t bytes) {
  const auto after = memory.upper_bound(address);
  if (after == memory.begin()) return false;
  const auto& [begin, held] = *std::prev(after);
  return address - begin <= held.size() && bytes <= held.size() - (address - begin);
}

std::span<std::byte> FakeBackend::bytes_at(std::uint64_t address, std::uint64_t bytes) {
  CHECK(is_held(memory_, address, bytes));
  auto& [begin, held] = *std::prev(memory_.upper_bound(address));
  return std::span(held).subspan(address - begin, bytes);
}

std::span<std::byte> FakeBackend::mapped(std::uint64_t address, std::uint64_t bytes, bool) {
  if (!options_.mapped) return {};
  return bytes_at(address, bytes);
}

// ---- objects ----

Answered<Id> FakeBackend::create(const ObjectSpec& spec) {
  const Id id = next_++;
  if (const auto* module = std::get_if<ModuleSpec>(&spec)) {
    if (options_.loading) options_.loading();
    if (module->image != kImage) return refuse(kInvalidPtx, "this is no fake module");
    modules_[id] = kGlobals + id * kGranule;
    memory_[modules_[id]].resize(4);
  } else if (const auto* stream = std::get_if<StreamSpec>(&spec)) {
    streams_[id].blocking = stream->blocking;
  } else if (const auto* event = std::get_if<EventSpec>(&spec)) {
    events_[id].timing = event->timing;
  } else {
    graphs_[id] = std::get<GraphSpec>(spec);
    for (Id node = 0; node < graphs_[id].nodes.size(); ++node)
      for (const Id earlier : graphs_[id].nodes[node].after) CHECK(earlier < node);
  }
  return id;
}

void FakeBackend::destroy(ObjectKind kind, Id id) {
  switch (kind) {
    case ObjectKind::module:
      CHECK(modules_.contains(id));
      memory_.erase(modules_[id]);
      modules_.erase(id);
      return;
    case ObjectKind::stream:
      CHECK(id != kDefaultStream && streams_.contains(id) && streams_[id].items.empty());
      streams_.erase(id);
      return;
    case ObjectKind::event:
      CHECK(events_.erase(id) == 1);
      return;
    case ObjectKind::graph:
      CHECK(graphs_.erase(id) == 1);
      return;
  }
}

Answered<KernelFacts> FakeBackend::find_kernel(Id module, const std::string& name) {
  CHECK(modules_.contains(module));
  const auto found = std::ranges::find(kKernels, name);
  if (name.empty() || found == kKernels.end())
    return refuse(kNotFound, fmt::format("the module has no kernel {}", name));
  KernelFacts facts;
  const Id kernel = static_cast<Id>(found - kKernels.begin());
  facts.id = module * 16 + kernel;
  facts.parameters = parameters_of(kernel);
  for (const KernelParameter& parameter : facts.parameters)
    facts.parameter_bytes = parameter.offset + parameter.size;
  facts.max_threads = 1024;
  if (kernel == kMany) facts.shared_bytes = 1024;
  facts.const_bytes = 31, facts.local_bytes = 32, facts.registers = 33;
  facts.ptx_version = 34, facts.binary_version = 35;
  return facts;
}

Answered<GlobalPlace> FakeBackend::find_global(Id module, const std::string& name) {
  CHECK(modules_.contains(module));
  if (name != "counter") return refuse(kNotFound, fmt::format("the module has no {}", name));
  return GlobalPlace{modules_[module], 4};
}

// ---- work ----

void FakeBackend::push(Id stream, Item item) {
  CHECK(streams_.contains(stream));
  item.serial = serial_++;
  streams_[stream].items.push_back(std::move(item));
  if (!options_.manual) run();
}

Answered<void> FakeBackend::enqueue(Id stream, StreamWork work) {
  if (options_.null && std::holds_alternative<LaunchWork>(work)) return {};
  Item item;
  if (const auto* record = std::get_if<RecordWork>(&work)) {
    CHECK(events_.contains(record->event));
    records_.insert(serial_);
    events_[record->event].last = serial_;
  }
  if (const auto* wait = std::get_if<WaitWork>(&work)) {
    CHECK(events_.contains(wait->event));
    item.record = events_[wait->event].last;
  }
  // Nodes that always run go in at once: records and waits are those of this launch.
  const auto* const graph = std::get_if<GraphWork>(&work);
  const auto* const branch = std::get_if<BranchWork>(&work);
  CHECK(graph == nullptr || graphs_.contains(graph->graph));
  if (graph != nullptr || (branch != nullptr && branch->kind == kOnce)) {
    const GraphSpec& nodes = graph != nullptr ? graphs_[graph->graph] : *branch->bodies.front();
    for (const GraphSpec::Node& node : nodes.nodes)
      if (!node.empty) CHECK(enqueue(stream, node.work).has_value());
    return {};
  }
  item.what = std::move(work);
  push(stream, std::move(item));
  return {};
}

bool FakeBackend::may_run(Id stream, const Item& item) const {
  if (item.held || records_.contains(item.record)) return false;
  const auto earlier = [&](const Stream& other) {
    return !other.items.empty() && other.items.front().serial < item.serial;
  };
  if (stream != kDefaultStream)
    return !streams_.at(stream).blocking || !earlier(streams_.at(kDefaultStream));
  for (const auto& [id, other] : streams_)
    if (id != kDefaultStream && other.blocking && earlier(other)) return false;
  return true;
}

int FakeBackend::run(int most) {
  int done = 0;
  for (bool more = true; more && done < most;) {
    more = false;
    for (auto& [id, stream] : streams_) {
      while (done < most && !stream.items.empty() && may_run(id, stream.items.front()) &&
             run_one(id)) {
        ++done;
        more = true;
      }
    }
  }
  return done;
}

// The first item of the stream; false when it stays.
bool FakeBackend::run_one(Id id) {
  Stream& stream = streams_[id];
  Item& item = stream.items.front();
  if (const auto* watch = std::get_if<Watch>(&item.what)) {
    notify({.kind = Completed::Kind::reached, .tag = watch->tag});
    stream.items.pop_front();
    return true;
  }
  const StreamWork& work = std::get<StreamWork>(item.what);
  if (const auto* branch = std::get_if<BranchWork>(&work)) {
    run_branch(stream, *branch);
    return true;
  }
  if (const auto* hold = std::get_if<HoldWork>(&work)) {
    item.held = true;
    holds_[item.serial] = id;
    notify({.kind = Completed::Kind::held, .tag = hold->tag, .hold = item.serial});
    return false;
  }
  if (const auto* record = std::get_if<RecordWork>(&work)) {
    records_.erase(item.serial);
    if (const auto event = events_.find(record->event);
        event != events_.end() && event->second.last == item.serial) {
      event->second.time = ++clock_;
      for (const std::uint64_t tag : std::exchange(event->second.watched, {}))
        notify({.kind = Completed::Kind::reached, .tag = tag});
    }
  } else {
    carry_out(work);
  }
  stream.items.pop_front();
  return true;
}

// The body comes in the place of the branch, and behind it, of a loop, the branch once more.
void FakeBackend::run_branch(Stream& stream, BranchWork branch) {
  const std::uint64_t serial = stream.items.front().serial;
  stream.items.pop_front();
  std::uint32_t value = 0;
  if (branch.kind != kOnce && !branch.by_word)
    value = conditions_.look(branch.condition);
  else if (branch.kind != kOnce)
    std::memcpy(&value, bytes_at(branch.condition, sizeof(value)).data(), sizeof(value));
  const GraphSpec* const body = dead_ ? nullptr : body_at(branch, value);
  if (body == nullptr) return;
  std::vector<Item> items;
  for (const GraphSpec::Node& node : body->nodes)
    if (!node.empty) items.push_back({.what = node.work, .serial = serial});
  if (branch.kind == kWhile) items.push_back({.what = std::move(branch), .serial = serial});
  stream.items.insert(stream.items.begin(), items.begin(), items.end());
}

void FakeBackend::carry_out(const StreamWork& work) {
  if (const auto* out = std::get_if<CopyOutWork>(&work)) {
    const auto bytes = dead_ ? std::span<std::byte>() : bytes_at(out->from, out->bytes);
    return notify(
        {.kind = Completed::Kind::copied, .tag = out->tag, .bytes = {bytes.begin(), bytes.end()}});
  }
  if (dead_) return;
  if (const auto* in = std::get_if<CopyInWork>(&work)) {
    std::ranges::copy(*in->bytes, bytes_at(in->to, in->bytes->size()).begin());
  } else if (const auto* copy = std::get_if<CopyWork>(&work)) {
    for (std::uint64_t row = 0; row < copy->rows && copy->width > 0; ++row)
      std::memmove(bytes_at(copy->to + row * copy->to_pitch, copy->width).data(),
                   bytes_at(copy->from + row * copy->from_pitch, copy->width).data(), copy->width);
  } else if (const auto* set = std::get_if<SetWork>(&work)) {
    for (std::uint64_t row = 0; row < set->rows; ++row)
      for (std::uint64_t i = 0; i < set->count; ++i)
        std::memcpy(bytes_at(set->to + row * set->pitch + i * set->element, set->element).data(),
                    &set->value, set->element);
  } else if (const auto* gemm = std::get_if<GemmWork>(&work)) {
    std::vector<std::byte*> places;
    for (const auto& [at, bytes] : operands(gemm->what))
      places.push_back(bytes_at(at, bytes).data());
    const auto never = [] { return false; };
    if ((gemm->what.form & kByPointers) == 0) return multiply(gemm->what, places, 0, 1, never);
    const char* const wrong = multiply_each(
        gemm->what, places, 0, 1, never, [this](const Operand& operand, bool) -> std::byte* {
          return is_held(memory_, operand.at, operand.bytes)
                     ? bytes_at(operand.at, operand.bytes).data()
                     : nullptr;
        });
    if (wrong != nullptr) launch({.kernel = kCrash});
  } else if (const auto* call = std::get_if<CallWork>(&work)) {
    for (const std::uint64_t at : addresses_in(*arguments_of(*call->function, call->arguments)))
      bytes_at(at, 1)[0] = std::byte{0x5a};
  } else if (const auto* made = std::get_if<LaunchWork>(&work)) {
    launch(*made);
  }
}

Answered<LibraryAnswer> FakeBackend::ask(Id stream, const CallWork& work) {
  if (Answered<void> ok = enqueue(stream, work); !ok) return tl::unexpected<Refused>(ok.error());
  return LibraryAnswer{7, work.arguments};
}

void FakeBackend::launch(const LaunchWork& work) {
  switch (work.kernel % 16) {
    case kAdd: {
      std::uint64_t to = 0;
      std::uint32_t count = 0, more = 0;
      std::memcpy(&to, work.parameters.data(), 8);
      std::memcpy(&count, work.parameters.data() + 8, 4);
      std::memcpy(&more, work.parameters.data() + 12, 4);
      if (!is_held(memory_, to, std::uint64_t{4} * count)) break;
      for (std::uint32_t i = 0; i < count; ++i) {
        std::uint32_t value = 0;
        const auto place = bytes_at(to + i * 4, 4);
        std::memcpy(&value, place.data(), 4);
        value += more;
        std::memcpy(place.data(), &value, 4);
      }
      return;
    }
    case kPrint:
      return notify({.kind = Completed::Kind::printed, .text = "hello\n"});
    case kFind:
      return notify({.kind = Completed::Kind::found, .text = "found one"});
    case kCrash:
      break;
    default:
      return;
  }
  dead_ = true;
  notify({.kind = Completed::Kind::fault, .status = kIllegalAddress, .text = "it crashed"});
}

void FakeBackend::watch(ObjectKind kind, Id id, std::uint64_t tag) {
  if (finished(kind, id)) return notify({.kind = Completed::Kind::reached, .tag = tag});
  if (kind == ObjectKind::stream) return push(id, {Watch{tag}});
  events_[id].watched.push_back(tag);
}

bool FakeBackend::finished(ObjectKind kind, Id id) {
  if (kind == ObjectKind::event) {
    CHECK(events_.contains(id));
    return !records_.contains(events_[id].last);
  }
  CHECK(streams_.contains(id));
  if (!streams_[id].items.empty()) return false;
  return may_run(id, Item{.serial = serial_});
}

Answered<std::uint64_t> FakeBackend::elapsed(Id from, Id to) {
  CHECK(events_.contains(from) && events_.contains(to));
  if (!events_[from].timing || !events_[to].timing)
    return refuse(kInvalidHandle, "the event has no time");
  if (events_[from].last == 0 || events_[to].last == 0)
    return refuse(kInvalidHandle, "the event was not recorded");
  if (!finished(ObjectKind::event, from) || !finished(ObjectKind::event, to))
    return refuse(kNotReady, {});
  return events_[to].time - events_[from].time;
}

void FakeBackend::resume(std::uint64_t hold) {
  const auto found = holds_.find(hold);
  CHECK(found != holds_.end());
  streams_[found->second].items.pop_front();
  holds_.erase(found);
  if (!options_.manual) run();
}

std::size_t FakeBackend::objects() const {
  return memory_.size() + streams_.size() - 1 + events_.size() + graphs_.size() +
         textures_.count() + conditions_.count();
}

}  // namespace partita::remote::server
