#include "control/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "act/change.h"
#include "act/lent.h"
#include "control/own_rates.h"
#include "decide/keeping.h"
#include "decide/pipelines.h"
#include "forms/pipeline_form.h"
#include "hw/layout.h"

namespace partita::control {
namespace {

constexpr int kShareSteps = 5;  // of the bisection of a share that can be served
constexpr double kLeastShare = 0.05;
constexpr int kMostNamed = 3;  // services, in a reason

ProblemKey key_of(const GpuUse& use, const Want& want, bool relaxed) {
  ProblemKey key{want.services, {}, want.survive, relaxed};
  for (const GpuUse::Gpu& gpu : use.usable)
    key.models.push_back(fmt::format("{} {}", gpu.model, gpu.nvlink));
  std::ranges::sort(key.models);
  return key;
}

// A plan as far as a plan that follows depends on it.
plan::ServingPlan places_only(plan::ServingPlan plan) {
  for (plan::PlannedGpu& gpu : plan.gpus)
    for (plan::PlannedInstance& one : gpu.instances) one.throughput = Rps{0};
  return plan;
}

std::vector<std::string> names_of(const std::vector<decide::LentPlace>& lent) {
  std::vector<std::string> names;
  for (const decide::LentPlace& one : lent) names.push_back(one.name);
  return names;
}

// Tries to plan.
class Attempts {
 public:
  Attempts(const World& world, const GpuUse& use, const PlanAsk& ask, PlanMemo& memo)
      : world_(world), use_(use), ask_(ask), current_(places_only(ask.current)), memo_(memo) {}

  bool fits(const Want& want, bool relaxed) {
    if (want.services.empty() || use_.usable.empty()) return false;
    const PlanAnswer& made =
        answer_to({key_of(use_, want, relaxed), current_, ask_.max_moves, names_of(ask_.lent)});
    if (!made.plan) {
      if (why_.empty()) why_ = made.why;
      return false;
    }
    Planned planned;
    planned.changes = made.changes;
    planned.target.plan = **made.plan;
    planned.target.survive = want.survive;
    for (const plan::Service& one : want.services)
      planned.target.rates.push_back({.service = one.name, .rate_rps = one.rate.value});
    for (const GpuUse::Gpu& gpu : use_.usable) planned.target.gpus.push_back({gpu.index, gpu.uuid});
    best_ = std::move(planned);
    return true;
  }

  // Class by class, from the highest priority on, as much as there is room for. A pipeline gets so
  // much as a whole: what is shared out is what clients ask for, and steps follow.
  bool part() {
    std::map<int, std::vector<plan::Service>, std::greater<>> classes;
    for (const plan::Service& one : forms::at_own_rates(ask_.want.services))
      if (!one.member) classes[priority(one)].push_back(one);
    Want settled;
    for (auto& [level, members] : classes) settle_class(settled, std::move(members));
    if (!best_ || settled.services.empty()) return false;
    describe(settled);
    return true;
  }

  std::optional<Planned> best_;
  std::string why_;

 private:
  const PlanAnswer& answer_to(PlanQuestion question) {
    if (const PlanAnswer* known = memo_.plans.find(question)) return *known;
    const ProblemKey& key = question.problem;
    plan::ServingProblem problem =
        problem_of(world_, use_, {key.services, key.survive, {}}, key.relaxed);
    if (key.endless)
      for (plan::FleetEntry& entry : problem.fleet) {
        entry.count.reset();
        for (const auto& domain : std::exchange(entry.domains, {}))
          entry.nvlink = std::max(entry.nvlink, static_cast<int>(domain.size()));
      }
    const decide::PlanOptions options{.node_budget = world_.settings.node_budget,
                                      .planners_pools = &memo_.planners_pools,
                                      .judges_pools = &memo_.judges_pools};
    // Who plans from what runs does not plan for a lost GPU: that is from nothing, put in place.
    auto made = key.survive > 0
                    ? decide::make_new_beside(problem, question.current, ask_.lent, options)
                    : decide::make_plan_beside(problem, question.current, question.max_moves,
                                               ask_.lent, options);
    PlanAnswer answer;
    if (!made) {
      answer.why = to_string(made.error());
      if (decide::is_refused_by_judge(made.error())) memo_.count("planner", false);
    } else if (!made->made.plan) {
      if (!made->made.refusals.empty()) answer.why = to_string(made->made.refusals.front());
    } else if (const int moves = made->changes.moved + made->changes.created;
               question.max_moves && moves > *question.max_moves) {
      answer.why = fmt::format("it would take {} moves", moves);
    } else {
      answer = {std::move(made->made.plan), made->changes, {}};
      if (!key.endless) memo_.verdicts.keep({key, **answer.plan}, *answer.plan);
      memo_.count("planner", true);
    }
    return memo_.plans.keep(std::move(question), std::move(answer));
  }

