#include "node/state_dir.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/hash.h"
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

}  // namespace

void add_state_dir(CLI::App& command, std::string& directory) {
  command
      .add_option("--state-dir", directory,
                  "Where the journal and the assignment of segments are (default: "
                  "$PARTITA_STATE_DIR, else one directory per node below /var/lib/partita or "
                  "~/.local/state/partita)")
      ->type_name("DIR");
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
  const Result<OpenDriver> opened = open_driver(context, device);
  if (!opened) return failed(opened.error());
  const Result<device::NodeState> node = device::read_node(*opened->driver);
  if (!node) return failed(node.error());
  return node_path(*node);
}

Result<FileLock> lock_node(Context& context, const OpenDriver& open,
                           const device::NodeState& node) {
  const std::string base = beside_node(open, node);
  if (base.empty()) return FileLock();
  if (open.machine == nullptr)
    if (auto made = context.files.make_directories(state_home()); !made)
      return failed(made.error());
  Result<FileLock> lock = context.files.lock(base + ".lock");
  if (lock || lock.error().code != ErrorCode::in_use) return lock;
  Error error = lock.error();
  error.message +=
      ": an apply, a rollback, a drain, a measurement or a batch run changes this node, or "
      "`partita agent` keeps it, which is asked by `partita --server`";
  return failed(std::move(error));
}

std::string loan_log(const OpenDriver& open, const device::NodeState& node) {
  const std::string base = beside_node(open, node);
  return base.empty() ? base : base + ".loans";
}

}  // namespace partita::cli
