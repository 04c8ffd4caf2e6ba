#include "fleet/brain/power.h"

#include "base/form_rules.h"

namespace partita::fleet {
namespace {

constexpr double kLeastReact = 10;  // a lease is kept alive every 2.5 s
constexpr Range kWatts{.high = 1e9};
constexpr Range kBudgetRevisions{.high = 9e15};
constexpr ListForm kPoints{.most = 10'000};
constexpr ListForm kSteps{.most = 64};

void describe_power(Form& f, power::Endurance& one) {
  f.number("load", one.load, {.low = 1, .high = 1000}, "times its rating");
  f.number("seconds", one.seconds, {.high = 1e7}, "that the breaker bears it");
  f.closed();
}
void describe_power(Form& f, power::Worth& one) {
  f.number("to_w", one.to_w, kWatts, "watts up to here");
  f.number("per_w", one.per_w, {.high = 1e9}, "are worth so much each");
  f.closed();
}
void describe_power(Form& f, FleetPoint& point) {
  f.name("name", point.name, "of the feed, PDU or rack");
  f.optional(!point.under.empty()).name("under", point.under, "a point before it; missing: a feed");
  f.number("rating_w", point.rating_w, kWatts, "that it carries for ever");
  f.optional(!point.curve.empty())
      .list(
          "curve", point.curve, [](Form& g, power::Endurance& one) { describe_power(g, one); },
          kSteps, "what its breaker bears; missing: never above the rating");
  f.closed();
}
void describe_power(Form& f, FleetLoad& load) {
  f.name("node", load.node, "of the fleet");
  f.names("inlets", load.inlets, kSteps, "points; several: of different feeds, shared equally");
  f.optional().number("other_w", load.other_w, kWatts, "that it draws beside its GPUs at the most");
  f.number("least_w", load.least_w, kWatts, "that it can be held to, all of it");
  f.number("most_w", load.most_w, kWatts, "that it can draw");
  f.optional(!load.worth.empty())
      .list(
          "worth", load.worth, [](Form& g, power::Worth& one) { describe_power(g, one); }, kSteps,
          "of watts above the least, falling; missing: 1 each");
  f.closed();
}
void describe_power_fields(Form& f, FleetPower& power) {
  f.optional().word("sharing", power.sharing, {"fair", "value"}, "how watts are divided");
  f.optional().number("react_s", power.react_s, {.low = kLeastReact, .high = 3600},
                      "from a failure until every cap is in effect");
  f.list(
      "tree", power.tree, [](Form& g, FleetPoint& one) { describe_power(g, one); }, kPoints,
      "feeds, PDUs, racks; empty: nodes have no budgets");
  f.optional(!power.nodes.empty())
      .list(
          "nodes", power.nodes, [](Form& g, FleetLoad& one) { describe_power(g, one); }, kPoints,
          "who hangs on them");
  f.optional(!power.failed.empty()).names("failed", power.failed, kPoints, "points that are dead");
}
void describe_power(Form& f, FleetPower& power) {
  f.document("FleetPower");
  describe_power_fields(f, power);
  f.optional(!power.by.empty()).name("by", power.by, "who wrote this");
}
void describe_power(Form& f, NodeBudget& one) {
  f.name("node", one.node, "whose");
  f.number("watts", one.watts, kWatts, "that it may draw");
  f.number("alone_w", one.alone_w, kWatts, "to which it falls when it hears nothing");
  f.number("may_w", one.may_w, kWatts, "that it may draw still, until it says it holds to that");
  f.number("may_alone_w", one.may_alone_w, kWatts, "the same");
  f.whole("since", one.since, kBudgetRevisions, "revision from which on this is so");
  f.optional(!one.limited_by.empty())
      .text("limited_by", one.limited_by, "the point that keeps it from more");
}
void describe_power(Form& f, FleetBudgets& all) {
  f.document("FleetBudgets");
  f.whole("revision", all.revision, kBudgetRevisions, "grows");
  f.optional(!all.by.empty()).name("by", all.by, "the node that led");
  f.optional(!all.failed.empty()).names("failed", all.failed, kPoints, "they are made for");
  f.list(
      "nodes", all.nodes, [](Form& g, NodeBudget& one) { describe_power(g, one); }, kPoints,
      "by name");
  f.optional(!all.unsafe.empty())
      .names("unsafe", all.unsafe, kPoints, "feeds whose failure the rest would not bear");
  f.optional(!all.over.empty()).text("over", all.over, "what does not hold");
  f.number("value", all.value, {.high = 1e18}, "of all watts above the least");
}
void describe_power(Form& f, HeldBudget& one) {
  f.document("HeldBudget");
  f.whole("revision", one.revision, kBudgetRevisions, "of the budgets that it was told");
  f.number("watts", one.watts, kWatts, "that the node may draw");
  f.number("alone_w", one.alone_w, kWatts, "to which it falls when it hears nothing");
  f.number("least_w", one.least_w, kWatts, "that it takes after the node has started");
  f.number("other_w", one.other_w, kWatts, "of that, what is not the GPUs'");
  f.number("react_s", one.react_s, {.high = 3600}, "until every cap is in effect");
  f.boolean("of_others", one.of_others, "made for other dead points than there are");
  f.note("boot", one.boot, "of the node");
}

template <class T>
std::string power_document(const T& value) {
  return write_form(value, static_cast<void (*)(Form&, T&)>(describe_power), Form::Style::compact);
}
template <class T>
Result<T> read_power_text(const std::string& key, std::string_view text) {
  return read_form<T>(key, text, static_cast<void (*)(Form&, T&)>(describe_power));
}

}  // namespace

std::string write(const FleetPower& value) { return power_document(value); }
std::string write(const FleetBudgets& value) { return power_document(value); }
std::string write(const HeldBudget& value) { return power_document(value); }
Result<FleetPower> parse_power(const std::string& key, std::string_view text) {
  return read_power_text<FleetPower>(key, text);
}
Result<FleetBudgets> parse_budgets(const std::string& key, std::string_view text) {
  return read_power_text<FleetBudgets>(key, text);
}
Result<HeldBudget> parse_held_budget(const std::string& file, std::string_view text) {
  return read_power_text<HeldBudget>(file, text);
}

Result<FleetPower> read_power(const Document& document, const Node& object) {
  const Document part{document.file, object};
  auto power = read_form<FleetPower>(part, [](Form& f, FleetPower& all) {
    describe_power_fields(f, all);
    f.closed();
  });
  if (!power) return power;
  if (auto fine = tree_of(document.at(object), *power); !fine) return failed(fine.error());
  return power;
}

std::vector<DocumentKind> power_kinds() {
  return {document_kind<FleetPower, describe_power, "FleetPower",
                        "what may draw how much of a fleet's power">(),
          document_kind<FleetBudgets, describe_power, "FleetBudgets",
                        "what each node of a fleet may draw">()};
}

}  // namespace partita::fleet
