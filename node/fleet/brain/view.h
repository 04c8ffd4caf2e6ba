// FleetView: the store of a fleet as values, kept up to date key by key. What cannot be read is
// left out and named in `damaged`. A value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fleet/brain/power.h"
#include "fleet/brain/values.h"

namespace partita::fleet {

// Where a fleet keeps what: /partita/FLEET/...
struct Keys {
  std::string root;
  explicit Keys(const std::string& fleet) : root("/partita/" + fleet + "/") {}
  std::string wanted() const { return root + "wanted"; }
  std::string leader() const { return root + "leader"; }
  std::string power() const { return root + "power"; }
  std::string budgets() const { return root + "budgets"; }
  std::string proposal() const { return root + "proposal"; }
  std::string node(const std::string& name) const { return root + "nodes/" + name; }
  std::string part(const std::string& name) const { return root + "parts/" + name; }
  std::string rates(const std::string& name) const { return root + "rates/" + name; }
  std::string history() const { return root + "history/"; }
};
// Of fleets and nodes: a word of letters, digits, `-`, `_` and `.`; bad_input with `context`.
Result<std::string> parse_fleet_word(const std::string& context, const std::string& text);

struct FleetView {
  std::optional<Wanted> wanted;
  std::optional<LeaderRecord> leader;
  std::optional<Proposal> proposal;
  std::optional<FleetPower> power;
  std::optional<FleetBudgets> budgets;
  std::map<std::string, NodeRecord> nodes;  // that are there: their leases are alive
  std::map<std::string, Part> parts;        // of all nodes that ever had one
  std::map<std::string, Rates> rates, uncarried;  // by node
  std::map<std::string, std::vector<AgentsVerdict>> verdicts;  // by node
  std::map<std::string, double> draws;                         // of GPUs, by node
  std::map<std::string, long> versions;        // of parts: the store's revision, for fencing
  std::map<std::string, std::string> damaged;  // keys, and why they cannot be read

  std::map<std::string, FleetEvent> history;  // by key, so in order of time

  // A key has this value since that revision of the store; none: it is gone. Keys of others are
  // passed over.
  void hear(const Keys& keys, std::string_view key, const std::optional<std::string>& value,
            long version);
  // What clients ask for, by service: what arrived at nodes that carry it, or in vain at all doors,
  // whichever is more. While it moves both say the same requests.
  Rates asked() const;
};

}  // namespace partita::fleet
