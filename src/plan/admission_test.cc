// Admission against the plain rule: one batch after the other, on the process that is free first.
#include "plan/admission.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "base/rng.h"

namespace partita::plan {
namespace {

Nanos one_by_one(std::vector<PoolProcess> processes, long ahead) {
  while (true) {
    PoolProcess& first =
        *std::ranges::min_element(processes, [](const PoolProcess& a, const PoolProcess& b) {
          if (a.free != b.free) return a.free < b.free;
          return a.full != b.full ? a.full < b.full : a.batch < b.batch;
        });
    first.free += first.full;
    if (ahead <= first.batch) return first.free;
    ahead -= first.batch;
  }
}

int draw(Rng& rng, int low, int high) {
  return low + static_cast<int>(rng.uniform() * (high - low + 1));
}

RC_GTEST_PROP(Admission, LongQueuesArePredictedAsOneBatchAfterTheOther, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const bool alike = rng.uniform() < 0.5;
  std::vector<PoolProcess> processes;
  for (int i = draw(rng, 1, 12); i > 0; --i)
    processes.push_back({draw(rng, 0, 300), alike ? 70 : draw(rng, 1, 90), draw(rng, 1, 20)});
  for (const long ahead : {1, 2, draw(rng, 1, 50), draw(rng, 1, 3000)})
    RC_ASSERT(predicted_finish(processes, ahead) == one_by_one(processes, ahead));
}

// A pool at work: what it lets in is what the plain rule lets in, of the processes as they stand.
RC_GTEST_PROP(Admission, APoolLetsInWhatThePlainRuleLetsIn, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  DispatchPolicy policy{.members = {}, .slo = draw(rng, 1, 100) * 100'000};
  const bool alike = rng.uniform() < 0.5;
  for (int m = draw(rng, 1, 4); m > 0; --m)
    policy.members.push_back(
        {{{{1, Millis{1}}, {draw(rng, 2, 8), Millis{alike ? 3.0 : draw(rng, 10, 60) / 10.0}}}},
         draw(rng, 1, 3)});
  const int limit = draw(rng, 1, 60);
  Admission admission(policy, limit);
  std::vector<PoolProcess> processes;
  std::vector<int> member_of;
  for (std::size_t m = 0; m < policy.members.size(); ++m)
    for (int process = 0; process < policy.members[m].processes; ++process) {
      const auto& full = policy.members[m].curve.steps.back();
      processes.push_back({0, execution_time(full.latency), full.batch});
      member_of.push_back(static_cast<int>(m));
    }
  Nanos now = 0;
  for (int turn = 0; turn < 300; ++turn) {
    now += draw(rng, 0, 500'000);
    const std::size_t process = at(draw(rng, 0, static_cast<int>(processes.size()) - 1));
    if (processes[process].free <= now && rng.uniform() < 0.7) {
      const Nanos takes = rng.uniform() < 0.5 ? processes[process].full : 1'000'000;
      admission.start(member_of[process], now, takes);
      processes[process].free = now + takes;
    }
    const int queued = draw(rng, 0, 70);
    std::vector<PoolProcess> as_they_stand = processes;
    for (PoolProcess& each : as_they_stand) each.free = std::max(each.free, now);
    const Nanos finish = one_by_one(as_they_stand, queued + 1L);
    const bool expected = queued < limit && finish <= now + *policy.slo - usual_margin(*policy.slo);
    RC_ASSERT(admission.admits(now, queued) == expected);
  }
}

}  // namespace
}  // namespace partita::plan
