// The document FleetDecision of leader.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/form_rules.h"
#include "base/table.h"
#include "fleet/brain/leader.h"

namespace partita::fleet {
namespace {

void describe_on(Form& f, Carried& one) {
  f.name("node", one.service, "where");
  f.number("rate_rps", one.rate_rps, kNotNegative, "planned there");
}

void describe_outlook(Form& f, ServiceOutlook& one) {
  f.name("service", one.name, "its name");
  f.number("need_rps", one.need_rps, kNotNegative, "to plan for");
  f.number("planned_rps", one.planned_rps, kNotNegative, "by all parts");
  f.number("carried_rps", one.carried_rps, kNotNegative, "now");
  std::vector<Carried> on = carried_of(one.on);
  f.list("on", on, describe_on, {}, "by node");
  if (f.reading()) one.on = rates_of(on);
  f.optional(!one.why.empty()).text("why", one.why, "what is missing; missing: nothing is");
}

void describe_decision(Form& f, Decision& decision) {
  f.lines("  ");
  f.document("FleetDecision");
  f.name("digest", decision.digest, "of the parts");
  f.notes("changes", decision.changes, {.indent = "    "}, "a sentence for each part");
  f.optional(!decision.notes.empty())
      .notes("notes", decision.notes, {.indent = "    "}, "on the whole fleet, a sentence each");
  f.list("services", decision.services, describe_outlook, {.indent = "    "},
         "as they are planned after it");
}

}  // namespace

std::string decision_json(const Decision& decision) {
  return write_form(decision, describe_decision);
}

std::string decision_text(const Decision& decision) {
  const bool lacks = std::ranges::any_of(
      decision.services, [](const ServiceOutlook& one) { return !one.why.empty(); });
  std::string text;
  if (decision.changes.empty())
    text = lacks ? "nothing can be changed, and something is missing\n" : "nothing to change\n";
  for (const std::string& one : decision.changes) text += one + "\n";
  Table table{{"service", "need", "planned", "carried", "nodes"}, {}};
  for (const ServiceOutlook& one : decision.services)
    table.rows.push_back({one.name, fmt::format("{:.1f}", one.need_rps),
                          fmt::format("{:.1f}", one.planned_rps),
                          fmt::format("{:.1f}", one.carried_rps), std::to_string(one.on.size())});
  if (!table.rows.empty()) text += "\n" + to_string(table);
  for (const ServiceOutlook& one : decision.services)
    if (!one.why.empty()) text += fmt::format("{}: {}\n", one.name, one.why);
  for (const std::string& note : decision.notes) text += note + "\n";
  return text;
}

DocumentKind decision_kind() {
  return document_kind<Decision, describe_decision, "FleetDecision",
                       "what a leader of a fleet would change">();
}

}  // namespace partita::fleet
