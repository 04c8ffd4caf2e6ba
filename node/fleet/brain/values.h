// What a fleet keeps in its store, as values: nodes and how they are, what is wanted, each node's
// part of it. Who writes which of them is said there; how they are written is documents.h.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hw/layout.h"
#include "plan/serving.h"

namespace partita::fleet {

inline constexpr std::size_t kMostNodes = 10'000;
inline constexpr std::size_t kMostGpus = 64;  // of a node

// What may be lost, any one of it, while every service still has what it was promised.
enum class Survive { none, node, rack, zone, feed };
inline constexpr std::initializer_list<const char*> kSurviveWords = {"none", "node", "rack", "zone",
                                                                     "feed"};
// What a leader does with what it planned: writes it, or lets a person see it first. Parts that
// make up for something lost are always written.
enum class Approval { automatic, approve };

struct NodeGpu {
  int index = 0;
  std::string uuid, model;
  std::optional<int> nvlink = {};  // its domain, by the lowest number in it; missing: not said
  std::string unusable = {};  // why it is not for services; empty: it is
  std::vector<hw::Placement> lent = {};  // instances that somebody has, and that stay
  bool operator==(const NodeGpu&) const = default;
};

// A service and the rate that a node is planned for, of it.
struct Carried {
  std::string service;
  double rate_rps = 0;
  bool operator==(const Carried&) const = default;
};

// A node, written by its agent under a lease: where it is, what it has, how far it is.
struct NodeRecord {
  std::string node;
  std::string rack = {}, zone = {}, feed = {};    // empty: each such node counts as one of its own
  std::string gateway = {}, grpc = {}, api = {};  // addresses, two of its gateway; empty: none
  std::string agent = {};  // whose word this is: never the same of two agents; empty: not said
  std::vector<NodeGpu> gpus = {};
  // GPU models that it has profiles of; empty: it does not stand for election.
  std::vector<std::string> plans = {};
  long taken = 0;            // the newest revision that it took; it never takes an older one
  long ready = 0;            // the newest revision that it has carried out
  long holds_budget = 0;     // the newest revision of budgets that its GPUs hold to
  double least_gpu_w = 0;    // that its GPUs can be limited to together; 0: not said
  std::string trouble = {};  // why `taken` cannot be carried out; empty: it can
  std::vector<Carried> carries = {};  // what it serves now, by service
  // Services that it was to carry and could not serve, now or lately: they get no more here.
  std::vector<std::string> unserved = {};
  std::vector<plan::PlannedGpu> runs = {};  // the instances that are there
  bool operator==(const NodeRecord&) const = default;
};

// A part is not carried out before that node has carried out that revision.
struct Wait {
  std::string node;
  long revision = 0;
  bool operator==(const Wait&) const = default;
};

// What a node shall carry, written by a leader.
struct Part {
  std::string node;
  long revision = 0;       // grows from decision to decision; one decision's parts share it
  std::string by = {};     // the leader's node
  std::string cause = {};  // why, a sentence
  std::vector<Wait> waits_for = {};
  // Nor before other nodes carry so much of what it gives up, and are to go on with it by their
  // parts: who has carried out a revision that was waited for may have lost a GPU since.
  std::vector<Carried> elsewhere = {};
  std::string services = {};  // text of a services file, of those; empty: there are none
  plan::ServingPlan plan;     // of this node's GPUs; services at the rates that it shall carry
  // What it carried and has no room for any more: lost, until their services have their rates.
  std::vector<Carried> gave_up = {};
  bool operator==(const Part&) const = default;
};

// What is wanted of the fleet, written by people.
struct Wanted {
  std::string services;  // text of a services file
  Survive survive = Survive::none;
  Approval approval = Approval::automatic;
  std::map<std::string, int> priorities = {};  // of services, higher first; missing: its own
  std::vector<std::string> drained = {};       // nodes that shall carry nothing
  std::string approved = {};              // the digest of the decision that a person said yes to
  std::string by = {};                    // who wrote this
  bool operator==(const Wanted&) const = default;
};

// A decision that waits for a person.
struct Proposal {
  std::string digest;
  std::vector<std::string> changes = {};  // a sentence each
  bool operator==(const Proposal&) const = default;
};

// Who leads, under a lease.
struct LeaderRecord {
  std::string node;
  std::vector<std::string> gpus = {};  // models that nodes have
  bool operator==(const LeaderRecord&) const = default;
};

// What a node's agent says of a service: serves, degraded, at_risk, down, unknown.
struct AgentsVerdict {
  std::string service, verdict;
  bool operator==(const AgentsVerdict&) const = default;
};

// Why a service is not as it is wanted, by the leader.
struct ServiceWhy {
  std::string service, why;
  bool operator==(const ServiceWhy&) const = default;
};

// What arrived at a node's gateway lately, and what became of it; or what a leader plans for.
struct RateRecord {
  std::vector<Carried> rates = {};  // by service, requests per second
  // The same, what was asked for in vain, since no node carried it.
  std::vector<Carried> uncarried = {};
  std::vector<AgentsVerdict> verdicts = {};
  std::optional<double> gpu_draw_w = {};  // what its GPUs draw; missing: not known
  std::vector<ServiceWhy> missing = {};   // of a leader
  std::vector<std::string> notes = {};    // of a leader, on the whole fleet
  bool operator==(const RateRecord&) const = default;
};

// One line of the fleet's history.
struct FleetEvent {
  long time_ms = 0;  // since 1970
  long revision = 0;
  std::string by, what;
  bool operator==(const FleetEvent&) const = default;
};

// By service.
using Rates = std::map<std::string, double>;
Rates rates_of(const std::vector<Carried>& carried);
Rates rates_of(const Part& part);  // of what clients ask for
std::vector<Carried> carried_of(const Rates& rates);

}  // namespace partita::fleet
