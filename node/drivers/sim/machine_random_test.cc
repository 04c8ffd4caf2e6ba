// Machine against a second implementation on random operations: a list of placements without ids,
// judged by hw::conflicts, with every free start tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "drivers/sim/machine.h"

namespace partita::drivers::sim {
namespace {

// The second implementation: what exists on one GPU, by gi_id as the machine answered it.
struct Naive {
  struct Held {
    hw::PlacedProfile place;
    std::map<int, std::pair<int, int>> compute;        // ci_id -> first slice, slices
    std::set<std::pair<int, std::int64_t>> processes;  // ci_id, pid
  };
  const hw::GpuModel& model;
  std::map<int, Held> held;

  const hw::MigProfile& shape(int profile) const {
    return model.profiles[static_cast<std::size_t>(profile)];
  }
  bool fits(std::vector<hw::PlacedProfile> more) const {
    for (const auto& [id, one] : held) more.push_back(one.place);
    return hw::conflicts(model, more).empty();
  }
  bool knows(int profile) const {
    return profile >= 0 && profile < static_cast<int>(model.profiles.size());
  }
  // Most instances of the profile that fit, over all subsets of its starts.
  int remaining(int profile) const {
    const std::vector<int>& starts = shape(profile).starts;
    int most = 0;
    for (unsigned subset = 0; subset < 1u << starts.size(); ++subset) {
      std::vector<hw::PlacedProfile> more;
      for (std::size_t i = 0; i < starts.size(); ++i)
        if (subset >> i & 1) more.push_back({profile, starts[i]});
      if (static_cast<int>(more.size()) > most && fits(more)) most = static_cast<int>(more.size());
    }
    return most;
  }
  // Placements of plain profiles that fit beside `one`.
  int left_beside(hw::PlacedProfile one) const {
    int count = 0;
    for (int profile = 0; knows(profile); ++profile)
      for (const int start : shape(profile).starts)
        if (shape(profile).plain()) count += fits({one, {profile, start}});
    return count;
  }
  std::optional<int> best_start(int profile) const {
    std::optional<std::pair<int, int>> best;
    for (const int start : shape(profile).starts)
      if (fits({{profile, start}}))
        best = std::max(best.value_or(std::pair(-1, -1)),
                        std::pair(left_beside({profile, start}), start));
    return best ? std::optional(best->second) : std::nullopt;
  }
};

// Why it was refused; nothing when it was not.
template <class T>
std::optional<ErrorCode> refusal(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error().code);
}

struct Walk {
  Machine machine;
  Naive naive;
  Rng rng;

