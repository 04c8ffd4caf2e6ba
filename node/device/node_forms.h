// Forms of the state of a node: the document `kind: NodeState` of docs/formats.md, and the text
// that `partita status` prints. Pure. Limits: kMaxNodeGpus GPUs are read, kMaxTextGpus of them
// shown.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/form.h"
#include "base/result.h"
#include "device/node_driver.h"
#include "device/node_state.h"
#include "hw/catalogue.h"

namespace partita::device {

inline constexpr std::size_t kMaxNodeGpus = 1'000'000;
inline constexpr std::size_t kMaxTextGpus = 64;

// What runs on an instance, where somebody knows (keyed by MIG device UUID).
struct Occupant {
  std::string service;
  int batch = 0, processes = 0;
  std::vector<std::string> group = {};  // the UUIDs of its GPUs, where it has several
  bool operator==(const Occupant&) const = default;
};
using Occupants = std::map<std::string, Occupant>;

// A change of the node that was begun and is not done.
struct Unfinished {
  long transaction = 0;
  bool rollback = false;
  std::string reason;  // why it ended; empty: it was cut short, or is under way
};

// The document. Per instance: profile, start, size, gpcs, gi_id, uuid, busy, compute, holders, and
// of its occupant service, batch, processes. parse_state(state_json(s, o)) gives s and o again, but
// for occupants of devices that are not there and for what in a driver's names cannot be printed.
// `unfinished` is told and not read, nor is `more`: fields of others.
std::string state_json(const NodeState& state, const Occupants& occupants = {},
                       const std::optional<Unfinished>& unfinished = {},
                       const std::function<void(Form&)>& more = {});

// Its JSON Schema, with that of `more`.
std::string state_schema(const std::function<void(Form&)>& more = {});

struct StateDocument {
  NodeState state;
  Occupants occupants;
};
// Reading needs api_version, kind and gpus with index, model and instances of profile and start;
// the rest may be missing. It is then what the catalogue says of the profile, with one compute
// instance that has all of it, and identifiers are made up from the place, so that occupants stay
// attached. `busy` without holders is a holder of pid 0. Refused with FILE:LINE.
Result<StateDocument> parse_state(const std::string& file, std::string_view text,
                                  const hw::Catalogue& catalogue = hw::builtin_catalogue());
Result<StateDocument> read_state(const Document& document, const hw::Catalogue& catalogue);

struct StateTextOptions {
  bool colour = false;
  int width = 100;  // columns that no line exceeds; lists of processes are cut there
  std::optional<Unfinished> unfinished = {};
};
// For people: per GPU a bar of slices with profile, service and a mark where busy; a line per
// instance with ids, UUID and holders; MIG mode and what is pending; what is wrong (lost, unknown
// model, GPU instance without compute instance, a change that is not done).
std::string state_text(const NodeState& state, const Occupants& occupants,
                       const hw::Catalogue& catalogue, const StateTextOptions& options);

}  // namespace partita::device
