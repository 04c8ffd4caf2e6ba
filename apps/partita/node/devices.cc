#include "node/devices.h"

#include <unistd.h>

#include <chrono>

#include "act/apply.h"
#include "act/assignment.h"
#include "act/lease/leased_driver.h"
#include "base/hash.h"
#include "command.h"
#include "drivers/amd_smi/amd_smi_driver.h"
#include "drivers/nvml_mig/nvml_driver.h"
#include "drivers/nvml_mig/nvml_health.h"
#include "drivers/sim/sim_driver.h"
#include "drivers/sim/sim_health.h"

namespace partita::cli {
namespace {

// The description of the simulated machine, and what named it.
struct Description {
  std::string path, named_by;
};

Description description_of(const DeviceFlags& flags) {
  if (!flags.machine.empty()) return {flags.machine, "--machine"};
  return {environment_variable("PARTITA_SIM"), "PARTITA_SIM"};
}

Result<OpenDriver> simulated(Context& context, const DeviceFlags& flags, OpenDriver opened) {
  const auto& [path, named_by] = description_of(flags);
  const std::string text = TRY(path.empty() ? "" : read_input(context.files, named_by, path));
  opened.machine = TRY(
      path.empty() ? drivers::sim::open_machine(path, context.clock, *opened.catalogue)
                   : drivers::sim::described_machine(path, text, context.clock, *opened.catalogue));
  opened.driver = std::make_unique<drivers::sim::SimDriver>(*opened.machine);
  return opened;
}

Result<OpenDriver> real(const DeviceFlags& flags, OpenDriver opened) {
  if (!flags.machine.empty()) return bad_input("--machine", "only --driver sim has it");
  auto driver = flags.driver == "amd" ? drivers::amd_smi::open_amd_smi(*opened.catalogue)
                                      : drivers::nvml_mig::open_nvml(*opened.catalogue);
  if (!driver) {
    Error error = driver.error();
    if (error.code == ErrorCode::no_driver) error.message += "; --driver sim works without a GPU";
    return failed(std::move(error));
  }
  opened.driver = *std::move(driver);
  return opened;
}

OpenDriver with_leases(Context& context, OpenDriver opened, bool can_lend) {
  opened.bare = opened.driver.get();
  if (!can_lend) return opened;
  std::function<Result<std::string>()> log;
  if (opened.machine != nullptr)
    log = [path = lease_log_of_machine(opened)] { return Result<std::string>(path); };
  else
    log = [bare = opened.bare]() -> Result<std::string> {
      const device::NodeState node = TRY(device::read_node(*bare));
      return lease_log_of_node(node);
    };
  opened.driver = std::make_unique<lease::LeasedDriver>(std::move(opened.driver), context.files,
                                                        std::move(log));
  return opened;
}

// A name for the node: a hash of the UUIDs of its GPUs.
std::string node_path(const device::NodeState& node) {
  std::string gpus;
  for (const device::GpuState& gpu : node.gpus) gpus += gpu.uuid + "\n";
  return fmt::format("{}/node-{:016x}", state_home(), text_hash(gpus));
}

// Where the files are that belong to the node, whatever the state directory: the name they begin
// with. Empty: a machine that nobody else can see.
std::string beside_node(const OpenDriver& open, const device::NodeState& node) {
  if (open.machine == nullptr) return node_path(node);
  const std::string& file = open.machine->shared_file();
  return file.empty() ? file : file + ".node";
}

// Beside the lock: the process that holds it and where it is asked, "4711 unix:/run/api.sock".
constexpr const char* kAddress = ".agent";
constexpr std::string_view kUnixAddress = "unix:";

// Who holds the lock, as Files::lock said it, is an agent with this address; empty: it is not.
std::string address_of(Context& context, const std::string& base, const std::string& holder) {
  const std::string line = context.files.read(base + kAddress).value_or("");
  const std::size_t space = line.find(' ');
  if (space == line.npos || !holder.starts_with("pid " + line.substr(0, space + 1))) return {};
  return line.substr(space + 1, line.find('\n') - space - 1);
}

Error said_where(Error error) {
  error.message += "; $PARTITA_LOCK_DIR names another folder for the locks of GPUs";
  return error;
}
// A file beside the node's; `held`: what is said where somebody else has it. No lock where the node
// has no such place.
Result<FileLock> lock_beside(Context& context, const OpenDriver& open,
                             const device::NodeState& node, const char* name, const char* held) {
  const std::string base = beside_node(open, node);
  if (base.empty()) return FileLock();
  if (open.machine == nullptr) TRY(context.files.make_directories(state_home()));
  Result<FileLock> lock = context.files.lock(base + name);
  if (lock || lock.error().code != ErrorCode::in_use) return lock;
  Error error = lock.error();
  const std::string address = address_of(context, base, error.message);
  error.message += address.empty() ? held
                                   : fmt::format(
                                         ": an agent keeps this node, which is asked by "
                                         "`partita --server {}`",
                                         address);
  return failed(std::move(error));
}

}  // namespace

std::function<Result<void>(int gpu)> gpu_reset(const OpenDriver& driver) {
  if (!driver.machine) return {};
  return [machine = driver.machine.get()](int gpu) {
    return machine->change("reset_gpu", [&](drivers::sim::Machine& now) -> Result<std::int64_t> {
      TRY(now.reset(gpu));
      return 0;
    });
  };
}

void add_device_flags(CLI::App& command, DeviceFlags& flags) {
  takes(command, "--driver", one_of(flags.driver, {"nvml", "amd", "sim"}), "--machine",
        flags.machine, "--catalogue", flags.catalogue);
}

Result<OpenDriver> open_driver(Context& context, const DeviceFlags& flags) {
  hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  OpenDriver opened;
  opened.catalogue = std::make_unique<hw::Catalogue>(std::move(catalogue));
  OpenDriver open = TRY(flags.driver == "sim" ? simulated(context, flags, std::move(opened))
                                              : real(flags, std::move(opened)));
  return with_leases(context, std::move(open), flags.driver != "amd");
}

Result<std::unique_ptr<device::HealthWatch>> open_health(const DeviceFlags& flags,
                                                         const OpenDriver& driver) {
  if (driver.machine) return std::make_unique<drivers::sim::SimHealthWatch>(*driver.machine);
  if (flags.driver == "nvml") return drivers::nvml_mig::watch_nvml();
  return std::unique_ptr<device::HealthWatch>();
}

device::Occupants load_occupants(Context& context, const std::string& state_directory) {
  const std::string path = actuate::assignment_path(state_directory);
  if (!context.files.exists(path)) return {};
  const auto ignored = [&](const Error& error) {
    complain(context, to_string(error) + "; services are not shown");
    return device::Occupants{};
  };
  const Result<std::string> text = context.files.read(path);
  if (!text) return ignored(text.error());
  const Result<actuate::Assignment> assignment = actuate::parse_assignment(path, *text);
  if (!assignment) return ignored(assignment.error());
  return actuate::occupants_of(*assignment);
}

std::optional<device::Unfinished> load_unfinished(Context& context,
                                                  const std::string& state_directory) {
  const auto journal = actuate::read_journal(context.files, actuate::journal_path(state_directory));
  if (!journal) complain(context, to_string(journal.error()));
  if (!journal || !journal->pending()) return std::nullopt;
  const actuate::BeginRecord& last = *journal->last;
  return device::Unfinished{last.transaction, last.rollback,
                            journal->end ? journal->end->reason : ""};
}

std::int64_t wall_clock_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

lease::LeaseDoors lease_doors(Context& context, const OpenDriver& open, Processes& processes) {
  return {*open.bare, context.files, processes, *open.catalogue, wall_clock_ms};
}

void settle_leases(Context& context, const OpenDriver& open, const std::string& log) {
  if (log.empty() || !context.files.exists(log)) return;
  RealProcesses processes;
  auto leases = lease::Leases::open(lease_doors(context, open, processes), log);
  const auto swept = leases ? leases->ask(lease::Sweep{}) : failed(leases.error());
  if (!swept) complain(context, "leases cannot be looked after: " + to_string(swept.error()));
}

Result<std::unique_ptr<LoanDesk>> LoanDesk::open(Context& context, const OpenDriver& driver) {
  const device::NodeState node = TRY(device::read_node(*driver.driver));
  auto desk = std::make_unique<LoanDesk>();
  desk->lock_ = TRY(lock_node(context, driver, node));
  desk->loans_.emplace(
      TRY(exec::Loans::open({*driver.driver, context.clock, context.files, desk->processes_},
                            loan_log(driver, node), ::getpid())));
  return desk;
}

std::string state_directory(const std::string& flag, const device::NodeState& node) {
  if (!flag.empty()) return flag;
  if (const std::string set = environment_variable("PARTITA_STATE_DIR"); !set.empty()) return set;
  return node_path(node);
}

Result<std::string> found_state_directory(Context& context, const DeviceFlags& device,
                                          const std::string& flag) {
  if (!flag.empty()) return flag;
  if (std::string set = environment_variable("PARTITA_STATE_DIR"); !set.empty()) return set;
  const OpenDriver opened = TRY(open_driver(context, device));
  const device::NodeState node = TRY(device::read_node(*opened.driver));
  return node_path(node);
}

std::string gpu_prefix(const OpenDriver& open) {
  if (open.machine == nullptr) return lock_directory() + "/";
  const std::string& file = open.machine->shared_file();
  return file.empty() ? file : file + ".";
}

Result<FileLock> lock_gpus(Context& context, const OpenDriver& open,
                           std::vector<std::string> uuids) {
  const std::string prefix = gpu_prefix(open);
  if (prefix.empty() || uuids.empty()) return FileLock();
  if (open.machine == nullptr)
    if (auto made = context.files.make_directories(lock_directory()); !made)
      return failed(said_where(made.error()));
  std::ranges::sort(uuids);
  auto locks = std::make_shared<std::vector<FileLock>>();
  for (const std::string& uuid : uuids) {
    if (uuid.empty()) continue;  // it fell off the bus, and nobody can change it
    Result<FileLock> lock = context.files.lock(prefix + uuid + ".lock");
    if (!lock && lock.error().code != ErrorCode::in_use) return failed(said_where(lock.error()));
    if (!lock) {
      Error error = lock.error();
      error.message += " and changes " + uuid;
      return failed(std::move(error));
    }
    locks->push_back(*std::move(lock));
  }
  return FileLock(std::move(locks));
}

Result<FileLock> lock_gpus(Context& context, const OpenDriver& open, const std::vector<int>& gpus) {
  std::vector<std::string> uuids;
  for (const int gpu : gpus) {
    const device::GpuState state = TRY(open.driver->read(gpu));
    uuids.push_back(state.uuid);
  }
  return lock_gpus(context, open, std::move(uuids));
}

Result<FileLock> lock_node(Context& context, const OpenDriver& open,
                           const device::NodeState& node) {
  Result<FileLock> lock = lock_node_only(context, open, node);
  if (lock) settle_leases(context, open, lease_log(open, node));
  return lock;
}

Result<FileLock> lock_node_only(Context& context, const OpenDriver& open,
                                const device::NodeState& node) {
  if (beside_node(open, node).empty()) return FileLock();
  FileLock lock = TRY(lock_beside(
      context, open, node, ".lock",
      ": an apply, a rollback, a drain, a measurement or a batch run changes this node, or "
      "`partita agent` keeps it, which is asked by `partita --server`"));
  std::vector<std::string> uuids;
  for (const device::GpuState& gpu : node.gpus) uuids.push_back(gpu.uuid);
  FileLock gpus = TRY(lock_gpus(context, open, std::move(uuids)));
  return FileLock(
      std::make_shared<std::pair<FileLock, FileLock>>(std::move(lock), std::move(gpus)));
}

void tell_address(Context& context, const OpenDriver& open, const device::NodeState& node,
                  const std::string& address) {
  const std::string base = beside_node(open, node);
  if (base.empty()) return;
  // Whoever is not told is told of agents in general.
  static_cast<void>(
      context.files.write_atomic(base + kAddress, fmt::format("{} {}\n", ::getpid(), address))
          .has_value());
}

std::string agent_socket(Context& context, const OpenDriver& open, const device::NodeState& node) {
  const std::string base = beside_node(open, node);
  const std::string line = base.empty() ? base : context.files.read(base + kAddress).value_or("");
  const std::size_t at = line.find(kUnixAddress);
  if (at == line.npos) return {};
  const std::string socket = line.substr(at + kUnixAddress.size());
  return socket.substr(0, socket.find('\n'));
}

Result<FileLock> lock_queue(Context& context, const OpenDriver& open,
                            const device::NodeState& node) {
  return lock_beside(context, open, node, ".queue.lock", ": a node has one queue");
}

std::string lease_log_of_machine(const OpenDriver& open) {
  const std::string& file = open.machine->shared_file();
  return file.empty() ? file : file + ".node.leases";
}

std::string lease_log_of_node(const device::NodeState& node) { return node_path(node) + ".leases"; }

std::string lease_log(const OpenDriver& open, const device::NodeState& node) {
  return open.machine != nullptr ? lease_log_of_machine(open) : lease_log_of_node(node);
}

std::string loan_log(const OpenDriver& open, const device::NodeState& node) {
  const std::string base = beside_node(open, node);
  return base.empty() ? base : base + ".loans";
}

}  // namespace partita::cli
