// Every crash point of a change: after each mutating call at a door, before and after its effect,
// and in the middle of a write, the program dies. Whoever comes next ends in the target -- or, with
// a rollback, in the source -- and nothing that does not change was touched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/test_rounds.h"
#include "world.h"

namespace partita::actuation_tests {
namespace {

using actuate::ApplyEvent;
using actuate::ApplyOptions;
using actuate::Wanted;

void ignore(const ApplyEvent&) {}

int number_in(const char* variable, int otherwise) {
  const char* wish = std::getenv(variable);
  return wish == nullptr ? otherwise : std::atoi(wish);
}
int rounds(int usual) { return number_in("PARTITA_SEEDS", std::max(3, test_rounds(usual))); }

const hw::GpuModel& model_of(Rng& rng) {
  const char* const names[] = {"A30-24GB", "A100-80GB", "H100-80GB-SXM5", "RTX-PRO-6000-96GB"};
  return **hw::builtin_catalogue().get(names[rng.below(4)]);
}

struct Transition {
  const hw::GpuModel* model = nullptr;
  int gpus = 1;
  Wanted from, to;
};

// Cut GPUs become groups of whole ones, and the other way about; only there MIG is turned off
// without a reset.
Transition transition_of_groups(std::uint64_t seed) {
  Rng rng = Rng(seed).split(3);
  Transition one;
  one.model = *hw::builtin_catalogue().get("H100-80GB-SXM5");
  one.gpus = 2 + static_cast<int>(rng.below(4));
  const int wanted = 2 + static_cast<int>(rng.below(static_cast<std::uint64_t>(one.gpus - 1)));
  one.from = random_wanted(*one.model, wanted, rng, 0.3);
  one.to = with_groups(altered(one.from, *one.model, rng), *one.model, rng);
  one.from = with_groups(one.from, *one.model, rng);
  return one;
}

Transition random_transition(std::uint64_t seed) {
  Rng rng = Rng(seed).split(1);
  Transition one;
  one.model = &model_of(rng);
  one.gpus = 1 + static_cast<int>(rng.below(3));
  const int wanted = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(one.gpus)));
  one.from = random_wanted(*one.model, wanted, rng, 0.3 + 0.7 * rng.uniform());
  one.to = rng.below(5) == 0 ? random_wanted(*one.model, wanted, rng, 0.8)
                             : altered(one.from, *one.model, rng);
  return one;
}

// A world in which the transition's source has been applied.
std::unique_ptr<World> world_at_source(const Transition& one, std::uint64_t seed) {
  auto world = std::make_unique<World>(
      std::vector<sim_driver::Machine::Gpus>{{one.model, one.gpus, true}}, seed);
  const auto applied = actuate::apply(world->doors(), one.from, {}, ignore);
  EXPECT_TRUE(applied.has_value()) << to_string(applied.error());
  EXPECT_EQ(difference(*world, one.from), "");
  world->clock.sleep_ns(100'000'000);
  world->calls = 0;
  return world;
}

// What does not change must be there at the end, under the same UUID.
void guard_kept(World& world, const Wanted& to) {
  const auto change = actuate::preview(world.doors(), to, {});
  ASSERT_TRUE(change.has_value()) << to_string(change.error());
  for (const actuate::Present& one : change->keep) world.untouchable.insert(one.uuid);
}

void expect_kept(World& world) {
  std::set<std::string> there;
  const device::NodeState state = world.look();
  for (const device::GpuState& gpu : state.gpus) {
    for (const device::Instance& one : gpu.instances) there.insert(one.uuid());
  }
  const actuate::Assignment assigned = world.assignment();
  for (const actuate::AssignedSegment& one : assigned.segments) there.insert(one.device);
  for (const std::string& uuid : world.untouchable) {
    EXPECT_TRUE(there.contains(uuid)) << uuid << " is gone";
  }
  EXPECT_TRUE(world.violations.empty()) << world.violations.front();
}

// Runs apply until the crash; whether there was one.
bool crashes(World& world, const Wanted& to) {
  try {
    const auto applied = actuate::apply(world.doors(), to, {}, ignore);
    EXPECT_TRUE(applied.has_value()) << to_string(applied.error());
    return false;
  } catch (const Crash&) {
    return true;
  }
}

void expect_ends_in(World& world, const Wanted& target) {
  world.mishap = [](long) { return Mishap{}; };
  const auto applied = actuate::apply(world.doors(), target, {}, ignore);
  ASSERT_TRUE(applied.has_value()) << to_string(applied.error());
  EXPECT_EQ(difference(world, target), "");
  expect_kept(world);
  const auto again = actuate::preview(world.doors(), target, {});
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->empty());
  const auto journal = actuate::read_journal(world.disk, actuate::journal_path(kStateDir));
  ASSERT_TRUE(journal.has_value());
  EXPECT_FALSE(journal->pending());
  EXPECT_TRUE(journal->intended.empty());
}

void expect_rolls_back(World& world, const Wanted& source) {
  world.mishap = [](long) { return Mishap{}; };
  const auto target = actuate::rollback_target(world.doors());
  ASSERT_TRUE(target.has_value()) << to_string(target.error());
  ApplyOptions options;
  options.rollback = true;
  const auto applied = actuate::apply(world.doors(), *target, options, ignore);
  ASSERT_TRUE(applied.has_value()) << to_string(applied.error());
  EXPECT_EQ(difference(world, source), "");
  expect_kept(world);
}

