#include "planners/power/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "base/check.h"
#include "base/index.h"

namespace partita::power {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

tl::unexpected<Error> overload(const Chooser& chooser, const plan::PowerTrace& trace,
                               std::size_t step) {
  std::string rates;
  for (std::size_t s = 0; s < trace.rates[step].size(); ++s)
    rates += fmt::format("{}{} {:.6g}", s == 0 ? "" : ", ", chooser.problem().services[s].name,
                         trace.rates[step][s].value);
  return failed({ErrorCode::infeasible,
                 fmt::format("at {:g} s no setting carries the requests/s within the SLOs: {}",
                             trace.step.value * static_cast<double>(step), rates),
                 "policy " + chooser.policy().name});
}

// Energy and changes of the settings that were chosen.
class Account {
 public:
  Account(const Chooser& chooser, const plan::PowerTrace& trace, const plan::TransitionCost& cost)
      : chooser_(chooser), trace_(trace), cost_(cost) {
    const Policy& policy = chooser.policy();
    schedule_ = {policy.name, policy.gating, chooser.problem().promise, {}, {0}, {0}, 0, 0};
  }

  void add(const GpuSetting& setting) {
    const plan::ResponseTable& table = chooser_.problem().table;
    const plan::Gating gating = chooser_.policy().gating;
    plan::Setting chosen = to_setting(table, gating, setting);
    if (!schedule_.settings.empty()) {
      const plan::Setting& before = schedule_.settings.back();
      if (before.clock != chosen.clock) ++schedule_.clock_changes, schedule_.energy += cost_.clock;
      if (before.units != chosen.units) ++schedule_.unit_changes, schedule_.energy += cost_.units;
    }
    const Watts power = power_at(table, gating, setting, trace_.rates[schedule_.settings.size()]);
    schedule_.energy += Joules{power.value * trace_.step.value};
    schedule_.settings.push_back(std::move(chosen));
  }

  plan::PowerSchedule take() { return std::move(schedule_); }

 private:
  const Chooser& chooser_;
  const plan::PowerTrace& trace_;
  const plan::TransitionCost& cost_;
  plan::PowerSchedule schedule_;
};

// A dynamic programme over states that are a clock and a class of units: a change of either costs.
class Programme {
 public:
  Programme(std::vector<std::pair<std::size_t, int>> states, const plan::TransitionCost& cost)
      : states_(std::move(states)), cost_(cost) {}

  // The energy of every state in the next step, kNever where it cannot be.
  bool step(const std::vector<double>& energy) {
    const std::size_t n = states_.size();
    std::vector<double> next(n, kNever);
    std::vector<std::int32_t> from(n, -1);
    if (least_.empty()) {
      next = energy;
    } else {
      find_least();
      for (std::size_t i = 0; i < n; ++i) {
        if (energy[i] == kNever) continue;
        const auto& [clock, units] = states_[i];
        consider(i, static_cast<std::int32_t>(i), 0, next, from);
        consider(i, of_clock_[clock], cost_.units.value, next, from);
        consider(i, of_units_[at(units)], cost_.clock.value, next, from);
        consider(i, overall_, cost_.clock.value + cost_.units.value, next, from);
        next[i] += energy[i];
      }
    }
    least_ = std::move(next);
    from_.push_back(std::move(from));
    return std::ranges::any_of(least_, [](double one) { return one != kNever; });
  }

  double energy() const { return *std::ranges::min_element(least_); }

  // The states of the best way, step by step.
  std::vector<std::size_t> way() const {
    std::vector<std::size_t> way(from_.size());
    auto state = static_cast<std::int32_t>(std::ranges::min_element(least_) - least_.begin());
    for (std::size_t t = from_.size(); t-- > 0;) {
      way[t] = at(state);
      state = from_[t][at(state)];
    }
    return way;
  }

 private:
  void consider(std::size_t i, std::int32_t before, double cost, std::vector<double>& next,
                std::vector<std::int32_t>& from) const {
    if (before < 0 || least_[at(before)] == kNever) return;
    const double sum = least_[at(before)] + cost;
    if (sum < next[i]) next[i] = sum, from[i] = before;
  }

