// Interruptions at every question of a change: the step under way is ended, nothing is left half
// made, what was taken off a device that is still there goes back to it, and the change can be
// gone on with or rolled back.
#include <gtest/gtest.h>

#include "act/node_run.h"
#include "world.h"

namespace partita::actuation_tests {
namespace {

using actuate::Wanted;

void nobody(const actuate::ApplyEvent&) {}

std::set<std::string> devices_of(const device::NodeState& state) {
  std::set<std::string> devices;
  for (const device::GpuState& gpu : state.gpus) {
    for (const device::Instance& one : gpu.instances) {
      EXPECT_TRUE(one.whole()) << "gpu " << gpu.index << " has a half-made instance";
      devices.insert(one.uuid());
    }
  }
  return devices;
}

struct InterruptTransition {
  std::unique_ptr<World> world;
  Wanted from, to;
};

InterruptTransition at_source(std::uint64_t seed) {
  Rng rng = Rng(seed).split(8);
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A100-80GB");
  InterruptTransition one;
  one.world =
      std::make_unique<World>(std::vector<sim_driver::Machine::Gpus>{{&model, 2, true}}, seed);
  one.from = random_wanted(model, 2, rng, 0.6);
  one.to = altered(one.from, model, rng);
  EXPECT_TRUE(actuate::apply(one.world->doors(), one.from, {}, nobody));
  one.world->clock.sleep_ns(100'000'000);
  return one;
}

// Interrupted when asked for the n-th time; false when it was done before.
bool interrupted_at(InterruptTransition& one, long n) {
  World& world = *one.world;
  const actuate::Assignment before = world.assignment();
  actuate::Doors doors = world.doors();
  long asked = 0;
  doors.interrupted = [&] { return ++asked == n; };
  const auto applied = actuate::apply(doors, one.to, {}, nobody);
  if (applied) return asked >= n;
  EXPECT_TRUE(applied.error().message.starts_with("interrupted; ")) << applied.error().message;
  const std::set<std::string> devices = devices_of(world.look());
  const actuate::Assignment after = world.assignment();
  std::set<std::string> assigned;
  for (const auto& segment : after.segments) assigned.insert(segment.device);
  for (const auto& segment : before.segments) {
    if (!devices.contains(segment.device)) continue;
    EXPECT_TRUE(assigned.contains(segment.device)) << segment.service << " was taken off";
  }
  for (const std::string& device : assigned) EXPECT_TRUE(devices.contains(device));
  const auto journal = actuate::read_journal(world.disk, actuate::journal_path(kStateDir));
  EXPECT_TRUE(journal.has_value());
  if (journal->transactions > 1) {
    EXPECT_EQ(journal->end.value().outcome, "failed");
  }
  return true;
}

TEST(Interrupts, AtEveryQuestionLeaveWhatCanGoOnOrBack) {
  int interruptions = 0;
  for (int seed = 1; seed <= 10; ++seed) {
    for (long n = 1;; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " question " + std::to_string(n));
      InterruptTransition one = at_source(static_cast<std::uint64_t>(seed));
      if (!interrupted_at(one, n)) break;
      ++interruptions;
      const bool back = n % 2 == 0;
      const auto state = actuate::read_journal(one.world->disk, actuate::journal_path(kStateDir));
      const bool begun = state->transactions > 1;
      if (back && begun) {
        const auto target = actuate::rollback_target(one.world->doors());
        ASSERT_TRUE(target.has_value());
        for (int again = 0; again < 2; ++again) {  // the second one finds nothing to do
          const auto applied =
              actuate::apply(one.world->doors(), *target, {.rollback = true}, nobody);
          ASSERT_TRUE(applied.has_value()) << to_string(applied.error());
          if (again == 1) {
            EXPECT_EQ(applied->driver_calls, 0);
          }
          EXPECT_EQ(*actuate::rollback_target(one.world->doors()), *target);
        }
        EXPECT_EQ(difference(*one.world, one.from), "");
      } else {
        const auto applied = actuate::apply(one.world->doors(), one.to, {}, nobody);
        ASSERT_TRUE(applied.has_value()) << to_string(applied.error());
        EXPECT_EQ(difference(*one.world, one.to), "");
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(interruptions, 50);
}

}  // namespace
}  // namespace partita::actuation_tests
