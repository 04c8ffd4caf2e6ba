#include "verify/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <variant>

#include "verify/pool_memo.h"

namespace partita::verify {

void check_replica(const plan::PlannedInstance& planned, const profile::TokenEngine& engine,
                   int units, const std::string& subject, Findings& findings) {
  if (planned.batch > engine.spec.sequences)
    findings.report("unknown_point", subject, engine.spec.sequences, planned.batch,
                    "requests at once, measured and planned");
  if (!may_be(engine))
    findings.report("unknown_point", subject, 0, 1,
                    fmt::format("engines '{}' that can be: by its points prompts, or tokens, cost "
                                "next to nothing, so that they do not show what these cost",
                                engine.name.configuration));
  if (planned.prefill_units != engine.prefill_units || planned.decode_units != engine.decode_units)
    findings.report("units", subject, engine.prefill_units, planned.prefill_units,
                    "SMs for prompts of what was measured, and as planned");
  if (planned.prefill_units + planned.decode_units > units)
    findings.report("units", subject, units, planned.prefill_units + planned.decode_units,
                    "SMs of the instance, and of prefill and decode together");
  if (planned.processes != 1)
    findings.report("processes", subject, planned.processes, 1, "an engine is one process");
}

namespace {

std::string replica_text(const plan::PlannedInstance& planned, double load) {
  return fmt::format("{} x {} at {:.4g} req/s and {} at once", planned.group, planned.profile, load,
                     planned.batch);
}

std::string work_text(const std::string& replica) {
  return fmt::format("percent of its time that {} needs at least, and has", replica);
}

std::string late_text(const std::string& replica, const ReplicaVerdict& verdict) {
  return fmt::format("percent in time on {} ({:.2f} % miss TTFT, {:.2f} % TPOT, {:.2f} % the "
                     "whole), and wanted",
                     replica, 100 * verdict.late_ttft, 100 * verdict.late_tpot,
                     100 * verdict.late_whole);
}

}  // namespace

// Weights are added up in their order, so that equal parts make equal shares to the last bit.
std::vector<std::pair<Replicas::Kind, const plan::PlannedInstance*>> Replicas::kinds(
    const std::vector<ReplicaPart>& parts) const {
  std::vector<double> weights;
  for (const ReplicaPart& one : parts) weights.push_back(one.weight);
  std::ranges::sort(weights);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::set<Kind> seen;
  std::vector<std::pair<Kind, const plan::PlannedInstance*>> found;
  for (const ReplicaPart& one : parts) {
    const double share = one.planned->group * one.weight / total;
    const double load = plan::planning_rate(service_).value * share;
    if (!one.engine || !(load > 0) || !std::isfinite(load)) continue;
    const Kind kind{one.engine, one.planned->batch, load};
    if (seen.insert(kind).second) found.emplace_back(kind, one.planned);
  }
  return found;
}

PoolMemo::Key PoolMemo::key_of(const plan::Terms& service, const profile::TokenEngine& engine,
                               const ReplicaLoad& load) {
  return {1.0 * load.sequences,
          load.rate.value,
          load.percentile,
          service.slo.value,
          service.tokens->ttft.value,
          service.tokens->tpot.value,
          engine.spec.cost.step,
          1.0 * engine.gpus};
}

ReplicaVerdict PoolMemo::judged(const plan::Terms& service, const profile::TokenEngine& engine,
                                const ReplicaLoad& load) {
  if (!plan::is_poisson(service.traffic.arrivals) ||
      !std::holds_alternative<plan::TokenPair>(service.tokens->lengths))
    return judge_replica(service, engine, load);
  const Key key = key_of(service, engine, load);
  if (const Replica* const known = replicas.find(key);
      known && known->tokens == *service.tokens && known->engine == engine)
    return known->verdict;
  return replicas.keep(key, {*service.tokens, engine, judge_replica(service, engine, load)})
      .verdict;
}

const ReplicaVerdict& Replicas::judged(const Kind& kind) {
  const auto [known, fresh] = judged_.try_emplace(kind);
  const auto& [engine, sequences, load] = kind;
  const ReplicaLoad asked{sequences, Rps{load}, service_.percentile};
  if (fresh)
    known->second =
        memo_ ? memo_->judged(service_, *engine, asked) : judge_replica(service_, *engine, asked);
  return known->second;
}

Millis Replicas::check(const std::vector<ReplicaPart>& parts, Findings& findings) {
  const std::string subject = "service " + service_.name;
  Millis slowest;
  for (const auto& [kind, planned] : kinds(parts)) {
    const ReplicaVerdict& verdict = judged(kind);
    const std::string replica = replica_text(*planned, std::get<2>(kind));
    slowest = std::max(slowest, verdict.whole);
    if (verdict.busy > 1)
      findings.report("overload", subject, 100 * verdict.busy, 100, work_text(replica));
    else if (!verdict.holds)
      findings.report("slo", subject, 100 * (1 - verdict.late), service_.percentile,
                      late_text(replica, verdict));
  }
  return slowest;
}

void Replicas::check_left(const std::vector<ReplicaPart>& left, const std::string& subject,
                          Findings& findings) {
  for (const auto& [kind, planned] : kinds(left)) {
    const ReplicaVerdict& verdict = judged(kind);
    if (verdict.holds) continue;
    const std::string replica = replica_text(*planned, std::get<2>(kind));
    if (verdict.busy > 1)
      return findings.report("survive", subject, 100 * verdict.busy, 100, work_text(replica));
    return findings.report("survive", subject, 100 * (1 - verdict.late), service_.percentile,
                           late_text(replica, verdict));
  }
}

}  // namespace partita::verify
