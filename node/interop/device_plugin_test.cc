#include "interop/device_plugin.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

// One A100 per list of (profile, start, processes).
struct Planned {
  const char* profile;
  int start, processes;
};
Geometry node(const std::vector<std::vector<Planned>>& gpus) {
  const hw::GpuModel& a100 = model("A100-80GB");
  Geometry geometry;
  for (const std::vector<Planned>& planned : gpus) {
    geometry.gpus.push_back(
        {{.index = static_cast<int>(geometry.gpus.size()), .model = &a100}, true, {}});
    for (const Planned& one : planned) {
      geometry.gpus.back().slots.push_back(slot(a100, one.profile, one.start));
      geometry.gpus.back().slots.back().processes = one.processes;
      geometry.gpus.back().slots.back().service = fmt::format("s{}", one.start);
    }
  }
  return geometry;
}

std::string device_plugin_refusal(const Geometry& geometry, SharingMethod method) {
  const Result<PluginConfig> config = plugin_config(geometry, method);
  return config ? std::string("accepted") : to_string(config.error());
}

TEST(DevicePlugin, TimeSlicingByHand) {
  const Geometry geometry =
      node({{{"4g.40gb", 0, 2}, {"1g.10gb+me", 4, 1}}, {{"3g.40gb", 0, 3}, {"3g.40gb", 4, 3}}});
  const Result<PluginConfig> config = plugin_config(geometry, SharingMethod::time_slicing);
  ASSERT_TRUE(config) << to_string(config.error());
  const std::string text = plugin_yaml(*config);
  EXPECT_EQ(text, R"(# Replicas are the processes on each instance; the plugin isolates them by )"
                  R"(time slicing alone.
# Not shared, one process each: nvidia.com/mig-1g.10gb.me (s4)
version: v1
flags:
  migStrategy: mixed
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: true
    resources:
      - name: "nvidia.com/mig-3g.40gb"
        replicas: 3  # s0, s4
      - name: "nvidia.com/mig-4g.40gb"
        replicas: 2  # s0
)");
  EXPECT_EQ(*parse_plugin_config("p.yaml", text), *config);
}

// NVIDIA's parser takes neither one replica nor an empty list.
TEST(DevicePlugin, NothingSharedIsNoSharing) {
  for (const SharingMethod method : {SharingMethod::time_slicing, SharingMethod::mps}) {
    const Result<PluginConfig> config = plugin_config(node({{{"7g.80gb", 0, 1}}}), method);
    ASSERT_TRUE(config) << to_string(config.error());
    const std::string text = plugin_yaml(*config);
    const bool mps = method == SharingMethod::mps;
    EXPECT_EQ(text, fmt::format("# Not shared, one process each: nvidia.com/{} (s0)\nversion: v1\n"
                                "flags:\n  migStrategy: {}\n",
                                mps ? "gpu" : "mig-7g.80gb", mps ? "none" : "mixed"));
    EXPECT_EQ(*parse_plugin_config("p.yaml", text), *config);
  }
}

TEST(DevicePlugin, MpsOnWholeGpusOnly) {
  const Result<PluginConfig> config =
      plugin_config(node({{{"7g.80gb", 0, 4}}, {}, {{"7g.80gb", 0, 4}}}), SharingMethod::mps);
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_EQ(config->resources, (std::vector<SharedResource>{{"nvidia.com/gpu", 4}}));
  EXPECT_EQ(config->mig_strategy, "none");
  EXPECT_EQ(*parse_plugin_config("p.yaml", plugin_yaml(*config)), *config);
  EXPECT_EQ(
      device_plugin_refusal(node({{{"7g.80gb", 0, 4}}, {{"4g.40gb", 0, 4}}}), SharingMethod::mps),
      "the device plugin supports MPS on whole GPUs only, and GPU 1 has 1 x 4g.40gb: share "
      "by time slicing, or use DRA");
}

TEST(DevicePlugin, WhatTheFormatCannotSay) {
  EXPECT_EQ(device_plugin_refusal(node({{{"3g.40gb", 0, 3}, {"3g.40gb", 4, 2}}}),
                                  SharingMethod::time_slicing),
            "instances of nvidia.com/mig-3g.40gb run 3 and 2 processes, and the plugin has one "
            "number of replicas per resource");
  Geometry mixed = node({{{"3g.40gb", 0, 3}}, {{"3g.40gb", 0, 3}}});
  mixed.gpus[1].board.model = &model("H100-80GB-SXM5");
  EXPECT_EQ(device_plugin_refusal(mixed, SharingMethod::time_slicing),
            "3g.40gb is a profile of A100-80GB and of H100-80GB-SXM5; one resource cannot be both");
  EXPECT_EQ(device_plugin_refusal(node({{}}), SharingMethod::time_slicing),
            "there is no instance to share");
}