constexpr Mishap::Kind kDeaths[] = {Mishap::Kind::crash_before, Mishap::Kind::crash_after,
                                    Mishap::Kind::torn};

class CrashPoints : public testing::Test {
 protected:
  void try_every_crash(const Transition& one, std::uint64_t seed);
  long points_ = 0;  // deaths so far
};

void CrashPoints::try_every_crash(const Transition& one, std::uint64_t seed) {
  const auto calm = world_at_source(one, seed);
  guard_kept(*calm, one.to);
  ASSERT_FALSE(crashes(*calm, one.to));
  expect_ends_in(*calm, one.to);
  const long stride = std::max(1, 10 / test_rounds(10));  // every one in release
  for (long call = 1; call <= calm->calls; call += stride) {
    for (const Mishap::Kind death : kDeaths) {
      for (const bool back : {false, true}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + " call " + std::to_string(call) + " death " +
                     std::to_string(static_cast<int>(death)) + (back ? " back" : ""));
        const auto world = world_at_source(one, seed);
        guard_kept(*world, one.to);
        world->mishap = [&](long n) { return Mishap{n == call ? death : Mishap::Kind::none}; };
        if (!crashes(*world, one.to)) break;
        ++points_;
        const auto journal = actuate::read_journal(world->disk, actuate::journal_path(kStateDir));
        ASSERT_TRUE(journal.has_value()) << to_string(journal.error());
        // Before the new transaction was noted, going back would mean the one before.
        const bool begun = journal->transactions > 1 || one.from.gpus.empty();
        if (back && begun && journal->last->target == one.to) {
          expect_rolls_back(*world, one.from);
        } else {
          expect_ends_in(*world, one.to);
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST_F(CrashPoints, EveryPointOfRandomTransitions) {
  const int first = number_in("PARTITA_FIRST_SEED", 1);
  const int count = rounds(5);
  for (int seed = first; seed < first + count && !HasFailure(); ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    try_every_crash(random_transition(number), number);
  }
  if (std::getenv("PARTITA_SEEDS") != nullptr) fmt::print("{} deaths\n", points_);
  EXPECT_GT(points_, count);
}

TEST_F(CrashPoints, EveryPointOfGroupsOfGpus) {
  const int first = number_in("PARTITA_FIRST_SEED", 1);
  const int count = rounds(12);
  for (int seed = first; seed < first + count && !HasFailure(); ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    try_every_crash(transition_of_groups(number), number);
  }
  if (std::getenv("PARTITA_SEEDS") != nullptr) fmt::print("{} deaths\n", points_);
  EXPECT_GT(points_, count);
}

// One GPU of a group falls off the bus: its replica gets another, the rest of it is free, what is
// whole stays; also where apply dies at any moment of that.
TEST_F(CrashPoints, AGroupIsLostWithOneOfItsGpus) {
  const hw::GpuModel* model = *hw::builtin_catalogue().get("H100-80GB-SXM5");
  Transition one{model, 6, {}, {}};
  const actuate::Segment chat{"chat", 8, 1, 40}, other{"other", 4, 1, 20};
  for (const int group : {0, 0, 1, 1})
    one.from.gpus.push_back({model->name, "", {{"7g.80gb", 0, chat}}, -1, group});
  one.from.gpus.push_back({model->name, "", {{"3g.40gb", 0, other}}});
  one.from.services = services_of(one.from);
  one.to = one.from;
  long calls = 1;
  for (long call = 0; call <= calls; ++call) {
    const auto world = world_at_source(one, 7);
    const actuate::Assignment before = world->assignment();
    const std::string lost = actuate::whole_gpus(before.segments.front().device)[1];
    const int index = world->look().find(lost)->index;
    for (const actuate::AssignedSegment& kept : before.segments)
      if (kept.device.find(lost) == std::string::npos) world->untouchable.insert(kept.device);
    world->change_machine([&](sim_driver::Machine& machine) { machine.lose(index); });
    world->clock.sleep_ns(100'000'000);
    world->mishap = [&](long n) {
      return Mishap{n == call ? Mishap::Kind::crash_after : Mishap::Kind::none};
    };
    crashes(*world, one.to);
    calls = std::max(calls, world->calls);
    expect_ends_in(*world, one.to);
    for (const actuate::AssignedSegment& now : world->assignment().segments)
      EXPECT_EQ(now.device.find(lost), std::string::npos);
    if (HasFailure()) return;
  }
  EXPECT_GT(calls, 4);
}

// Several deaths in a row, also during the recovery itself.
TEST_F(CrashPoints, AgainAndAgain) {
  const int count = rounds(60);
  for (int seed = 1; seed <= count && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const auto number = static_cast<std::uint64_t>(seed) + 5000;
    const Transition one = seed % 2 == 0 ? random_transition(number) : transition_of_groups(number);
    const auto world = world_at_source(one, static_cast<std::uint64_t>(seed));
    guard_kept(*world, one.to);
    Rng rng = Rng(static_cast<std::uint64_t>(seed)).split(2);
    for (int life = 0; life < 6; ++life) {
      const long last = world->calls + 1 + static_cast<long>(rng.below(12));
      const Mishap::Kind death = kDeaths[rng.below(3)];
      world->mishap = [=](long n) { return Mishap{n == last ? death : Mishap::Kind::none}; };
      if (!crashes(*world, one.to)) break;
    }
    expect_ends_in(*world, one.to);
  }
}

}  // namespace
}  // namespace partita::actuation_tests
