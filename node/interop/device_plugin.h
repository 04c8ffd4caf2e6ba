// The sharing configuration of NVIDIA's Kubernetes device plugin (version v1): how many containers
// may hold one GPU or MIG device of a resource at the same time. Equal for all devices of a
// resource; one method per node; MPS on whole GPUs only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/geometry.h"

namespace partita::interop {

enum class SharingMethod { time_slicing, mps };
// "time-slicing", "mps".
std::string to_string(SharingMethod method);

// The plugin's parser refuses a whole file in which a resource has fewer (v0.12 to v0.20).
inline constexpr int kLeastReplicas = 2;

struct SharedResource {
  std::string name;  // "nvidia.com/gpu", "nvidia.com/mig-3g.40gb"
  int replicas = kLeastReplicas;
  std::vector<std::string> services = {};  // for people; not read back, not compared
  bool operator==(const SharedResource& other) const {
    return name == other.name && replicas == other.replicas;
  }
};

struct PluginConfig {
  std::string mig_strategy = "none";  // none, single, mixed
  SharingMethod method = SharingMethod::time_slicing;
  bool fail_requests_greater_than_one = false;
  bool rename_by_default = false;
  std::vector<SharedResource> resources;   // by name; replicas of at least kLeastReplicas
  std::vector<SharedResource> alone = {};  // of one process each: for people; neither written as
                                           // resources nor read back or compared
  std::vector<std::string> ignored = {};  // what the plugin, or this reader, leaves alone
  bool operator==(const PluginConfig& other) const {
    return mig_strategy == other.mig_strategy && method == other.method &&
           fail_requests_greater_than_one == other.fail_requests_greater_than_one &&
           rename_by_default == other.rename_by_default && resources == other.resources;
  }
};

// "nvidia.com/mig-1g.10gb.me": the resource under which the plugin offers a profile.
std::string resource_name(const hw::MigProfile& profile);

// As many replicas of each resource as processes run on its instances; one process is no sharing.
// Where nothing is shared, there is no method. Bad input without context
// where the format cannot say it: instances of one profile with different numbers of processes, one
// profile name of two GPU models, and MPS unless every instance is a GPU's only one and fills it
// (these GPUs are then shared without MIG).
Result<PluginConfig> plugin_config(const Geometry& geometry, SharingMethod method);

std::string plugin_yaml(const PluginConfig& config);

// Refused with FILE:LINE: other versions, both methods, unknown fields of sharing, names that are
// no resource of a GPU or MIG device, replicas below kLeastReplicas, a resource twice, MPS on MIG
// devices.
Result<PluginConfig> parse_plugin_config(const std::string& file, std::string_view text);

// The document `kind: SharingConfig`, and a table for people.
std::string plugin_json(const PluginConfig& config);
std::string plugin_text(const PluginConfig& config);

}  // namespace partita::interop