  int draw(int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  // Mostly an id that exists.
  int some_id() {
    if (naive.held.empty() || draw(0, 9) == 0) return draw(-1, 15);
    auto at = naive.held.begin();
    std::advance(at, draw(0, static_cast<int>(naive.held.size()) - 1));
    return at->first;
  }

  void create() {
    const int profiles = static_cast<int>(naive.model.profiles.size());
    const int profile = draw(0, 19) == 0 ? profiles : draw(0, profiles - 1);
    std::optional<int> start;
    if (draw(0, 2) > 0) start = draw(0, naive.model.memory_slices - 1);
    const auto made = machine.create_instance(0, profile, start);
    if (!naive.knows(profile)) {
      EXPECT_EQ(refusal(made), ErrorCode::invalid_argument);
      return;
    }
    const std::vector<int>& starts = naive.shape(profile).starts;
    const std::optional<int> at = start ? start : naive.best_start(profile);
    if (start && std::ranges::count(starts, *start) == 0) {
      EXPECT_EQ(refusal(made), ErrorCode::invalid_argument);
    } else if (!at || !naive.fits({{profile, *at}})) {
      EXPECT_EQ(refusal(made), ErrorCode::no_room);
    } else {
      ASSERT_TRUE(made);
      EXPECT_FALSE(naive.held.contains(made->value));
      naive.held[made->value] = {{profile, *at}, {}, {}};
    }
  }

  void destroy() {
    const int id = some_id();
    const auto gone = machine.destroy_instance(0, id);
    if (!naive.held.contains(id)) {
      EXPECT_EQ(refusal(gone), ErrorCode::not_found);
    } else if (!naive.held[id].compute.empty()) {
      EXPECT_EQ(refusal(gone), ErrorCode::in_use);
    } else {
      EXPECT_TRUE(gone);
      naive.held.erase(id);
    }
  }

  void create_compute() {
    const int id = some_id();
    if (!naive.held.contains(id)) {
      EXPECT_EQ(refusal(machine.create_compute(0, id, 1, {})), ErrorCode::not_found);
      return;
    }
    Naive::Held& held = naive.held[id];
    const int all = naive.shape(held.place.profile).gpcs;
    const int gpcs = draw(0, 2) == 0 ? 1 : all;
    unsigned taken = 0;
    for (const auto& [ci, span] : held.compute) taken |= ((1u << span.second) - 1) << span.first;
    int first = -1;
    for (int start = all - gpcs; start >= 0; --start)
      if ((taken & ((1u << gpcs) - 1) << start) == 0) first = start;
    const auto made = machine.create_compute(0, id, gpcs, {});
    if (first < 0) {
      EXPECT_EQ(refusal(made), ErrorCode::no_room);
      return;
    }
    ASSERT_TRUE(made);
    EXPECT_TRUE(held.compute.emplace(made->value, std::pair(first, gpcs)).second);
  }

  void destroy_compute() {
    const int id = some_id(), ci = draw(0, 2);
    const auto gone = machine.destroy_compute(0, id, ci);
    if (!naive.held.contains(id) || !naive.held[id].compute.contains(ci)) {
      EXPECT_EQ(refusal(gone), ErrorCode::not_found);
    } else if (std::ranges::any_of(naive.held[id].processes,
                                   [&](const auto& process) { return process.first == ci; })) {
      EXPECT_EQ(refusal(gone), ErrorCode::in_use);
    } else {
      EXPECT_TRUE(gone);
      naive.held[id].compute.erase(ci);
    }
  }

  void change_processes() {
    const int id = some_id(), ci = draw(0, 1);
    const std::int64_t pid = draw(1, 5);
    if (draw(0, 1) == 0) {
      machine.detach(pid);
      for (auto& [gi, held] : naive.held)
        std::erase_if(held.processes, [&](const auto& process) { return process.second == pid; });
    } else {
      const auto attached = machine.attach(0, {pid, "p", id, ci});
      const bool there = naive.held.contains(id) && naive.held[id].compute.contains(ci);
      EXPECT_EQ(refusal(attached), there ? std::nullopt : std::optional(ErrorCode::not_found));
      if (there) naive.held[id].processes.emplace(ci, pid);
    }
  }

  void compare() {
    const SimGpu& gpu = machine.gpus().front();
    ASSERT_EQ(gpu.instances.size(), naive.held.size());
    std::set<std::string> uuids;
    std::size_t compute = 0;
    for (const SimInstance& instance : gpu.instances) {
      ASSERT_TRUE(naive.held.contains(instance.gi_id));
      const Naive::Held& held = naive.held[instance.gi_id];
      EXPECT_EQ(held.place, (hw::PlacedProfile{instance.profile, instance.start}));
      ASSERT_EQ(held.compute.size(), instance.compute.size());
      for (const SimComputeInstance& c : instance.compute) {
        EXPECT_EQ(held.compute.at(c.ci_id), std::pair(c.start, c.gpcs));
        uuids.insert(c.uuid);
        ++compute;
      }
    }
    EXPECT_EQ(uuids.size(), compute);
    const auto again = Machine::from_text("state.json", machine.text(), hw::builtin_catalogue());
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, machine);
  }
};

TEST(MachineRandomTest, BehavesAsTheNaiveModel) {
  for (const char* model :
       {"A30-24GB", "A100-80GB", "H100-80GB-SXM5", "H200-141GB", "RTX-PRO-6000-96GB"}) {
    const hw::GpuModel& gpu = *hw::builtin_catalogue().find(model);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      Walk walk{Machine({{&gpu, 1, true}}, model), Naive{gpu, {}}, Rng(seed)};
      for (int step = 0; step < 150; ++step) {
        SCOPED_TRACE(testing::Message() << model << " seed " << seed << " step " << step);
        switch (walk.draw(0, 7)) {
          case 0:
            walk.destroy();
            break;
          case 1:
            walk.create_compute();
            break;
          case 2:
            walk.destroy_compute();
            break;
          case 3:
            walk.change_processes();
            break;
          default:
            walk.create();
            break;
        }
        walk.compare();
        for (int profile = step % 16; walk.naive.knows(profile); profile += 16)
          EXPECT_EQ(walk.machine.remaining(0, profile), walk.naive.remaining(profile));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace partita::drivers::sim
