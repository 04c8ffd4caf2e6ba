// FleetView: the store of a fleet as values, kept up to date key by key. What cannot be read is
// left out and named in `damaged`. A value.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "act/gateway_peers.h"
#include "base/recalled.h"
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
  std::string needs() const { return root + "needs"; }
  std::string node(const std::string& name) const { return root + "nodes/" + name; }
  std::string part(const std::string& name) const { return root + "parts/" + name; }
  std::string rates(const std::string& name) const { return root + "rates/" + name; }
  std::string peers(const std::string& node) const { return root + "peers/" + node; }
  std::string history() const { return root + "history/"; }
  // `beside`: of several events of one moment, another one.
  std::string event(const FleetEvent& event, std::string_view beside) const;
  // What follows the root in one of these; empty: it is no key of this fleet.
  std::string_view rest(std::string_view key) const {
    return key.starts_with(root) ? key.substr(root.size()) : std::string_view{};
  }
};
// Of fleets and nodes: a word of letters, digits, `-`, `_` and `.`; bad_input with `context`.
Result<std::string> parse_fleet_word(const std::string& context, const std::string& text);

// What texts were read as, for brains in one thread that hear the same ones. Never changes what is
// read. Bounded.
class ReadTexts {
 public:
  template <class T>
  Result<T> read(Result<T> (*parse)(const std::string&, std::string_view), const std::string& key,
                 const std::string& text) {
    auto& known = std::get<Recalled<Text, T>>(known_);
    Text asked{std::hash<std::string>{}(text), text};
    if (const T* found = known.find(asked)) return *found;
    auto fresh = parse(key, text);
    if (fresh) known.keep(std::move(asked), *fresh);
    return fresh;
  }

 private:
  static constexpr std::size_t kMost = 2000;         // of each kind
  using Text = std::pair<std::size_t, std::string>;  // its hash first: most begin alike
  std::tuple<Recalled<Text, NodeRecord>, Recalled<Text, Part>, Recalled<Text, RateRecord>,
             Recalled<Text, FleetEvent>, Recalled<Text, Wanted>,
             Recalled<Text, actuate::GatewayPeers>>
      known_{kMost, kMost, kMost, kMost, kMost, kMost};
};

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
  // What a leader knows beside the store: what arrived at nodes that were lost lately, by node, and
  // nodes that have had their parts for too long to be counted on.
  std::map<std::string, Rates> lost_rates;
  std::set<std::string> overdue;
  // And what was asked for when it decided last, by service.
  Rates asked_before;
  Rates needs;  // what the leader plans for, by service, as it says it
  std::map<std::string, std::string> whys;     // and why services are not as they are wanted
  std::vector<std::string> notes;              // and what it says of the whole fleet
  std::map<std::string, long> versions;        // of parts: the store's revision, for fencing
  std::map<std::string, std::string> damaged;  // keys, and why they cannot be read

  std::map<std::string, FleetEvent> history;  // by key, so in order of time
  std::map<std::string, actuate::GatewayPeers> peers;  // by node, which is its only one

  std::shared_ptr<ReadTexts> texts = {};  // of several views; null: each text is read

  // A key has this value since that revision of the store; none: it is gone. Keys of others are
  // passed over.
  void hear(const Keys& keys, std::string_view key, const std::optional<std::string>& value,
            long version);
  // What clients ask for, by service: what arrived at nodes that carry it, or at lost ones, or in
  // vain at all doors, whichever is most. While it moves they say the same requests.
  Rates asked() const;
  // The same to plan by: nodes tell of rates that moved by a tenth, so a little less than before is
  // as much as before. Else needs would fall and rise as services move, which move as needs do.
  Rates asked_steadily() const;
};

// Whether it is known which services are wanted: a list of none is refused when people write it, so
// who finds none is before the first of them, or at a store that has lost its data.
bool says_what_is_wanted(const FleetView& view);

}  // namespace partita::fleet
