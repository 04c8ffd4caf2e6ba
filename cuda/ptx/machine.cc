#include "ptx/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/parse_number.h"
#include "ptx/decode.h"
#include "ptx/exec.h"
#include "ptx/link.h"
#include "ptx/memory.h"

namespace partita::ptx {
namespace {

constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxTogether = 4096;  // blocks of a cooperative launch
constexpr std::uint64_t kBlocksAtOnce = 8;    // of a group, where there are many
constexpr std::uint64_t kPausedBytes = std::uint64_t{4} << 30;  // registers of blocks under way
constexpr std::uint64_t kBlocksOfUnit = 32, kWarpsOfUnit = 64;  // at the same time, at most
constexpr std::uint64_t kWorkspaceBytes = 256;
constexpr int kMaxDepth = 24;  // of launches by kernels, as CUDA has it

tl::unexpected<Error> invalid(std::string what) {
  return tl::unexpected(Error{ErrorCode::invalid_argument, std::move(what), {}});
}
tl::unexpected<Error> unknown(std::string what) {
  return tl::unexpected(Error{ErrorCode::not_found, std::move(what), {}});
}

// What runs share with the machine and may outlive it.
struct Shared {
  std::unique_ptr<Arena> arena;
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> workers = {};
  std::uint64_t next_run = 1;
  std::uint64_t workspace = 0;  // of cooperative launches; 0: none yet
};

class RunImpl;
Result<std::shared_ptr<RunImpl>> make_run(const std::shared_ptr<Shared>& shared,
                                          std::shared_ptr<const Loaded> loaded, Launch launch);

class RunImpl final : public Run {
 public:
  explicit RunImpl(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  RunCore& core() { return core_; }

  std::int64_t groups() const override {
    return static_cast<std::int64_t>((core_.launch.grid.volume() + core_.per_group - 1) /
                                     core_.per_group);
  }

  bool execute(std::int64_t group) noexcept override {
    if (!execute_group(group)) return false;
    if (++done_ == groups()) execute_launched();
    return true;
  }

  void request_stop() noexcept override {
    core_.stop.store(true, std::memory_order_relaxed);
    const std::scoped_lock lock(core_.mutex);
    if (child_ != nullptr) child_->request_stop();
  }

  std::vector<Fault> faults() const override {
    const std::scoped_lock lock(core_.mutex);
    return core_.faults;
  }
  std::string printed() const override {
    const std::scoped_lock lock(core_.mutex);
    return core_.printed;
  }
  Counts counts() const override {
    return {core_.thread_instructions.load(), core_.warp_instructions.load()};
  }

 private:
  bool execute_group(std::int64_t group) noexcept {
    if (group < 0 || group >= groups() || core_.ended.load(std::memory_order_relaxed)) return true;
    if (core_.stop.load(std::memory_order_relaxed)) return note_stopped();
    std::unique_ptr<Worker> worker = take();
    const bool ended = execute_blocks(core_, *worker);
    const std::scoped_lock lock(shared_->mutex);
    (ended ? shared_->workers : left_).push_back(std::move(worker));
    return ended;
  }
  // What its threads launched: one behind the other, each with all that it launches itself, as a
  // stream has it; then what was to run at the very end.
  void execute_launched() noexcept {
    for (std::vector<Launch>* launches : {&core_.launched, &core_.launched_last})
      for (Launch& launch : *launches)
        if (!core_.ended && !core_.stop) execute_launched(std::move(launch));
  }
  void execute_launched(Launch launch);
  void absorb(const RunImpl& child);

  std::unique_ptr<Worker> take() {
    const std::scoped_lock lock(shared_->mutex);
    if (!left_.empty()) {
      std::unique_ptr<Worker> worker = std::move(left_.front());
      left_.erase(left_.begin());
      return worker;
    }
    if (shared_->workers.empty()) return std::make_unique<Worker>();
    std::unique_ptr<Worker> worker = std::move(shared_->workers.back());
    shared_->workers.pop_back();
    return worker;
  }
  bool note_stopped() {
    const std::scoped_lock lock(core_.mutex);
    if (!core_.ended.exchange(true))
      core_.faults.push_back({.kind = FaultKind::stopped,
                              .kernel = core_.program->kernel,
                              .about = "the launch was stopped"});
    return true;
  }

  std::shared_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Worker>> left_;  // of shared_->mutex: in the middle of a group
  mutable RunCore core_;
  std::atomic<std::int64_t> done_ = 0;  // groups
  Run* child_ = nullptr;                // of core_.mutex: the launch of a thread under way
};

void RunImpl::execute_launched(Launch launch) {
  const std::string name = core_.loaded->infos[launch.kernel.index].name;
  auto child = make_run(shared_, core_.loaded, std::move(launch));
  if (child && core_.depth + 1 >= kMaxDepth)
    child = unknown(fmt::format("kernels that launch kernels nest deeper than {}", kMaxDepth));
  if (!child) {
    const std::scoped_lock lock(core_.mutex);
    core_.ended = true;
    core_.faults.push_back({.kind = FaultKind::illegal,
                            .kernel = core_.program->kernel,
                            .about = "its launch of " + name + ": " + to_string(child.error())});
    return;
  }
  RunImpl& run = **child;
  run.core_.depth = core_.depth + 1;
  const auto set_child = [&](Run* under_way) {
    const std::scoped_lock lock(core_.mutex);
    child_ = under_way;
  };
  set_child(&run);
  for (std::int64_t group = 0; group < run.groups() && !core_.stop; ++group) run.execute(group);
  set_child(nullptr);
  absorb(run);
}

void RunImpl::absorb(const RunImpl& child) {
  const std::scoped_lock lock(core_.mutex);
  for (const Fault& fault : child.core_.faults)
    if (core_.faults.size() < core_.launch.max_faults) core_.faults.push_back(fault);
  core_.printed.append(child.core_.printed, 0, kMaxPrinted - core_.printed.size());
  core_.thread_instructions += child.core_.thread_instructions;
  core_.warp_instructions += child.core_.warp_instructions;
  if (child.core_.ended) core_.ended = true;
}

std::uint64_t variable_bytes(const Variable& variable) {
  return std::max<std::uint64_t>(variable.count * size_of(variable.type), 1);
}

// 90 of "sm_90a".
std::uint32_t architecture_of(std::string_view target) {
  const std::size_t at = target.find('_');
  if (at == target.npos) return 0;
  target.remove_prefix(at + 1);
  return static_cast<std::uint32_t>(take_number<int>(target).value_or(0));
}

KernelInfo info_of(const Function& kernel, const Program& program, std::uint64_t const_bytes) {
  KernelInfo info{.name = kernel.name,
                  .shared_bytes = program.shared_bytes,
                  .local_bytes = program.local_bytes,
                  .const_bytes = static_cast<std::uint32_t>(const_bytes),
                  .registers = std::min<std::uint32_t>(program.register_count, 255)};
  std::uint32_t offset = 0;
  for (const Variable& parameter : kernel.parameters) {
    const auto size = static_cast<std::uint32_t>(variable_bytes(parameter));
    const std::uint32_t alignment = std::max<std::uint32_t>(
        {parameter.alignment, static_cast<std::uint32_t>(size_of(parameter.type)), 1});
    offset = (offset + alignment - 1) / alignment * alignment;
    info.parameters.push_back({offset, size, alignment});
    offset += size;
  }
  info.parameter_bytes = offset;
  const std::uint32_t* bound =
      kernel.required_threads[0] != 0 ? kernel.required_threads : kernel.max_threads;
  if (bound[0] != 0) {
    const std::uint64_t threads =
        std::uint64_t{bound[0]} * std::max(bound[1], 1u) * std::max(bound[2], 1u);
    info.max_threads =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(threads, 1, kMaxThreadsPerBlock));
  }
  return info;
}

template <class T>
void fill_lanes(std::vector<std::byte>& image, std::size_t at, T value) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    std::memcpy(&image[at + lane * sizeof(T)], &value, sizeof(T));
}

// What all warps share, the same in all lanes or by lane; false for what differs by block or warp.
bool fill_launch(const RunCore& run, const FillSlot& fill, std::vector<std::byte>& image) {
  const std::size_t at = fill.slot - run.program->constant_begin;
  const auto all = [&](std::uint64_t value) {
    fill_lanes(image, at, static_cast<std::uint32_t>(value));
    return true;
  };
  const auto by_lane = [&](auto value) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t bits = value(lane);
      std::memcpy(&image[at + lane * 4], &bits, 4);
    }
    return true;
  };
  const Extent& grid = run.launch.grid;
  const Extent& block = run.launch.block;
  switch (fill.fill) {
    case Fill::lane_id:
      return by_lane([](unsigned lane) { return lane; });
    case Fill::lane_mask_eq:
      return by_lane([](unsigned lane) { return 1u << lane; });
    case Fill::lane_mask_lt:
      return by_lane([](unsigned lane) { return (1u << lane) - 1; });
    case Fill::lane_mask_le:
      return by_lane([](unsigned lane) { return (2u << lane) - 1; });
    case Fill::lane_mask_gt:
      return by_lane([](unsigned lane) { return ~((2u << lane) - 1); });
    case Fill::lane_mask_ge:
      return by_lane([](unsigned lane) { return ~((1u << lane) - 1); });
    case Fill::ntid_x:
      return all(block.x);
    case Fill::ntid_y:
      return all(block.y);
    case Fill::ntid_z:
      return all(block.z);
    case Fill::nctaid_x:
      return all(grid.x);
    case Fill::nctaid_y:
      return all(grid.y);
    case Fill::nctaid_z:
      return all(grid.z);
    case Fill::nwarp_id:
      return all(run.warps);
    case Fill::sm_id:
      return all(0);
    case Fill::nsm_id:
      return all(1);
    case Fill::grid_id:
      return all(run.serial);
    case Fill::zero:
      return all(0);
    case Fill::one:
      return all(1);
    case Fill::workspace_high:
      return all(run.workspace >> 32);
    case Fill::workspace_low:
      return all(run.workspace);
    case Fill::total_shared:
      return all(run.shared_bytes);
    case Fill::dynamic_shared:
      return all(run.launch.dynamic_shared);
    default:
      return false;
  }
}

