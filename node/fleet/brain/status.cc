#include "fleet/brain/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/append.h"
#include "base/form_rules.h"
#include "base/table.h"
#include "fleet/brain/counting.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/part_services.h"

namespace partita::fleet {
namespace {

constexpr double kOfARate = 1e-6;
constexpr ListForm kLines{.indent = "    "};

std::string state_of(const NodeStatus& node) {
  if (!node.trouble.empty()) return "trouble";
  if (!node.waits_for.empty()) return "waits";
  if (node.ready < node.revision) return "becomes so";
  if (!node.drained) return "ready";
  return node.carries.empty() ? "drained" : "drains";  // what others have no room for stays
}

NodeStatus node_status(const FleetView& view, const std::string& name) {
  NodeStatus status{.node = name};
  if (view.wanted) status.drained = std::ranges::count(view.wanted->drained, name) > 0;
  const auto part = view.parts.find(name);
  if (part != view.parts.end()) status.revision = part->second.revision;
  const auto found = view.nodes.find(name);
  status.there = found != view.nodes.end();
  if (!status.there) return status;
  const NodeRecord& node = found->second;
  status.rack = node.rack, status.zone = node.zone, status.feed = node.feed;
  status.gateway = node.gateway, status.grpc = node.grpc;
  status.gpus = static_cast<int>(node.gpus.size());
  std::map<int, std::vector<int>> linked;
  for (const NodeGpu& gpu : node.gpus)
    if (gpu.nvlink) linked[*gpu.nvlink].push_back(gpu.index);
  for (auto& [domain, gpus] : linked) status.nvlink.push_back(std::move(gpus));
  status.usable_gpus = static_cast<int>(
      std::ranges::count_if(node.gpus, [](const NodeGpu& gpu) { return gpu.unusable.empty(); }));
  status.taken = node.taken, status.ready = node.ready;
  status.trouble = node.trouble;
  status.carries = node.carries;
  if (part != view.parts.end() && part->second.revision > node.taken)
    for (const Wait& wait : part->second.waits_for)
      status.waits_for += (status.waits_for.empty() ? "" : ", ") + wait.node;
  status.state = state_of(status);
  return status;
}

void add_piece(std::map<std::string, ServiceStatus>& services, const std::string& service,
               const std::string& node, double planned, double carried) {
  const auto found = services.find(service);
  if (found == services.end()) return;
  ServiceStatus& status = found->second;
  auto piece = std::ranges::find(status.on, node, &ServicePiece::node);
  if (piece == status.on.end()) piece = status.on.insert(status.on.end(), ServicePiece{node});
  piece->planned_rps += planned, status.planned_rps += planned;
  piece->carried_rps += carried, status.carried_rps += carried;
}

void share(ServiceStatus& service, const std::vector<std::string>& drained) {
  std::vector<double> stay;
  double all = 0, planned = 0;
  for (const ServicePiece& piece : service.on) {
    const bool goes = std::ranges::count(drained, piece.node) > 0;
    stay.push_back(goes ? 0 : std::min(piece.planned_rps, piece.carried_rps));
    all += stay.back();
    planned += goes ? 0 : piece.planned_rps;
  }
  const bool enough = all > 0 && all >= std::min(planned, service.wanted_rps) * (1 - kOfARate);
  const bool carried = service.carried_rps > 0;
  if (!enough) all = carried ? service.carried_rps : service.planned_rps;
  service.shared_rps = all;
  for (std::size_t i = 0; i < stay.size(); ++i) {
    ServicePiece& piece = service.on[i];
    if (!enough) stay[i] = carried ? piece.carried_rps : piece.planned_rps;
    piece.share = all > 0 ? stay[i] / all : 0;
  }
}

// Some node carries it, and all together what they are planned for.
bool is_as_planned(const ServiceStatus& service) {
  const double carried = service.carried_rps * (1 + kOfARate);
  return service.wanted_rps <= 0 || (carried > 0 && carried >= service.planned_rps);
}

// What the agents of its nodes say, the worst of it, and whether there is enough of it, also after
// a loss that it is to survive. It is down only where all of it is.
std::string verdict_of(const FleetView& view, const std::map<std::string, std::string>& feeds,
                       const ServiceStatus& service) {
  std::map<std::string, int> said;
  for (const ServicePiece& piece : service.on) {
    if (piece.carried_rps <= 0) continue;
    std::string verdict = "unknown";
    if (const auto node = view.verdicts.find(piece.node); node != view.verdicts.end())
      for (const AgentsVerdict& one : node->second)
        if (one.service == service.service) verdict = one.verdict;
    ++said[verdict];
  }
  if (said.empty() || (said.size() == 1 && said.contains("down"))) return "down";
  if (said.contains("down") || said.contains("degraded") ||
      service.carried_rps < service.arrived_rps)
    return "degraded";
  const Survive survive = view.wanted ? view.wanted->survive : Survive::none;
  std::map<std::string, double> carried;  // by what may be lost at once
  for (const ServicePiece& piece : service.on)
    if (const auto node = view.nodes.find(piece.node); node != view.nodes.end())
      carried[domain_of(node->second, survive, feeds)] += piece.carried_rps;
  const bool survives = survive != Survive::none;
  const bool enough = missing_of(service.wanted_rps * (1 - kOfARate), carried, survives) <= 0;
  if (said.contains("at_risk") || !enough) return "at_risk";
  return said.contains("unknown") ? "unknown" : "serves";
}

double answer_ms(const plan::Service& service) {
  if (service.slo.value > 0 || !service.tokens) return service.slo.value;
  const double tpot = service.tokens->tpot.value;
  if (tpot <= 0) return 0;
  return service.tokens->ttft.value + tpot * plan::mean_of(*service.tokens).out;
}

void describe_carries(Form& f, Carried& one) {
  f.name("service", one.service, "its name");
  f.number("rate_rps", one.rate_rps, kNotNegative, "that it carries");
}

// "0-3, 4 5": by domain.
std::string linked_text(const std::vector<std::vector<int>>& domains) {
  std::string text;
  for (const std::vector<int>& gpus : domains) {
    text += text.empty() ? "" : ", ";
    const bool run = gpus.size() > 2 && gpus.back() - gpus.front() + 1 == std::ssize(gpus);
    text += run ? fmt::format("{}-{}", gpus.front(), gpus.back()) : joined(gpus, " ");
  }
  return text.empty() ? "-" : text;
}

void describe_linked(Form& f, std::vector<int>& gpus) {
  f.integers("gpus", gpus, {.high = 1023}, {.most = kMostGpus}, "that NVLink joins");
}

void describe(Form& f, NodeStatus& node) {
  f.name("node", node.node, "its name");
  f.optional(!node.rack.empty()).text("rack", node.rack, "where it is");
  f.optional(!node.zone.empty()).text("zone", node.zone, "where it is");
  f.optional(!node.feed.empty()).text("feed", node.feed, "of power");
  f.optional(!node.gateway.empty()).text("gateway", node.gateway, "address of its gateway");
  f.optional(!node.grpc.empty()).text("grpc", node.grpc, "the same for gRPC");
  f.optional(!node.state.empty())
      .text("state", node.state, "ready, becomes so, waits, trouble, drained, lost, unknown");
  f.boolean("there", node.there, "whether its lease is alive");
  f.boolean("drained", node.drained, "it shall carry nothing");
  f.integer("gpus", node.gpus, kNotNegative, "of the node");
  f.integer("usable_gpus", node.usable_gpus, kNotNegative, "for services");
  f.optional(!node.nvlink.empty())
      .list("nvlink", node.nvlink, describe_linked, {.most = kMostGpus},
            "its GPUs by NVLink domain; missing: nobody says");
  f.whole("revision", node.revision, kNotNegative, "of its newest part; 0: it has none");
  f.whole("taken", node.taken, kNotNegative, "the newest that it took");
  f.whole("ready", node.ready, kNotNegative, "the newest that it has carried out");
  f.optional(!node.trouble.empty()).text("trouble", node.trouble, "why it cannot be carried out");
  f.optional(!node.waits_for.empty())
      .text("waits_for", node.waits_for, "nodes that must carry its services first");
  f.list("carries", node.carries, describe_carries, {}, "by service");
  f.number("budget_w", node.budget_w, kNotNegative, "that the node may draw");
  f.number("gpu_budget_w", node.gpu_budget_w, kNotNegative, "of that, its GPUs");
  f.number("gpu_draw_w", node.gpu_draw_w, kNotNegative, "that its GPUs draw");
  f.optional(!node.holds).boolean("holds_budget", node.holds, "it has said so; missing: it has");
  f.optional(!node.limited_by.empty())
      .text("limited_by", node.limited_by, "the point that keeps it from more power");
}

void describe(Form& f, ServicePiece& piece) {
  f.name("node", piece.node, "where");
  f.number("planned_rps", piece.planned_rps, kNotNegative, "by the node's part");
  f.number("carried_rps", piece.carried_rps, kNotNegative, "now");
  f.number("share", piece.share, {.high = 1}, "of its requests that should go there");
}

void describe(Form& f, ServiceStatus& service) {
  f.name("service", service.service, "its name");
  f.optional(!service.verdict.empty())
      .text("verdict", service.verdict, "serves, at_risk, degraded, down, unknown");
  f.number("wanted_rps", service.wanted_rps, kNotNegative, "to plan for");
  f.number("arrived_rps", service.arrived_rps, kNotNegative, "at all gateways, lately");
  f.number("planned_rps", service.planned_rps, kNotNegative, "by parts of nodes that are there");
  f.number("carried_rps", service.carried_rps, kNotNegative, "by nodes that are there, now");
  f.optional(service.answer_ms > 0)
      .number("answer_ms", service.answer_ms, kNotNegative,
              "as promised, of a whole answer of mean length; missing: it is not said");
  f.optional(!service.why.empty())
      .text("why", service.why, "it is not as it is wanted, as the leader says; missing: it is");
  f.list("on", service.on, describe, {}, "by node");
}

void describe(Form& f, PointStatus& point) {
  f.name("name", point.name, "of the feed, PDU or rack");
  f.optional(!point.under.empty()).name("under", point.under, "missing: it is a feed");
  f.number("rating_w", point.rating_w, kNotNegative, "that it carries for ever");
  f.number("budget_w", point.budget_w, kNotNegative, "that it carries if all draw their budgets");
  f.optional(point.failed).boolean("failed", point.failed, "it is dead");
}

void describe(Form& f, PowerStatus& power) {
  f.text("sharing", power.sharing, "fair, value");
  f.whole("revision", power.revision, kNotNegative, "of the budgets");
  f.list(
      "points", power.points, [](Form& g, PointStatus& one) { describe(g, one); }, {},
      "feeds, PDUs and racks");
  f.optional(!power.unsafe.empty())
      .names("unsafe", power.unsafe, {}, "feeds whose failure the rest would not bear");
  f.optional(!power.over.empty()).text("over", power.over, "what does not hold");
}

void describe(Form& f, FleetStatus& status) {
  f.lines("  ");
  f.document("FleetStatus");
  f.name("fleet", status.fleet, "its name");
  f.optional(!status.leader.empty()).name("leader", status.leader, "missing: nobody leads now");
  f.whole("revision", status.revision, kNotNegative, "the newest of all parts");
  f.boolean("converged", status.converged,
            "services are wanted, and every node that is there has carried out its part");
  f.text("survive", status.survive, "what may be lost: none, node, rack, zone, feed");
  f.text("approval", status.approval, "automatic, or approve: decisions wait for a person");
  f.optional(!status.proposal.empty())
      .text("proposal", status.proposal, "digest of the decision that waits for a person");
  f.optional(!status.proposed.empty())
      .notes("proposed", status.proposed, {}, "what it changes, a sentence each");
  f.optional(!status.damaged.empty())
      .notes("damaged", status.damaged, {}, "keys of the store that cannot be read, and why");
  f.optional(!status.notes.empty())
      .notes("notes", status.notes, {}, "of the leader, on the whole fleet, a sentence each");
  f.optional(!status.fault.empty())
      .text("fault", status.fault, "why the store is not heard: all of this was so at as_of_ms");
  f.optional(!status.fault.empty())
      .whole("as_of_ms", status.as_of_ms, kNotNegative, "when it was heard last, since 1970");
  f.list("nodes", status.nodes, describe, kLines, "by name");
  f.list("services", status.services, describe, kLines, "by name");
  f.object(
      "power", status.power, [](Form& g, PowerStatus& one) { describe(g, one); },
      "who may draw how much");
}

// A feed and all below it.
bool is_dead(const FleetPower& power, const FleetPoint* point) {
  for (; point != nullptr;) {
    if (std::ranges::count(power.failed, point->name) > 0) return true;
    const auto above = std::ranges::find(power.tree, point->under, &FleetPoint::name);
    point = above == power.tree.end() ? nullptr : &*above;
  }
  return false;
}

// Adds a node's budget to the points above it, equally to those inlets that are live.
void add_load(const FleetPower& power, const FleetLoad& load, double watts,
              std::map<std::string, double>& sums) {
  std::vector<const FleetPoint*> live;
  for (const std::string& inlet : load.inlets)
    if (const auto point = std::ranges::find(power.tree, inlet, &FleetPoint::name);
        point != power.tree.end() && !is_dead(power, &*point))
      live.push_back(&*point);
  for (const FleetPoint* point : live)
    while (point != nullptr) {
      sums[point->name] += watts / static_cast<double>(live.size());
      const auto above = std::ranges::find(power.tree, point->under, &FleetPoint::name);
      point = above == power.tree.end() ? nullptr : &*above;
    }
}

std::optional<PowerStatus> power_status(const FleetView& view,
                                        std::map<std::string, NodeStatus>& nodes) {
  if (!view.power || view.power->tree.empty() || !view.budgets) return {};
  PowerStatus status{.sharing = view.power->sharing == power::Sharing::fair ? "fair" : "value",
                     .revision = view.budgets->revision,
                     .unsafe = view.budgets->unsafe,
                     .over = view.budgets->over};
  std::map<std::string, double> sums;
  for (const FleetLoad& load : view.power->nodes) {
    const auto budget = std::ranges::find(view.budgets->nodes, load.node, &NodeBudget::node);
    if (budget == view.budgets->nodes.end()) continue;
    add_load(*view.power, load, budget->watts, sums);
    const auto found = nodes.find(load.node);
    if (found == nodes.end()) continue;
    NodeStatus& node = found->second;
    node.budget_w = budget->watts;
    node.gpu_budget_w = std::max(0.0, budget->watts - load.other_w);
    node.limited_by = budget->limited_by;
    const auto record = view.nodes.find(load.node);
    node.holds = record != view.nodes.end() && record->second.holds_budget >= budget->since;
    if (const auto draw = view.draws.find(load.node); draw != view.draws.end())
      node.gpu_draw_w = draw->second;
  }
  for (const FleetPoint& one : view.power->tree)
    status.points.push_back(
        {one.name, one.under, one.rating_w, sums[one.name], is_dead(*view.power, &one)});
  return status;
}

std::string power_text(const FleetStatus& status) {
  if (!status.power) return {};
  const auto watts = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.0f}", *value) : "-";
  };
  Table points{{"point", "under", "rating W", "budgets W", ""}, {}};
  for (const PointStatus& one : status.power->points)
    points.rows.push_back({one.name, one.under.empty() ? "-" : one.under, watts(one.rating_w),
                           watts(one.budget_w), one.failed ? "dead" : ""});
  Table nodes{{"node", "budget W", "of GPUs", "GPUs draw", "limited by"}, {}};
  for (const NodeStatus& one : status.nodes)
    if (one.budget_w)
      nodes.rows.push_back(
          {one.node, watts(one.budget_w), watts(one.gpu_budget_w), watts(one.gpu_draw_w),
           one.limited_by + (one.holds ? "" : " (has not said that it holds to it)")});
  std::string text = fmt::format("\npower, divided by {}\n", status.power->sharing) +
                     to_string(points) + to_string(nodes);
  for (const std::string& feed : status.power->unsafe)
    text += fmt::format("if {} fails, the rest does not bear it\n", feed);
  return text +
         (status.power->over.empty() ? "" : "it does not suffice: " + status.power->over + "\n");
}

