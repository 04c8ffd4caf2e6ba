#include "node/state_dir.h"

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "flags.h"
#include "node/lease_doors.h"
#include "places.h"

namespace partita::cli {
namespace {

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

}  // namespace

void add_state_dir(CLI::App& command, std::string& directory) {
  flag(command, "--state-dir", directory);
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

namespace {

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
