#include "drivers/green_ctx/cuda_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "drivers/green_ctx/probe_ptx.h"

namespace partita::drivers::green_ctx {
namespace {

using device::GroupNote;
using device::Kernel;

static_assert(kReadStep == 4096 && (kReadBytes & (kReadBytes - 1)) == 0, "as the PTX has it");

// Work-groups per SM of a calibrating kernel, how long each stays, and how often it is run again
// when not every SM was met.
constexpr std::size_t kGroupsPerSm = 4;
constexpr std::uint64_t kHoldUs = 20;
constexpr int kCalibrationRounds = 32;

}  // namespace

// ---- its life ----

CudaKernels::CudaKernels(GreenCtxDriver& driver) : driver_(driver), gpu_(driver.gpu()) {}

Result<std::unique_ptr<CudaKernels>> CudaKernels::open(GreenCtxDriver& driver) {
  std::unique_ptr<CudaKernels> kernels(new CudaKernels(driver));
  const Current current(*kernels->gpu_);
  TRY(kernels->load());
  TRY(kernels->take_memory());
  return kernels;
}

CudaKernels::~CudaKernels() {
  const Current current(*gpu_);
  const CudaApi& api = gpu_->api();
  if (memory_) api.free(memory_);
  if (cells_) api.free(cells_);
  if (flags_) api.free_host(flags_);
  if (library_) api.unload_library(library_);
}

// Compiles the PTX, and loads each kernel now: loading one later may wait for kernels that run.
Result<void> CudaKernels::load() {
  const CudaApi& api = gpu_->api();
  const std::string call = "probe_kernels(load)";
  abi::Return code =
      api.load_library(&library_, kProbePtx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  const std::pair<abi::Kernel*, const char*> wanted[] = {{&noting_, "partita_noting"},
                                                         {&computing_, "partita_computing"},
                                                         {&reading_, "partita_reading"}};
  for (const auto& [kernel, name] : wanted) {
    abi::Function function = nullptr;
    if (code == abi::Return::success) code = api.library_kernel(kernel, library_, name);
    if (code == abi::Return::success) code = api.kernel_function(&function, *kernel);
    if (code == abi::Return::success) code = api.load_function(function);
  }
  return gpu_->library().checked(code, call);
}

Result<void> CudaKernels::take_memory() {
  const CudaApi& api = gpu_->api();
  void* flags = nullptr;
  constexpr std::size_t kFlagBytes = kMaxClosed * sizeof(std::uint32_t);
  abi::Return code = api.allocate(&cells_, kNoteBytes + kTailBytes);
  if (code == abi::Return::success) code = api.set_bytes(cells_, 0, kNoteBytes + kTailBytes);
  if (code == abi::Return::success)
    code = api.allocate_host(&flags, kFlagBytes, abi::kHostPortable | abi::kHostDeviceMap);
  if (code == abi::Return::success) {
    std::memset(flags, 0, kFlagBytes);
    flags_ = static_cast<std::uint32_t*>(flags);
    code = api.host_pointer(&flags_on_gpu_, flags, 0);
  }
  return gpu_->library().checked(code, "probe_kernels(memory)");
}

// ---- kernels ----

Kernel CudaKernels::made(abi::Kernel kernel, unsigned threads, std::int64_t groups,
                         std::vector<std::uint64_t> values) {
  device::DeviceKernel code{
      .function = kernel, .grid = {static_cast<unsigned>(groups), 1, 1}, .block = {threads, 1, 1}};
  for (std::uint64_t& value : made_.emplace_back(std::move(values)))
    code.arguments.push_back(&value);
  return Kernel{groups, std::move(code)};
}

Result<CudaKernels::Notes> CudaKernels::reserve(std::int64_t groups, bool closed) {
  const std::string call = fmt::format("noting({} work-groups)", groups);
  const auto size = static_cast<std::size_t>(groups);
  if (groups < 1) return failed({ErrorCode::invalid_argument, "a kernel has work-groups", call});
  if (size > kNoteBytes / sizeof(Cell) - cells_used_ || (closed && flags_used_ == kMaxClosed))
    return failed({ErrorCode::limit, "the memory for notes is full", call});
  Notes notes{.groups = groups, .first = cells_used_};
  cells_used_ += size;
  if (closed) notes.opened = flags_ + flags_used_++;
  return notes;
}

Kernel CudaKernels::noting_kernel(const Notes& notes, std::uint64_t hold) {
  const abi::DevicePointer flag =
      notes.opened
          ? flags_on_gpu_ + static_cast<std::size_t>(notes.opened - flags_) * sizeof *flags_
          : 0;
  return made(noting_, kNotingThreads, notes.groups,
              {cells_ + notes.first * sizeof(Cell), cells_ + kNoteBytes, flag, hold});
}

Result<Kernel> CudaKernels::noting(int number, std::int64_t groups, bool closed) {
  TRY(units_of_sms());
  const auto notes = TRY(reserve(groups, closed));
  notes_[number] = notes;
  return noting_kernel(notes, 0);
}

void CudaKernels::open(int number) {
  std::uint32_t* const opened = notes_.at(number).opened;
  CHECK(opened);
  std::atomic_ref(*opened).store(1, std::memory_order_release);
}

Result<Kernel> CudaKernels::computing(std::int64_t groups, std::int64_t rounds) {
  return made(computing_, kWorkThreads, groups,
              {static_cast<std::uint64_t>(rounds), cells_ + kNoteBytes + sizeof(std::uint64_t)});
}

Result<Kernel> CudaKernels::reading(std::int64_t groups, std::int64_t bytes) {
  const CudaApi& api = gpu_->api();
  if (!memory_) {
    const Current current(*gpu_);
    const std::string call = fmt::format("reading({} bytes)", bytes);
    const abi::Return taken = api.allocate(&memory_, kReadBytes);
    if (taken != abi::Return::success) return failed(gpu_->library().error(taken, call));
    const auto cleared = gpu_->library().checked(api.set_bytes(memory_, 0, kReadBytes), call);
    if (!cleared) return failed(cleared.error());
  }
  const std::uint64_t steps = (static_cast<std::uint64_t>(bytes) + kReadStep - 1) / kReadStep;
  return made(reading_, kWorkThreads, groups,
              {memory_, kReadBytes - 1, steps, cells_ + kNoteBytes + sizeof(std::uint64_t)});
}

Result<std::optional<std::int64_t>> CudaKernels::free_memory() {
  const Current current(*gpu_);
  std::size_t free = 0, total = 0;
  TRY(gpu_->library().checked(gpu_->api().memory_info(&free, &total), "cuMemGetInfo()"));
  return static_cast<std::int64_t>(free);
}

// ---- notes ----

Result<std::vector<CudaKernels::Cell>> CudaKernels::cells(const Notes& notes) const {
  const Current current(*gpu_);
  std::vector<Cell> cells(static_cast<std::size_t>(notes.groups));
  // Waits for no lane: their streams are not ordered with the default one, which this uses.
  const abi::Return code = gpu_->api().copy_to_host(
      cells.data(), cells_ + notes.first * sizeof(Cell), cells.size() * sizeof(Cell));
  if (code != abi::Return::success)
    return failed(gpu_->library().error(code, fmt::format("notes({} cells)", cells.size())));
  return cells;
}

std::vector<GroupNote> CudaKernels::notes(int number) {
  std::vector<GroupNote> all;
  const auto read = cells(notes_.at(number));
  if (!read) return all;
  for (std::size_t group = 0; group < read->size(); ++group) {
    const Cell& cell = (*read)[group];
    const auto unit = unit_of_sm_.find(static_cast<int>(cell.sm));
    all.insert(all.end(), cell.runs,
               {static_cast<std::int64_t>(group), unit == unit_of_sm_.end() ? -1 : unit->second,
                static_cast<std::int64_t>(cell.begin), static_cast<std::int64_t>(cell.end)});
  }
  return all;
}

// ---- which SM is which unit ----

// The SMs that a lane on these units runs on, as %smid tells; asks until it has met as many as are
// expected.
Result<std::set<int>> CudaKernels::sms_of(const hw::UnitMask& mask, std::size_t expected) {
  const auto lane = TRY(driver_.create_lane(mask));
  std::set<int> met;
  Result<void> done;
  for (int round = 0; done && round < kCalibrationRounds && met.size() < expected; ++round) {
    const auto notes = reserve(static_cast<std::int64_t>(kGroupsPerSm * expected), false);
    if (!notes) done = failed(notes.error());
    if (done) done = driver_.launch(lane, noting_kernel(*notes, kHoldUs));
    if (done) done = driver_.synchronise(lane);
    if (!done) break;
    const auto read = cells(*notes);
    if (!read) done = failed(read.error());
    for (const Cell& cell : read.value_or(std::vector<Cell>{}))
      met.insert(static_cast<int>(cell.sm));
  }
  const auto ended = driver_.destroy_lane(lane);
  if (!done) return failed(done.error());
  if (!ended) return failed(ended.error());
  return met;
}

// Runs on each atom alone, and on all units for those that belong to no atom. The units of an atom
// are its SMs in ascending order.
Result<std::map<int, int>> CudaKernels::units_of_sms() {
  if (!unit_of_sm_.empty()) return unit_of_sm_;
  const auto info = TRY(driver_.info());
  const hw::Topology& topology = info.topology;
  const auto units = static_cast<std::size_t>(topology.units());
  const auto size = static_cast<std::size_t>(info.atom);
  const auto atoms = static_cast<std::size_t>(hw::in_atoms(topology, info.atom).units());
  std::map<int, int> found;
  hw::UnitMask rest = hw::all_units(topology);
  const auto assign = [&](const std::set<int>& sms, const hw::UnitMask& to) {
    std::size_t unit = 0;
    for (const int sm : sms) {
      while (unit < units && !to[unit]) ++unit;
      if (unit < units) found.emplace(sm, static_cast<int>(unit++));
    }
  };
  const hw::UnitMask all = rest;
  for (std::size_t atom = 0; atom < atoms; ++atom) {
    const auto mask = hw::units_of(topology, info.atom, hw::UnitMask{}.set(atom));
    const auto sms = TRY(sms_of(mask, size));
    const bool shared = std::ranges::any_of(sms, [&](int sm) { return found.contains(sm); });
    if (sms.size() != size || shared)
      return environment_error(
          fmt::format("calibrate(atom {})", atom),
          fmt::format("kernels of an atom of {} SMs ran on {} SMs{}; is a module with dynamic "
                      "parallelism loaded, or MPS on?",
                      size, sms.size(), shared ? ", some of another atom" : ""));
    assign(sms, mask);
    rest &= ~mask;
  }
  if (rest.any()) {
    auto sms = TRY(sms_of(all, units));
    std::erase_if(sms, [&](int sm) { return found.contains(sm); });
    assign(sms, rest);
  }
  unit_of_sm_ = std::move(found);
  return unit_of_sm_;
}

}  // namespace partita::drivers::green_ctx
