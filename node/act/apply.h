// Apply: makes a node as wanted through its driver, step by step, so that it may be killed at any
// moment: a run that follows reads the node back and goes on with the difference. These functions
// run a NodeBrain (node_brain.h) at the doors until it has finished.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "act/change.h"
#include "act/journal.h"
#include "act/talk.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/processes.h"
#include "device/node_driver.h"

namespace partita::actuate {

// How often a change that went wrong is read back and planned again.
inline constexpr int kMaxReconciles = 8;

// The world that apply touches. The state directory holds journal, journal.lock, assignment.json
// and what the workers' supervisor writes down.
struct Doors {
  device::NodeDriver& driver;
  Files& files;
  Clock& clock;
  const hw::Catalogue& catalogue;
  std::string state_dir;
  // With it, a device counts as drained only when the workers' supervisor has let go of it, too,
  // and a gateway that runs is asked what is ready.
  Processes* processes = nullptr;
  // Asked often: should what is being done end?
  std::function<bool()> interrupted = {};
  // Resets a GPU that nothing runs on, so that its MIG mode comes in force; empty: only the driver
  // itself does that, where it does.
  std::function<Result<void>(int gpu)> reset_gpu = {};
};
std::string journal_path(const std::string& state_dir);
std::string assignment_path(const std::string& state_dir);

inline constexpr Seconds kGatewayReadyTimeout{300};

struct ApplyOptions {
  double min_available = 1;
  bool keep_foreign = false;
  Seconds drain_timeout{60};  // per instance
  bool rollback = false;      // noted in the journal
  // How long a started segment may take until a process holds its device; 0: nobody waits for it.
  // Where a gateway runs: until it has all of the segment's workers ready; 0: kGatewayReadyTimeout.
  Seconds ready_timeout{0};
  // Whether MIG mode may be turned on where that takes a reset of the GPU (Ampere); else such a
  // change is refused before anything is touched.
  bool allow_reset = true;
  // Whether there is somebody who resets: Doors::reset_gpu, or a driver that does so when the mode
  // is set. Then a mode that waits for a reset is brought in force, where resets are allowed.
  bool can_reset = false;
};

using ApplyObserver = std::function<void(const ApplyEvent&)>;

struct ApplyReport {
  Change change;          // as planned first
  int reconciles = 0;     // how often it was planned anew
  Seconds took;           // by the clock
  long driver_calls = 0;  // changing calls
  bool resumed = false;   // an earlier run had been cut short
};

// What was read of a node.
struct Known {
  const device::NodeState& state;
  const Assignment& assignment;
  const JournalState& journal;
};
// Refused: a journal that says nothing beside an assignment that names instances; somebody or
// something has emptied it, and nobody could tell whose they are.
Result<void> check_not_emptied(Files& files, const std::string& state_dir,
                               const JournalState& journal, const Assignment& assignment);

// The change that apply carries out, `gpu_uuids` being a matching that was decided earlier. Pure.
Result<Change> planned_change(const Known& known, const Wanted& wanted, const ApplyOptions& options,
                              const std::vector<std::string>& gpu_uuids,
                              const hw::Catalogue& catalogue);

// What apply would do; reads only, takes no lock.
Result<Change> preview(const Doors& doors, const Wanted& wanted, const ApplyOptions& options);

// Makes the node as wanted. Before anything is touched it refuses: a damaged journal, another run
// under way (in_use), a target that the node cannot be (plan_change), processes of others on what
// has to go (in_use, naming them). Afterwards the node has been read back and is as wanted; or the
// Error says what could not be done, and the journal knows how to go back.
Result<ApplyReport> apply(const Doors& doors, const Wanted& wanted, const ApplyOptions& options,
                          const ApplyObserver& observe);

// What the node was like before the last transaction -- or, when that was a rollback, what that
// went back to, so that a second one finds nothing to do; infeasible when there was none.
Result<Wanted> rollback_target(const Doors& doors);
// Its name, for people: "what was before transaction 3: 4 instances on 2 GPUs".
Result<std::string> rollback_name(const Doors& doors);

// What the node was last made to be, for a node that lost it: the target of the last transaction,
// or, where that is not done, what rollback_target says; infeasible when there was none.
Result<Wanted> again_target(const Doors& doors);

// Which segments run where, as the state directory says; none when there is no such file.
Result<Assignment> read_assignment(Files& files, const std::string& state_dir);

// Takes the segments off the named MIG devices and waits until no process holds them. in_use,
// naming the processes, when the time is over.
Result<void> drain(const Doors& doors, const std::vector<std::string>& devices, Seconds timeout,
                   const ApplyObserver& observe);

}  // namespace partita::actuate
