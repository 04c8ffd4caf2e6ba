#include "drivers/hip_mask/hip_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <utility>

#include "drivers/hip_mask/hip_kernel_source.h"

namespace partita::drivers::hip_mask {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 20;
constexpr std::size_t kAligned = 64;
constexpr unsigned kNoteBlock = 64, kWorkBlock = 256;
constexpr std::int64_t kChunk = 4096;  // bytes that a block of kWorkBlock reads at once
constexpr std::size_t kMostMemory = std::size_t{1} << 30;  // four times the largest cache
constexpr int kLocateRounds = 50;
constexpr std::int64_t kLocateGroups = 32;  // per CU and round

std::uint64_t value_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

HipKernels::HipKernels(std::shared_ptr<HipLibrary> library, int device)
    : library_(std::move(library)), device_(device) {}

Result<std::unique_ptr<HipKernels>> HipKernels::open(HipMaskDriver& driver) {
  std::unique_ptr<HipKernels> kernels(new HipKernels(driver.library(), driver.device()));
  TRY(driver.library()->call("hipSetDevice", driver.library()->api().set_device, driver.device()));
  TRY(kernels->compile(driver.board()));
  for (std::uint64_t** word : {&kernels->stamps_, &kernels->kept_}) {
    const auto memory = TRY(kernels->host_memory(sizeof(std::uint64_t)));
    *word = static_cast<std::uint64_t*>(memory);
  }
  TRY(kernels->locate(driver));
  return kernels;
}

HipKernels::~HipKernels() {
  const abi::HipApi& api = library_->api();
  (void)api.set_device(device_);
  for (const auto& [number, made] : noting_) open(number);  // giving back waits for all kernels
  if (memory_) (void)api.device_free(memory_);
  for (void* block : host_) (void)api.host_free(block);
  if (module_) (void)api.unload_module(module_);
}

// ---- compiling ----

Result<void> HipKernels::compile(const HipBoard& board) {
  const auto code =
      TRY(library_->compile(fmt::format("#define GFX_MAJOR {}\n#define GFX_MINOR {}\n{}",
                                        board.major, board.minor, kHipKernelSource),
                            "partita_probe.hip"));
  const abi::HipApi& api = library_->api();
  auto done = library_->call("hipModuleLoadData", api.load_module, &module_,
                             static_cast<const void*>(code.data()));
  const std::pair<abi::Function*, const char*> functions[] = {
      {&note_, "partita_note"}, {&compute_, "partita_compute"}, {&read_, "partita_read"}};
  for (const auto& [function, name] : functions)
    if (done)
      done = library_->call("hipModuleGetFunction", api.get_function, function, module_, name);
  return done;
}

// ---- memory ----

// Zeroed host memory that the GPU sees, for as long as this lives. Taken in large pieces and given
// back only at the end, because giving back waits for everything on the GPU.
Result<void*> HipKernels::host_memory(std::size_t bytes) {
  bytes = (bytes + kAligned - 1) / kAligned * kAligned;
  if (bytes > size_ - used_) {
    const std::size_t size = std::max(bytes, kArenaBytes);
    void* block = nullptr;
    const auto& api = library_->api();
    auto done = library_->call("hipSetDevice", api.set_device, device_);
    if (done)
      done = library_->call("hipHostMalloc", api.host_malloc, &block, size,
                            abi::kHostPortable | abi::kHostMapped | abi::kHostCoherent);
    if (!done) return failed(done.error());
    std::memset(block, 0, size);
    host_.push_back(block);
    size_ = size;
    used_ = 0;
  }
  void* memory = static_cast<char*>(host_.back()) + used_;
  used_ += bytes;
  return memory;
}

Result<std::optional<std::int64_t>> HipKernels::free_memory() {
  std::size_t free = 0, total = 0;
  auto done = library_->call("hipSetDevice", library_->api().set_device, device_);
  if (done) done = library_->call("hipMemGetInfo", library_->api().memory_info, &free, &total);
  if (!done) return failed(done.error());
  return std::optional(static_cast<std::int64_t>(free));
}

// ---- kernels ----

HipKernels::Made& HipKernels::make(abi::Function function, std::int64_t groups, unsigned block,
                                   std::vector<std::uint64_t> values) {
  Made& made = made_.emplace_back();
  made.values = std::move(values);
  device::DeviceKernel code{
      .function = function, .grid = {static_cast<unsigned>(groups), 1, 1}, .block = {block, 1, 1}};
  for (std::uint64_t& value : made.values) code.arguments.push_back(&value);
  made.kernel = {groups, std::move(code)};
  return made;
}

Result<HipKernels::Made*> HipKernels::make_noting(std::int64_t groups, bool closed) {
  if (groups < 1) return failed({ErrorCode::invalid_argument, "no work-group", "noting()"});
  const auto notes = TRY(host_memory(static_cast<std::size_t>(groups) * sizeof(Note)));
  const auto flag = TRY(host_memory(sizeof(std::int32_t)));
  Made& made =
      make(note_, groups, kNoteBlock, {value_of(notes), value_of(flag), value_of(stamps_)});
  made.notes = static_cast<Note*>(notes);
  made.open = static_cast<std::int32_t*>(flag);
  if (!closed) std::atomic_ref(*made.open).store(1);
  return &made;
}

Result<device::Kernel> HipKernels::noting(int number, std::int64_t groups, bool closed) {
  const auto made = TRY(make_noting(groups, closed));
  noting_[number] = made;
  return made->kernel;
}

void HipKernels::open(int number) {
  const auto found = noting_.find(number);
  if (found != noting_.end()) std::atomic_ref(*found->second->open).store(1);
}

CuPlace HipKernels::site(const Note& note) const {
  return site_of(static_cast<SiteForm>(note.form), note.hw_id, note.xcc_id);
}

std::vector<device::GroupNote> HipKernels::notes(int number) {
  std::vector<device::GroupNote> all;
  const auto found = noting_.find(number);
  if (found == noting_.end()) return all;
  for (std::int64_t group = 0; group < found->second->kernel.groups; ++group) {
    const Note& note = found->second->notes[group];
    const auto unit = unit_of_.find(site(note));
    all.insert(all.end(), note.runs,
               {group, unit == unit_of_.end() ? -1 : unit->second, note.begin, note.end});
  }
  return all;
}

Result<device::Kernel> HipKernels::computing(std::int64_t groups, std::int64_t rounds) {
  return make(compute_, groups, kWorkBlock, {value_of(kept_), static_cast<std::uint64_t>(rounds)})
      .kernel;
}

Result<device::Kernel> HipKernels::reading(std::int64_t groups, std::int64_t bytes) {
  if (!memory_) {
    const auto free = TRY(free_memory());
    const std::size_t most = static_cast<std::size_t>(*free) / 4;
    memory_bytes_ = std::max(std::min(most, kMostMemory) / kChunk, std::size_t{1}) * kChunk;
    TRY(library_->call("hipMalloc", library_->api().device_malloc, &memory_, memory_bytes_));
  }
  const std::int64_t chunks = (bytes + kChunk - 1) / kChunk;
  return make(read_, groups, kWorkBlock,
              {value_of(memory_), static_cast<std::uint64_t>(chunks), memory_bytes_ / kChunk,
               value_of(kept_)})
      .kernel;
}

// ---- where the units are ----

Result<void> HipKernels::locate(HipMaskDriver& driver) {
  const HipBoard& board = driver.board();
  const auto lane = TRY(driver.create_lane(hw::all_units(board.topology)));
  std::set<CuPlace> sites;
  Result<void> done;
  const std::size_t wanted = board.bits.size() / static_cast<std::size_t>(board.layout.step);
  const std::int64_t groups = kLocateGroups * static_cast<std::int64_t>(wanted);
  for (int round = 0; done && round < kLocateRounds && sites.size() < wanted; ++round) {
    const auto made = make_noting(groups, false);
    if (made) done = driver.launch(lane, (*made)->kernel);
    if (made && done) done = driver.synchronise(lane);
    if (!made) done = failed(made.error());
    for (std::int64_t group = 0; done && group < groups; ++group)
      sites.insert(site((*made)->notes[group]));
  }
  const auto ended = driver.destroy_lane(lane);
  if (!done) return done;
  if (!ended) return ended;
  auto units = units_of_sites(sites, board.layout.step, board.bits);
  if (!units) return failed({units.error().code, units.error().message, "HipKernels::open()"});
  unit_of_ = *std::move(units);
  return {};
}

}  // namespace partita::drivers::hip_mask
