#include "planners/power/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/nearest.h"
#include "planners/power/controller.h"

namespace partita::power {
namespace {

std::string sentences(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : "; ") + one;
  return text;
}

// The most that any option carries.
Rps most_of(const ServiceOptions& options) {
  Rps most{0};
  for (const auto& at_clock : options)
    for (const ServiceOption& option : at_clock) most = std::max(most, option.capacity);
  return most;
}

std::string why_none(const plan::PowerProblem& problem, const plan::Terms& service) {
  const plan::ModelResponse* model = problem.table.find(service.model);
  if (!model)
    return fmt::format("service {}: the table has no model '{}'", service.name, service.model);
  Millis least = model->points.front().p95;
  for (const plan::PowerPoint& point : model->points) least = std::min(least, point.p95);
  if (least > service.slo)
    return fmt::format("service {}: the SLO is {:g} ms, the fastest setting takes {:g} ms",
                       service.name, service.slo.value, least.value);
  return fmt::format(
      "service {}: at an SLO of {:g} ms no setting leaves room for requests that wait for one "
      "another (p{:g}); the fastest takes {:g} ms",
      service.name, service.slo.value, service.percentile, least.value);
}

// Gives away the units that are left, each time to the service with the least room, and allows the
// batches that carry the most.
void widen(const GpuSearch& search, const std::vector<Rps>& rates, GpuSetting& setting) {
  int free = search.table.units();
  for (const ServiceOption* option : setting.options) free -= option->units;
  while (true) {
    const ServiceOption* best = nullptr;
    std::size_t who = 0;
    double least_room = 0;
    for (std::size_t s = 0; s < setting.options.size(); ++s) {
      const ServiceOption& now = *setting.options[s];
      const double room = now.capacity.value / std::max(rates[s].value, 1e-9);
      if (best && room >= least_room) continue;
      const ServiceOption* next = nullptr;
      for (const ServiceOption& option : (*search.services[s])[setting.clock])
        if (option.batch == now.batch && option.units > now.units &&
            (!next || option.units < next->units))
          next = &option;
      if (next && next->units - now.units <= free) best = next, who = s, least_room = room;
    }
    if (!best) break;
    free -= best->units - setting.options[who]->units;
    setting.options[who] = best;
  }
  for (std::size_t s = 0; s < setting.options.size(); ++s)
    for (const ServiceOption& option : (*search.services[s])[setting.clock])
      if (option.units == setting.options[s]->units &&
          option.capacity > setting.options[s]->capacity)
        setting.options[s] = &option;
}

}  // namespace

std::vector<Policy> all_policies(plan::Gating exact_gating) {
  using plan::Gating;
  return {{"baseline", false, false, false, Gating::none},
          {"fs", true, false, false, Gating::none},
          {"rs-se", false, true, false, Gating::group},
          {"rs-cu", false, true, false, Gating::unit},
          {"cofris-se", true, true, false, Gating::group},
          {"cofris-cu", true, true, false, Gating::unit},
          {"exact", true, true, true, exact_gating}};
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Policy& policy : all_policies({})) names.push_back(policy.name);
  return names;
}

Result<Policy> policy_named(const std::string& name, plan::Gating exact_gating) {
  for (Policy& policy : all_policies(exact_gating))
    if (policy.name == name) return std::move(policy);
  return bad_input("--policy",
                   fmt::format("unknown policy '{}'{}", name, did_you_mean(name, policy_names())));
}

std::vector<std::string> why_impossible(const plan::PowerProblem& problem,
                                        const std::vector<ServiceOptions>& options) {
  std::vector<std::string> reasons;
  for (std::size_t s = 0; s < options.size(); ++s) {
    const plan::Terms& service = problem.services[s];
    const Rps most = most_of(options[s]);
    if (most.value <= 0) {
      reasons.push_back(why_none(problem, service));
    } else if (most < service.rate && problem.gpus == 1) {
      reasons.push_back(
          fmt::format("service {}: {:g} requests/s are wanted, a whole GPU carries "
                      "{:.6g} within {:g} ms",
                      service.name, service.rate.value, most.value, service.slo.value));
    }
  }
  if (reasons.empty())
    reasons.push_back(problem.gpus == 1
                          ? "one by one the services fit, together they need more units than the "
                            "GPU has, or more power than its cap"
                          : fmt::format("the services need more than {} GPUs", problem.gpus));
  return reasons;
}

