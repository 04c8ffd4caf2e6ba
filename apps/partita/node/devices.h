// The node that a command works on: which driver, and what stands behind it. This is where drivers
// and commands meet; commands see only the door.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "context.h"
#include "device/health.h"
#include "device/node_driver.h"
#include "device/node_forms.h"
#include "drivers/sim/shared_machine.h"

namespace partita::cli {

struct DeviceFlags {
  std::string driver = "nvml";  // or "amd", "sim"
  std::string machine;          // description of the simulated machine; empty: $PARTITA_SIM
  std::string catalogue;        // directory; empty: the compiled-in one
};

// Adds --driver, --machine and --catalogue.
void add_device_flags(CLI::App& command, DeviceFlags& flags);

// A driver with all that it refers to. Everything lives as long as this does.
struct OpenDriver {
  std::unique_ptr<hw::Catalogue> catalogue;
  std::unique_ptr<drivers::sim::SharedMachine> machine;  // of driver sim
  std::unique_ptr<device::NodeDriver> driver;  // shows what is lent as held (act/lease)
  // The same without leases, for act/lease alone; part of `driver`.
  device::NodeDriver* bare = nullptr;
};

// Opens the driver that the flags name. no_driver where NVIDIA's is missing, with what to do about
// it; bad_input where the description of the simulated machine is wrong.
Result<OpenDriver> open_driver(Context& context, const DeviceFlags& flags);

// Resets a GPU of the driver that nothing runs on, as actuate::Doors has it; empty where only the
// driver itself does that.
std::function<Result<void>(int gpu)> gpu_reset(const OpenDriver& driver);

// What hears of the health of the driver's GPUs; null where nothing can. It must not outlive
// `driver`.
Result<std::unique_ptr<device::HealthWatch>> open_health(const DeviceFlags& flags,
                                                         const OpenDriver& driver);

// Who runs on which MIG device, from the assignment in a state directory; empty when there is none.
// One that cannot be read is complained about and taken for none.
device::Occupants load_occupants(Context& context, const std::string& state_directory);

// The change that the journal of a state directory says is not done. A journal that cannot be read
// is complained about and taken for none.
std::optional<device::Unfinished> load_unfinished(Context& context,
                                                  const std::string& state_directory);

}  // namespace partita::cli