std::string sentence_of(const NodeStatus& node) {
  if (node.state == "trouble") return "trouble: " + node.trouble;
  return node.state == "waits" ? "waits for " + node.waits_for : node.state;
}

}  // namespace

Result<FleetStatus> status_of(const FleetView& view, const std::string& fleet,
                              ServicesRead* services_read) {
  FleetStatus status{.fleet = fleet};
  if (view.leader) status.leader = view.leader->node;
  const Wanted wanted = view.wanted.value_or(Wanted{});
  status.survive = kSurviveWords.begin()[static_cast<int>(wanted.survive)];
  status.approval = wanted.approval == Approval::automatic ? "automatic" : "approve";
  if (view.proposal)
    status.proposal = view.proposal->digest, status.proposed = view.proposal->changes;
  for (const auto& [key, why] : view.damaged) status.damaged.push_back(why);
  status.notes = view.notes;
  std::map<std::string, NodeStatus> nodes;
  for (const auto& [name, node] : view.nodes) nodes[name] = node_status(view, name);
  for (const auto& [name, part] : view.parts) nodes[name] = node_status(view, name);
  std::map<std::string, ServiceStatus> services;
  if (!wanted.services.empty()) {
    ServicesRead own;
    const auto file = TRY((services_read ? *services_read : own).of(wanted.services));
    const Rates asked = view.asked();
    for (const plan::Service& one : file->services) {
      ServiceStatus& is = services[one.name];
      is.service = one.name;
      if (const auto rate = asked.find(one.name); rate != asked.end())
        is.arrived_rps = rate->second;
      const auto need = view.needs.find(one.name);
      is.wanted_rps =
          view.leader && need != view.needs.end() ? need->second : need_of(one, is.arrived_rps);
      is.answer_ms = answer_ms(one);
      if (const auto why = view.whys.find(one.name); why != view.whys.end()) is.why = why->second;
    }
  }
  status.converged = !services.empty();
  for (auto& [name, node] : nodes) {
    // A store that has lost its data knows of no part; what nodes took then holds.
    status.revision = std::max({status.revision, node.revision, node.taken});
    if (!node.there) continue;
    status.converged = status.converged && node.ready >= node.revision;
    const auto part = view.parts.find(name);
    const bool has_part = part != view.parts.end();
    for (const Carried& one : node.carries)
      add_piece(services, one.service, name, has_part ? 0 : one.rate_rps, one.rate_rps);
    if (has_part)
      for (const auto& [service, rate] : rates_of(part->second))
        add_piece(services, service, name, rate, 0);
  }
  for (const auto& [name, one] : services)
    status.converged = status.converged && is_as_planned(one);
  if (auto power = power_status(view, nodes)) status.power = *std::move(power);
  for (auto& [name, node] : nodes) status.nodes.push_back(std::move(node));
  const auto feeds = view.power ? feeds_of(*view.power) : std::map<std::string, std::string>{};
  for (auto& [name, service] : services) {
    share(service, wanted.drained);
    service.verdict = verdict_of(view, feeds, service);
    status.services.push_back(std::move(service));
  }
  return status;
}

