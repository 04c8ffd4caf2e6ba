#include "verify/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace partita::verify {

namespace {

// GPUs of every domain of a counted entry; without a count those of one node.
std::vector<int> rooms_of(const plan::FleetEntry& entry) {
  std::map<int, int> room;  // by domain
  if (entry.domains.empty())
    for (int g = 0; g < entry.count.value_or(entry.node_gpus); ++g) ++room[entry.domain_of(g)];
  std::vector<int> rooms{0};
  for (const auto& [domain, gpus] : room) rooms.push_back(gpus);
  for (const auto& gpus : entry.domains) rooms.push_back(static_cast<int>(gpus.size()));
  return rooms;
}

// Whether domains hold groups of these sizes, the largest first: sizes divide one another, so that
// it does not matter in which domain with room for it a group is.
bool domains_hold(std::vector<int> sizes, std::vector<int> room) {
  std::ranges::sort(sizes, std::ranges::greater());
  return std::ranges::all_of(sizes, [&](int size) {
    const auto domain = std::ranges::find_if(room, [&](int left) { return left >= size; });
    if (domain != room.end()) *domain -= size;
    return domain != room.end();
  });
}

std::vector<const plan::PlannedGpu*> in_order(const plan::ServingPlan& plan,
                                              const std::string& model) {
  std::vector<const plan::PlannedGpu*> gpus;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    if (gpu.model == model) gpus.push_back(&gpu);
  std::ranges::stable_sort(gpus, {}, &plan::PlannedGpu::index);
  return gpus;
}

// Null: no instance of a group.
const plan::PlannedInstance* grouped_on(const plan::PlannedGpu& gpu) {
  const auto grouped =
      std::ranges::find_if(gpu.instances, [](const auto& one) { return one.group != 1; });
  return grouped == gpu.instances.end() ? nullptr : &*grouped;
}

// Of the group that begins there: GPUs alike that follow one another, as many as it says at most.
std::size_t end_of_group(const std::vector<const plan::PlannedGpu*>& gpus, std::size_t begin) {
  const plan::PlannedInstance& grouped = *grouped_on(*gpus[begin]);
  const auto size = static_cast<std::size_t>(std::max(1, grouped.group));
  std::size_t end = begin;
  while (end < std::min(gpus.size(), begin + size) && gpus[end]->instances.size() == 1 &&
         gpus[end]->instances.front() == grouped)
    ++end;
  return end;
}

}  // namespace

std::vector<std::vector<std::size_t>> lost_with(const plan::ServingPlan& plan) {
  std::vector<std::vector<std::size_t>> lost(plan.gpus.size());
  std::set<std::string> models;
  for (std::size_t g = 0; g < lost.size(); ++g) {
    lost[g] = {g};
    models.insert(plan.gpus[g].model);
  }
  for (const std::string& model : models) {
    const std::vector<const plan::PlannedGpu*> gpus = in_order(plan, model);
    for (std::size_t begin = 0, end = 0; begin < gpus.size(); begin = end) {
      end = begin + 1;
      if (grouped_on(*gpus[begin]) != nullptr) end = std::max(end, end_of_group(gpus, begin));
      std::vector<std::size_t> all;
      for (std::size_t g = begin; g < end; ++g)
        all.push_back(static_cast<std::size_t>(gpus[g] - plan.gpus.data()));
      for (const std::size_t g : all) lost[g] = all;
    }
  }
  return lost;
}

void check_groups(const plan::ServingPlan& plan, const plan::FleetEntry& entry, bool only_model,
                  Findings& findings) {
  const std::vector<const plan::PlannedGpu*> gpus = in_order(plan, entry.gpu.name);
  // Where GPUs are of several models their numbers may say nothing about nodes.
  const auto place = [&](std::size_t g) {
    const bool known = only_model || !entry.domains.empty();
    return known ? entry.domain_of(gpus[g]->index) : 0;
  };
  std::vector<int> sizes;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const plan::PlannedInstance* const grouped = grouped_on(*gpus[g]);
    if (grouped == nullptr) continue;
    const auto size = static_cast<std::size_t>(std::max(1, grouped->group));
    const std::size_t end = end_of_group(gpus, g);
    bool linked = true;
    for (std::size_t other = g; other < end; ++other) linked = linked && place(other) == place(g);
    if (end - g != size || !linked)
      findings.report("group", fmt::format("gpu {}", gpus[g]->index), static_cast<double>(end - g),
                      static_cast<double>(size),
                      fmt::format("GPUs of service {} that follow one another in an NVLink domain",
                                  grouped->service));
    sizes.push_back(static_cast<int>(size));
    g = std::max(g + 1, end) - 1;
  }
  if (sizes.empty()) return;
  const std::vector<int> rooms = rooms_of(entry);
  if (std::ranges::max(sizes) > std::ranges::max(rooms) ||
      (entry.count && !domains_hold(sizes, rooms)))
    findings.report("group", "fleet " + entry.gpu.name, entry.count.value_or(0),
                    std::ranges::max(rooms),
                    "GPUs, in NVLink domains of so many at most, do not hold all groups");
  if (!only_model || !entry.count || !entry.domains.empty()) return;
  // Some of a node's may be taken out: numbers in it have gaps then.
  std::map<int, int> used;  // by node
  for (const plan::PlannedGpu* gpu : gpus) ++used[gpu->index / entry.node_gpus];
  for (const auto& [number, count] : used) {
    const int has = std::clamp(*entry.count - number * entry.node_gpus, 0, entry.node_gpus);
    if (count > has)
      findings.report("group", fmt::format("node {}", number), count, has,
                      "GPUs that are used in it, and that it has");
  }
}

}  // namespace partita::verify
