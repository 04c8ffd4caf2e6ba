// Leases: MIG instances that somebody holds by name until they are returned. Each is announced in a
// log (lease_record.h) before it is made, so a process that is killed at any moment leaves nothing
// that is not known: whoever asks next goes on (lease_brain.h). Whoever asks holds the node's lock;
// between two calls of it the log says whose every instance is.
// Thread rule: one call at a time per object. The driver is the bare one, see leased_driver.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "act/lease/lease_brain.h"
#include "base/files.h"
#include "base/processes.h"

namespace partita::lease {

// A lease with its instance, for whoever uses it.
struct Lease : hw::Placement {
  std::string owner, uuid;  // UUID of the MIG device; empty: it is not there
  int gpu = 0;              // the driver's index
  std::string gpu_uuid;
  int gi_id = 0, ci_id = 0;
  long since_ms = 0;
  Terms terms = {};
  bool busy = false;     // a process uses it
  bool expired = false;  // and is returned by whoever changes the node next, once nobody uses it
  bool operator==(const Lease&) const = default;
};

struct Outcome {
  std::vector<Lease> leases;         // Take, HandOver: the one; Sweep: all that stand
  std::vector<std::string> returned;  // owners whose leases have ended
  std::optional<Refused> refused = {};
};

struct LeaseDoors {
  device::NodeDriver& driver;
  Files& files;
  Processes& processes;
  const hw::Catalogue& catalogue;
  std::function<std::int64_t()> wall_ms;
  std::map<std::string, std::string> closed = {};  // see Known
};

class Leases {
 public:
  // Reads the log at `path`, made with the first lease. Empty: a machine that nobody else can see;
  // nothing is written. Takes the log's lock: in_use when another has it.
  static Result<Leases> open(LeaseDoors doors, const std::string& path);

  // Does what is asked. A refusal is an answer; an error is the world's (driver, file system) or
  // says what is wrong with the question, and nothing is left that the log does not know.
  Result<Outcome> ask(const Ask& ask);
  const StandingLeases& standing() const { return standing_; }

 private:
  explicit Leases(LeaseDoors doors) : doors_(std::move(doors)) {}
  Result<Known> look(const Ask& ask);
  Result<void> write(const LeaseRecord& record);
  Result<void> perform(const Step& step, Known& known);
  void failed_at(const Step& step, const Error& error, const Ask& ask, Known& known);

  LeaseDoors doors_;
  std::optional<RecordLog> log_;  // none: nothing is written
  StandingLeases standing_;
  std::optional<Error> failure_;  // of the step that was asked for
};

// The leases that stand, with their instances as they are now; reads only, takes no lock.
std::vector<Lease> leases_of(const Known& known);
Result<std::vector<Lease>> read_leases(const LeaseDoors& doors, const std::string& path);
// The same on a node that was read before.
Result<std::vector<Lease>> read_leases(const LeaseDoors& doors, const std::string& path,
                                       device::NodeState node);

}  // namespace partita::lease
