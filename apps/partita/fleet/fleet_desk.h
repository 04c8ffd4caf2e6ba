// FleetDesk: what people change of a fleet, and why its nodes carry what they carry: one for the
// command line and for the API of its nodes. Calls of the store may wait; it outlives the desk.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/view.h"
#include "fleet/etcd/store.h"

namespace partita::cli {

// What a file says that people write: services, who may draw how much, or both.
struct FleetWishes {
  std::optional<std::string> services;
  std::optional<fleet::FleetPower> power;
  std::map<std::string, int> priorities = {};  // of the services
  std::string file = {};                       // that says it
  std::vector<plan::Service> read = {};        // services, with their lines in it
};
// Refused with FILE:LINE. Traces of lengths are read where there are files, and written in their
// place, for nodes that do not have them (decide/traces.h).
Result<FleetWishes> parse_fleet_wishes(const std::string& file, const std::string& text,
                                       Files* files = nullptr);

// What may be lost (none, node, rack, zone, feed) and whether decisions wait (automatic, approve);
// empty: as it was.
struct FleetManner {
  std::string survive = {}, mode = {};
};
void take_manner(fleet::Wanted& wanted, const FleetManner& manner);
// A tree of power in place of the one that holds; points of it that are dead stay so. bad_input: a
// node of the fleet is called as one of its points.
Result<void> take_power(fleet::FleetPower& now, const fleet::FleetPower& wanted,
                        const fleet::FleetView& view);

class FleetDesk {
 public:
  FleetDesk(fleet::Store& store, const std::string& fleet, std::string user)
      : store_(store), name_(fleet), keys_(fleet), user_(std::move(user)) {}

  // All of it, before anything else is asked.
  Result<void> read();
  fleet::FleetView& view() { return view_; }

  // Sentences of what happens now.
  // Refused as FILE:LINE: what no GPU of the fleet could carry, as far as `ground` has profiles.
  Result<std::vector<std::string>> apply(const FleetWishes& wishes, const FleetManner& manner,
                                         const fleet::FleetGround& ground);
  // infeasible: no decision waits, or another one than that of this digest; empty: whichever waits.
  Result<std::string> approve(const std::string& digest);
  // Of a node, or of a feed, PDU or rack. bad_input: the fleet has none of that name.
  Result<std::string> drain(const std::string& name, bool back);
  // A text: parts of a node, of a service, or all. bad_input: there are none.
  Result<std::string> explain(const std::string& of) const;
  // Of what cannot be read, or was lost, nothing is kept by mistake: only apply() writes it anew.
  Result<void> wanted_is_read() const;

 private:
  template <class Document>
  Result<Document> change(const std::string& key, const char* called, const std::string& what,
                          std::optional<Document> fleet::FleetView::*document,
                          const std::function<Result<void>(Document&)>& how);
  Result<fleet::FleetPower> change_power(
      const std::string& what, const std::function<Result<void>(fleet::FleetPower&)>& how);
  Result<fleet::Wanted> change_wanted(const std::string& what,
                                      const std::function<Result<void>(fleet::Wanted&)>& how);
  std::string when(const std::string& sentence) const;

  fleet::Store& store_;
  const std::string name_;
  const fleet::Keys keys_;
  const std::string user_;
  fleet::FleetView view_ = {};
  std::map<std::string, long> versions_ = {};  // of keys
};

}  // namespace partita::cli
