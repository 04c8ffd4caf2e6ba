// A change against brute force and against an independent walk through its steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "world.h"

namespace partita::actuation_tests {
namespace {

using actuate::Assignment;
using actuate::Change;
using actuate::Step;
using actuate::Wanted;

struct Case {
  const hw::GpuModel* model = nullptr;
  std::unique_ptr<World> world;
  Wanted to;
};

Case random_case(std::uint64_t seed, int most_gpus) {
  Rng rng = Rng(seed).split(3);
  const char* const names[] = {"A30-24GB", "A100-80GB", "H200-141GB"};
  Case one;
  one.model = *hw::builtin_catalogue().get(names[rng.below(3)]);
  const int gpus = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most_gpus)));
  one.world = std::make_unique<World>(
      std::vector<sim_driver::Machine::Gpus>{{one.model, gpus, true}}, seed);
  one.world->workers = rng.below(2) == 0;
  const int used = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(gpus)));
  const Wanted from = random_wanted(*one.model, used, rng, 0.5 + rng.uniform() / 2);
  EXPECT_TRUE(actuate::apply(one.world->doors(), from, {}, [](const auto&) {}));
  one.to = rng.below(4) == 0 ? random_wanted(*one.model, used, rng, 0.9)
                             : altered(from, *one.model, rng);
  return one;
}

// Segments that stay where they are when wanted GPU w becomes the node's GPU order[w]; of equally
// many, those that are not even restarted count.
int kept_by(const Case& one, const device::NodeState& state, const Assignment& assignment,
            const std::vector<int>& order) {
  int kept = 0;
  for (std::size_t w = 0; w < one.to.gpus.size(); ++w) {
    const device::GpuState& gpu = state.gpus[static_cast<std::size_t>(order[w])];
    for (const actuate::WantedInstance& wanted : one.to.gpus[w].instances) {
      for (const device::Instance& there : gpu.instances) {
        if (there.profile != wanted.profile || there.start != wanted.start) continue;
        actuate::Segment runs;
        for (const auto& segment : assignment.segments) {
          if (segment.device == there.uuid())
            runs = {segment.service, segment.batch, segment.processes, 0};
        }
        if (runs.service != wanted.segment.service) continue;
        const bool same =
            runs.batch == wanted.segment.batch && runs.processes == wanted.segment.processes;
        kept += same ? 1001 : 1000;
      }
    }
  }
  return kept;
}

TEST(Change, KeepsAsManySegmentsAsTheBestOfAllAssignments) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Case one = random_case(seed, 4);
    const device::NodeState state = one.world->look();
    const Assignment assignment = one.world->assignment();
    const auto change = actuate::preview(one.world->doors(), one.to, {});
    ASSERT_TRUE(change.has_value()) << to_string(change.error());
    std::vector<int> order(state.gpus.size());
    std::iota(order.begin(), order.end(), 0);
    int best = 0;
    do {
      best = std::max(best, kept_by(one, state, assignment, order));
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(kept_by(one, state, assignment, change->gpu_of), best) << "seed " << seed;
  }
}

// Walks through the steps with nothing but hw::conflicts: every instance that comes must be legal
// beside those that are there, and what goes must be there.
void walk(const Case& one, const Change& change, std::uint64_t seed) {
  std::map<int, std::vector<hw::PlacedProfile>> there;
  const device::NodeState state = one.world->look();
  for (const device::GpuState& gpu : state.gpus) {
    for (const device::Instance& instance : gpu.instances) {
      there[gpu.index].push_back({one.model->profile_index(instance.profile), instance.start});
    }
  }
  for (const Step& step : change.steps) {
    auto& placed = there[step.place.gpu];
    const hw::PlacedProfile place{one.model->profile_index(step.place.profile), step.place.start};
    if (step.kind == Step::Kind::create_instance) {
      placed.push_back(place);
      EXPECT_TRUE(hw::conflicts(*one.model, placed).empty()) << "seed " << seed;
    } else if (step.kind == Step::Kind::destroy_instance) {
      const auto found = std::find(placed.begin(), placed.end(), place);
      ASSERT_NE(found, placed.end()) << "seed " << seed;
      placed.erase(found);
    }
  }
}

