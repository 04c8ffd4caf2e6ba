// AgentPower: limits and clocks of boards, read and set for an agent. What a board had before is in
// the journal of `partita power set --restore` first.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "act/power_guard.h"
#include "control/deeds.h"
#include "control/seen.h"
#include "device/node_driver.h"

namespace partita::control {

class AgentPower {
 public:
  struct Doors {
    Files& files;
    device::NodeDriver& driver;
    std::string state_dir;
    std::string marks;     // see actuate::PowerGuard
    bool dry_run = false;  // nothing is set
  };
  // Those behind the doors must outlive it.
  explicit AgentPower(Doors doors) : doors_(std::move(doors)) {}

  // Of the boards that say it, or have said it: one that does not answer may go on with the limit
  // that it had, and nobody can give that to others. Of one that never answered nobody knows it: it
  // counts with the most that one of its node can be limited to. `uuids` by index.
  std::vector<PowerBoard> read(const std::vector<std::string>& uuids);
  void set(const std::vector<PowerDeed>& deeds);
  bool has_ends() const { return !ends_.empty(); }
  // What came of that, said once.
  std::vector<PowerEnd> take_ends() { return std::exchange(ends_, {}); }
  // What boards had before the first of them.
  Result<void> put_back();

 private:
  Result<actuate::PowerGuard> guard();

  Doors doors_;
  std::vector<PowerEnd> ends_;
  std::map<std::string, PowerBoard> last_;  // as boards were read, and set since; by UUID
};

}  // namespace partita::control
