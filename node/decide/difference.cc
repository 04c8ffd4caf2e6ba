#include "decide/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/form_rules.h"
#include "base/table.h"
#include "decide/layout_file.h"
#include "forms/serving_forms.h"

namespace partita::decide {
namespace {

constexpr Range kGpuIndices{.high = 1e6};
constexpr Range kStarts{.high = 64};
constexpr Range kInstanceCounts{.high = 1e9};

using PlaceKey = std::tuple<int, int, std::string>;  // gpu, start, profile

std::string tenant_text(const plan::PlannedInstance& one) {
  if (one.service.empty()) return "nothing";
  return fmt::format("{} b{}x{}", one.service, one.batch, one.processes);
}

std::map<PlaceKey, std::string> tenants_of(const plan::ServingPlan& plan) {
  std::map<PlaceKey, std::string> tenants;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      tenants[{gpu.index, one.start, one.profile}] = tenant_text(one);
  return tenants;
}

std::vector<InstanceDifference> compare_instances(const plan::ServingPlan& a,
                                                  const plan::ServingPlan& b) {
  std::map<PlaceKey, std::pair<std::string, std::string>> both;
  for (const auto& [key, text] : tenants_of(a)) both[key].first = text;
  for (const auto& [key, text] : tenants_of(b)) both[key].second = text;
  std::vector<InstanceDifference> differences;
  for (const auto& [key, texts] : both) {
    const auto& [gpu, start, profile] = key;
    if (texts.first != texts.second)
      differences.push_back({{profile, start}, gpu, texts.first, texts.second});
  }
  return differences;
}

// Zero is what a side does not say. Six digits, and more where only they differ.
void compare_number(const std::string& service, const char* what, double a, double b,
                    std::vector<ServiceDifference>& into) {
  if (a == b || a == 0 || b == 0) return;
  const auto text = [](double value, int digits) { return fmt::format("{:.{}g}", value, digits); };
  int digits = 6;
  while (text(a, digits) == text(b, digits)) ++digits;
  into.push_back({service, what, text(a, digits), text(b, digits)});
}

// Those beside rate and SLO; a services file has no word on the server.
void compare_further_terms(const std::string& service, const plan::Terms& a, const plan::Terms& b,
                           std::vector<ServiceDifference>& into) {
  if (!plan::all_said(a) || !plan::all_said(b)) return;
  for (plan::TermDifference& found : plan::differences(a, b))
    if (found.term != "rate_rps" && found.term != "slo_ms" && found.term != "dispatch")
      into.push_back(
          {service, std::move(found.term), std::move(found.one), std::move(found.other)});
}

std::vector<ServiceDifference> compare_services(const std::vector<plan::PlannedService>& a,
                                                const std::vector<plan::PlannedService>& b) {
  using Pair = std::pair<const plan::PlannedService*, const plan::PlannedService*>;
  std::map<std::string, Pair> both;
  for (const auto& one : a) both[one.name].first = &one;
  for (const auto& one : b) both[one.name].second = &one;
  std::vector<ServiceDifference> differences;
  for (const auto& [name, pair] : both) {
    const auto [one, other] = pair;
    if (one == nullptr || other == nullptr) {
      differences.push_back(
          {name, "service", one != nullptr ? "there" : "", other != nullptr ? "there" : ""});
      continue;
    }
    compare_number(name, "rate_rps", one->rate.value, other->rate.value, differences);
    compare_number(name, "planned_rps", one->planned.value, other->planned.value, differences);
    compare_number(name, "slo_ms", one->slo.value, other->slo.value, differences);
    compare_further_terms(name, *one, *other, differences);
  }
  return differences;
}

void describe(Form& f, InstanceDifference& one) {
  f.integer("gpu", one.gpu, kGpuIndices, "index");
  f.name("profile", one.profile, "MIG profile");
  f.integer("start", one.start, kStarts, "memory slice");
  f.note("before", one.before, "what runs there in a; empty: no such instance");
  f.note("after", one.after, "the same in b");
}

void describe(Form& f, ServiceDifference& one) {
  f.name("service", one.service, "its name");
  f.text("what", one.what,
         "rate_rps, planned_rps, slo_ms or another term; service: it is only on one side");
  f.note("before", one.before, "in a");
  f.note("after", one.after, "in b");
}

void describe(Form& f, plan::Changes& changes) {
  f.integer("kept", changes.kept, kInstanceCounts, "as they are");
  f.integer("restarted", changes.restarted, kInstanceCounts,
            "with another batch size or processes");
  f.integer("moved", changes.moved, kInstanceCounts, "made for a service that ran before");
  f.integer("created", changes.created, kInstanceCounts, "made for a new service");
  f.integer("removed", changes.removed, kInstanceCounts, "gone");
}

void describe(Form& f, Difference& all) {
  f.lines("  ");
  f.document("Difference");
  f.text("a", all.a, "the first side");
  f.text("b", all.b, "the second side");
  f.list("instances", all.instances, describe, {.indent = "    "}, "that differ");
  f.list("services", all.services, describe, {.indent = "    "}, "that differ");
  f.object("changes", all.changes, describe, "from a to b, where both have instances");
}

}  // namespace

Result<Compared> read_side(const std::string& file, std::string_view text,
                           const hw::Catalogue& catalogue) {
  const auto document = TRY(parse_document(file, text));
  const Node* kind = document.root.find("kind");
  Compared side{.name = file};
  if (kind != nullptr && kind->text != "Services") {
    auto layout = TRY(read_layout(document, catalogue));
    if (const auto* plan = std::get_if<plan::ServingPlan>(&layout)) side.services = plan->services;
    side.plan = running(std::move(layout));
    return side;
  }
  const auto services = TRY(forms::parse_services(file, text));
  side.services.emplace();
  for (const plan::Service& one : services) side.services->push_back(plan::row_of(one, {}));
  return side;
}

Result<Difference> difference(const Compared& a, const Compared& b) {
  Difference all;
  all.a = a.name;
  all.b = b.name;
  const bool instances = a.plan && b.plan, services = a.services && b.services;
  if (!instances && !services)
    return bad_input("", fmt::format("{} and {} have nothing in common to compare: one has only "
                                     "instances, the other only services",
                                     a.name, b.name));
  if (instances) {
    all.instances = compare_instances(*a.plan, *b.plan);
    all.changes = plan::changes_between(*a.plan, *b.plan);
  }
  if (services) all.services = compare_services(*a.services, *b.services);
  return all;
}

std::string difference_text(const Difference& all) {
  if (all.empty()) return fmt::format("{} and {}: no difference\n", all.a, all.b);
  std::string text = fmt::format("{} -> {}\n", all.a, all.b);
  const auto side = [](const std::string& word) { return word.empty() ? "-" : word; };
  if (!all.services.empty()) {
    Table table{{"service", "what", "before", "after"}, {}};
    for (const ServiceDifference& one : all.services)
      table.rows.push_back({one.service, one.what, side(one.before), side(one.after)});
    text += "\n" + to_string(table);
  }
  if (!all.instances.empty()) {
    Table table{{"gpu", "start", "instance", "before", "after"}, {}};
    for (const InstanceDifference& one : all.instances)
      table.rows.push_back({fmt::format("{}", one.gpu), fmt::format("{}", one.start), one.profile,
                            side(one.before), side(one.after)});
    text += "\n" + to_string(table);
  }
  if (all.changes) text += fmt::format("\ninstances: {}\n", plan::to_string(*all.changes));
  return text;
}

std::string difference_json(const Difference& all) { return write_form(all, describe); }

DocumentKind difference_kind() {
  return document_kind<Difference, describe, "Difference",
                       "what differs between two plans, states of a node or services">();
}

}  // namespace partita::decide
