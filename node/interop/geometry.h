// Geometry: which MIG instances on which GPUs, the meeting point of plans, node states and the
// forms of other tools. Plain data; the GPU models belong to the catalogue, which must outlive it.
// A geometry made here has legal starts wherever it has starts (hw::conflicts).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/node_forms.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "plan/serving.h"

namespace partita::interop {

// A GPU of a node, as far as it is known.
struct Board {
  int index = 0;
  const hw::GpuModel* model = nullptr;  // never null in a geometry
  std::string uuid = {};                // "GPU-..."; empty where nobody knows
  std::string pci_device_id = {};       // "0x20B210DE"; empty where nobody knows
  bool operator==(const Board&) const = default;
};

// An instance, or the wish for one.
struct Slot {
  int profile = 0;                            // index into the model's profiles
  std::optional<int> start = {};              // memory slices; absent where the form has no places
  std::string uuid = {};                      // "MIG-..."; empty where nobody knows
  std::optional<int> gi_id = {}, ci_id = {};  // of an instance that exists
  std::string service = {};                   // empty where nobody says what runs there
  int batch = 0, processes = 0;               // 0 where nobody says
  std::string engine = {};                    // of a language model: how it is served
  bool operator==(const Slot&) const = default;
};

struct GpuGeometry {
  Board board;
  bool mig_enabled = true;
  std::vector<Slot> slots;  // by start, then profile; empty while MIG is off
  bool operator==(const GpuGeometry&) const = default;

  const hw::MigProfile& profile_of(const Slot& slot) const {
    return board.model->profiles[static_cast<std::size_t>(slot.profile)];
  }
};

struct Geometry {
  std::vector<GpuGeometry> gpus;  // by index
  // Of a plan, the services with which each may share no GPU (anti_affinity), itself among them.
  std::map<std::string, std::set<std::string>> apart = {};
  bool operator==(const Geometry&) const = default;
};

// The instances of a plan; a group of GPUs has none, as it is of whole GPUs. Bad input, with `file`
// as context: GPU models or profiles that the catalogue does not have, layouts that cannot exist,
// an index twice.
Result<Geometry> from_plan(const std::string& file, const plan::ServingPlan& plan,
                           const hw::Catalogue& catalogue);

// What is on a node. GPUs that cannot do MIG are left out. Bad input, with `file` as context: MIG
// on a GPU that the catalogue does not have, instances that have not exactly one compute instance
// of their full size (the other forms would lose them), a lost GPU.
Result<Geometry> from_state(const std::string& file, const device::StateDocument& state,
                            const hw::Catalogue& catalogue);

// The GPUs of a node, without what is on them; those that the catalogue does not know or that
// cannot do MIG are left out.
std::vector<Board> boards_of(const device::NodeState& node, const hw::Catalogue& catalogue);

// `count` GPUs of one model about which nothing else is known.
std::vector<Board> boards_of(const hw::GpuModel& model, int count);

// The same geometry on the GPUs of a node: boards by index, and ids of instances that exist where
// the geometry wants them. Bad input, with `file` as context: an index that the node does not have,
// or another model there.
Result<Geometry> on_node(const std::string& file, Geometry geometry, const Geometry& node);

// `node` with the GPUs of `wanted` instead of its own.
Geometry overlaid(Geometry node, const Geometry& wanted);

// The document that `partita apply` takes as a wanted layout. Every slot must have a start.
device::StateDocument to_state(const Geometry& geometry);

// How many slots of each profile, by index into the model's profiles.
std::vector<int> counts_of(const GpuGeometry& gpu);

// Why a set of places cannot exist on a GPU: one sentence without the GPU's name; empty when it
// can.
std::string layout_fault(const hw::GpuModel& model, const std::vector<hw::PlacedProfile>& placed);

// "2 x 3g.40gb, 1 x 1g.10gb", the largest first; "no instances" when there is none.
std::string counts_text(const hw::GpuModel& model, const std::vector<int>& counts);

}  // namespace partita::interop
