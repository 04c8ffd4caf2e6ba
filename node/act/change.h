// Change: what has to happen so that a node becomes as wanted -- which GPU of the node becomes
// which GPU of the plan, what is kept, destroyed, created and moved, and in which order. A pure
// function of what was read and what is wanted.
//
// Matching: GPUs of one model are interchangeable, so plan GPUs are matched with node GPUs by
// plan::match_gpus: the fewest instances to be made, then the fewest restarts, ..., then GPUs that
// keep the index that the plan names. An incremental plan names its GPUs by the same function, so
// it is applied there, and `changes` is what it promised. Exact, but for groups of GPUs, which come
// first: those that run stay, others take GPUs on which the least runs.
//
// Order: legal at every moment, and no service below min_available of the smaller of its capacities
// before and after, where there is room for that: replacements first, on free slices or spare GPUs;
// then temporary stand-ins for what has to leave before its successor can come; only when neither
// fits a service goes below, and the change says so (Affected::below_s > 0). Greedy over exact
// feasibility checks; the order is not proven to be the shortest. Limits: kMaxChangeInstances
// instances on either side.
#pragma once

#include <string>
#include <vector>

#include "act/wanted.h"
#include "base/result.h"
#include "base/units.h"
#include "hw/catalogue.h"
#include "plan/changes.h"

namespace partita::actuate {

inline constexpr std::size_t kMaxChangeGpus = plan::kMaxMatchedGpus;

// A place on a GPU of the node.
struct Place : hw::Placement {
  int gpu = 0;  // the driver's index
  std::string gpu_uuid;
  bool operator==(const Place&) const = default;
};

// "gpu 0 3g.40gb at 4".
std::string to_string(const Place& place);

// An instance that is there now.
struct Present {
  Place place;
  int gi_id = 0;      // kWholeGpu: a GPU of a group
  std::string uuid;   // of its MIG device, empty when it has none; of a group those of its GPUs
  Segment segment;    // what it runs, as far as known
  bool ours = false;  // made by Partita
  std::vector<device::Holder> holders;
  bool operator==(const Present&) const = default;
};

inline constexpr int kWholeGpu = -1;

struct Creation {
  Place place;
  Segment segment;
  std::string devices = {};  // of a GPU of a group: the UUIDs of all of them, with commas
  bool operator==(const Creation&) const = default;
};

// A kept instance whose segment changes: its workers are started anew, the instance is not touched.
struct Reassignment {
  Present from;
  Segment to;
  bool operator==(const Reassignment&) const = default;
};

// A destroyed and a created instance that carry the same service: a segment that moves.
struct Move {
  Present from;
  Creation to;
  bool operator==(const Move&) const = default;
};

struct Step {
  enum class Kind {
    enable_mig,       // turn MIG on
    disable_mig,      // turn it off
    create_instance,  // GPU instance
    create_compute,   // its compute instance: now there is a MIG device
    start,            // the segment is assigned to the device
    stop,             // the segment is taken off the device
    drain,            // wait until no process holds the device
    destroy_compute,
    destroy_instance,
  };
  Kind kind = Kind::start;
  Place place;
  Segment segment;           // start, stop
  bool temporary = false;    // a stand-in, or its end
  Seconds predicted;         // of the driver
  std::string devices = {};  // start on a group: the UUIDs of its GPUs
  bool operator==(const Step&) const = default;
};
inline constexpr std::initializer_list<const char*> kStepKinds = {
    "enable_mig", "disable_mig", "create_instance", "create_compute",  "start",
    "stop",       "drain",       "destroy_compute", "destroy_instance"};
inline const char* to_string(Step::Kind kind) { return kStepKinds.begin()[static_cast<int>(kind)]; }

// A service whose running segments the change touches.
struct Affected {
  std::string service;
  Seconds unavailable;    // predicted time with no capacity at all
  Seconds below;          // predicted time below min_available
  double least = 1;       // least share of the smaller of its capacities, at any moment
  std::string why_below;  // empty when it never is
  bool operator==(const Affected&) const = default;
};

// Somebody's process on an instance that has to go, which Partita does not run.
struct Blocker {
  Present instance;
  device::Holder holder;
  bool operator==(const Blocker&) const = default;
};

struct Change {
  std::vector<int> gpu_of;  // per wanted GPU the index of its GPU
  plan::Changes changes;    // what becomes of the segments, counted as planners count
  std::vector<Present> keep;
  std::vector<Present> destroy;
  std::vector<Creation> create;
  std::vector<Reassignment> reassign;  // of `keep`
  std::vector<Move> move;              // pairs out of `destroy` and `create`
  std::vector<Creation> temporary;
  std::vector<Step> steps;
  std::vector<Affected> affected;
  std::vector<Blocker> blockers;
  Seconds predicted;  // sum over the steps
  int kept_gpcs = 0;  // running compute slices that stay untouched with their segment
  std::vector<std::string> explanation;
  bool empty() const { return steps.empty(); }
  bool operator==(const Change&) const = default;
};

struct ChangeOptions {
  double min_available = 1;        // share of a service's capacity that stays up, 0 .. 1
  bool keep_foreign = false;       // instances that others made stay unless they are in the way
  std::vector<std::string> owned;  // UUIDs of the MIG devices that Partita made
  std::vector<Place> intended;     // places where Partita was creating something when it stopped
  std::vector<std::string>
      gpu_uuids;  // a matching decided earlier, per wanted GPU; empty: decide now
  bool allow_reset = true, can_reset = false;  // see ApplyOptions
};
// Whether MIG can be turned on (off) there only by a reset: Ampere, or a mode that waits for one.
bool needs_reset(const device::GpuState& gpu, const hw::Catalogue& catalogue, bool enabled = true);

// The change from what was read to what is wanted. Refused: GPUs of the wanted model missing (the
// node has others: bad_input; too few: infeasible), a GPU that needs a reset to turn MIG on
// (reset_required), a model that the catalogue does not know.
Result<Change> plan_change(const device::NodeState& state, const Assignment& assignment,
                           const Wanted& wanted, const hw::Catalogue& catalogue,
                           const ChangeOptions& options = {});

}  // namespace partita::actuate
