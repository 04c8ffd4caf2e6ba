#include "drivers/hip_mask/testing/machine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>

#include "drivers/hip_mask/testing/kfd_mask.h"

namespace partita::drivers::hip_mask::fake {
namespace {

template <class T>
T* pointer(std::uint64_t value) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(value));
}

// The n-th set bit.
int nth(std::uint32_t bits, int n) {
  for (; n > 0; --n) bits &= bits - 1;
  return std::countr_zero(bits);
}

Arrays arrays_of(const Board& board) {
  Arrays gpu{.xccs = board.xccs,
             .engines = board.engines,
             .arrays = board.arrays,
             .pairs = board.gfx >= 100000,
             .active = {}};
  for (int i = 0; i < board.xccs * board.engines * board.arrays; ++i)
    gpu.active.push_back(std::popcount(board.in_use[i]));
  return gpu;
}

// The registers of a CU of the die; bits that say something else are set where they can mislead.
Site registers(int gfx, std::uint32_t xcc, std::uint32_t engine, std::uint32_t array,
               std::uint32_t cu) {
  if (gfx >= 100000) {
    const std::uint32_t noise = 0xF00243FF & ~(gfx < 110000 ? 0u : 0x00100000u);
    const std::uint32_t beyond = gfx < 110000 ? 0x00100000 : 0;
    return {(noise & ~0x00003C00u) | beyond | (cu / 2) << 10 | array << 16 | engine << 18, 0};
  }
  const bool wide = gfx >= 90008;
  return {0xFEDF00FFu | cu << 8 | array << 12 | engine << 13 | (wide ? 0 : 0x8000u),
          gfx >= 90400 ? xcc : 0};
}

struct Note {
  std::int64_t begin, end;
  std::uint32_t runs, form, hw_id, xcc_id;
};

std::uint32_t form_of(int gfx) {
  return gfx >= 110000 ? 4 : gfx >= 100000 ? 3 : gfx >= 90008 ? 2 : 1;
}

