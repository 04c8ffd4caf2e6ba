// Leader: from what is wanted and how nodes are to the parts that have to be written now. Pure but
// for its memory of pools; whoever leads decides the same for the same view.
//
// Rules. A pool of a service is within one node; several nodes carry shares of its rate, each
// planned and judged for its own. What is placed stays. A part either makes a node carry more, at
// once, beside all that it carries still, or makes it carry less, and then waits for the nodes that
// carry it instead: so no part waits for one that waits. A node that is not there, is drained or
// cannot carry out its part is not counted on. `survive`: without any one node (rack, zone, feed)
// the others are planned for the whole rate. Where there is not room for all, rates come before
// margins, and each by priority: margins, then services of less priority make room. Terms that no
// node could carry change nothing: such a service goes on by those that it has. Nor does anything
// change on a node with a GPU of which this leader has no profiles.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/form.h"
#include "fleet/brain/node_planner.h"
#include "fleet/brain/view.h"

namespace partita::fleet {

// A service over all nodes.
struct ServiceOutlook {
  std::string name;
  double need_rps = 0;                    // to plan for
  double planned_rps = 0;                 // by all parts, of nodes that are counted on
  double carried_rps = 0;                 // by nodes that are there, now
  std::map<std::string, double> on = {};  // planned, by node
  std::string why = {};                   // something is missing; empty: nothing is
  bool margin_only = false;               // what is missing is needed when a domain is lost
  bool unmet = false;                     // no node could carry it by its terms
  bool operator==(const ServiceOutlook&) const = default;
};

struct Decision {
  std::vector<Part> parts;        // to be written in this order; empty: all is as it should be
  std::vector<bool> urgent = {};  // of each part: it makes up for something lost
  std::vector<ServiceOutlook> services = {};  // by name
  std::vector<std::string> changes = {};      // what the parts change, a sentence each
  std::vector<std::string> notes = {};        // on the whole fleet, a sentence each
  std::string digest = {};                    // of the parts, and of what they come after
};

class ServicesRead;

class Leader {
 public:
  explicit Leader(FleetGround ground);
  ~Leader();
  // bad_input: what is wanted cannot be read.
  Result<Decision> decide(const FleetView& view, const std::string& leader);
  long plans_made() const;
  // What is wanted, as it read it last, for others that read the same.
  ServicesRead& services();

 private:
  class Sight;
  class Work;
  struct Read;  // of the services file, as long as it is the same
  NodePlanner planner_;
  std::unique_ptr<Read> read_;
};

// The document `kind: FleetDecision`, and the same for people.
std::string decision_json(const Decision& decision);
std::string decision_text(const Decision& decision);
DocumentKind decision_kind();

// What a service needs: its rate in the file, or by what arrived lately at all gateways, on steps
// of a tenth.
double need_of(const plan::Service& service, double arrived_rps);

// The rate missing of a service that nodes carry like this, and that shall be so after any one
// domain is lost. `by_domain`: rates.
double missing_of(double need_rps, const std::map<std::string, double>& by_domain, bool survive);
// What a node counts as, where so much may be lost at once. `feeds`: feeds_of the tree of power.
std::string domain_of(const NodeRecord& node, Survive survive,
                      const std::map<std::string, std::string>& feeds);
// No node says the rack, zone or feed that may be lost, a sentence; empty: some do.
std::string why_own_domains(const FleetView& view);
// Refuses, as FILE:LINE, a service that no GPU of the fleet could carry, whatever else is on it.
// Where profiles of one of its GPU models are not known, or it has no nodes and none are, nothing
// is refused.
Result<void> check_carriable(const FleetGround& ground, const FleetView& view,
                             const std::vector<plan::Service>& services, const std::string& file);
// Models of GPUs that nodes have for services, sorted.
std::vector<std::string> gpu_models(const FleetView& view);
// Why a node gets more only where no other has room: its GPUs draw nearly all of their budget.
// Empty: it does not come last.
std::string why_last(const FleetView& view, const std::string& node);

}  // namespace partita::fleet
