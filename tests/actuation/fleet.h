// The simulation fleet: one seed is one history of a node. Plans follow each other, are rolled back
// and drained, while drivers, disks, GPUs, workers and other people do their worst and the program
// is killed; then it is calm, and the last plan must come true. The real apply, executor, journal,
// drain, rollback and supervisor run on drivers/sim, in one thread, on a simulated clock.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace partita::actuation_tests {

struct FleetResult {
  std::vector<std::string> violations;  // of safety, and of what calm must bring
  std::uint64_t hash = 0;               // of everything that happened
  std::map<std::string, long> counts;   // of events, by their first word
  long operations = 0, transactions = 0, deaths = 0, refusals = 0;
  long guarded = 0, destroyed = 0;  // instances that were to stay at some plan, and that went
  int reconciles = 0;               // most of one apply in calm
  int causes = 0;                   // that had to be removed before the last plan could come true
};

// `echo` gets a line per event; null: nobody does.
FleetResult run_fleet(std::uint64_t seed, std::FILE* echo = nullptr);

}  // namespace partita::actuation_tests
