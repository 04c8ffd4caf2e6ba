// What nodes of a simulated fleet share, feeds of power, and what GPUs of one do, NVLink domains.
// Drawn for seeds from kFirstPlaces on, by a generator of its own, so that other seeds draw what
// they drew. What must hold is said here by the numbers of GPUs alone, not by a planner or a judge.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fleet/brain/values.h"

namespace partita::fleet {

class SimPlaces {
 public:
  explicit SimPlaces(std::uint64_t seed);

  // At the beginning, once for every node, by its number: its feed, its GPUs, which are linked.
  void put(NodeRecord& node, int number);
  // What may be lost, by what was drawn for others.
  Survive survive(Survive drawn) const { return outlives_feeds_ ? Survive::feed : drawn; }
  // Language models that take groups of linked GPUs.
  std::vector<std::string> groups();

  // Which feed fails, in place of another trouble; empty: none does.
  std::string failing_feed();
  // Whether a GPU that is lost is not even listed any more.
  bool falls_out() { return links_ && rng_.below(2) == 0; }

 private:
  Rng rng_;
  bool feeds_ = false, outlives_feeds_ = false, links_ = false;
};

// What of a node is lost with it, at most, in one loss that services are to survive.
std::string lost_together(const NodeRecord& node, Survive survive);
// Groups that stand in several domains, or are not whole; a sentence each.
std::vector<std::string> faults_of_groups(const NodeRecord& node,
                                          const std::vector<plan::PlannedGpu>& gpus);
// How many there are.
int groups_on(const std::vector<plan::PlannedGpu>& gpus);
// Whether the node has a domain with so many GPUs that are for services and have nothing on them.
bool has_free_domain(const NodeRecord& node, int gpus);
// Of what the node carries of a service what is left without that GPU: groups of which it is one
// carry nothing more. A pipeline has that of the step that lost most.
double left_without(const NodeRecord& node, const std::string& service, int gpu);

}  // namespace partita::fleet