  void find_least() {
    of_clock_.assign(of_clock_.size(), -1);
    of_units_.assign(of_units_.size(), -1);
    overall_ = -1;
    const auto better = [&](std::int32_t& best, std::size_t i) {
      if (best < 0 || least_[i] < least_[at(best)]) best = static_cast<std::int32_t>(i);
    };
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const auto& [clock, units] = states_[i];
      if (of_clock_.size() <= clock) of_clock_.resize(clock + 1, -1);
      if (of_units_.size() <= at(units)) of_units_.resize(at(units) + 1, -1);
      better(of_clock_[clock], i);
      better(of_units_[at(units)], i);
      better(overall_, i);
    }
  }

  const std::vector<std::pair<std::size_t, int>> states_;
  const plan::TransitionCost cost_;
  std::vector<double> least_;  // energy up to the last step, per state
  std::vector<std::int32_t> of_clock_, of_units_;
  std::int32_t overall_ = -1;
  std::vector<std::vector<std::int32_t>> from_;
};

// The states of one service: every clock and number of units, with its batches.
struct States {
  std::vector<std::pair<std::size_t, int>> all;
  std::vector<std::vector<const ServiceOption*>> batches;
};

States states_of(const Chooser& chooser) {
  States states;
  const GpuSearch search = chooser.search();
  for (std::size_t c = chooser.choice().least_clock; c < search.table.clocks.size(); ++c)
    for (const ServiceOption& option : (*search.services[0])[c]) {
      const GpuSetting alone{c, {&option}, {0}};
      const plan::Gating gating = chooser.policy().gating;
      if (chooser.choice().cap && full_power(search.table, gating, alone) > *chooser.choice().cap)
        continue;
      const std::pair state{c, option.units};
      if (states.all.empty() || states.all.back() != state) {
        states.all.push_back(state);
        states.batches.emplace_back();
      }
      states.batches.back().push_back(&option);
    }
  return states;
}

const ServiceOption* best_batch(const std::vector<const ServiceOption*>& batches, Rps rate) {
  const ServiceOption* best = nullptr;
  for (const ServiceOption* option : batches)
    if (option->capacity >= rate && (!best || option->busy.at(rate) < best->busy.at(rate)))
      best = option;
  return best;
}

Result<plan::PowerSchedule> exact_one(const Chooser& chooser, const plan::PowerTrace& trace,
                                      const plan::TransitionCost& cost) {
  const States states = states_of(chooser);
  const plan::ResponseTable& table = chooser.problem().table;
  const plan::Gating gating = chooser.policy().gating;
  Programme programme(states.all, cost);
  std::vector<double> energy(states.all.size());
  for (std::size_t t = 0; t < trace.rates.size(); ++t) {
    const Rps rate = trace.rates[t][0];
    for (std::size_t i = 0; i < energy.size(); ++i) {
      const ServiceOption* batch = best_batch(states.batches[i], rate);
      energy[i] = kNever;
      if (!batch) continue;
      const auto& [clock, units] = states.all[i];
      const Watts power = ready_power(table, gating, clock, units) + batch->busy.at(rate);
      energy[i] = power.value * trace.step.value;
    }
    if (!programme.step(energy)) return overload(chooser, trace, t);
  }
  Account account(chooser, trace, cost);
  const std::vector<std::size_t> way = programme.way();
  for (std::size_t t = 0; t < way.size(); ++t)
    account.add(
        {states.all[way[t]].first, {best_batch(states.batches[way[t]], trace.rates[t][0])}, {0}});
  plan::PowerSchedule schedule = account.take();
  schedule.bound = {std::min(programme.energy(), schedule.energy.value)};
  return schedule;
}

// Clock and units of every service, whatever the batches.
using Split = std::pair<std::size_t, std::vector<int>>;

Split split_of(const GpuSetting& setting) {
  Split split{setting.clock, {}};
  for (const ServiceOption* option : setting.options) split.second.push_back(option->units);
  return split;
}

// The exact way through the settings that are best somewhere on the trace, and those that the
// dissertation's table would take. The bound knows every setting, but no cost of changing units.
class SeveralServices {
 public:
  SeveralServices(const Chooser& chooser, const plan::PowerTrace& trace,
                  const plan::TransitionCost& cost)
      : chooser_(chooser), search_(chooser.search()), trace_(trace), cost_(cost) {}

