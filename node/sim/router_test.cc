#include "sim/router.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace partita::sim {
namespace {

struct Instance {
  double nanos_per_request = 1;
  Nanos entry_free = 0;
  long queued = 0;
};

// The header's sentence, computed afresh over all instances.
std::size_t scan(const std::vector<Instance>& instances, Nanos now) {
  const auto done = [now](const Instance& i) {
    return std::max(now, i.entry_free) +
           static_cast<Nanos>(static_cast<double>(i.queued + 1) * i.nanos_per_request);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < instances.size(); ++i) {
    if (done(instances[i]) < done(instances[best])) best = i;
  }
  return best;
}

RC_GTEST_PROP(Router, AgreesWithAScan, (std::uint64_t seed)) {
  Rng rng(seed);
  std::vector<Instance> instances(1 + rng.below(20));
  std::vector<double> speeds;
  for (Instance& instance : instances) {
    instance.nanos_per_request = 1.0 + static_cast<double>(rng.below(4)) * 2.5;
    speeds.push_back(instance.nanos_per_request);
  }
  Router router(speeds);
  Nanos now = 0;
  for (int step = 0; step < 400; ++step) {
    now += static_cast<Nanos>(rng.below(4));
    const std::size_t chosen = router.choose(now);
    RC_ASSERT(chosen == scan(instances, now));
    const bool follow = rng.below(3) != 0;
    const std::size_t index = follow ? chosen : rng.below(instances.size());
    Instance& changed = instances[index];
    if (rng.below(3) == 0) {
      changed.entry_free = std::max(now, changed.entry_free) + static_cast<Nanos>(rng.below(30));
      changed.queued = 0;
    } else {
      ++changed.queued;
    }
    router.update(index, now, changed.entry_free, changed.queued);
  }
}

TEST(Router, IdleInstancesAreTakenByThroughputThenIndex) {
  Router router({4.0, 2.0, 2.0});
  EXPECT_EQ(router.choose(0), 1u);
  router.update(1, 0, 0, 1);  // two requests would take 4: as long as on instance 0
  EXPECT_EQ(router.choose(0), 2u);
  router.update(2, 0, 0, 1);
  EXPECT_EQ(router.choose(0), 0u);
}

TEST(Router, ABusyEntryIsWorthWaitingForWhenItIsFastEnough) {
  Router router({100.0, 10.0});
  router.update(1, 0, 50, 0);  // done at 60, before the slow one's 100
  EXPECT_EQ(router.choose(0), 1u);
  router.update(1, 0, 95, 0);
  EXPECT_EQ(router.choose(0), 0u);
  EXPECT_EQ(router.choose(10), 1u);  // 105 against 110
  EXPECT_EQ(router.choose(1000), 1u);
}

}  // namespace
}  // namespace partita::sim