void fill_image(RunCore& run) {
  const Program& program = *run.program;
  run.image = program.constants;
  for (const FillSlot& fill : program.fills) {
    if (fill_launch(run, fill, run.image)) continue;
    const bool of_block =
        fill.fill == Fill::ctaid_x || fill.fill == Fill::ctaid_y || fill.fill == Fill::ctaid_z;
    (of_block ? run.block_fills : run.warp_fills).push_back(fill);
  }
  for (const ParameterSlot& parameter : program.parameters) {
    std::uint64_t bits = 0;
    if (parameter.offset < run.launch.parameters.size())
      std::memcpy(
          &bits, &run.launch.parameters[parameter.offset],
          std::min<std::size_t>(parameter.size, run.launch.parameters.size() - parameter.offset));
    const std::uint32_t unused = 64 - 8 * parameter.size;
    if (parameter.is_signed && parameter.size < 8)
      bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
    const std::size_t at = parameter.slot - program.constant_begin;
    if (parameter.width == 8) fill_lanes(run.image, at, bits);
    if (parameter.width == 4) fill_lanes(run.image, at, static_cast<std::uint32_t>(bits));
    if (parameter.width == 2) fill_lanes(run.image, at, static_cast<std::uint16_t>(bits));
  }
}

Result<void> check(const Launch& launch, const KernelInfo& info) {
  const Extent& grid = launch.grid;
  const Extent& block = launch.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return invalid("grid and block need at least one in each dimension");
  if (grid.x > 0x7fff'ffffu || grid.y > 65'535 || grid.z > 65'535 || grid.volume() > kMaxBlocks)
    return invalid("the grid has too many blocks");
  if (block.x > kMaxThreadsPerBlock || block.y > kMaxThreadsPerBlock || block.z > 64 ||
      block.volume() > info.max_threads)
    return invalid(fmt::format("the block has {} threads; {} takes at most {}", block.volume(),
                               info.name, info.max_threads));
  if (info.shared_bytes > kMaxSharedBytes ||
      launch.dynamic_shared > kMaxSharedBytes - info.shared_bytes)
    return invalid(fmt::format("{} bytes of shared memory; there are {}",
                               std::uint64_t{info.shared_bytes} + launch.dynamic_shared,
                               kMaxSharedBytes));
  if (launch.parameters.size() != info.parameter_bytes)
    return invalid(fmt::format("{} bytes of parameters; {} takes {}", launch.parameters.size(),
                               info.name, info.parameter_bytes));
  if (launch.cooperative && grid.volume() > kMaxTogether)
    return invalid(fmt::format("a cooperative launch may have {} blocks", kMaxTogether));
  return {};
}

// A workspace for barriers of whole grids.
Result<void> make_workspace(Shared& shared) {
  if (shared.workspace != 0) return {};
  const auto made = TRY(shared.arena->allocate(kWorkspaceBytes));
  shared.workspace = made;
  const auto bytes = shared.arena->bytes_at(made, kWorkspaceBytes, true);
  if (bytes) std::memset(bytes->data(), 0, bytes->size());
  return {};
}

Result<std::shared_ptr<RunImpl>> make_run(const std::shared_ptr<Shared>& shared,
                                          std::shared_ptr<const Loaded> loaded, Launch launch) {
  if (const auto& why = loaded->refused[launch.kernel.index]) return failed(*why);
  const KernelInfo& info = loaded->infos[launch.kernel.index];
  TRY(check(launch, info));
  Arena& arena = *shared->arena;
  arena.before_launch(launch.checks.uninitialised);
  const std::uint64_t blocks = launch.grid.volume();
  auto run = std::make_shared<RunImpl>(shared);
  RunCore& core = run->core();
  core.per_group =
      launch.cooperative ? blocks : std::clamp<std::uint64_t>(blocks / 1024, 1, kBlocksAtOnce);
  core.program = &loaded->programs[launch.kernel.index];
  core.loaded = std::move(loaded);
  core.launch = std::move(launch);
  core.arena = &arena;
  const std::scoped_lock lock(shared->mutex);
  if (core.launch.cooperative) TRY(make_workspace(*shared));
  core.serial = shared->next_run++;
  if (core.launch.checks.global_races && blocks <= kMaxRaceBlocks) {
    core.global_shift = arena.before_race_check(core.serial % kRaceSerials == 0,
                                                core.program->accesses_global_bytes);
    core.published = std::vector<std::atomic<std::uint32_t>>(blocks);
    core.reads_published = std::vector<std::atomic<std::uint32_t>>(blocks);
  }
  core.workspace = core.launch.cooperative ? shared->workspace : 0;
  core.threads = static_cast<std::uint32_t>(core.launch.block.volume());
  core.warps = (core.threads + kLanes - 1) / kLanes;
  const std::uint64_t of_warp =
      core.program->register_bytes + std::uint64_t{core.program->local_bytes} * kLanes;
  core.resident = std::clamp<std::uint64_t>(
      kPausedBytes / (core.warps * of_warp + 1), 1,
      std::min(kBlocksOfUnit, kWarpsOfUnit / core.warps) * core.launch.units);
  core.shared_bytes = info.shared_bytes;
  if (core.launch.dynamic_shared != 0)
    core.shared_bytes = (info.shared_bytes + 15) / 16 * 16 + core.launch.dynamic_shared;
  fill_image(core);
  return run;
}

class MachineImpl final : public Machine {
 public:
  explicit MachineImpl(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::uint64_t arena_bytes() const override { return arena().bytes(); }
  Result<std::uint64_t> allocate(std::uint64_t bytes) override { return arena().allocate(bytes); }
  Result<void> allocate_at(std::uint64_t address, std::uint64_t bytes) override {
    return arena().allocate_at(address, bytes);
  }
  Result<void> put_into(std::uint64_t address, int file, bool keep) override {
    return arena().put_into(address, file, keep);
  }
  Result<void> limit_heap(std::uint64_t bytes) override { return arena().limit_heap(bytes); }
  Result<void> release(std::uint64_t address) override { return arena().release(address); }
  Result<std::span<const std::byte>> readable(std::uint64_t address, std::uint64_t bytes) override {
    const auto found = TRY(arena().bytes_at(address, bytes, false));
    return std::span<const std::byte>(found);
  }
  Result<std::span<std::byte>> writable(std::uint64_t address, std::uint64_t bytes) override {
    return arena().bytes_at(address, bytes, true);
  }

  Result<ModuleId> load(std::string_view ptx, std::string_view name) override;
  Result<void> unload(ModuleId module) override;
  Result<std::vector<KernelInfo>> kernels(ModuleId module) override {
    const auto at = modules_.find(module);
    if (at == modules_.end()) return unknown("no such module is loaded");
    return at->second->infos;
  }
  Result<KernelId> find_kernel(ModuleId module, std::string_view name) override {
    const auto at = modules_.find(module);
    if (at == modules_.end()) return unknown("no such module is loaded");
    for (std::uint32_t i = 0; i < at->second->infos.size(); ++i)
      if (at->second->infos[i].name == name) {
        if (const auto& why = at->second->refused[i]) return failed(*why);
        return KernelId{module, i};
      }
    return unknown(fmt::format("{} has no kernel '{}'", at->second->name, name));
  }
  Result<Global> find_global(ModuleId module, std::string_view name) override {
    const auto at = modules_.find(module);
    if (at == modules_.end()) return unknown("no such module is loaded");
    const auto found = at->second->globals.find(std::string(name));
    if (found != at->second->globals.end()) return found->second;
    return unknown(fmt::format("{} has no variable '{}'", at->second->name, name));
  }
  Result<std::shared_ptr<Run>> prepare(Launch launch) override;

 private:
  Arena& arena() const { return *shared_->arena; }
  Result<void> place_globals(Loaded& loaded);
  Result<void> fill_globals(Loaded& loaded);
  void release_globals(const Loaded& loaded);

  std::shared_ptr<Shared> shared_;
  std::map<ModuleId, std::shared_ptr<const Loaded>> modules_;
  std::uint64_t next_module_ = 1;
};

Result<void> MachineImpl::place_globals(Loaded& loaded) {
  for (const Variable& variable : loaded.module.variables) {
    if (variable.space != Space::global && variable.space != Space::constant) continue;
    if (variable.is_extern && variable.initial.empty())
      return tl::unexpected(Error{ErrorCode::not_supported,
                                  fmt::format("'{}' is defined in another module", variable.name),
                                  fmt::format("{}:{}", loaded.name, variable.line)});
    const std::uint64_t bytes = variable_bytes(variable);
    const auto at = TRY(arena().allocate(bytes, variable.space == Space::constant));
    loaded.globals[variable.name] = {at, bytes};
  }
  return {};
}

Result<void> MachineImpl::fill_globals(Loaded& loaded) {
  for (const Variable& variable : loaded.module.variables) {
    const auto found = loaded.globals.find(variable.name);
    if (found == loaded.globals.end()) continue;
    const auto bytes = TRY(arena().bytes_at(found->second.address, found->second.bytes, true));
    std::memset(bytes.data(), 0, bytes.size());
    if (!variable.initial.empty())
      std::memcpy(bytes.data(), variable.initial.data(),
                  std::min(variable.initial.size(), bytes.size()));
    for (const Variable::Address& address : variable.addresses) {
      std::uint64_t value = 0;
      if (const auto to = loaded.globals.find(address.symbol); to != loaded.globals.end())
        value = to->second.address;
      for (std::size_t i = 0; i < loaded.module.functions.size(); ++i)
        if (loaded.module.functions[i].name == address.symbol) value = function_address(i);
      if (value == 0 || address.at > bytes.size() || bytes.size() - address.at < 8)
        return tl::unexpected(Error{ErrorCode::not_supported,
                                    fmt::format("'{}' holds the address of '{}', which has none",
                                                variable.name, address.symbol),
                                    fmt::format("{}:{}", loaded.name, variable.line)});
      value += static_cast<std::uint64_t>(address.offset);
      std::memcpy(bytes.data() + address.at, &value, 8);
    }
  }
  return {};
}

void MachineImpl::release_globals(const Loaded& loaded) {
  for (const auto& [name, global] : loaded.globals)
    static_cast<void>(arena().release(global.address));
}

Result<ModuleId> MachineImpl::load(std::string_view ptx, std::string_view name) {
  auto loaded = std::make_shared<Loaded>();
  loaded->module = TRY(parse_linked(ptx, name));
  loaded->name = std::string(name);
  loaded->text = std::string(ptx);
  for (std::string_view rest = loaded->text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    loaded->lines.push_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  Result<void> placed = place_globals(*loaded);
  if (placed) placed = fill_globals(*loaded);
  Addresses addresses;
  std::uint64_t const_bytes = 0;
  for (const auto& [symbol, global] : loaded->globals) addresses[symbol] = global.address;
  for (const Variable& variable : loaded->module.variables)
    if (variable.space == Space::constant) const_bytes += variable_bytes(variable);
  for (const Function& function : loaded->module.functions) {
    if (!placed || !function.is_entry || function.is_declared_only) continue;
    auto program = decode(loaded->module, function, addresses, name);
    loaded->refused.push_back(program ? std::nullopt : std::optional(program.error()));
    if (!program) program = Program{};
    loaded->infos.push_back(info_of(function, *program, const_bytes));
    loaded->infos.back().target = architecture_of(loaded->module.target);
    loaded->programs.push_back(std::move(*program));
    if (loaded->infos.back().parameter_bytes > kMaxParameterBytes)
      placed = failed(Error{ErrorCode::not_supported, "the kernel has too many parameters",
                            fmt::format("{}:{}", name, function.line)});
  }
  const auto& refused = loaded->refused;
  if (placed && !refused.empty() && std::ranges::all_of(refused, &std::optional<Error>::has_value))
    placed = failed(*refused.front());
  if (!placed) {
    release_globals(*loaded);
    return failed(placed.error());
  }
  const ModuleId id{next_module_++};
  modules_[id] = std::move(loaded);
  return id;
}

Result<void> MachineImpl::unload(ModuleId module) {
  const auto at = modules_.find(module);
  if (at == modules_.end()) return unknown("no such module is loaded");
  release_globals(*at->second);
  modules_.erase(at);
  return {};
}

Result<std::shared_ptr<Run>> MachineImpl::prepare(Launch launch) {
  const auto at = modules_.find(launch.kernel.module);
  if (at == modules_.end() || launch.kernel.index >= at->second->programs.size())
    return unknown("no such kernel is loaded");
  auto run = TRY(make_run(shared_, at->second, std::move(launch)));
  return std::shared_ptr<Run>(std::move(run));
}

}  // namespace

Result<std::unique_ptr<Machine>> Machine::open(std::uint64_t bytes) {
  auto arena = TRY(Arena::open(bytes));
  auto shared = std::make_shared<Shared>();
  shared->arena = std::move(arena);
  return std::unique_ptr<Machine>(std::make_unique<MachineImpl>(std::move(shared)));
}

Result<std::shared_ptr<Run>> run_here(Machine& machine, Launch launch) {
  auto run = TRY(machine.prepare(std::move(launch)));
  for (std::int64_t group = 0; group < run->groups(); ++group) run->execute(group);
  return run;
}

}  // namespace partita::ptx