Result<Chooser> Chooser::make(const plan::PowerProblem& problem, const Policy& policy,
                              const std::vector<GivenShare>& given) {
  if (!given.empty() && given.size() != problem.services.size())
    return bad_input(
        "given", fmt::format("{} shares for {} services", given.size(), problem.services.size()));
  Chooser chooser;
  chooser.problem_ = std::make_unique<plan::PowerProblem>(problem);
  chooser.policy_ = policy;
  chooser.options_ = std::make_unique<std::vector<ServiceOptions>>(
      options_of(problem, policy.exact ? BatchChoice::any : BatchChoice::one));
  for (std::size_t s = 0; s < given.size(); ++s)
    for (auto& at_clock : (*chooser.options_)[s])
      std::erase_if(at_clock, [&](const ServiceOption& option) {
        return GivenShare{option.units, option.batch} != given[s];
      });
  for (std::size_t s = 0; s < given.size(); ++s)
    if (most_of((*chooser.options_)[s]).value <= 0)
      return failed({ErrorCode::infeasible,
                     fmt::format("service {}: {} units with batches up to {} hold its SLO of {:g} "
                                 "ms at no clock of the table, or batches so large gain nothing",
                                 problem.services[s].name, given[s].units, given[s].batch,
                                 problem.services[s].slo.value),
                     "policy " + policy.name});
  for (const ServiceOptions& one : *chooser.options_) chooser.views_.push_back(&one);
  TRY(chooser.prepare());
  return chooser;
}

Result<void> Chooser::prepare() {
  const std::size_t highest = problem_->table.clocks.size() - 1;
  std::vector<Rps> rates;
  for (const plan::Terms& service : problem_->services) rates.push_back(service.rate);
  choice_ = {policy_.clocks ? 0 : highest, {}, policy_.gating, policy_.exact, problem_->cap};
  Choice widest = choice_;
  widest.least_clock = highest;
  widest.gating = plan::Gating::unit;  // the fewest units first: they are widened below
  std::optional<GpuSetting> most = best_setting(search(), rates, widest);
  if (!most && policy_.clocks) {  // a cap may leave the lower clocks only
    widest.least_clock = 0;
    most = best_setting(search(), rates, widest);
  }
  if (!most)
    return failed({ErrorCode::infeasible, sentences(why_impossible(*problem_, *options_)),
                   "policy " + policy_.name});
  GpuSetting widened = *most;
  widen(search(), rates, widened);
  const bool fits =
      !problem_->cap || full_power(problem_->table, policy_.gating, widened) <= *problem_->cap;
  most_ = fits ? widened : *most;
  if (!policy_.units) {
    choice_.fixed.emplace();
    for (const ServiceOption* option : most_.options) choice_.fixed->push_back(option->units);
  }
  return {};
}

std::optional<GpuSetting> Chooser::choose(const std::vector<Rps>& rates) const {
  std::vector<Rps> wanted = rates;
  if (!policy_.exact)
    for (std::size_t s = 0; s < wanted.size(); ++s) {
      const Rps most = std::max(problem_->services[s].rate, most_.options[s]->capacity);
      const double step = most.value / kRateSteps;
      // A rate that is the most itself must not be rounded above it.
      wanted[s] = {std::max(rates[s].value,
                            std::min(std::ceil(rates[s].value / step - 1e-9) * step,
                                     std::max(rates[s].value, most_.options[s]->capacity.value)))};
    }
  return best_setting(search(), wanted, choice_);
}

}  // namespace partita::power
