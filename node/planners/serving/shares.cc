#include "planners/serving/shares.h"

#include <algorithm>

#include "base/check.h"
#include "profile/share.h"

namespace partita::planners::serving {

Shares::Shares(const plan::ServingProblem& problem) : entry_(problem.fleet.front()) {
  for (const hw::MigProfile& profile : entry_.gpu.profiles)
    if (profile.plain() && (!whole_ || profile.gpcs > whole_->gpcs)) whole_ = &profile;
  CHECK(whole_);
}

const std::vector<profile::ProfilePoint>& Shares::points(const plan::Service& service,
                                                         double percent) {
  const auto [at, fresh] = known_.try_emplace({service.model, percent});
  const auto found = entry_.profiles.find(service.model);
  if (!fresh || found == entry_.profiles.end()) return at->second;
  at->second = profile::at_share(found->second, whole_->gpcs, percent).points;
  std::erase_if(at->second, [&](const profile::ProfilePoint& point) {
    return point.processes != 1 ||
           (point.memory && whole_->memory && *point.memory > *whole_->memory);
  });
  return at->second;
}

const profile::ProfilePoint* Shares::point(const plan::Service& service, double percent,
                                           int batch) {
  const auto& all = points(service, percent);
  const auto found = std::ranges::find(all, batch, &profile::ProfilePoint::batch);
  return found == all.end() ? nullptr : &*found;
}

std::vector<plan::Reason> unservable_shares(const plan::ServingProblem& problem) {
  std::vector<plan::Reason> refusals;
  Shares shares(problem);
  for (const plan::Service& service : problem.services) {
    const Millis limit = problem.rule.fraction * service.slo;
    const auto& whole = shares.points(service, 100);
    if (!whole.empty() && whole.front().latency < limit) continue;
    if (whole.empty())
      refusals.push_back({"unknown_point", "service " + service.name, 0, 0,
                          "with one process nothing was measured on a whole GPU that fits it"});
    else
      refusals.push_back({"slo", "service " + service.name, whole.front().latency.value,
                          limit.value,
                          "ms of the smallest batch on a whole GPU; it must be below what the rule "
                          "allows"});
  }
  return refusals;
}

bool SharedGpus::has_memory(std::size_t gpu, const profile::ProfilePoint& point) const {
  if (gpu == gpus_.size() || !whole_.memory || !point.memory) return true;
  return used_[gpu].memory + point.memory->value <= whole_.memory->value;
}

void SharedGpus::put(std::size_t gpu, const plan::Service& service, double percent,
                     const profile::ProfilePoint& point) {
  if (gpu == gpus_.size()) {
    gpus_.emplace_back();
    used_.emplace_back();
  }
  used_[gpu].percent += percent;
  if (point.memory) used_[gpu].memory += point.memory->value;
  plan::PlannedInstance& one = gpus_[gpu].instances.emplace_back();
  one.profile = whole_.name;
  one.service = service.name;
  one.batch = point.batch;
  one.processes = point.processes;
  one.throughput = point.throughput;
  one.latency = point.latency;
  one.share_percent = percent;
}

}  // namespace partita::planners::serving