std::string why_no_services(const FleetStatus& status) {
  if (!status.services.empty()) return {};
  if (!status.damaged.empty()) return "what is wanted is not there, or cannot be read";
  if (status.nodes.empty() && status.leader.empty())
    return "its store has nothing of it, no node and no services: is the name right?";
  return "no services are wanted";
}

void make_stale(FleetStatus& status, const std::string& fault, std::int64_t as_of_ms) {
  status.fault = fault;
  status.as_of_ms = as_of_ms;
  status.converged = false;
  for (NodeStatus& node : status.nodes) node.state = "unknown";
  for (ServiceStatus& service : status.services) service.verdict = "unknown";
}

Result<FleetStatus> parse_status(const std::string& file, std::string_view text) {
  return read_form<FleetStatus>(file, text, static_cast<void (*)(Form&, FleetStatus&)>(describe));
}

std::string status_json(const FleetStatus& status) {
  return write_form(status, static_cast<void (*)(Form&, FleetStatus&)>(describe));
}

std::string status_text(const FleetStatus& status) {
  std::string text = fmt::format("fleet {}: {}, revision {}{}\n", status.fleet,
                                 status.leader.empty() ? "nobody leads" : status.leader + " leads",
                                 status.revision, status.converged ? ", carried out" : "");
  if (const std::string why = why_no_services(status); !why.empty()) text += why + "\n";
  if (!status.fault.empty())
    text += "not known now, all of this is as it was: " + status.fault + "\n";
  Table nodes{{"node", "rack", "GPUs", "NVLink", "part", "ready", "state"}, {}};
  for (const NodeStatus& one : status.nodes)
    nodes.rows.push_back({one.node, one.rack.empty() ? "-" : one.rack,
                          fmt::format("{} of {}", one.usable_gpus, one.gpus),
                          linked_text(one.nvlink), std::to_string(one.revision),
                          std::to_string(one.ready), sentence_of(one)});
  if (!nodes.rows.empty()) text += to_string(nodes);
  Table services{{"service", "verdict", "wanted", "planned", "carried", "on"}, {}};
  for (const ServiceStatus& one : status.services) {
    std::string on;
    for (const ServicePiece& piece : one.on)
      on += fmt::format("{}{} {:.0f} %", on.empty() ? "" : ", ", piece.node, 100 * piece.share);
    services.rows.push_back({one.service, one.verdict, fmt::format("{:.1f}", one.wanted_rps),
                             fmt::format("{:.1f}", one.planned_rps),
                             fmt::format("{:.1f}", one.carried_rps), on.empty() ? "-" : on});
  }
  if (!services.rows.empty()) text += "\n" + to_string(services);
  for (const ServiceStatus& one : status.services)
    if (!one.why.empty()) text += fmt::format("{}: {}\n", one.service, one.why);
  for (const std::string& note : status.notes) text += note + "\n";
  text += power_text(status);
  if (!status.proposal.empty()) text += fmt::format("\n{} waits for a person:\n", status.proposal);
  for (const std::string& one : status.proposed) text += "  " + one + "\n";
  for (const std::string& one : status.damaged) text += "cannot be read: " + one + "\n";
  return text;
}

