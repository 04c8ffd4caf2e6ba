// Difference: what differs between two layouts of a node and what they serve. Each side is a plan,
// the state of a node, or services alone; what a side does not say is not compared. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "plan/changes.h"
#include "plan/serving.h"

namespace partita::decide {

struct Compared {
  std::string name;  // for people: "change 3", "now", a file
  // Instances by GPU index; none: it says nothing of them.
  std::optional<plan::ServingPlan> plan = {};
  // Rates and objectives; none: it says nothing of them.
  std::optional<std::vector<plan::PlannedService>> services = {};
};

// A text in the forms above, with the catalogue's models: kinds ServingPlan and NodeState, or a
// services file.
Result<Compared> read_side(const std::string& file, std::string_view text,
                           const hw::Catalogue& catalogue);

struct InstanceDifference : hw::Placement {
  int gpu = 0;
  std::string before, after;  // "chat b8x2"; empty: there is no such instance
  bool operator==(const InstanceDifference&) const = default;
};
struct ServiceDifference {
  std::string service, what;  // "planned_rps", "service", or a term
  std::string before, after;  // numbers as text; of "service": "there", or empty
  bool operator==(const ServiceDifference&) const = default;
};
struct Difference {
  std::string a, b;
  std::vector<InstanceDifference> instances = {};  // by GPU, start and profile
  std::vector<ServiceDifference> services = {};    // by name
  std::optional<plan::Changes> changes = {};       // of both, as planners count
  bool empty() const { return instances.empty() && services.empty(); }
  bool operator==(const Difference&) const = default;
};

// bad_input where the two have nothing in common that could be compared.
Result<Difference> difference(const Compared& a, const Compared& b);

std::string difference_text(const Difference& difference);
// The document `kind: Difference`.
std::string difference_json(const Difference& difference);
DocumentKind difference_kind();

}  // namespace partita::decide