TEST(Change, StepsAreLegalAtEveryMomentAndServicesStayUpAsPredicted) {
  int below = 0, services = 0;
  for (std::uint64_t seed = 1000; seed < 1250; ++seed) {
    const Case one = random_case(seed, 5);
    const auto change = actuate::preview(one.world->doors(), one.to, {});
    ASSERT_TRUE(change.has_value()) << to_string(change.error());
    walk(one, *change, seed);
    // The floor of every service that the change says it keeps up, measured while it happens.
    std::map<std::string, double> before, after;
    for (const auto& segment : one.world->assignment().segments) {
      before[segment.service] += segment.throughput_rps;
    }
    for (const auto& gpu : one.to.gpus) {
      for (const auto& wanted : gpu.instances) {
        if (wanted.segment.service.empty()) continue;
        after[wanted.segment.service] += wanted.segment.throughput_rps;
      }
    }
    for (const auto& [service, capacity] : before) {
      one.world->floor[service] = std::min(capacity, after[service]);
    }
    for (const actuate::Affected& affected : change->affected) {
      ++services;
      if (affected.why_below.empty()) continue;
      ++below;
      one.world->floor.erase(affected.service);
    }
    one.world->capacity_of = [](const auto& segment) { return segment.throughput_rps; };
    ASSERT_TRUE(actuate::apply(one.world->doors(), one.to, {}, [](const auto&) {}));
    EXPECT_TRUE(one.world->violations.empty())
        << "seed " << seed << ": " << one.world->violations.front();
    EXPECT_EQ(difference(*one.world, one.to), "");
  }
  RecordProperty("services_below", below);
  EXPECT_LT(below, services / 2);  // most changes find room
}

// A stand-in serves until the successor of what it stands in for runs. One that had to go before
// would need another in its turn, and each costs a creation: no segment is stood in for twice.
TEST(Change, AStandInIsNeverStoodInFor) {
  long stand_ins = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Case one = random_case(seed, 4);
    const auto change = actuate::preview(one.world->doors(), one.to, {});
    ASSERT_TRUE(change.has_value()) << to_string(change.error());
    std::map<std::string, long> leaving, up;
    for (const actuate::Present& gone : change->destroy) ++leaving[gone.segment.service];
    for (const actuate::Reassignment& other : change->reassign)
      ++leaving[other.from.segment.service];
    for (const actuate::Creation& stand_in : change->temporary) {
      ++stand_ins;
      EXPECT_GE(--leaving[stand_in.segment.service], 0)
          << "seed " << seed << ": " << stand_in.segment.service;
    }
    // What is taken down is taken down for good: nothing of its shape goes up in its stead.
    for (const Step& step : change->steps) {
      if (!step.temporary) continue;
      const std::string shape =
          fmt::format("{} {} {}", step.segment.service, step.place.profile, step.segment.batch);
      if (step.kind == Step::Kind::stop) up[shape] = -1;
      if (step.kind != Step::Kind::start) continue;
      EXPECT_GE(up[shape], 0) << "seed " << seed << ": " << shape;
    }
  }
  EXPECT_GT(stand_ins, 5);
}

TEST(Change, WhatIsAsWantedNeedsNoStep) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Case one = random_case(seed, 3);
    ASSERT_TRUE(actuate::apply(one.world->doors(), one.to, {}, [](const auto&) {}));
    const long calls = one.world->calls;
    const auto again = actuate::apply(one.world->doors(), one.to, {}, [](const auto&) {});
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->driver_calls, 0);
    EXPECT_EQ(one.world->calls, calls) << "not even the disk is written";
  }
}

Result<Change> plan_for(const char* model, const Wanted& wanted) {
  World world({{*hw::builtin_catalogue().get(model), 1, true}}, 1);
  return actuate::preview(world.doors(), wanted, {});
}

TEST(Change, RefusesWhatTheNodeCannotBe) {
  const Wanted other{{{"H200-141GB", "", {{"1g.18gb", 0, {}}}}}};
  EXPECT_EQ(plan_for("A30-24GB", other).error().code, ErrorCode::bad_input);
  const Wanted two{{{"A30-24GB", "", {}}, {"A30-24GB", "", {}}}};
  EXPECT_EQ(plan_for("A30-24GB", two).error().code, ErrorCode::infeasible);
  const Wanted illegal{{{"A30-24GB", "", {{"2g.12gb", 1, {}}}}}};
  EXPECT_EQ(plan_for("A30-24GB", illegal).error().code, ErrorCode::bad_input);
  const Wanted nowhere{{{"A30-24GB", "GPU-none", {{"2g.12gb", 0, {}}}}}};
  EXPECT_EQ(plan_for("A30-24GB", nowhere).error().code, ErrorCode::bad_input);
}

}  // namespace
}  // namespace partita::actuation_tests
