// The brain of leases: from the node as it was read, the leases as they are logged and what is
// asked, the next step. Whoever performs it (leases.h) reads again and asks again, until the answer
// comes; so a process that is killed between two steps is gone on with by the next one, whoever
// that is, and nothing is remembered but the log. Pure.
//
// Before what is asked is done, every lease is brought in order: one whose making was announced is
// made to its end where its instance is there, else struck out; one that is being returned is
// destroyed to its end; one that has expired is returned, unless a process uses it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "act/lease/lease_record.h"
#include "device/node_driver.h"
#include "device/node_state.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "plan/reason.h"

namespace partita::lease {

// ---- what is asked

struct Take {
  std::string owner, profile;
  std::optional<int> gpu = {};      // this one alone, by index
  std::optional<int> start = {};    // there first
  bool exact = false;               // there or nowhere
  std::optional<Terms> terms = {};  // of a lease that stands already: in place of its own
};
struct HandOver {
  std::string from, to;
  std::string profile = {};  // empty: whatever it is
  Terms terms = {};
};
struct Return {
  std::string owner;  // and its parts
};
struct Sweep {};  // bring leases in order, nothing else
using Ask = std::variant<Take, HandOver, Return, Sweep>;

// ---- what is known

// A GPU with what its board offers.
struct Board {
  device::GpuState gpu;
  std::shared_ptr<const hw::GpuModel> model;  // never null
  std::vector<device::ProfileInfo> profiles = {};  // empty: not asked yet
};
// The catalogue's model, which must outlive the answer, or, of a board that it does not know, what
// the profiles say.
std::shared_ptr<const hw::GpuModel> model_of(const device::GpuState& gpu,
                                             const std::vector<device::ProfileInfo>& offered,
                                             const hw::Catalogue* catalogue);
// The index in the model of a profile that somebody calls so; 3g is the plain one of three slices,
// as for the queue. -1: the board does not offer it.
int profile_of(const Board& board, const std::string& name);

struct Known {
  std::vector<Board> boards;
  StandingLeases standing;
  std::int64_t now_ms = 0;
  std::set<long> ended = {};                       // leases whose process is gone
  std::map<std::string, std::string> closed = {};  // GPUs that nothing may be lent of, and why
  // What went wrong while this was asked:
  std::set<std::pair<std::string, int>> taken = {};  // places that the driver has no room at
  std::set<long> stuck = {};  // leases that the driver keeps from going on
};

// Places for an instance, the best first (hw::best_spots); by GPU index and start.
struct Spot : hw::PlacedProfile {
  std::size_t board = 0;
};
std::vector<Spot> best_spots(const std::vector<Board>& boards, const std::string& profile);

// ---- what comes next

struct Note {  // to be made durable
  LeaseRecord record;
};
struct Create {
  long lease = 0;
  int gpu = 0;
  device::Placement placement;
};
struct CreateCompute {
  long lease = 0;
  int gpu = 0, gi_id = 0;
};
struct DestroyCompute {
  long lease = 0;
  int gpu = 0, gi_id = 0, ci_id = 0;
};
struct DestroyInstance {
  long lease = 0;
  int gpu = 0, gi_id = 0;
};
struct Granted {
  std::vector<long> leases;  // none: they are returned
};
struct FreeShape {
  int gpu = 0;
  std::string profile;
  std::vector<int> starts;
  bool operator==(const FreeShape&) const = default;
};
struct Refused {
  plan::Reason reason;
  std::vector<FreeShape> free = {};  // of the GPUs that were asked for
  bool operator==(const Refused&) const = default;
};
// The plain shapes that could be made there, the largest first.
std::vector<FreeShape> free_shapes(const Board& board);
using Step = std::variant<Note, Create, CreateCompute, DestroyCompute, DestroyInstance, Granted,
                          Refused, Error>;

Step next_step(const Known& known, const Ask& ask);

// The instance of a lease, if it is there: the one of its device; before there is a device, or once
// that is destroyed, the one at its place.
const device::Instance* instance_of(const device::GpuState& gpu, const LeaseRecord& lease);

}  // namespace partita::lease