  int priority(const plan::Service& service) const {
    const auto found = ask_.want.priority.find(service.name);
    return found == ask_.want.priority.end() ? service.priority : found->second;
  }

  // With the steps of its pipelines.
  Want whole(Want own) const {
    std::set<std::string> there, steps;
    for (const plan::Service& one : own.services) {
      there.insert(one.name);
      if (!one.pipeline) continue;
      for (const plan::PipelineStep& step : one.pipeline->steps) steps.insert(step.service);
    }
    for (plan::Service one : ask_.want.services) {
      if (!steps.contains(one.name) || there.contains(one.name)) continue;
      one.rate = Rps{0};
      own.services.push_back(std::move(one));
    }
    own.services = at_whole_rates(std::move(own.services));
    return own;
  }

  bool at_share(const Want& settled, const std::vector<plan::Service>& members, double share) {
    Want want = settled;
    for (plan::Service one : members) {
      one.rate = one.rate * share;
      want.services.push_back(std::move(one));
    }
    if (!fits(whole(want), true)) return false;
    last_ = std::move(want);
    return true;
  }

  // Adds as much of a class as fits: all members at one share; members with the lowest rates go
  // while not even the least share of all fits.
  void settle_class(Want& settled, std::vector<plan::Service> members) {
    while (!members.empty()) {
      if (at_share(settled, members, 1)) break;
      if (!at_share(settled, members, kLeastShare)) {
        members.erase(std::ranges::min_element(members, {}, [](const plan::Service& one) {
          return std::tuple(one.rate.value, one.name);
        }));
        continue;
      }
      double low = kLeastShare, high = 1;
      for (int step = 0; step < kShareSteps; ++step) {
        const double middle = (low + high) / 2;
        (at_share(settled, members, middle) ? low : high) = middle;
      }
      break;
    }
    if (!members.empty()) settled = last_;
  }

  // What all that is asked for would take, had the node GPUs enough.
  std::string all_of_it() {
    ProblemKey key = key_of(use_, ask_.want, false);
    key.endless = true;
    const PlanAnswer& made = answer_to({std::move(key), current_, {}, names_of(ask_.lent)});
    if (!made.plan) return "all that is asked for has no plan on more GPUs either: " + made.why;
    const plan::Objective& objective = (*made.plan)->objective;
    const std::string least =
        objective.lower_bound_gpus > 0
            ? fmt::format(" (no plan has fewer than {})", objective.lower_bound_gpus)
            : "";
    return fmt::format("all that is asked for would take {} GPUs{}; {} can be used", objective.gpus,
                       least, use_.usable.size());
  }

  // Says of a plan for a part what is left out, and of its reasons that they are those of the part.
  void describe(const Want& settled) {
    std::string text;
    plan::ServingPlan& plan = best_->target.plan;
    int short_of = 0;
    const std::vector<plan::Service> asked = forms::at_own_rates(ask_.want.services);
    for (std::size_t s = 0; s < asked.size(); ++s) {
      const plan::Service& one = asked[s];
      if (one.member) continue;
      double rate = 0;
      for (const plan::Service& got : settled.services)
        if (got.name == one.name) rate = got.rate.value;
      if (rate >= one.rate.value * (1 - 1e-9)) continue;
      const auto row = std::ranges::find(plan.services, one.name, &plan::PlannedService::name);
      if (row != plan.services.end()) row->wanted = ask_.want.services[s].rate;
      if (++short_of > kMostNamed) continue;
      if (!text.empty()) text += ", ";
      text += fmt::format("{} {:.4g} of {:.4g} req/s ({:.0f} %)", one.name, rate, one.rate.value,
                          100 * rate / one.rate.value);
    }
    if (short_of > kMostNamed) text += fmt::format(" and {} more", short_of - kMostNamed);
    if (!text.empty()) {
      for (std::string& reason : plan.explanation) reason = "of this part: " + reason;
      plan.explanation.insert(plan.explanation.begin(),
                              {"only a part is served: " + text, all_of_it()});
      text = "not enough GPUs: " + text;
    }
    for (PlannedFor& made : best_->target.rates)
      for (const plan::Service& one : ask_.want.services)
        if (one.name == made.service && made.rate_rps < one.rate.value * (1 - 1e-9))
          made.needed_rps = one.rate.value;
    if (ask_.want.survive > 0)
      text += (text.empty() ? "" : "; ") + std::string("no GPU may be lost now");
    best_->target.reduced = text;
  }

