// PowerKeeper: a process of its own, `partita power restore --after-input`, that waits for the end
// of this one and then puts power limits and clocks back, if this one did not: also where it was
// killed. It does nothing when the journal is empty by then.
#pragma once

#include <string>

#include "node/devices.h"

namespace partita::cli {

class PowerKeeper {
 public:
  // Starts it. Where that fails the settings are still in the journal for 'power restore'.
  PowerKeeper(const DeviceFlags& device, const std::string& state_directory);
  ~PowerKeeper();
  PowerKeeper(const PowerKeeper&) = delete;
  PowerKeeper& operator=(const PowerKeeper&) = delete;

 private:
  int write_end_ = -1;
  int pid_ = -1;
};

// Reads standard input to its end.
void wait_for_end_of_input();

}  // namespace partita::cli
