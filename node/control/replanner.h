// Replanner: when another plan is worth making, and which: because it must be, because a service is
// short, because fewer GPUs would do. The brain of that; what it decides on, others carry out. It
// asks for nothing again that led to nothing lately (damping.h). Internal to control.
#pragma once

#include <optional>
#include <string>

#include "control/damping.h"
#include "control/planning.h"
#include "control/report.h"

namespace partita::control {

enum class Why { must, shortage, gain, person };

// A plan that is worth being in force.
struct Decision {
  Planned planned;
  std::string cause;
  Why why = Why::must;
};

class Replanner {
 public:
  // `damping` and `memo` outlive this.
  Replanner(const World& world, const Damping& damping, PlanMemo& memo, Report& report)
      : world_(world), damping_(damping), memo_(memo), report_(report) {}

  // Somebody wants a plan, whatever damping says.
  std::optional<Decision> forced(const PlanGround& ground, const std::string& user, bool stuck);
  // The plan that there is cannot stay. `stuck`: it cannot be brought about, so it is no ground.
  std::optional<Decision> must(const PlanGround& ground, const std::string& cause, bool stuck);
  // It can.
  void need_not() { report_.over(kMust); }
  // The plan in force may stay; nothing: it shall.
  std::optional<Decision> consider(const PlanGround& ground);
  // What was tried in vain may be tried again.
  void forget_tries() { tries_.forget(); }

  // For what the desired services need, or as much of that as there is room for.
  Result<Planned> plan_all(const PlanGround& ground, bool stuck = false) const;

 private:
  struct Shortage {
    bool measured = false, too_many = false;  // more comes than is planned for, or carried
    std::string about, cause;                 // empty: nothing is short
  };
  Shortage shortage_of(const PlanGround& ground) const;
  std::optional<Decision> relieve(const PlanGround& ground, const Shortage& shortage);
  Result<Planned> plan_shortage(const PlanGround& ground, bool too_many) const;
  std::optional<Decision> consider_gain(const PlanGround& ground);
  bool worth_it(const PlanGround& ground, const Planned& planned) const;
  // Which rates of the plan in force that are more than enough are lowered to what is needed.
  enum class Lower { none, calm, all };  // calm: none that a cooldown or the slack keeps
  Want want(const PlanGround& ground, double ServiceNeed::*need, Lower lower) const;
  struct Limits {
    std::optional<int> max_moves = {};
    bool partial = false;  // a plan for a part will do
    bool stuck = false;
  };
  Result<Planned> plan(const PlanGround& ground, const Want& want, const Limits& limits) const;
  // For what is needed soon. What a cooldown keeps is kept where there is room for all alone.
  Result<Planned> plan_needed(const PlanGround& ground, const Limits& limits) const;

  static constexpr const char* kMust = "must";  // the notice, and what was tried

  const World& world_;
  const Damping& damping_;
  PlanMemo& memo_;
  Report& report_;
  Tries tries_;
  std::string told_about_;  // of the notice kMust
};

}  // namespace partita::control
