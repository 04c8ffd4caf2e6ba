// The safety rules of actuation, kept by a witness that sees every call at the doors of the program
// under test and shares nothing with node/act but the forms of its files:
// - what the plan keeps, what the plan has nothing to do with and what others made and nobody asked
//   to remove is never destroyed; nor is what a process held when the program last looked;
// - nothing is created or destroyed outside a transaction of the journal; whatever the program made
//   stands in the journal as owned or intended, at any moment;
// - every line of the journal is whole, except the last one;
// - a service keeps the capacity that the change promised.
// Known limit: what others create exactly where the program announced a creation of the same
// profile is taken for the program's own, by the program and here.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "act/change.h"
#include "drivers/sim/machine.h"

namespace partita::actuation_tests {

namespace sim_driver = drivers::sim;

using InstanceKey = std::pair<int, int>;                     // GPU index, gi_id
using PlaceKey = std::tuple<std::string, std::string, int>;  // GPU UUID, profile, start

class FleetOracle {
 public:
  // The operation under way; of a wanted layout nothing when instances are not to be changed.
  struct Operation {
    const actuate::Wanted* target = nullptr;
    bool keep_foreign = false;
    double min_available = 1;
  };

  void begin(const Operation& operation);
  void end() { operation_ = {}; }
  // The first steps of a change that was just planned.
  void promised(const actuate::Change& change, const sim_driver::Machine& machine);

  // Calls of the program, before they reach the machine ...
  void before_create(const sim_driver::Machine& machine, int gpu, int nvml_enum, int start);
  void before_create_compute(const sim_driver::Machine& machine, int gpu, int gi_id);
  void before_destroy(const sim_driver::Machine& machine, int gpu, int gi_id);
  void looked(int gpu, const device::GpuState& state);
  // ... and whenever something may have changed: what nobody else made the program made.
  void check(const sim_driver::Machine& machine);
  // The journal and the assignment as they now are on the disk.
  void journal_is(std::string_view text, const sim_driver::Machine& machine);
  void assignment_is(std::string_view text, const sim_driver::Machine& machine);

  // What others do.
  void made_by_others(int gpu, int gi_id) { strays_.insert({gpu, gi_id}); }
  void removed_by_others(int gpu, int gi_id);
  // A GPU that lost all instances.
  void wiped(int gpu, const std::string& uuid);

  bool is_stray(int gpu, int gi_id) const { return strays_.contains({gpu, gi_id}); }
  bool announced(const PlaceKey& place) const { return intended_.contains(place); }
  // What ran where when the last transaction began: what a rollback has to bring back.
  const std::set<std::pair<PlaceKey, std::string>>& source() const { return source_; }
  // Whether the target says what becomes of that GPU.
  static bool managed(const sim_driver::SimGpu& gpu, const actuate::Wanted& target);

  std::vector<std::string> violations;
  long transactions = 0;
  long guarded = 0, destroyed = 0;  // instances that were to stay, and that went

 private:
  void violate(const std::string& what);  // each violation once
  std::vector<std::string> read_line(std::string_view line, const sim_driver::Machine& machine,
                                     bool again);
  void match(const std::vector<std::string>& gpu_uuids, bool same_transaction,
             const sim_driver::Machine& machine);
  std::set<std::pair<PlaceKey, std::string>> layout(const sim_driver::Machine& machine) const;
  void protect(const std::vector<std::string>& gpu_uuids, const sim_driver::Machine& machine);
  void check_floors(const sim_driver::Machine& machine);
  std::map<std::string, double> capacities(const sim_driver::Machine& machine) const;

  Operation operation_;
  std::set<InstanceKey> ours_, strays_, protected_;
  std::map<int, std::set<int>> held_;  // instances with processes, per GPU, at the last look
  std::set<PlaceKey> intended_;
  std::set<std::string> owned_;
  bool pending_ = false;
  int transaction_ = 0;
  actuate::Wanted begun_;  // its target
  std::set<std::pair<PlaceKey, std::string>> source_;
  std::vector<std::string> matched_;  // GPU of each wanted GPU in that transaction
  std::set<std::string> wiped_;       // GPUs that lost everything since it began
  std::size_t read_bytes_ = 0;        // of the journal
  struct Running {
    std::string device, gpu_uuid, service;
    double rps = 0;
  };
  std::vector<Running> assigned_;
  std::map<std::string, double> floors_;
};

}  // namespace partita::actuation_tests