void note(const Values& values, std::int64_t group, const Site& site, int gfx) {
  Note& noted = pointer<Note>(values[0])[group];
  std::atomic_ref<std::uint64_t> stamps(*pointer<std::uint64_t>(values[2]));
  const std::uint64_t begin = ++stamps;
  while (std::atomic_ref(*pointer<std::int32_t>(values[1])).load() == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  noted.form = form_of(gfx);
  noted.hw_id = site.hw_id;
  noted.xcc_id = site.xcc_id;
  noted.begin = static_cast<std::int64_t>(begin);
  ++noted.runs;
  noted.end = static_cast<std::int64_t>(++stamps);
}

// A cell for each work-group; some take longer.
void step(const Values& values, std::int64_t group, const Site&, int) {
  auto& cell = pointer<std::uint32_t>(values[0])[group];
  const std::uint32_t before = cell;
  if (values[2] % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  cell = before * static_cast<std::uint32_t>(values[1]) + static_cast<std::uint32_t>(values[2]);
}

void compute(const Values&, std::int64_t, const Site&, int) {}

void read(const Values& values, std::int64_t, const Site&, int) {
  const std::lock_guard lock(machine().mutex);
  const auto memory = machine().device.find(pointer<void>(values[0]));
  if (memory == machine().device.end() || memory->second < values[2] * 4096)
    machine().violated("partita_read beyond its memory");
}

}  // namespace

Machine& machine() {
  static Machine& the_machine = *new Machine;  // streams may have work when the process ends
  return the_machine;
}

const HostFunction* host_function(const std::string& name) {
  static constexpr HostFunction kFunctions[] = {{"partita_note", 3, note},
                                                {"partita_compute", 2, compute},
                                                {"partita_read", 4, read},
                                                {"first", 3, step},
                                                {"second", 3, step}};
  const auto* found = std::ranges::find(kFunctions, name, &HostFunction::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

void Machine::reset(const Board& next) {
  if (alive() > 0) violated("a new board while something of the old one is alive");
  board = next;
  taken.clear();
  created = fails_in = fails_with = 0;
  failed = false;
  violation.clear();
  launched.clear();
  lost = false;
}

int Machine::alive() const {
  return static_cast<int>(streams.size() + events.size() + modules.size() + programs.size() +
                          host.size() + device.size());
}

bool Machine::idle() const {
  return (!null_stream || null_stream->ended == null_stream->given) &&
         std::ranges::all_of(
             streams, [](const auto& entry) { return entry.second->ended == entry.second->given; });
}

void Machine::violated(const std::string& what) {
  if (violation.empty()) violation = what;
}

void* Machine::next_handle() { return reinterpret_cast<void*>(0x10000 + 16 * ++handles_); }

int Machine::cus() const {
  int all = 0;
  for (const int active : arrays_of(board).active) all += active;
  return all;
}

int Machine::multiprocessors() const { return board.gfx >= 100000 ? cus() / 2 : cus(); }

std::vector<Site> Machine::sites_of(const std::vector<std::uint32_t>& words) {
  const Arrays gpu = arrays_of(board);
  for (const std::uint32_t word : words)
    if (gpu.pairs && ((word ^ word >> 1) & 0x55555555) != 0) return {};
  std::vector<Site> sites;
  for (const auto& [xcc, engine, array, cu] : enabled(gpu, words)) {
    if (gpu.pairs && cu % 2 == 1) continue;  // work-groups run on both of a pair
    const int here = (xcc * gpu.engines + engine) * gpu.arrays + array;
    sites.push_back(registers(board.gfx, static_cast<std::uint32_t>(xcc),
                              static_cast<std::uint32_t>(engine), static_cast<std::uint32_t>(array),
                              static_cast<std::uint32_t>(nth(board.in_use[here], cu))));
  }
  return sites;
}

void Machine::start(StreamState& stream) {
  stream.thread = std::thread([this, &stream] { work(stream); });
}

StreamState* Machine::find_stream(void* handle) {
  constexpr std::uintptr_t kLegacy = 1;
  if (reinterpret_cast<std::uintptr_t>(handle) > kLegacy) {
    const auto found = streams.find(handle);
    return found == streams.end() ? nullptr : found->second.get();
  }
  if (!null_stream) {
    null_stream = std::make_unique<StreamState>();
    null_stream->sites = sites_of(std::vector<std::uint32_t>(16, 0xFFFFFFFF));
    start(*null_stream);
  }
  return null_stream.get();
}

// Whether what the null stream and blocking ones have by now, each for the other, has ended.
std::function<bool()> Machine::after_others(const StreamState& stream) {
  if (&stream != null_stream.get()) {
    if (!null_stream || !stream.blocking) return [] { return true; };
    return [this, all = null_stream->given] { return null_stream->ended >= all; };
  }
  std::vector<std::pair<void*, std::int64_t>> others;
  for (const auto& [handle, other] : streams)
    if (other->blocking) others.emplace_back(handle, other->given);
  return [this, others] {
    return std::ranges::all_of(others, [this](const auto& other) {
      const auto found = streams.find(other.first);
      return found == streams.end() || found->second->ended >= other.second;
    });
  };
}

void Machine::push(StreamState& stream, Item item) {
  if (stream.captured) return stream.kept.push_back(std::move(item));
  item.ready = [own = std::move(item.ready), others = after_others(stream)] {
    return own() && others();
  };
  stream.queue.push_back(std::move(item));
  ++stream.given;
  changed.notify_all();
}

void Machine::launch(StreamState& stream, const HostFunction& kernel, void** arguments,
                     unsigned groups) {
  Values values;
  for (std::size_t i = 0; i < kernel.arguments; ++i)
    values.push_back(*static_cast<const std::uint64_t*>(arguments[i]));
  launched.push_back({kernel.name, stream.words});
  push(stream, {[] { return true; },
                [sites = stream.sites, &kernel, values, groups, gfx = board.gfx] {
                  for (std::int64_t group = 0; group < groups; ++group) {
                    const auto turn = static_cast<std::size_t>(group) % sites.size();
                    kernel.run(values, group, sites[turn], gfx);
                  }
                }});
}

bool Machine::launch(StreamState& stream, const device::CodeEngine::Launch& launch) {
  auto run = device::code_engine->launch(launch);
  if (!run) return false;
  const auto& [x, y, z] = launch.grid;
  launched.push_back({launch.kernel, stream.words});
  push(stream, {[] { return true; },
                [this, run = std::move(run), groups = std::int64_t{x} * y * z] {
                  bool right = true;
                  for (std::int64_t group = 0; right && group < groups; ++group) right = run(group);
                  const std::lock_guard lock(mutex);
                  lost |= !right;
                }});
  return true;
}

void* Machine::at(const void* memory, std::size_t bytes) {
  std::byte* const own = device::code_engine ? device::code_engine->bytes_at(
                                                   reinterpret_cast<std::uintptr_t>(memory), bytes)
                                             : nullptr;
  return own ? own : const_cast<void*>(memory);
}

void Machine::work(StreamState& stream) {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(
        lock, [&] { return stream.queue.empty() ? stream.closing : stream.queue.front().ready(); });
    if (stream.queue.empty()) return;
    Item item = std::move(stream.queue.front());
    stream.queue.pop_front();
    lock.unlock();
    item.run();
    lock.lock();
    ++stream.ended;
    changed.notify_all();
  }
}

void Machine::close(std::unique_lock<std::mutex>& lock, void* handle) {
  auto node = streams.extract(handle);
  StreamState& stream = *node.mapped();
  stream.closing = true;
  changed.notify_all();
  lock.unlock();
  stream.thread.join();
  lock.lock();
}

}  // namespace partita::drivers::hip_mask::fake
