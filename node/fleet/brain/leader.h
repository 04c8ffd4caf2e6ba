// Leader: from what is wanted and how nodes are to the parts that have to be written now. Pure but
// for its memory of pools; whoever leads decides the same for the same view.
//
// Rules. A pool of a service is within one node; several nodes carry shares of its rate, each
// planned and judged for its own. What is placed stays. A part either makes a node carry more, at
// once, beside all that it carries still, or makes it carry less, and then waits for the nodes that
// carry it instead: so no part waits for one that waits. A node that is not there, is drained or
// cannot carry out its part is not counted on. `survive`: without any one node (rack, zone, feed)
// the others are planned for the whole rate. Where there is not room for all, rates come before
// margins, and each by priority: margins (what others carry by now is enough), then services of
// less priority make room. Terms that no node could carry change nothing: such a service goes on by
// those that it has. Nor does anything change on a node with a GPU of which this leader has no
// profiles.
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
struct WantedRead;

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
  class Work;
  NodePlanner planner_;
  std::unique_ptr<WantedRead> read_;
};

// The document `kind: FleetDecision`, and the same for people.
std::string decision_json(const Decision& decision);
std::string decision_text(const Decision& decision);
DocumentKind decision_kind();

}  // namespace partita::fleet
