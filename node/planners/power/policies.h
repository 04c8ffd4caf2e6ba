// Who chooses the setting of one GPU for given rates: the dissertation's six policies (Quach,
// ch. 4, CoFRIS) and `exact`.
//   baseline   highest clock, all units
//   fs         clocks vary; all units
//   rs-se      units vary, whole clusters that nobody uses are gated; highest clock
//   rs-cu      the same, every unit is gated by itself
//   cofris-se  clocks and units vary, clusters gated
//   cofris-cu  clocks and units vary, units gated
//   exact      clocks, units and batches vary; gated as the problem says
// The six look up a table: per step of kRateSteps steps of the highest rate the setting that takes
// least with every share always busy, batch 1 -- that is the power that a sweep measures. `exact`
// takes the rate as it is and the power at that rate.
// With several services the paper says nothing: policies that keep the units keep a static split
// that carries every service's full rate with the most room.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planners/power/controller.h"
#include "planners/power/one_gpu.h"

namespace partita::power {

inline constexpr int kRateSteps = 100;

struct Policy {
  std::string name;
  bool clocks = true, units = true, exact = false;
  plan::Gating gating = plan::Gating::none;
};

// In the order above.
std::vector<Policy> all_policies(plan::Gating exact_gating);
// bad_input names the nearest.
Result<Policy> policy_named(const std::string& name, plan::Gating exact_gating);

// Chooses settings under one policy. Owns its options; settings point into it.
class Chooser {
 public:
  // infeasible, with the reason, when no setting of the policy carries the problem's rates.
  // `given`: see ControlOptions.
  static Result<Chooser> make(const plan::PowerProblem& problem, const Policy& policy,
                              const std::vector<GivenShare>& given = {});
  Chooser(Chooser&&) = default;
  Chooser& operator=(Chooser&&) = default;

  const Policy& policy() const { return policy_; }
  const plan::PowerProblem& problem() const { return *problem_; }
  GpuSearch search() const { return {problem_->table, views_}; }
  const Choice& choice() const { return choice_; }

  // None where the rates are more than it carries.
  std::optional<GpuSetting> choose(const std::vector<Rps>& rates) const;
  // The setting that carries the most: highest clock, all units.
  const GpuSetting& most() const { return most_; }

 private:
  Chooser() = default;
  Result<void> prepare();

  std::unique_ptr<plan::PowerProblem> problem_;
  Policy policy_;
  std::unique_ptr<std::vector<ServiceOptions>> options_;
  std::vector<const ServiceOptions*> views_;
  Choice choice_;
  GpuSetting most_;
};

// Why no setting carries the problem's rates on one GPU, as one sentence per service at fault, or
// one for all together.
std::vector<std::string> why_impossible(const plan::PowerProblem& problem,
                                        const std::vector<ServiceOptions>& options);

}  // namespace partita::power
