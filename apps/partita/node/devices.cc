#include "node/devices.h"

#include <CLI/CLI.hpp>

#include "act/apply.h"
#include "act/assignment.h"
#include "act/lease/leased_driver.h"
#include "decide/input.h"
#include "drivers/amd_smi/amd_smi_driver.h"
#include "drivers/nvml_mig/nvml_driver.h"
#include "drivers/nvml_mig/nvml_health.h"
#include "drivers/sim/sim_driver.h"
#include "drivers/sim/sim_health.h"
#include "flags.h"
#include "node/state_dir.h"
#include "places.h"

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
  if (opened.machine != nullptr) {
    log = [path = lease_log_of_machine(opened)] { return Result<std::string>(path); };
  } else {
    log = [bare = opened.bare]() -> Result<std::string> {
      const device::NodeState node = TRY(device::read_node(*bare));
      return lease_log_of_node(node);
    };
  }
  opened.driver = std::make_unique<lease::LeasedDriver>(std::move(opened.driver), context.files,
                                                        std::move(log));
  return opened;
}

}  // namespace

void add_device_flags(CLI::App& command, DeviceFlags& flags) {
  one_of(flag(command, "--driver", flags.driver), {"nvml", "amd", "sim"})
      ->default_str(flags.driver);
  flag(command, "--machine", flags.machine);
  add_catalogue(command, flags.catalogue);
}

Result<OpenDriver> open_driver(Context& context, const DeviceFlags& flags) {
  hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  OpenDriver opened;
  opened.catalogue = std::make_unique<hw::Catalogue>(std::move(catalogue));
  OpenDriver open = TRY(flags.driver == "sim" ? simulated(context, flags, std::move(opened))
                                              : real(flags, std::move(opened)));
  return with_leases(context, std::move(open), flags.driver != "amd");
}

std::function<Result<void>(int gpu)> gpu_reset(const OpenDriver& driver) {
  if (!driver.machine) return {};
  return [machine = driver.machine.get()](int gpu) {
    return machine->change("reset_gpu", [&](drivers::sim::Machine& now) -> Result<std::int64_t> {
      TRY(now.reset(gpu));
      return 0;
    });
  };
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

}  // namespace partita::cli
