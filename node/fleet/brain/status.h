// What a fleet is like, for people and programs: the document `kind: FleetStatus`. From the store
// alone; nothing is planned. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "fleet/brain/view.h"

namespace partita::fleet {

struct NodeStatus {
  std::string node, rack = {}, zone = {}, feed = {};
  // ready, becomes so, waits, trouble, drained, lost; unknown: the store is not heard.
  std::string state = "lost";
  std::string gateway = {}, grpc = {};  // addresses of its gateway
  bool there = true, drained = false;
  int gpus = 0, usable_gpus = 0;
  std::vector<std::vector<int>> nvlink = {};  // GPUs that are linked; empty: not said
  long revision = 0, taken = 0, ready = 0;  // of its newest part; that it took; carried out
  std::string trouble = {};
  std::string waits_for = {};  // nodes, where its newest part is not taken yet
  std::vector<Carried> carries = {};
  // Of the whole node: what it may draw; the rest is of its GPUs. Missing: nobody divides it.
  std::optional<double> budget_w = {}, gpu_budget_w = {}, gpu_draw_w = {};
  bool holds = true;            // it has said that it holds to its budget
  std::string limited_by = {};  // the point that keeps it from more
  bool operator==(const NodeStatus&) const = default;
};

// What one node has of a service; one without a part is planned for what it carries. `share` of its
// requests should go there: by what it carries and will carry still, where the nodes that stay
// carry all of it; else by what it carries now; by what it is to carry where nobody does. None goes
// to a node that is not there.
struct ServicePiece {
  std::string node;
  double planned_rps = 0, carried_rps = 0, share = 0;
  bool operator==(const ServicePiece&) const = default;
};
struct ServiceStatus {
  std::string service;
  // As the agents of its nodes say it, the worst; at_risk, too, where less is carried than wanted,
  // or would be after a loss that it is to survive, degraded where less than arrives. unknown:
  // nobody has measured it, or the store is not heard.
  std::string verdict = "down";
  double wanted_rps = 0, arrived_rps = 0, planned_rps = 0, carried_rps = 0;
  std::string why = {};  // it is not as it is wanted; empty: the leader says nothing
  double answer_ms = 0;  // as promised, of a whole answer of mean length; 0: it is not said
  double shared_rps = 0;  // that all shares are of; not in the document
  std::vector<ServicePiece> on = {};
  bool operator==(const ServiceStatus&) const = default;
};

// A feed, PDU or rack, and what it carries where every node draws its budget.
struct PointStatus {
  std::string name, under = {};
  double rating_w = 0, budget_w = 0;
  bool failed = false;
  bool operator==(const PointStatus&) const = default;
};
struct PowerStatus {
  std::string sharing;
  long revision = 0;
  std::vector<PointStatus> points = {};
  std::vector<std::string> unsafe = {};  // feeds whose failure the rest would not bear
  std::string over = {};                 // what does not hold
  bool operator==(const PowerStatus&) const = default;
};

class ServicesRead;

struct FleetStatus {
  std::string fleet, leader = {};
  long revision = 0;  // the newest of all parts, and of what nodes took
  // Services are wanted, every node that is there has carried out its part, and each service is
  // carried at the rate that parts say, by some node at least.
  bool converged = false;
  std::string survive = "none", approval = "automatic", proposal = {};  // digest
  std::vector<std::string> proposed = {}, damaged = {};
  std::vector<std::string> notes = {};  // of the leader, on the whole fleet
  std::string fault = {};  // why the store is not heard: all of this was so at `as_of_ms`
  std::int64_t as_of_ms = 0;
  std::vector<NodeStatus> nodes = {};        // by name; those that are lost, too
  std::vector<ServiceStatus> services = {};  // by name
  std::optional<PowerStatus> power = {};
};

// Why the status is of no service, words for a person; empty: it is of some. Who sends clients to
// nodes keeps what it knew then: a store that has lost all says the same.
std::string why_no_services(const FleetStatus& status);
// What is not known any more is not said to be so: with `fault`, nothing counts as carried out.
void make_stale(FleetStatus& status, const std::string& fault, std::int64_t as_of_ms);
// bad_input: what is wanted cannot be read.
Result<FleetStatus> status_of(const FleetView& view, const std::string& fleet,
                              ServicesRead* services_read = nullptr);
Result<FleetStatus> parse_status(const std::string& file, std::string_view text);
std::string status_json(const FleetStatus& status);
std::string status_text(const FleetStatus& status);
DocumentKind status_kind();
// Why nodes carry what they carry, for whom they wait, and which come last: of a node, of a
// service, or of all. bad_input: no part is of it.
Result<std::string> explain(const FleetView& view, const std::string& of);

}  // namespace partita::fleet
