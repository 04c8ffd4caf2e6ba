// A fleet in virtual time: from a seed to what went wrong, which is to be nothing. What must hold:
// - parts are judged by a judge of plans, and the revisions of each node's grow;
// - no node takes a part older than one that it took, whatever was killed meanwhile;
// - a service keeps what it had of its rate and was to keep by the parts of its nodes, but for
//   kRecoveryMs after something that it needs was lost (with `survive`: more than one node, or more
//   than the nodes of a feed), and as long as there is no room for its rate, with whatever margin;
// - no slice of a GPU has two owners, services and batch jobs together; jobs that have room begin,
//   those that have none are said to wait (sim_batches.h);
// - at the end of each calm spell the fleet has converged: one leader, every node has carried out
//   its part, or says what is lent in its way, every service that has room has its rate, no GPU has
//   an instance of a service that is planned elsewhere, and nothing is left to decide;
// - groups of GPUs are within NVLink domains (sim_places.h), and no model of groups is without one
//   where a domain is free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita::fleet {

inline constexpr std::int64_t kMostCarryMs = 20'000;  // a part, once it is taken
// The lease of whoever is lost, that of a leader, nodes that are missed, a turn of each, and a part
// carried out twice: by one that grows, once more where that fails.
inline constexpr std::int64_t kRecoveryMs = 10'000 + 12'000 + 4'000 + 4'000 + 2 * kMostCarryMs;

// Seeds from here on have language models and batch jobs beside.
inline constexpr std::uint64_t kFirstBeside = 10'000;
// And these feeds of power that fail, NVLink domains, GPUs that are gone from their nodes.
inline constexpr std::uint64_t kFirstPlaces = 20'000;

struct FleetSimOptions {
  std::uint64_t seed = 0;
  int hours = 2;
  bool tells = false;     // the whole story in `story`
  bool remembers = true;  // all brains together; else each for itself
};

struct FleetSimReport {
  std::vector<std::string> wrong;  // a sentence each; empty: all held
  std::vector<std::string> story;
  int nodes = 0, deaths = 0, cuts = 0, leaders_killed = 0, outages = 0, wishes = 0, approvals = 0,
      stuck = 0, language = 0, feeds_lost = 0, fell_out = 0;
  long decisions = 0, parts = 0, turns = 0;
  long groups = 0;                    // of GPUs, of parts that were carried out
  long asked = 0, asked_in_vain = 0;  // services at the ends of hours; carried by nobody
  long jobs = 0, jobs_done = 0, attempts = 0;  // batch jobs: submitted, done; and how often begun
  std::int64_t longest_short_ms = 0;  // that a service had less than before
};

FleetSimReport simulate_fleet(const FleetSimOptions& options);

}  // namespace partita::fleet
