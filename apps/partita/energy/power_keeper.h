// PowerKeeper: a process of its own, `partita power restore --after-input`, that waits for the end
// of this one and then puts power limits and clocks back, if this one did not: also where it was
// killed. It does nothing when the journal is empty by then.
#pragma once

#include <string>

#include "base/child.h"
#include "base/descriptor.h"
#include "node/devices.h"

namespace partita::cli {

class PowerKeeper {
 public:
  // Waits until it watches. Where that fails nothing is to be set: nobody would put it back.
  static Result<PowerKeeper> start(const DeviceFlags& device, const std::string& state_directory);

 private:
  PowerKeeper(Descriptor ours, Child child) : ours_(std::move(ours)), child_(std::move(child)) {}
  Descriptor ours_;  // its input ends with us
  Child child_;
};

// Reads standard input to its end.
void wait_for_end_of_input();

}  // namespace partita::cli
