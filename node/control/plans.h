// Plans: the one in force, the one that waits for a person, the one before. The brain of what
// becomes of a decision; it makes no plan and touches no node. Internal to control.
#pragma once

#include <optional>
#include <string>

#include "control/damping.h"
#include "control/planning.h"
#include "control/replanner.h"
#include "control/report.h"
#include "control/snapshot.h"

namespace partita::control {

// A target as it is shown, with what it would change on the node as it is, where that is known.
ChangeNow shown_of(const World& world, const Target& target, const PlanGround& ground,
                   PlanMemo& memo);

class Plans {
 public:
  struct Kept {
    PlansKept& plans;  // written here only
    Damping& damping;
  };
  // All of these outlive this.
  Plans(const World& world, Kept kept, PlanMemo& memo, Report& report)
      : world_(world), kept_(kept.plans), damping_(kept.damping), memo_(memo), report_(report) {}

  // A proposal that no person is waited for any more comes in force; one that does not fit goes.
  void look(const PlanGround& ground);
  // Why another plan must be made; empty: it need not.
  std::string must_replan(const PlanGround& ground) const;
  // Null: none is in force, or the judge refuses it (refusal()).
  const plan::Judged<plan::ServingPlan>* judged(const PlanGround& ground);
  const std::string& refusal() const { return judge_says_; }
  // In force in mode automatic or where only rates change; else it waits. Whether it is in force.
  bool settle_on(Decision decision, const PlanGround& ground);
  // Nothing waits any more.
  void drop(const std::string& why);
  // Nothing is in force any more, either; no change may be under way.
  void forget();

  Reply approve(const Approve& request, const std::string& user, const PlanGround& ground);
  Reply reject(const Reject& request, const std::string& user, const PlanGround& ground);
  Reply roll_back(const std::string& user, const PlanGround& ground);
  Reply send(const SetPlan& request, const std::string& user, const PlanGround& ground);

  // What apply told: the node is as the plan in force wants it (`by_repair`: was made so again), is
  // not any more, or cannot become so.
  void is_there(bool by_repair, std::int64_t now_ms);
  void is_not_there() { kept_.target->done = false; }
  void cannot_be(const std::string& why) { stuck_ = why; }
  // Numbers of changes up to this one are used.
  void count_changes(long so_far) { kept_.changes = so_far; }

  bool is_stuck() const { return !stuck_.empty(); }
  // Nothing is to be proposed now.
  bool is_quiet(std::int64_t now_ms) const { return now_ms < kept_.quiet_until_ms; }
  void end_quiet() { kept_.quiet_until_ms = 0; }
  // A person said no, and services and GPUs are as they were: not even what must be is proposed.
  // Empty: it may be.
  std::string refused_until(const PlanGround& ground) const;
  // Nothing but what is promised is to change.
  bool is_rerated() const { return rerated_; }
  // The one that waits, with what it would change, as far as show_proposal() has seen to it.
  const std::optional<ChangeNow>& proposed() const { return proposed_; }
  void show_proposal(const PlanGround& ground);
  void forget_proposed() { proposed_.reset(); }

 private:
  void adopt(Target target, const std::string& user, const std::string& sentence,
             std::int64_t now_ms);
  void rerate(Target target);
  void ask_again(const PlanGround& ground);
  void end_reduced();
  Reply not_waiting(long change) const;
  void be_quiet(std::int64_t now_ms);

  const World& world_;
  PlansKept& kept_;
  Damping& damping_;
  PlanMemo& memo_;
  Report& report_;
  std::optional<plan::Judged<plan::ServingPlan>> judged_;  // the target, once it was judged again
  std::string judge_says_;                                 // why it was refused
  std::string stuck_;     // why another plan is made: this one could not be, too often
  bool rerated_ = false;  // it was there, and only what it promises is new
  std::optional<ChangeNow> proposed_;
  std::string proposed_on_;  // the GPUs that could be used then; empty: not known
};

}  // namespace partita::control
