#include "fleet/brain/sight.h"

#include <algorithm>

namespace partita::fleet {
namespace {

constexpr double kVeryLittle = 1e-3;  // of a rate: what any node could carry that may at all

Rates highest(Rates a, const Rates& b) {
  for (const auto& [service, rate] : b) a[service] = std::max(a[service], rate);
  return a;
}
Rates lowest(Rates a, const Rates& b) {
  for (auto& [service, rate] : a) rate = std::min(rate, rate_in(b, service));
  std::erase_if(a, [](const auto& one) { return one.second <= 0; });
  return a;
}

}  // namespace

bool more(double a, double b) { return a > b * (1 + kTiny) + 1e-12; }

double rate_in(const Rates& rates, const std::string& service) {
  const auto found = rates.find(service);
  return found == rates.end() ? 0 : found->second;
}

bool is_unserved(const NodeRecord& node, const std::string& service) {
  return std::ranges::count(node.unserved, service) > 0;
}

bool same_terms(plan::Service a, plan::Service b, const Rates& beside) {
  a.rate = b.rate = Rps{0};
  a.min_replicas = b.min_replicas = 1;
  a.dispatch = b.dispatch;
  std::erase_if(b.avoid, [&](const std::string& name) { return !beside.contains(name); });
  if (a.pipeline && b.pipeline && same_graph(*a.pipeline, *b.pipeline)) a.pipeline = b.pipeline;
  a.traffic.rates.clear();
  b.traffic.rates.clear();
  return a == b;
}

Sight::Sight(NodePlanner& planner_of_nodes, const WantedRead& wanted, const FleetView& seen)
    : planner(planner_of_nodes), read(wanted), view(seen) {}

void Sight::look() {
  if (view.wanted->survive == Survive::feed && view.power) feeds = feeds_of(*view.power);
  const Rates asked = view.asked_steadily();
  for (const plan::Service& terms : read.file->services) services[terms.name].terms = &terms;
  for (auto& [name, of] : services) {
    of.need = need_of(*of.terms, rate_in(asked, name));
    of.priority = of.terms->priority;
    if (const auto its = view.wanted->priorities.find(name); its != view.wanted->priorities.end())
      of.priority = its->second;
    order.push_back(&of);
  }
  for (const auto& [name, part] : view.parts) {
    revision = std::max(revision, part.revision + 1);
    if (view.nodes.contains(name)) continue;
    for (const auto& [service, rate] : rates_of(part))
      if (services.contains(service)) services[service].lost = true;
  }
  for (const auto& [name, record] : view.nodes) look_at(record);
  for (const auto& [name, part] : view.parts)
    for (const Carried& one : part.gave_up)
      if (const auto of = services.find(one.service); of != services.end())
        of->second.lost = of->second.lost || of->second.is_short();
  std::set<std::string> open;
  of_kind.resize(kinds.size());
  for (const auto& [name, at] : nodes) {
    if (at.open && at.known) open.insert(at.domain);
    const NodeRecord*& largest = of_kind[at.kind];
    if (!largest || largest->gpus.size() < at.record->gpus.size()) largest = at.record;
  }
  domains = static_cast<int>(open.size());
  const std::vector<std::string> models = gpu_models(view);
  for (auto& [name, of] : services) {
    guess(of);
    if (std::ranges::all_of(of.guess, [](const Guess& one) { return one.rate_per_slice <= 0; }))
      keep_terms(of, planner.why_none(*of.terms, models));
  }
  std::ranges::stable_sort(order, std::greater<>{},
                           [&](const Of* of) { return std::pair(of->priority, of->size()); });
}

void Sight::look_at(const NodeRecord& record) {
  At& at = nodes[record.node];
  at.record = &record;
  if (const auto part = view.parts.find(record.node); part != view.parts.end())
    at.part = &part->second;
  revision = std::max(revision, std::max(record.taken, record.ready) + 1);
  at.domain = domain_of(record, view.wanted->survive, feeds);
  at.counts = std::ranges::count(view.wanted->drained, record.node) == 0;
  at.has = rates_of(record.carries);
  at.base = at.part ? rates_of(*at.part) : at.has;
  at.held = at.next = highest(at.base, at.has);
  at.pending = at.part && at.part->revision > record.ready;
  at.able = record.trouble.empty() && !view.overdue.contains(record.node);
  at.open = at.counts && at.able;
  at.starved = !why_last(view, record.node).empty();
  std::string models;
  for (const NodeGpu& gpu : record.gpus) {
    if (!gpu.unusable.empty() || models.ends_with(gpu.model + ",")) continue;
    models += gpu.model + ",";
    if (planner.knows(gpu.model)) continue;
    at.known = false;
    lacks[gpu.model].push_back(record.node);
  }
  at.kind = kinds.emplace(models, kinds.size()).first->second;
  at.total = planner.slices(record);
  at.used = at.part ? planner.slices(at.part->plan) : 0;
  if (!at.counts) return;
  const bool comes = at.pending && at.able;
  for (const auto& [service, rate] : comes ? at.base : lowest(at.base, at.has))
    if (const auto of = services.find(service); of != services.end()) count(of->second, at, rate);
  if (comes) return;
  for (const auto& [service, rate] : at.base)
    if (const auto of = services.find(service);
        of != services.end() && more(rate, rate_in(at.has, service)))
      of->second.lost = true;
}

void Sight::count(Of& of, const At& at, double rate) {
  double& now = of.on[at.record->node];
  of.by_domain[at.domain] += rate - now;
  now = rate;
  if (rate <= 0) of.on.erase(at.record->node);
}

bool Sight::waits_in_vain(const At& at) const {
  if (!at.pending || at.record->taken >= at.part->revision) return false;
  if (std::ranges::any_of(at.part->elsewhere, [&](const Carried& one) {
        const auto of = services.find(one.service);
        return of != services.end() && of->second.elsewhere(at.record->node) < one.rate_rps;
      }))
    return true;
  return std::ranges::any_of(at.part->waits_for, [&](const Wait& wait) {
    const auto other = nodes.find(wait.node);
    if (other == nodes.end() || !other->second.open) return true;
    const At& is = other->second;
    return is.record->ready < wait.revision && (!is.part || is.part->revision < wait.revision);
  });
}

bool Sight::has_other_terms(const At& at) const {
  return at.part &&
         std::ranges::any_of(at.part->plan.services, [&](const plan::PlannedService& row) {
           const auto of = services.find(row.name);
           return of != services.end() && !same_terms(row, of->second.wanted(), at.base);
         });
}

void Sight::guess(Of& of) {
  of.guess.clear();
  for (const NodeRecord* node : of_kind) of.guess.push_back(planner.guess(*of.terms, *node));
}

bool Sight::can_be_met(const Of& of) {
  const auto little =
      with_steps({piece_of(of.wanted(), of.terms->rate.value * kVeryLittle, of.need)});
  return std::ranges::any_of(of_kind, [&](const NodeRecord* node) {
    NodeRecord empty{.node = node->node, .gpus = node->gpus};
    for (NodeGpu& gpu : empty.gpus) gpu.lent.clear();
    return planner.plan({empty, little}).has_value();
  });
}

void Sight::keep_terms(Of& of, const std::string& why) {
  of.unmet = why;
  const plan::Service* has = why.empty() ? nullptr : older.take(view, *of.terms);
  if (has == nullptr) return;
  of.terms = has;
  of.older = true;
  guess(of);
}

std::vector<plan::Service> Sight::pieces_at(const Rates& rates) const {
  std::vector<plan::Service> all;
  for (const auto& [name, rate] : rates)
    if (const auto of = services.find(name); of != services.end() && rate > 0)
      all.push_back(piece_of(of->second.wanted(), rate, of->second.need));
  return all;
}

}  // namespace partita::fleet
