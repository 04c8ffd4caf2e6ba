#include "control/service_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::control {

std::vector<VerdictKept> ServiceWatch::judge(const VerdictGround& ground, std::int64_t now_ms) {
  verdicts_ = judge_services(ground, now_ms, verdicts_);
  const std::vector<VerdictKept>& before = ground.memory.verdicts;
  std::vector<VerdictKept> kept;
  std::set<std::string> there;
  for (const ServiceVerdict& one : verdicts_) {
    const bool served = one.verdict != Standing::down && one.verdict != Standing::unknown;
    const bool known = std::ranges::count(before, one.service, &VerdictKept::service) > 0;
    if (!known && !served) starting_.insert(one.service);
    if (served) starting_.erase(one.service);
    tell(one, now_ms);
    kept.push_back({one.service, one.verdict, one.since_ms});
    there.insert(one.service);
  }
  const auto gone = [&](const auto& one) { return !there.contains(one.first); };
  for (const auto& [service, word] : told_of_)
    if (!there.contains(service)) report_.over("risk:" + service);
  std::erase_if(told_of_, gone);
  return kept;
}

bool ServiceWatch::differs(const VerdictGround& ground, std::int64_t now_ms) const {
  const auto now = judge_services(ground, now_ms, verdicts_);
  return !std::ranges::equal(now, verdicts_, {}, &ServiceVerdict::verdict,
                             &ServiceVerdict::verdict);
}

void ServiceWatch::tell(const ServiceVerdict& one, std::int64_t now_ms) {
  constexpr int kWorse[] = {0, 2, 1, 3, 1};  // by Standing
  constexpr std::int64_t kSteadyMs = kMinuteMs, kShortMs = 10'000, kStartMs = 2 * kMinuteMs;
  const std::string key = "risk:" + one.service;
  const auto told = told_of_.find(one.service);
  const std::int64_t lasts = now_ms - one.since_ms;
  if (one.verdict == Standing::serves) {
    if (told == told_of_.end() || lasts < kShortMs) return;
    report_.over(key);
    told_of_.erase(told);
    report_.tell(NoticeKind::other, key, one.service, one.service + " is served again");
    return report_.untell(key);
  }
  std::int64_t patience = 0;
  if (one.verdict == Standing::at_risk) patience = kSteadyMs;  // a change, a worker that comes back
  if (one.verdict == Standing::unknown) patience = kShortMs;
  if (starting_.contains(one.service)) patience = kStartMs;
  if (lasts < patience || (one.verdict == Standing::unknown && one.as_of_ms == 0)) return;
  const auto worse = [&](Standing word) { return kWorse[static_cast<std::size_t>(word)]; };
  if (told != told_of_.end() && worse(told->second) >= worse(one.verdict)) return;
  const char* const words[] = {"is served", "is degraded", "is at risk", "is down",
                               "is not known to be served"};
  report_.over(key);
  told_of_[one.service] = one.verdict;
  report_.tell(
      NoticeKind::slo_risk, key, one.service,
      fmt::format("{} {}: {}", one.service, words[static_cast<std::size_t>(one.verdict)], one.why));
}

void ServiceWatch::hear_workers(const std::vector<actuate::WorkerRecord>& workers) {
  restarts_ = given_up_ = 0;
  for (const actuate::WorkerRecord& one : workers) {
    restarts_ += one.restarts;
    const std::string key =
        fmt::format("worker:{}:{}:{}", one.segment.service, one.segment.device, one.index);
    if (!one.given_up) {
      report_.over(key);
      continue;
    }
    ++given_up_;
    report_.tell(NoticeKind::given_up_worker, key, one.segment.service,
                 fmt::format("worker {} of {} on {} keeps failing{}", one.index,
                             one.segment.service, one.segment.device,
                             one.last_status ? fmt::format(" (status {})", *one.last_status) : ""));
  }
}

}  // namespace partita::control
