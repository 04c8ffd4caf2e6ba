// A controller of power at work: every poll it sees a GPU and its services and says at which clock
// and cap the GPU runs until the next; those are set through a PowerGuard. Time is the clock's, so
// a test runs a day in no time. The controller comes as functions: planners/power has some.
//
// Shares of units (Setting::units) are not the node door's to set: they are handed to whoever holds
// the services' masks (`share`). Who cannot see the services at a poll gets the controller's start,
// which carries the most.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "act/power_guard.h"
#include "base/clock.h"
#include "plan/power.h"

namespace partita::actuate {

struct PowerPolicy {
  Seconds poll;
  plan::Setting start;
  std::function<plan::Setting(const plan::Observation&)> decide;
};

// One poll, for whoever wants to show or keep it.
struct PowerStep {
  plan::Observation seen = {};
  bool blind = false;    // the services could not be seen
  std::string why = {};  // ... because of this
  plan::Setting setting = {};
  device::PowerSettings settings = {};  // what it is on this board
  bool changed = false;                 // the settings
  bool shared = false;                  // the shares are others than before
};

struct PowerLoop {
  int gpu = 0;
  PowerPolicy policy;
  // What the services did since the poll before; `at` counts from the start.
  std::function<Result<std::vector<plan::ServiceSeen>>(Seconds at)> services;
  // Hands out the services' units and batches, when they change and before the clock does; an error
  // ends the loop. Null: nobody holds masks.
  std::function<Result<void>(const plan::Setting&)> share = {};
  // Waits so long at most; true: stop.
  std::function<bool(std::int64_t ns)> stopped;
  std::function<void(const PowerStep&)> tell;
};

struct PowerLoopReport {
  long polls = 0, blind = 0, changes = 0;
  Seconds time;
  Joules energy;  // of the board, by its counter; 0 where it has none
};

// Runs until `stopped` or an error of the driver. `guard` null: nothing is set and nothing handed
// out. The caller restores.
Result<PowerLoopReport> run_power_loop(const PowerLoop& loop, device::NodeDriver& driver,
                                       PowerGuard* guard, Clock& clock);

// A setting on a board: the least of its clocks that is not below the setting's, else its highest;
// a cap moved into what it can be limited to.
device::PowerSettings on_board(const plan::Setting& setting, const device::PowerState& board);

}  // namespace partita::actuate