  const World& world_;
  const GpuUse& use_;
  const PlanAsk& ask_;
  const plan::ServingPlan current_;
  PlanMemo& memo_;
  Want last_;
};

using PlacedAt = std::tuple<std::string, int, std::string, std::string, int, int>;

std::set<PlacedAt> places_of(const Target& target) {
  std::set<PlacedAt> places;
  for (const plan::PlannedGpu& gpu : target.plan.gpus) {
    const GpuNamed* named = target.named(gpu.index);
    const std::string uuid = named == nullptr ? std::string{} : named->uuid;
    for (const plan::PlannedInstance& one : gpu.instances)
      places.emplace(uuid, one.start, one.profile, one.service, one.batch, one.processes);
  }
  return places;
}

}  // namespace

plan::ServingProblem problem_of(const World& world, const GpuUse& use, const Want& want,
                                bool relaxed) {
  plan::ServingProblem problem;
  problem.services = want.services;
  for (plan::Service& one : problem.services) {
    one.traffic.rates.clear();  // the rate is that of the moment
    if (relaxed) one.min_replicas = 1;
    std::erase_if(one.avoid, [&](const std::string& name) {
      return std::ranges::count(want.services, name, &plan::Service::name) == 0;
    });
  }
  problem.rule = world.rule;
  problem.max_processes = world.max_processes;
  problem.survive = want.survive;
  std::map<std::string, std::map<int, std::vector<int>>> domains;
  for (const GpuUse::Gpu& gpu : use.usable) domains[gpu.model][gpu.nvlink].push_back(gpu.index);
  const auto first = [](const GpuUse::Gpu& gpu) { return gpu.nvlink == 0; };
  for (const auto& [model, of] : domains) {
    plan::FleetEntry entry = *world.entry_of(model);
    entry.price = 1;
    entry.set_gpus(of, !std::ranges::all_of(use.usable, first));
    problem.fleet.push_back(std::move(entry));
  }
  return problem;
}

Want want_of(const Target& target, const std::vector<plan::Service>& services) {
  Want want;
  want.survive = target.survive;
  for (const PlannedFor& rate : target.rates) {
    const auto found = std::ranges::find(services, rate.service, &plan::Service::name);
    if (found == services.end()) continue;
    want.services.push_back(*found);
    want.services.back().rate = Rps{rate.rate_rps};
  }
  return want;
}

namespace {

// GPUs of the groups of a plan of which some cannot be used: what is left of them runs nothing.
std::set<int> broken_groups(const GpuUse& use, const Target& target) {
  std::vector<const plan::PlannedGpu*> gpus;
  for (const plan::PlannedGpu& gpu : target.plan.gpus) gpus.push_back(&gpu);
  std::ranges::sort(gpus, {}, &plan::PlannedGpu::index);
  std::set<int> broken;
  for (std::size_t g = 0; g < gpus.size();) {
    const auto& instances = gpus[g]->instances;
    const auto size = static_cast<std::size_t>(instances.empty() ? 1 : instances.front().group);
    const std::size_t end = std::min(gpus.size(), g + size);
    std::set<int> members;
    bool whole = true;
    for (; g < end; ++g) {
      const GpuNamed* named = target.named(gpus[g]->index);
      whole = whole && named != nullptr && use.is_usable(named->uuid);
      members.insert(gpus[g]->index);
    }
    if (!whole && size > 1) broken.merge(members);
  }
  return broken;
}

plan::PlannedInstance as_planned(const actuate::AssignedSegment& there) {
  const auto group = static_cast<int>(actuate::whole_gpus(there.device).size());
  plan::PlannedInstance one;
  one.profile = there.profile;
  one.start = there.start;
  one.service = there.service;
  one.batch = there.batch;
  one.processes = there.processes;
  one.held = there.held;
  one.prefill_units = there.prefill_units;
  one.decode_units = there.decode_units;
  one.engine = there.engine;
  one.group = std::max(1, group);
  one.throughput = Rps{there.throughput_rps / one.group};
  return one;
}

}  // namespace

plan::ServingPlan current_plan(const GpuUse& use, const std::optional<Target>& target,
                               const actuate::Assignment& assignment) {
  plan::ServingPlan plan;
  if (!use.usable.empty()) plan.gpu_model = use.usable.front().model;
  for (const plan::PlannedService& row :
       target ? target->plan.services : std::vector<plan::PlannedService>{})
    if (row.pipeline) plan.services.push_back(decide::shares_kept(row));
  const std::set<int> broken = target ? broken_groups(use, *target) : std::set<int>{};
  const auto on = [](const actuate::AssignedSegment& there, const std::string& uuid) {
    const std::vector<std::string> whole = actuate::whole_gpus(there.device);
    return whole.empty() ? there.gpu_uuid == uuid : std::ranges::count(whole, uuid) > 0;
  };
  const auto usable = [&](const actuate::AssignedSegment& there) {
    return std::ranges::all_of(actuate::whole_gpus(there.device),
                               [&](const std::string& uuid) { return use.is_usable(uuid); });
  };
  for (const GpuUse::Gpu& gpu : use.usable) {
    plan::PlannedGpu& one = plan.gpus.emplace_back(plan::PlannedGpu{gpu.index, gpu.model, {}});
    if (target) {
      const plan::PlannedGpu* there = target->on(gpu.uuid);
      if (there != nullptr && !broken.contains(there->index)) one.instances = there->instances;
      continue;
    }
    for (const actuate::AssignedSegment& there : assignment.segments)
      if (on(there, gpu.uuid) && usable(there)) one.instances.push_back(as_planned(there));
    std::ranges::stable_sort(one.instances, {}, &plan::PlannedInstance::start);
  }
  return plan;
}

Result<Planned> plan_target(const World& world, const GpuUse& use, const PlanAsk& ask,
                            PlanMemo& memo) {
  Attempts attempts(world, use, ask, memo);
  if (attempts.fits(ask.want, false)) return *std::move(attempts.best_);
  if (ask.partial && ask.want.survive > 0) {
    Want bare = ask.want;
    bare.survive = 0;
    if (attempts.fits(bare, true)) {
      attempts.best_->target.reduced = "no GPU may be lost now: there are too few for that";
      return *std::move(attempts.best_);
    }
  }
  if (ask.partial && attempts.part()) return *std::move(attempts.best_);
  return failed(
      {ErrorCode::infeasible, attempts.why_.empty() ? "no GPU can be used" : attempts.why_, ""});
}

verify::Verdict<plan::ServingPlan> judge_target(const World& world, const GpuUse& use,
                                                const JudgeAsk& ask, PlanMemo& memo) {
  const Want want = want_of(ask.target, ask.services);
  const bool relaxed = !ask.target.reduced.empty();
  JudgeQuestion question{key_of(use, want, relaxed), ask.target.plan};
  if (const auto* known = memo.verdicts.find(question)) return *known;
  const plan::ServingProblem problem = problem_of(world, use, want, relaxed);
  auto verdict = verify::judge(problem, &memo.judges_pools, ask.target.plan);
  memo.count("target", verdict.has_value());
  return memo.verdicts.keep(std::move(question), std::move(verdict));
}

actuate::Wanted wanted_of(const NodeView& node, const plan::Judged<plan::ServingPlan>& plan,
                          const Target& target) {
  actuate::Wanted planned = actuate::wanted_of(plan);
  actuate::Wanted wanted{{}, std::move(planned.services)};
  const std::set<int> broken = broken_groups(node.use, target);
  for (const GpuUse::Gpu& gpu : node.use.usable) {
    const plan::PlannedGpu* there = target.on(gpu.uuid);
    if (there != nullptr && broken.contains(there->index)) there = nullptr;
    if (node.lent.contains(gpu.uuid) && (there == nullptr || there->instances.empty())) continue;
    actuate::WantedGpu& one =
        wanted.gpus.emplace_back(actuate::WantedGpu{gpu.model, gpu.uuid, {}, gpu.index});
    for (actuate::WantedGpu& its : planned.gpus)
      if (there != nullptr && its.index == there->index) {
        one.instances = std::move(its.instances);
        one.group = its.group;
      }
  }
  return wanted;
}

std::vector<decide::LentPlace> lent_places(const NodeView& node, const GpuUse& use) {
  std::vector<decide::LentPlace> all;
  for (const device::GpuState& gpu : node.state.gpus)
    for (const device::Instance& one : gpu.instances)
      if (one.lent() && use.is_usable(gpu.uuid))
        all.push_back({one,
                       fmt::format("{} ({} at {} of gpu {})", one.holders.front().name, one.profile,
                                   one.start, gpu.index),
                       gpu.index, gpu.model});
  return all;
}

std::map<std::string, std::string> lent_in_the_way(const World& world, const NodeView& node,
                                                   const Target& target) {
  std::map<std::string, std::string> found;
  for (const device::GpuState& gpu : node.state.gpus) {
    const plan::PlannedGpu* there = target.on(gpu.uuid);
    const hw::GpuModel* model = world.catalogue.find(gpu.model);
    if (there == nullptr || model == nullptr) continue;
    std::vector<hw::PlacedProfile> placed;
    for (const plan::PlannedInstance& one : there->instances)
      placed.push_back({model->profile_index(one.profile), one.start});
    for (const device::Instance* one : actuate::lent_against(gpu, *model, std::move(placed)))
      found[gpu.uuid] = fmt::format("{} at {} of gpu {} is held by {}", one->profile, one->start,
                                    gpu.index, one->holders.front().name);
  }
  return found;
}

std::optional<int> lent_of(const NodeView& node, const actuate::Wanted& wanted) {
  for (const actuate::WantedGpu& gpu : wanted.gpus)
    if (!gpu.instances.empty() && node.lent.contains(gpu.uuid)) return gpu.index;
  return {};
}

Result<actuate::Change> change_to(const World& world, const NodeView& node,
                                  const actuate::Wanted& wanted) {
  return actuate::planned_change({node.state, node.assignment, node.journal}, wanted,
                                 apply_options(world.settings), {}, world.catalogue);
}

actuate::ApplyOptions apply_options(const Settings& settings) {
  return {.min_available = settings.min_available,
          .keep_foreign = settings.keep_foreign,
          .drain_timeout = Seconds{settings.drain_timeout_s},
          .rollback = false,
          .ready_timeout = Seconds{settings.ready_timeout_s},
          .allow_reset = settings.allow_reset};
}

Difference difference(const std::optional<Target>& from, const Target& to) {
  const std::set<PlacedAt> before = from ? places_of(*from) : std::set<PlacedAt>{};
  const std::set<PlacedAt> after = places_of(to);
  Difference result;
  std::set<std::string> services, gpus;
  const auto touch = [&](const PlacedAt& one) {
    gpus.insert(std::get<0>(one));
    services.insert(std::get<3>(one));
  };
  for (const PlacedAt& one : after) {
    if (before.contains(one)) continue;
    result.made.push_back(
        {{std::get<2>(one), std::get<1>(one)}, std::get<0>(one), std::get<3>(one), 0});
    touch(one);
  }
  for (const PlacedAt& one : before)
    if (!after.contains(one)) touch(one);
  result.services.assign(services.begin(), services.end());
  result.gpus.assign(gpus.begin(), gpus.end());
  return result;
}

int gpcs_of_profile(const std::string& profile) {
  return profile.empty() || profile[0] < '1' || profile[0] > '9' ? 0 : profile[0] - '0';
}

bool takes_back(const GpuUse& use, const std::optional<Target>& from, const Target& to,
                const std::vector<MadeAt>& made) {
  const std::set<PlacedAt> before = from ? places_of(*from) : std::set<PlacedAt>{};
  const std::set<PlacedAt> after = places_of(to);
  const auto slices = [&](const std::set<PlacedAt>& places, const std::string& service) {
    int sum = 0;
    for (const PlacedAt& one : places)
      if (std::get<3>(one) == service && use.is_usable(std::get<0>(one)))
        sum += gpcs_of_profile(std::get<2>(one));
    return sum;
  };
  return std::ranges::any_of(made, [&](const MadeAt& one) {
    if (!use.is_usable(one.gpu_uuid)) return false;
    const bool stays = std::ranges::any_of(after, [&](const PlacedAt& there) {
      return std::get<0>(there) == one.gpu_uuid && std::get<1>(there) == one.start &&
             std::get<2>(there) == one.profile && std::get<3>(there) == one.service;
    });
    return !stays || slices(after, one.service) < slices(before, one.service);
  });
}

bool same_gpus_usable(const Target& target, const GpuUse& use) {
  return std::ranges::all_of(target.plan.gpus, [&](const plan::PlannedGpu& gpu) {
    if (gpu.instances.empty()) return true;
    const GpuNamed* named = target.named(gpu.index);
    return named != nullptr && use.is_usable(named->uuid);
  });
}

int gpus_in_use(const plan::ServingPlan& plan) {
  return static_cast<int>(std::ranges::count_if(
      plan.gpus, [](const plan::PlannedGpu& gpu) { return !gpu.instances.empty(); }));
}

}  // namespace partita::control
