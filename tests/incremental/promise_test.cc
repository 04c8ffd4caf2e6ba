// What the incremental planner promises is what applying its plan does: random plans that follow
// each other, on a node that runs the one before. The oracle is the definition of plan/changes.h,
// counted by hand from the steps' lists. PARTITA_ROUNDS=50 tries 10,000.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "act/change.h"
#include "base/test_rounds.h"
#include "oracle.h"
#include "planners/serving/exact.h"
#include "planners/serving/incremental.h"
#include "verify/judge.h"

namespace partita::incremental_test {
namespace {

using planners::serving::Changes;
using planners::serving::incremental;
using planners::serving::IncrementalOutcome;
using planners::serving::plan_exact;

struct Node {
  device::NodeState state;
  actuate::Assignment assignment;

  void add(int index, const std::string& model,
           const std::vector<plan::PlannedInstance>& instances) {
    device::GpuState& gpu = state.gpus.emplace_back();
    gpu.index = index;
    gpu.uuid = "GPU-" + std::to_string(index);
    gpu.model = model;
    gpu.mig_capable = gpu.mig_enabled = gpu.mig_pending = true;
    const hw::GpuModel& shapes = *hw::builtin_catalogue().find(model);
    for (const plan::PlannedInstance& one : instances) {
      const auto number = static_cast<std::size_t>(shapes.profile_index(one.profile));
      const hw::MigProfile& profile = shapes.profiles[number];
      const std::string uuid = "MIG-" + std::to_string(index) + "-" + std::to_string(one.start);
      device::Instance& instance = gpu.instances.emplace_back();
      instance.profile = profile.name;
      instance.gpcs = profile.gpcs;
      instance.start = one.start;
      instance.size = profile.size;
      instance.gi_id = static_cast<int>(gpu.instances.size());
      instance.compute.push_back({0, profile.gpcs, uuid});
      assignment.segments.push_back(
          {one, {one.service, one.batch, one.processes, one.throughput.value}, uuid, gpu.uuid});
    }
  }
};

// The node that runs `current`, plan GPU i on GPU number(i), with those that only `next` has.
template <class Number>
Node node_of(Rng& rng, const plan::ServingPlan& current, const plan::ServingPlan& next,
             Number number) {
  Node node;
  std::set<int> used;
  for (const plan::PlannedGpu& gpu : current.gpus) {
    used.insert(number(gpu.index));
    node.add(number(gpu.index), gpu.model, gpu.instances);
  }
  for (const plan::PlannedGpu& gpu : next.gpus)
    if (used.insert(number(gpu.index)).second) node.add(number(gpu.index), gpu.model, {});
  for (std::size_t i = node.state.gpus.size(); i > 1; --i)
    std::swap(node.state.gpus[i - 1], node.state.gpus[rng.below(i)]);
  return node;
}

// GPUs that nothing runs on yet, as the state of a node has them.
void add_empty_gpus(Rng& rng, plan::ServingPlan& current, const std::string& model) {
  for (int more = static_cast<int>(rng.below(3)), index = 0; more > 0; ++index) {
    const auto same = [&](const plan::PlannedGpu& gpu) { return gpu.index == index; };
    if (std::ranges::any_of(current.gpus, same)) continue;
    current.gpus.push_back({index, model, {}});
    --more;
  }
}

// The definition, from what the change lists.
Changes counted(const actuate::Change& change, const actuate::Assignment& assignment) {
  std::set<std::string> ran;
  for (const actuate::AssignedSegment& one : assignment.segments) ran.insert(one.service);
  std::map<std::pair<int, int>, actuate::Segment> after;
  for (const actuate::Reassignment& one : change.reassign)
    after[{one.from.place.gpu, one.from.place.start}] = one.to;
  Changes changes;
  const auto comes = [&](const std::string& service) {
    ++(ran.contains(service) ? changes.moved : changes.created);
  };
  for (const actuate::Present& one : change.keep) {
    const auto found = after.find({one.place.gpu, one.place.start});
    if (found == after.end()) {
      ++changes.kept;
    } else if (found->second.service == one.segment.service) {
      ++changes.restarted;
    } else {
      ++changes.removed;
      comes(found->second.service);
    }
  }
  for (const actuate::Creation& one : change.create) comes(one.segment.service);
  changes.removed += static_cast<int>(change.destroy.size());
  return changes;
}

TEST(Promise, IsWhatApplyDoes) {
  const std::string models[] = {"A30-24GB", "A100-80GB", "H200-141GB", "RTX-PRO-6000-96GB"};
  const int rounds = test_rounds(200);
  Rng rng(21);
  long moved = 0, named = 0;
  for (int round = 0; round < rounds; ++round) {
    const int services = 1 + static_cast<int>(rng.below(7));
    plan::ServingProblem problem =
        random_problem(rng, models[round % 4], services, 1 + 9 * rng.uniform());
    plan::ServingPlan current = *plan_exact(problem, {}).plan;
    shuffle(rng, current);
    add_empty_gpus(rng, current, models[round % 4]);
    problem = changed(rng, problem, 0.6);
    const IncrementalOutcome result = incremental(problem, current, {});
    if (!result.outcome.plan) continue;
    const plan::ServingPlan& next = *result.outcome.plan;
    const auto judged = verify::judge(problem, next);
    ASSERT_TRUE(judged.has_value());
    // A node whose GPUs are those that the plans name, and one that has others for them.
    const Node same = node_of(rng, current, next, [](int index) { return index; });
    const Node other = node_of(rng, current, next, [](int index) { return 1000 - index; });
    for (const Node* node : {&same, &other}) {
      const auto change = actuate::plan_change(
          node->state, node->assignment, actuate::wanted_of(*judged), hw::builtin_catalogue());
      ASSERT_TRUE(change.has_value()) << to_string(change.error());
      ASSERT_EQ(change->changes, result.changes) << "round " << round;
      ASSERT_EQ(counted(*change, node->assignment), result.changes) << "round " << round;
      if (node == &other) continue;
      for (std::size_t w = 0; w < next.gpus.size(); ++w, ++named)
        ASSERT_EQ(change->gpu_of[w], next.gpus[w].index) << "round " << round;
    }
    moved += result.changes.moved;
  }
  EXPECT_GT(moved, rounds / 4);
  EXPECT_GT(named, rounds);
}

}  // namespace
}  // namespace partita::incremental_test
