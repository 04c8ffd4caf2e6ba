// Changes: from the plan in force to the node. The brain of which change is made when, of what came
// of it, and of drift; it makes no plan. Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/damping.h"
#include "control/deeds.h"
#include "control/node_view.h"
#include "control/planning.h"
#include "control/report.h"
#include "control/snapshot.h"

namespace partita::control {

// What changes are made from in a step.
struct ChangeGround {
  std::int64_t now_ms = 0;
  Mode mode = Mode::automatic;
  const NodeView& node;
  const std::optional<Target>& target;                      // the plan in force
  const plan::Judged<plan::ServingPlan>* judged = nullptr;  // null: the judge refuses it now,
  std::string refusal = {};                                 // and why
  long changes = 0;                                         // numbers used so far
};

// What a look at changes leads to.
struct Progress {
  bool busy = false;           // the node is not as wanted, whatever is done about that
  bool is_there = false;       // the node is as the plan in force wants it
  bool by_repair = false;      // of is_there: it was made so again
  bool is_not_there = false;   // it was there and is no more
  std::string cannot_be = {};  // why another plan is needed: this one could not be made too often
  std::optional<ApplyDeed> apply = {};
  long changes = 0;  // numbers used so far
};

class Changes {
 public:
  // `kept` is written here only, and outlives this.
  Changes(const World& world, ChangesKept& kept, Report& report)
      : world_(world), kept_(kept), report_(report) {}

  // What came of the apply under way.
  Progress hear(const std::vector<ApplyEnd>& ends, const ChangeGround& ground);
  // How far the apply under way is.
  void watch(std::size_t steps_done);
  // The node becomes as the plan in force wants it.
  Progress bring_about(const ChangeGround& ground);
  // GPUs that services leave are emptied once the plan in force does without them.
  Progress empty(const std::vector<OutGpu>& out, const ChangeGround& ground);
  // The number of the apply under way, which is to end; nothing: there is none.
  std::optional<long> stop();
  // A person does not want this one.
  void reject(ChangeNow change, const std::string& why, std::int64_t now_ms);
  // What was tried in vain may be tried again.
  void forget_tries() { tries_.forget(); }

  struct Under {
    long number = 0;
    std::string cause;
    bool emptying = false, stopping = false;
    ChangeNow shown = {};
    // Only what is promised is written down.
    bool writes() const { return shown.change.empty(); }
  };
  const std::optional<Under>& under() const { return under_; }
  const std::optional<ChangeNow>& last() const { return last_; }
  long made() const { return made_; }  // that ended well

 private:
  void begin_target(const ChangeGround& ground);
  void end_well(std::int64_t now_ms);
  std::string end_badly(const Error& error, bool stopped, const ChangeGround& ground);
  Progress as_wanted(const Target& target);
  bool still_as_wanted(const actuate::Wanted& wanted, const ChangeGround& ground) const;
  Progress make(const actuate::Wanted& wanted, actuate::Change change, const ChangeGround& ground);
  bool waits_for_batches(const actuate::Wanted& wanted, const NodeView& node);
  void count_drift(const Target& target, const actuate::Change& change, Mode mode);
  ApplyDeed apply(actuate::Wanted wanted, actuate::Change change, Under under,
                  const ChangeGround& ground);

  const World& world_;
  ChangesKept& kept_;
  Report& report_;
  std::optional<Under> under_;
  std::optional<ChangeNow> last_;
  long made_ = 0;
  long target_ = 0;            // the change that the following counts
  std::int64_t retry_ms_ = 0;  // no apply before
  double pause_s_ = 0;
  int in_vain_ = 0;  // attempts in a row to bring about the target
  // The node, when it was as the target wants it: as long as nothing of this changes it is so.
  struct Settled {
    device::NodeState state;
    actuate::Assignment assignment;
    actuate::JournalState journal;
    actuate::Wanted wanted;
  };
  std::optional<Settled> settled_;
  bool told_drift_ = false;                // this drift was counted
  bool verify_ = false;                    // an apply has ended well: what is read now shows it
  std::vector<plan::Terms> written_ = {};  // the terms of that, or the one under way
  long repair_number_ = 0;                 // of the repair that is made, or was made last
  std::map<std::string, int> emptying_;    // how often each GPU was emptied in vain
  Tries tries_;
};

}  // namespace partita::control