TEST(DevicePlugin, ReadByHand) {
  const Result<PluginConfig> config = parse_plugin_config("p.yaml", R"(
flags: {migStrategy: single, failOnInitError: true}
resources: {gpus: []}
sharing:
  mps:
    resources:
      - {name: gpu, replicas: 10, rename: shared, devices: [0]}
)");
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_EQ(config->method, SharingMethod::mps);
  EXPECT_TRUE(config->fail_requests_greater_than_one);  // the plugin's default for MPS
  EXPECT_EQ(config->resources, (std::vector<SharedResource>{{"nvidia.com/gpu", 10}}));
  EXPECT_EQ(plugin_text(*config), R"(shared by mps, MIG strategy single
  nvidia.com/gpu: 10 containers per device
not read: resources
not read: flags.failOnInitError
not read: rename of nvidia.com/gpu: the plugin ignores it
not read: devices of nvidia.com/gpu: the plugin ignores it
)");
  const auto json = nlohmann::json::parse(plugin_json(*config));
  EXPECT_EQ(json["kind"], "SharingConfig");
  EXPECT_EQ(json["method"], "mps");
  EXPECT_EQ(json["resources"][0]["replicas"], 10);
  const Result<PluginConfig> none = parse_plugin_config("p.yaml", "version: v1");
  ASSERT_TRUE(none);
  EXPECT_EQ(plugin_text(*none), "nothing is shared: every container has a device of its own\n");
}

TEST(DevicePlugin, WrongInputIsRefusedWithItsLine) {
  const std::map<std::string, std::string> wrong{
      {"version: v2", "1: 'version' is 'v2'"},
      {"- a", "1: must be an object with named values"},
      {"shares: 3", "1: unknown key 'shares'"},
      {"flags: 3", "1: 'flags' must be an object"},
      {"flags: {migStrategy: both}", "1: 'migStrategy' must be none, single or mixed"},
      {"sharing: {timeslicing: {}}", "1: unknown key 'timeslicing'; did you mean 'timeSlicing'?"},
      {"sharing:\n  timeSlicing: {}", "2: 'resources' is missing"},
      {"sharing:\n  timeSlicing: {resources: []}", "2: 'resources' is empty"},
      {"sharing:\n  timeSlicing: {resources: [3]}", "2: must be an object with named values"},
      {"sharing:\n  timeSlicing: {renameByDefault: 1, resources: []}", "2: 'renameByDefault' must"},
      {"sharing:\n  timeSlicing: {resources: []}\n  mps: {resources: []}", "3: a node shares by"}};
  for (const auto& [text, expected] : wrong) {
    const Result<PluginConfig> config = parse_plugin_config("p.yaml", text);
    ASSERT_FALSE(config) << text;
    EXPECT_TRUE(to_string(config.error()).starts_with("p.yaml:" + expected))
        << text << " -> " << to_string(config.error());
  }
  const std::map<std::string, std::string> resources{
      {"{name: nvidia.com/gpu}", "'replicas' is missing"},
      {"{replicas: 2}", "'name' is missing"},
      {"{name: nvidia.com/gpu, replicas: 0}", "'replicas' is 0: below 2 NVIDIA's device plugin"},
      {"{name: nvidia.com/gpu, replicas: 1}", "'replicas' is 1: below 2 NVIDIA's device plugin"},
      {"{name: nvidia.com/gpu, replicas: 1.5}", "'replicas' must be a whole number"},
      {"{name: nvidia.com/gpu, replica: 2}", "unknown key 'replica'; did you mean 'replicas'?"},
      {"{name: amd.com/gpu, replicas: 2}", "'amd.com/gpu' is not a resource of the plugin"},
      {"{name: nvidia.com/mig-3g, replicas: 2}", "'3g' is not a MIG profile"},
      {"{name: nvidia.com/gpu, replicas: 2}, {name: gpu, replicas: 2}", "resource nvidia.com/gpu"}};
  for (const auto& [list, expected] : resources) {
    const Result<PluginConfig> config = parse_plugin_config(
        "p.yaml", "version: v1\nsharing:\n  timeSlicing:\n    resources: [" + list + "]");
    ASSERT_FALSE(config) << list;
    EXPECT_TRUE(to_string(config.error()).starts_with("p.yaml:4: " + expected))
        << list << " -> " << to_string(config.error());
  }
  const Result<PluginConfig> mps = parse_plugin_config(
      "p.yaml", "sharing:\n  mps:\n    resources:\n    - {name: mig-3g.40gb, replicas: 2}");
  EXPECT_EQ(to_string(mps.error()),
            "p.yaml:4: the device plugin supports MPS on whole GPUs only, not on MIG devices");
}

RC_GTEST_PROP(DevicePluginProperty, WhatIsWrittenIsRead, ()) {
  Geometry geometry = any_geometry(true);
  std::map<int, int> processes;  // of each profile
  for (GpuGeometry& gpu : geometry.gpus)
    for (Slot& s : gpu.slots)
      s.processes = processes.try_emplace(s.profile, *rc::gen::inRange(1, 9)).first->second;
  const Result<PluginConfig> config = plugin_config(geometry, SharingMethod::time_slicing);
  RC_ASSERT(static_cast<bool>(config) == !processes.empty());
  if (!config) return;
  RC_ASSERT(config->resources.size() + config->alone.size() == processes.size());
  for (const auto& [profile, count] : processes) {
    const std::string name =
        resource_name(geometry.gpus[0].board.model->profiles[static_cast<std::size_t>(profile)]);
    const auto& found = count > 1 ? config->resources : config->alone;
    RC_ASSERT(std::ranges::count(found, SharedResource{name, count}) == 1);
  }
  const Result<PluginConfig> again = parse_plugin_config("p.yaml", plugin_yaml(*config));
  RC_ASSERT(static_cast<bool>(again));
  RC_ASSERT(*again == *config);
}

}  // namespace
}  // namespace partita::interop
