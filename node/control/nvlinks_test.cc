#include "control/nvlinks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "device/nvlinks.h"

namespace partita::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

device::NodeState node_of(int gpus) {
  device::NodeState state;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    device::GpuState& one = state.gpus.emplace_back();
    one.index = gpu;
    one.nvlinks = {fmt::format("gpu{}", gpu)};
  }
  return state;
}

// Links between GPUs and to switches at random, against what can be reached from each over them.
TEST(NvLinks, AreFollowedToWhateverTheyReach) {
  int several = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const int gpus = 2 + static_cast<int>(rng.below(7)), switches = static_cast<int>(rng.below(3));
    device::NodeState state = node_of(gpus);
    std::vector<std::vector<bool>> reached(10, std::vector<bool>(10));
    for (auto links = 1 + rng.below(9); links > 0; --links) {
      const auto a = rng.below(static_cast<std::uint64_t>(gpus));
      const auto b = rng.below(static_cast<std::uint64_t>(gpus + switches));
      reached[a][b] = reached[b][a] = true;
      const auto to_gpu = [](std::uint64_t one) { return fmt::format("gpu{}", one); };
      const bool direct = b < static_cast<std::uint64_t>(gpus);
      state.gpus[a].nvlinks.push_back(direct ? to_gpu(b) : fmt::format("switch{}", b));
      if (direct) state.gpus[b].nvlinks.push_back(to_gpu(a));
    }
    for (std::size_t k = 0; k < 10; ++k)
      for (std::size_t i = 0; i < 10; ++i)
        for (std::size_t j = 0; j < 10; ++j)
          if (reached[i][k] && reached[k][j]) reached[i][j] = true;
    const auto domains = device::nvlink_domains(state);
    ASSERT_EQ(domains.size(), state.gpus.size()) << seed;
    for (const auto& [gpu, domain] : domains) {
      int lowest = gpu;
      for (int other = gpu; other >= 0; --other)
        if (reached[static_cast<std::size_t>(gpu)][static_cast<std::size_t>(other)]) lowest = other;
      EXPECT_EQ(domain, lowest) << seed << ": " << gpu;
      several += domain != 0;
    }
  }
  EXPECT_GT(several, 100);
}

// One GPU joins what is already joined by two others with another one.
TEST(NvLinks, JoinWholeDomains) {
  device::NodeState state = node_of(4);
  state.gpus[0].nvlinks.push_back("switch1");
  for (const std::size_t gpu : {1, 2, 3}) state.gpus[gpu].nvlinks.push_back("switch0");
  state.gpus[3].nvlinks.insert(state.gpus[3].nvlinks.end() - 1, "switch1");
  EXPECT_THAT(device::nvlink_domains(state),
              ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0), Pair(3, 0)));
}

TEST(NvLinks, AreUnknownWhereTheDriverDoesNotTell) {
  device::NodeState state = node_of(4);
  EXPECT_THAT(device::nvlink_domains(state), IsEmpty());  // none has a link
  for (const std::size_t gpu : {0, 1}) state.gpus[gpu].nvlinks.push_back("switch");
  const auto known = ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 2), Pair(3, 3));
  EXPECT_THAT(device::nvlink_domains(state), known);
  state.gpus[3].mig_enabled = true;  // its links may be down by that
  EXPECT_THAT(device::nvlink_domains(state), IsEmpty());
  state.gpus[3].mig_enabled = false;
  state.gpus[2].nvlinks.clear();
  EXPECT_THAT(device::nvlink_domains(state), IsEmpty());
  state.gpus[2].lost = true;
  EXPECT_THAT(device::nvlink_domains(state), ElementsAre(Pair(0, 0), Pair(1, 0), Pair(3, 3)));
}

// What settings say counts, and no domain goes around GPUs of another.
TEST(NvLinks, AreAsSettingsSayThem) {
  device::NodeState state = node_of(6);
  for (device::GpuState& gpu : state.gpus) gpu.nvlinks.push_back("switch");
  const auto domains = [&](const NvLinks& said) {
    std::vector<int> all;
    for (const auto& [gpu, domain] : nvlink_domains(said, state)) all.push_back(domain);
    return all;
  };
  EXPECT_THAT(domains({}), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(domains({.each = 4}), ElementsAre(0, 0, 0, 0, 4, 4));
  EXPECT_THAT(domains({.domains = {{0, 1, 2}, {3, 4}}}), ElementsAre(0, 0, 0, 3, 3, 5));
  EXPECT_THAT(domains({.domains = {{0, 2, 3}, {1, 4, 5}}}), ElementsAre(0, 1, 2, 2, 4, 4));
}

}  // namespace
}  // namespace partita::control