Result<std::string> explain(const FleetView& view, const std::string& of) {
  std::string text;
  for (const auto& [name, part] : view.parts) {
    const Rates rates = rates_of(part);
    if (!of.empty() && of != name && !rates.contains(of)) continue;
    text += fmt::format("{}, revision {} by {}: {}\n", name, part.revision, part.by, part.cause);
    for (const auto& [service, rate] : rates)
      if (of.empty() || of == name || of == service)
        text += fmt::format("  {} {} req/s\n", service, number_text(rate));
    for (const Wait& wait : part.waits_for)
      text += fmt::format("  once {} has carried out revision {}\n", wait.node, wait.revision);
    for (const Carried& one : part.elsewhere)
      text += fmt::format("  once other nodes carry {} req/s of {}\n", number_text(one.rate_rps),
                          one.service);
  }
  for (const auto& [service, why] : view.whys)
    if (of.empty() || of == service) text += fmt::format("{}: {}\n", service, why);
  for (const auto& [name, node] : view.nodes) {
    if (view.parts.contains(name)) continue;
    const Rates rates = rates_of(node.carries);
    if (rates.empty() || (!of.empty() && of != name && !rates.contains(of))) continue;
    text += fmt::format("{} has no part; it goes on with what it took, revision {}\n", name,
                        node.taken);
    for (const auto& [service, rate] : rates)
      if (of.empty() || of == name || of == service)
        text += fmt::format("  {} {} req/s\n", service, number_text(rate));
  }
  // Of a service, too, what it was not put on.
  const bool of_service = !text.empty() && !view.parts.contains(of) && !view.nodes.contains(of);
  for (const auto& [name, node] : view.nodes)
    if (const std::string why = why_last(view, name);
        !why.empty() && (of.empty() || of == name || of_service))
      text += fmt::format("{} gets more only where no other node has room: {}\n", name, why);
  std::set<std::string> notes(view.notes.begin(), view.notes.end());
  if (std::string own = why_own_domains(view); !own.empty()) notes.insert(std::move(own));
  for (const std::string& note : notes)
    if (!text.empty() || view.nodes.contains(of)) text += note + "\n";
  if (!text.empty()) return text;
  return bad_input("NODE|SERVICE", of.empty() ? "the fleet has no parts yet"
                                              : fmt::format("no part is of '{}'", of));
}

DocumentKind status_kind() {
  return document_kind<FleetStatus, describe, "FleetStatus", "what a fleet of nodes is like">();
}

}  // namespace partita::fleet
