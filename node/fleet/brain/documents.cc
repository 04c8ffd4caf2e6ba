#include "fleet/brain/documents.h"

#include <utility>

#include "base/form_rules.h"
#include "fleet/brain/power.h"
#include "forms/manner_form.h"
#include "forms/priorities_form.h"
#include "forms/serving_forms.h"

namespace partita::fleet {
namespace {

constexpr Range kRevisions{.high = 9e15};
constexpr Range kTimes{.high = 9e15};
constexpr ListForm kNodes{.most = kMostNodes};
constexpr ListForm kServices{.most = 100'000};

void describe(Form& f, hw::Placement& one) {
  f.name("profile", one.profile, "of MIG");
  f.integer("start", one.start, {.high = 1023}, "first memory slice");
}

void describe(Form& f, NodeGpu& gpu) {
  f.integer("index", gpu.index, {.high = 1023}, "of the node");
  f.name("uuid", gpu.uuid, "of the GPU");
  f.name("model", gpu.model, "catalogue name");
  f.integer("nvlink", gpu.nvlink, {.high = 1023},
            "lowest number of a GPU that it is linked with; missing: nobody says");
  f.optional(!gpu.unusable.empty())
      .text("unusable", gpu.unusable, "why it is not for services; missing: it is");
  f.optional(!gpu.lent.empty()).list("lent", gpu.lent, describe, {}, "instances that stay");
}

void describe(Form& f, Carried& carried) {
  f.name("service", carried.service, "its name");
  f.number("rate_rps", carried.rate_rps, kNotNegative, "requests per second");
}

// Of an instance, what a planner must know to keep it.
void describe_there(Form& f, plan::PlannedInstance& there) {
  f.name("profile", there.profile, "of MIG");
  f.integer("start", there.start, {.high = 1023}, "first memory slice");
  f.name("service", there.service, "whose it is");
  f.integer("batch", there.batch, {.low = 1, .high = profile::kMaxBatch}, "largest batch");
  f.integer("processes", there.processes, {.low = 1, .high = profile::kMaxProcesses},
            "MPS processes");
  forms::describe_manner(f, there);
}

void describe_there(Form& f, plan::PlannedGpu& gpu) {
  f.integer("index", gpu.index, {.high = 1023}, "of the node");
  f.name("model", gpu.model, "catalogue name");
  f.list(
      "instances", gpu.instances,
      [](Form& g, plan::PlannedInstance& one) { describe_there(g, one); }, {.most = 64},
      "by start");
}

void describe(Form& f, NodeRecord& node) {
  f.document("FleetNode");
  f.name("node", node.node, "its name");
  f.optional(!node.rack.empty()).name("rack", node.rack, "missing: one of its own");
  f.optional(!node.zone.empty()).name("zone", node.zone, "missing: one of its own");
  f.optional(!node.feed.empty()).name("feed", node.feed, "of power; missing: one of its own");
  f.optional(!node.gateway.empty()).text("gateway", node.gateway, "its address");
  f.optional(!node.grpc.empty()).text("grpc", node.grpc, "address of its gateway for gRPC");
  f.optional(!node.api.empty()).text("api", node.api, "its address");
  f.optional(!node.agent.empty())
      .name("agent", node.agent, "whose word this is: another agent of this name has another");
  f.list("gpus", node.gpus, describe, {.most = kMostGpus}, "by index");
  f.optional(!node.plans.empty())
      .names("plans", node.plans, {}, "GPU models that it can plan for; missing: it never leads");
  f.whole("taken", node.taken, kRevisions, "the newest revision that it took");
  f.whole("ready", node.ready, kRevisions, "the newest revision that it has carried out");
  f.optional(node.holds_budget != 0)
      .whole("holds_budget", node.holds_budget, kRevisions,
             "the newest revision of budgets that its GPUs hold to; missing: 0");
  f.optional(node.least_gpu_w > 0)
      .number("least_gpu_w", node.least_gpu_w, kNotNegative,
              "watts that its GPUs can be limited to together; missing: not said");
  f.optional(!node.trouble.empty())
      .text("trouble", node.trouble, "why its part cannot be carried out");
  f.list("carries", node.carries, describe, kServices, "what it serves now");
  f.optional(!node.unserved.empty())
      .names("unserved", node.unserved, kServices,
             "what it was to carry and could not serve, now or lately; missing: nothing");
  f.list(
      "runs", node.runs, [](Form& g, plan::PlannedGpu& gpu) { describe_there(g, gpu); },
      {.most = kMostGpus}, "the instances that are there");
}

void describe(Form& f, Wait& wait) {
  f.name("node", wait.node, "that must be ready first");
  f.whole("revision", wait.revision, kRevisions, "with this revision, or a newer one");
}

void describe(Form& f, Part& part) {
  f.document("FleetPart");
  f.name("node", part.node, "whose part it is");
  f.whole("revision", part.revision, kRevisions, "an agent never takes an older one");
  f.optional(!part.by.empty()).name("by", part.by, "the node that led");
  f.optional(!part.cause.empty()).text("cause", part.cause, "why, a sentence");
  f.optional(!part.waits_for.empty())
      .list("waits_for", part.waits_for, describe, kNodes, "it is not carried out before");
  f.optional(!part.elsewhere.empty())
      .list("elsewhere", part.elsewhere, describe, kServices,
            "nor before other nodes carry so much, and shall go on with it by their parts");
  f.optional(!part.services.empty())
      .text("services", part.services, "a services file of this node; missing: it has none");
  f.object("plan", part.plan, forms::describe_plan, "of this node's GPUs");
  f.optional(!part.gave_up.empty())
      .list("gave_up", part.gave_up, describe, kServices,
            "what it carried and has no room for any more, until others carry it");
}

void describe(Form& f, Wanted& wanted) {
  f.document("FleetWanted");
  f.note("services", wanted.services, "text of a services file");
  f.optional().word("survive", wanted.survive, kSurviveWords, "what may be lost, any one of it");
  f.optional().word("approval", wanted.approval, {"automatic", "approve"},
                    "whether a person sees a decision before it is written");
  forms::describe_priorities(f, wanted.priorities);
  f.optional(!wanted.drained.empty())
      .names("drained", wanted.drained, kNodes, "nodes that shall carry nothing");
  f.optional(!wanted.approved.empty())
      .name("approved", wanted.approved, "digest of the decision that a person said yes to");
  f.optional(!wanted.by.empty()).name("by", wanted.by, "who wrote this");
}

void describe(Form& f, Proposal& proposal) {
  f.document("FleetProposal");
  f.name("digest", proposal.digest, "of what would be written");
  f.notes("changes", proposal.changes, {.most = 100'000}, "a sentence each");
}

void describe(Form& f, LeaderRecord& leader) {
  f.document("FleetLeader");
  f.name("node", leader.node, "the node that leads");
  f.optional(!leader.gpus.empty()).names("gpus", leader.gpus, {}, "models that nodes have");
}

void describe(Form& f, AgentsVerdict& one) {
  f.name("service", one.service, "its name");
  f.name("verdict", one.verdict, "serves, degraded, at_risk, down, unknown");
}

void describe(Form& f, ServiceWhy& one) {
  f.name("service", one.service, "its name");
  f.text("why", one.why, "a sentence");
}

void describe(Form& f, RateRecord& rates) {
  f.document("FleetRates");
  f.list("rates", rates.rates, describe, kServices, "what arrived at its gateway lately");
  f.optional(!rates.uncarried.empty())
      .list("uncarried", rates.uncarried, describe, kServices,
            "what was asked for in vain there lately, since no node carried it");
  f.optional(!rates.verdicts.empty())
      .list("verdicts", rates.verdicts, describe, kServices, "of its agent, on what it carries");
  f.number("gpu_draw_w", rates.gpu_draw_w, kNotNegative, "what its GPUs draw");
  f.optional(!rates.missing.empty())
      .list("missing", rates.missing, describe, kServices,
            "of a leader: why services are not as they are wanted");
  f.optional(!rates.notes.empty())
      .notes("notes", rates.notes, {}, "of a leader: on the whole fleet, a sentence each");
}

void describe_line(Form& f, FleetEvent& event) {
  f.whole("time_ms", event.time_ms, kTimes, "since 1970, by the clock of who wrote it");
  f.whole("revision", event.revision, kRevisions, "of the parts that were written; 0: none");
  f.name("by", event.by, "who did it");
  f.text("what", event.what, "a sentence");
}

void describe(Form& f, FleetEvent& event) {
  f.document("FleetEvent");
  describe_line(f, event);
}

struct History {
  std::vector<FleetEvent> events = {};
};
void describe(Form& f, History& history) {
  f.document("FleetHistory");
  f.list("events", history.events, describe_line, {}, "oldest first");
}

template <class T>
std::string written(const T& value) {
  return write_form(value, static_cast<void (*)(Form&, T&)>(describe), Form::Style::compact);
}
template <class T>
Result<T> parsed(const std::string& key, std::string_view text) {
  return read_form<T>(key, text, static_cast<void (*)(Form&, T&)>(describe));
}
}  // namespace

Rates rates_of(const std::vector<Carried>& carried) {
  Rates rates;
  for (const Carried& one : carried) rates[one.service] += one.rate_rps;
  return rates;
}

Rates rates_of(const Part& part) {
  Rates rates;
  for (const plan::PlannedService& one : part.plan.services)
    if (!one.member) rates[one.name] += one.rate.value;
  return rates;
}

std::vector<Carried> carried_of(const Rates& rates) {
  std::vector<Carried> all;
  for (const auto& [service, rate] : rates) all.push_back({service, rate});
  return all;
}

std::string write(const NodeRecord& value) { return written(value); }
std::string write(const Part& value) { return written(value); }
std::string write(const Wanted& value) { return written(value); }
std::string write(const Proposal& value) { return written(value); }
std::string write(const LeaderRecord& value) { return written(value); }
std::string write(const RateRecord& value) { return written(value); }
std::string write(const FleetEvent& value) { return written(value); }

std::string history_json(const FleetView& view) {
  History history;
  for (const auto& [key, event] : view.history) history.events.push_back(event);
  return written(history);
}

Result<NodeRecord> parse_node_record(const std::string& key, std::string_view text) {
  return parsed<NodeRecord>(key, text);
}
Result<Part> parse_part(const std::string& key, std::string_view text) {
  return parsed<Part>(key, text);
}
Result<std::map<std::string, int>> read_priorities(const Document& document, const Node& list) {
  Node only;
  only.kind = Node::Kind::object;
  only.members.push_back({"priorities", list});
  return read_form<std::map<std::string, int>>(Document{document.file, only},
                                               [](Form& f, std::map<std::string, int>& all) {
                                                 forms::describe_priorities(f, all);
                                                 f.closed();
                                               });
}

Result<Wanted> parse_wanted(const std::string& key, std::string_view text) {
  return parsed<Wanted>(key, text);
}
Result<Proposal> parse_proposal(const std::string& key, std::string_view text) {
  return parsed<Proposal>(key, text);
}
Result<LeaderRecord> parse_leader_record(const std::string& key, std::string_view text) {
  return parsed<LeaderRecord>(key, text);
}
Result<RateRecord> parse_rate_record(const std::string& key, std::string_view text) {
  return parsed<RateRecord>(key, text);
}
Result<FleetEvent> parse_fleet_event(const std::string& key, std::string_view text) {
  return parsed<FleetEvent>(key, text);
}

std::vector<DocumentKind> document_kinds() {
  std::vector<DocumentKind> kinds = {
      document_kind<NodeRecord, describe, "FleetNode", "a node of a fleet, and how far it is">(),
      document_kind<Part, describe, "FleetPart", "what a node of a fleet shall carry">(),
      document_kind<Wanted, describe, "FleetWanted", "what is wanted of a fleet">(),
      document_kind<Proposal, describe, "FleetProposal",
                    "a decision of a fleet's leader that waits for a person">(),
      document_kind<LeaderRecord, describe, "FleetLeader", "who leads a fleet">(),
      document_kind<RateRecord, describe, "FleetRates", "what arrived at a node's gateway">(),
      document_kind<FleetEvent, describe, "FleetEvent", "a line of a fleet's history">(),
      document_kind<History, describe, "FleetHistory", "what a fleet's leaders and people did">(),
  };
  for (DocumentKind& kind : power_kinds()) kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace partita::fleet
