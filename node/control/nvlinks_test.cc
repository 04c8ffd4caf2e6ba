#include "control/nvlinks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

device::NodeState node_of(int gpus) {
  device::NodeState state;
  for (int gpu = 0; gpu < gpus; ++gpu) state.gpus.emplace_back().index = gpu;
  return state;
}

// No domain goes around GPUs of another.
TEST(NvLinks, AreAsSettingsSayThem) {
  device::NodeState state = node_of(6);
  const auto domains = [&](const NvLinks& said) {
    std::vector<int> all;
    for (const auto& [gpu, domain] : nvlink_domains(said, state)) all.push_back(domain);
    return all;
  };
  EXPECT_THAT(domains({}), IsEmpty());
  EXPECT_THAT(domains({.each = 4}), ElementsAre(0, 0, 0, 0, 4, 4));
  EXPECT_THAT(domains({.domains = {{0, 1, 2}, {3, 4}}}), ElementsAre(0, 0, 0, 3, 3, 5));
  EXPECT_THAT(domains({.domains = {{0, 2, 3}, {1, 4, 5}}}), ElementsAre(0, 1, 2, 2, 4, 4));
}

}  // namespace
}  // namespace partita::control
