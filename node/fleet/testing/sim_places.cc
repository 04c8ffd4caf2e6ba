#include "fleet/testing/sim_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "fleet/brain/testing/invented_fleet.h"
#include "fleet/testing/fleet_sim.h"

namespace partita::fleet {
namespace {

constexpr int kFeeds = 3;
constexpr std::uint64_t kFeedFails = 8;  // one trouble of so many

int domain_in(const NodeRecord& node, int gpu) {
  const auto is = std::ranges::find(node.gpus, gpu, &NodeGpu::index);
  return is == node.gpus.end() ? -1 : is->nvlink.value_or(0);
}

// Services of groups and their sizes, by GPU.
std::map<int, std::pair<std::string, int>> grouped(const std::vector<plan::PlannedGpu>& gpus) {
  std::map<int, std::pair<std::string, int>> all;
  for (const plan::PlannedGpu& gpu : gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (one.group > 1) all[gpu.index] = {one.service, one.group};
  return all;
}

}  // namespace

SimPlaces::SimPlaces(std::uint64_t seed) : rng_(seed * 15'485'863 + 3) {
  if (seed < kFirstPlaces) return;
  feeds_ = rng_.below(4) != 0;
  outlives_feeds_ = feeds_ && rng_.below(3) != 0;
  links_ = !feeds_ || rng_.below(3) != 0;
}

void SimPlaces::put(NodeRecord& node, int number) {
  if (feeds_) node.feed = fmt::format("f{}", number % kFeeds);
  if (!links_) return;
  constexpr int kGpus[] = {2, 4, 4, 6}, kLinked[] = {0, 2, 2, 3, 4};
  const int gpus = kGpus[rng_.below(std::size(kGpus))];
  const std::string model = node.gpus.front().model;
  node.gpus.clear();
  for (int g = 0; g < gpus; ++g)
    node.gpus.push_back({g, fmt::format("GPU-{}-{}", node.node, g), model});
  const int each = kLinked[rng_.below(std::size(kLinked))];
  for (NodeGpu& gpu : node.gpus)
    if (each > 0) gpu.nvlink = gpu.index / each * each;
}

std::vector<std::string> SimPlaces::groups() {
  if (!links_) return {};
  if (rng_.below(3) == 0) return {"quad"};
  return rng_.below(2) == 0 ? std::vector<std::string>{"pair"}
                            : std::vector<std::string>{"pair", "quad"};
}

std::string SimPlaces::failing_feed() {
  if (!feeds_ || rng_.below(kFeedFails) != 0) return {};
  return fmt::format("f{}", rng_.below(kFeeds));
}

std::string lost_together(const NodeRecord& node, Survive survive) {
  return survive == Survive::feed ? node.feed : node.node;
}

std::vector<std::string> faults_of_groups(const NodeRecord& node,
                                          const std::vector<plan::PlannedGpu>& gpus) {
  std::vector<std::string> faults;
  int left = 0, domain = 0, before = 0;  // of the group that has begun
  std::pair<std::string, int> kind;
  const auto fault = [&](int gpu) {
    faults.push_back(fmt::format("{} GPUs of {} at GPU {} of {} are not {} in one domain",
                                 kind.second - left, kind.first, gpu, node.node, kind.second));
    left = 0;
  };
  for (const auto& [gpu, of] : grouped(gpus)) {
    if (left > 0 && (of != kind || domain_in(node, gpu) != domain)) fault(before);
    if (left == 0) kind = of, left = of.second, domain = domain_in(node, gpu);
    --left;
    before = gpu;
  }
  if (left > 0) fault(before);
  return faults;
}

int groups_on(const std::vector<plan::PlannedGpu>& gpus) {
  double groups = 0;
  for (const auto& [gpu, of] : grouped(gpus)) groups += 1.0 / of.second;
  return static_cast<int>(groups + 0.5);
}

bool has_free_domain(const NodeRecord& node, int gpus) {
  std::map<int, int> free;
  for (const NodeGpu& gpu : node.gpus) {
    const bool runs = std::ranges::any_of(node.runs, [&](const plan::PlannedGpu& there) {
      return there.index == gpu.index && !there.instances.empty();
    });
    if (gpu.unusable.empty() && gpu.lent.empty() && !runs &&
        ++free[domain_in(node, gpu.index)] >= gpus)
      return true;
  }
  return false;
}

double left_without(const NodeRecord& node, const std::string& service, int gpu) {
  double least = 1;
  for (const std::string& pool : pools_of_tests(service)) {
    double all = 0, kept = 0, of_group = 0;
    int seen = 0;  // of the group
    bool hit = false;
    for (const plan::PlannedGpu& there : node.runs)
      for (const plan::PlannedInstance& one : there.instances) {
        if (one.service != pool) continue;
        all += one.throughput.value;
        of_group += one.throughput.value;
        hit = hit || there.index == gpu;
        if (++seen < one.group) continue;
        if (!hit) kept += of_group;
        seen = 0, of_group = 0, hit = false;
      }
    if (all > 0) least = std::min(least, kept / all);
  }
  return least;
}

}  // namespace partita::fleet