  Result<plan::PowerSchedule> plan() {
    if (const auto fault = find_best(); fault) return overload(chooser_, trace_, *fault);
    add_tables();
    std::vector<std::pair<std::size_t, int>> states;
    std::map<std::vector<int>, int> classes;
    for (const Split& split : splits_) {
      const auto units = classes.emplace(split.second, static_cast<int>(classes.size())).first;
      states.emplace_back(split.first, units->second);
      batches_.push_back(batches_of(split));
    }
    Programme programme(states, cost_);
    for (std::size_t t = 0; t < trace_.rates.size(); ++t) {
      std::vector<double> energy(states.size(), kNever);
      std::size_t i = 0;
      for (const Split& split : splits_) {
        if (const auto setting = setting_at(split, batches_[i], t); setting)
          energy[i] = setting->power.value * trace_.step.value;
        ++i;
      }
      CHECK(programme.step(energy));  // the best of this step is among them
    }
    return account(programme.way());
  }

 private:
  using Batches = std::vector<std::vector<const ServiceOption*>>;  // per service

  // The best setting at every clock of every step, and the bound; the first step without any.
  std::optional<std::size_t> find_best() {
    const std::size_t clocks = search_.table.clocks.size();
    std::vector<std::pair<std::size_t, int>> states;
    for (std::size_t c = 0; c < clocks; ++c) states.emplace_back(c, 0);
    Programme programme(states, {cost_.clock, {0}});
    for (std::size_t t = 0; t < trace_.rates.size(); ++t) {
      std::vector<double> energy(clocks, kNever);
      for (std::size_t c = chooser_.choice().least_clock; c < clocks; ++c) {
        const auto best = best_at_clock(search_, trace_.rates[t], chooser_.choice(), c);
        if (!best) continue;
        energy[c] = best->power.value * trace_.step.value;
        splits_.insert(split_of(*best));
      }
      if (!programme.step(energy)) return t;
    }
    bound_ = {trace_.rates.empty() ? 0 : programme.energy()};
    return std::nullopt;
  }

  void add_tables() {
    Policy table{"cofris", true, true, false, chooser_.policy().gating};
    const auto other = Chooser::make(chooser_.problem(), table);
    if (!other) return;
    for (const std::vector<Rps>& rates : trace_.rates)
      if (const auto setting = other->choose(rates); setting) splits_.insert(split_of(*setting));
  }

  Batches batches_of(const Split& split) const {
    Batches batches(split.second.size());
    for (std::size_t s = 0; s < batches.size(); ++s)
      for (const ServiceOption& option : (*search_.services[s])[split.first])
        if (option.units == split.second[s]) batches[s].push_back(&option);
    return batches;
  }

  std::optional<GpuSetting> setting_at(const Split& split, const Batches& batches,
                                       std::size_t step) const {
    GpuSetting setting{split.first, {}, {0}};
    for (std::size_t s = 0; s < batches.size(); ++s) {
      setting.options.push_back(best_batch(batches[s], trace_.rates[step][s]));
      if (!setting.options.back()) return std::nullopt;
    }
    const plan::Gating gating = chooser_.policy().gating;
    if (chooser_.choice().cap &&
        full_power(search_.table, gating, setting) > *chooser_.choice().cap)
      return std::nullopt;
    setting.power = power_at(search_.table, gating, setting, trace_.rates[step]);
    return setting;
  }

  plan::PowerSchedule account(const std::vector<std::size_t>& way) const {
    Account account(chooser_, trace_, cost_);
    const std::vector<Split> splits(splits_.begin(), splits_.end());
    for (std::size_t t = 0; t < way.size(); ++t)
      account.add(*setting_at(splits[way[t]], batches_[way[t]], t));
    plan::PowerSchedule schedule = account.take();
    schedule.bound = std::min(bound_, schedule.energy);
    return schedule;
  }

  const Chooser& chooser_;
  const GpuSearch search_;
  const plan::PowerTrace& trace_;
  const plan::TransitionCost& cost_;
  std::set<Split> splits_;
  std::vector<Batches> batches_;  // as splits_
  Joules bound_{0};
};

}  // namespace

Result<plan::PowerSchedule> plan_schedule(const Chooser& chooser, const plan::PowerTrace& trace,
                                          const plan::TransitionCost& cost) {
  if (chooser.policy().exact && !trace.rates.empty())
    return chooser.search().services.size() == 1 ? exact_one(chooser, trace, cost)
                                                 : SeveralServices(chooser, trace, cost).plan();
  Account account(chooser, trace, cost);
  for (std::size_t t = 0; t < trace.rates.size(); ++t) {
    const auto setting = chooser.choose(trace.rates[t]);
    if (!setting) return overload(chooser, trace, t);
    account.add(*setting);
  }
  return account.take();
}

}  // namespace partita::power
