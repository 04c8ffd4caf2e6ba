#include "interop/device_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/form.h"
#include "interop/profile_name.h"
#include "interop/yaml_text.h"

namespace partita::interop {
namespace {

constexpr std::string_view kPrefix = "nvidia.com/";
constexpr std::string_view kWholeGpu = "nvidia.com/gpu";
constexpr std::string_view kMigPrefix = "nvidia.com/mig-";
constexpr Range kReplicas{.low = -1e6, .high = 1e6};

// ---- from a geometry ----

bool fills_gpu(const GpuGeometry& gpu) {
  return gpu.slots.size() == 1 &&
         gpu.profile_of(gpu.slots.front()).size == gpu.board.model->memory_slices &&
         gpu.profile_of(gpu.slots.front()).gpcs == gpu.board.model->compute_slices;
}

// Adds the instance to its resource; the reason why that is not possible, or empty.
std::string add(PluginConfig& config, const std::string& name, const Slot& slot) {
  const int replicas = std::max(slot.processes, 1);
  const auto found = std::ranges::find(config.resources, name, &SharedResource::name);
  if (found == config.resources.end()) {
    config.resources.push_back({name, replicas, {slot.service}});
    return "";
  }
  if (found->replicas != replicas)
    return fmt::format(
        "instances of {} run {} and {} processes, and the plugin has one number of "
        "replicas per resource",
        name, found->replicas, replicas);
  if (std::ranges::count(found->services, slot.service) == 0)
    found->services.push_back(slot.service);
  return "";
}

// A profile name that two models share would be one resource with two meanings.
std::string shared_name(const Geometry& geometry) {
  std::map<std::string, std::string> model_of;
  for (const GpuGeometry& gpu : geometry.gpus)
    for (const Slot& slot : gpu.slots) {
      const std::string& name = gpu.profile_of(slot).name;
      const std::string& model = model_of.emplace(name, gpu.board.model->name).first->second;
      if (model != gpu.board.model->name)
        return fmt::format("{} is a profile of {} and of {}; one resource cannot be both", name,
                           model, gpu.board.model->name);
    }
  return "";
}

// ---- reading ----

std::string resource_fault(const std::string& name) {
  if (name == kWholeGpu) return "";
  if (!name.starts_with(kMigPrefix))
    return fmt::format("'{}' is not a resource of the plugin, such as {} or {}3g.40gb",
                       comment(name), kWholeGpu, kMigPrefix);
  // The attributes follow a dot in a resource, a plus in a profile: mig-1g.10gb.me.
  std::string profile = name.substr(kMigPrefix.size());
  if (const auto unit = profile.find("gb."); unit != std::string::npos) profile[unit + 2] = '+';
  const Result<ProfileName> parsed = parse_profile_name(profile);
  return parsed ? "" : parsed.error().message;
}

SharedResource read_resource(Fields fields, PluginConfig& config) {
  fields.only({"name", "rename", "devices", "replicas"});
  SharedResource resource;
  resource.name = fields.name("name");
  if (resource.name.find('/') == std::string::npos) resource.name.insert(0, kPrefix);
  resource.replicas = fields.integer("replicas", kReplicas);
  if (fields.error()) return resource;
  if (resource.replicas < kLeastReplicas)
    fields.refuse("replicas",
                  fmt::format("'replicas' is {}: below {} NVIDIA's device plugin refuses "
                              "the whole file; leave the resource out",
                              resource.replicas, kLeastReplicas));
  const std::string fault = resource_fault(resource.name);
  if (!fault.empty()) fields.refuse("name", fault);
  if (config.method == SharingMethod::mps && resource.name != kWholeGpu)
    fields.refuse("name", "the device plugin supports MPS on whole GPUs only, not on MIG devices");
  for (const char* key : {"rename", "devices"})
    if (fields.has(key))
      config.ignored.push_back(fmt::format("{} of {}: the plugin ignores it", key, resource.name));
  return resource;
}

void read_method(Fields fields, PluginConfig& config) {
  fields.only({"renameByDefault", "failRequestsGreaterThanOne", "strategy", "resources"});
  config.fail_requests_greater_than_one = config.method == SharingMethod::mps;
  if (fields.has("renameByDefault")) config.rename_by_default = fields.boolean("renameByDefault");
  if (fields.has("failRequestsGreaterThanOne"))
    config.fail_requests_greater_than_one = fields.boolean("failRequestsGreaterThanOne");
  const std::vector<Node>& items = fields.list("resources", 10'000);
  if (items.empty()) fields.refuse("resources", "'resources' is empty");
  std::set<std::string> names;
  for (const Node& item : items) {
    config.resources.push_back(read_resource({fields, item}, config));
    if (fields.error()) return;
    if (!names.insert(config.resources.back().name).second)
      fields.refuse(item, fmt::format("resource {} is listed twice", config.resources.back().name));
  }
  std::ranges::sort(config.resources, {}, &SharedResource::name);
}

void read_sharing(Fields fields, PluginConfig& config) {
  fields.only({"timeSlicing", "mps"});
  if (fields.known("timeSlicing") && fields.known("mps"))
    fields.refuse("mps", "a node shares by 'timeSlicing' or by 'mps', not by both");
  if (fields.known("timeSlicing")) read_method(fields.object("timeSlicing"), config);
  if (!fields.known("mps")) return;
  config.method = SharingMethod::mps;
  read_method(fields.object("mps"), config);
}

void read_flags(Fields fields, PluginConfig& config) {
  for (const Node::Member& member : fields.node().members)
    if (member.key != "migStrategy") config.ignored.push_back("flags." + comment(member.key));
  if (!fields.has("migStrategy")) return;
  config.mig_strategy = fields.text("migStrategy");
  if (config.mig_strategy != "none" && config.mig_strategy != "single" &&
      config.mig_strategy != "mixed")
    fields.refuse("migStrategy", "'migStrategy' must be none, single or mixed");
}

}  // namespace

std::string to_string(SharingMethod method) {
  return method == SharingMethod::mps ? "mps" : "time-slicing";
}

std::string resource_name(const hw::MigProfile& profile) {
  std::string name = std::string(kMigPrefix) + profile.name;
  std::ranges::replace(name, '+', '.');
  return name;
}

Result<PluginConfig> plugin_config(const Geometry& geometry, SharingMethod method) {
  PluginConfig config;
  config.method = method;
  config.fail_requests_greater_than_one = true;
  const bool mps = method == SharingMethod::mps;
  config.mig_strategy = mps ? "none" : "mixed";
  std::string fault = mps ? "" : shared_name(geometry);
  for (const GpuGeometry& gpu : geometry.gpus) {
    if (mps && !gpu.slots.empty() && !fills_gpu(gpu) && fault.empty())
      fault = fmt::format(
          "the device plugin supports MPS on whole GPUs only, and GPU {} has {}: "
          "share by time slicing, or use DRA",
          gpu.board.index, counts_text(*gpu.board.model, counts_of(gpu)));
    for (const Slot& slot : gpu.slots) {
      if (!fault.empty()) return bad_input("", fault);
      fault = add(config, mps ? std::string(kWholeGpu) : resource_name(gpu.profile_of(slot)), slot);
    }
  }
  if (!fault.empty()) return bad_input("", fault);
  if (config.resources.empty()) return bad_input("", "there is no instance to share");
  std::ranges::sort(config.resources, {}, &SharedResource::name);
  const auto shared = [](const SharedResource& one) { return one.replicas >= kLeastReplicas; };
  const auto alone = std::ranges::stable_partition(config.resources, shared);
  config.alone.assign(alone.begin(), alone.end());
  config.resources.erase(alone.begin(), alone.end());
  if (!config.resources.empty()) return config;
  return PluginConfig{
      .mig_strategy = config.mig_strategy, .resources = {}, .alone = std::move(config.alone)};
}

namespace {

// "chat, search", without the empty ones.
std::string services_of(const SharedResource& resource) {
  std::string text;
  for (const std::string& service : resource.services)
    if (!service.empty()) text += (text.empty() ? "" : ", ") + comment(service);
  return text;
}

void describe_resource(Form& f, SharedResource& resource) {
  f.name("name", resource.name, "as the plugin offers it");
  f.integer("replicas", resource.replicas, kReplicas, "containers that may hold one device");
}

void describe_config(Form& f, PluginConfig& config) {
  f.lines("  ");
  f.document("SharingConfig");
  f.word("method", config.method, {"time-slicing", "mps"}, "how containers share");
  f.text("mig_strategy", config.mig_strategy, "none, single or mixed");
  f.boolean("fail_requests_greater_than_one", config.fail_requests_greater_than_one,
            "as the plugin calls it");
  f.boolean("rename_by_default", config.rename_by_default, "as the plugin calls it");
  f.list("resources", config.resources, describe_resource, {.indent = "    "}, "by name");
  f.notes("ignored", config.ignored, {.indent = "    "}, "what the plugin leaves alone");
}

}  // namespace

std::string plugin_yaml(const PluginConfig& config) {
  const bool mps = config.method == SharingMethod::mps;
  std::string text;
  if (!config.resources.empty())
    text = fmt::format(
        "# Replicas are the processes on each instance; the plugin isolates them by "
        "{}.\n",
        mps ? "MPS, without MIG" : "time slicing alone");
  for (const SharedResource& resource : config.alone) {
    const std::string services = services_of(resource);
    text += fmt::format("# Not shared, one process each: {}{}\n", resource.name,
                        services.empty() ? "" : " (" + services + ")");
  }
  text += fmt::format("version: v1\nflags:\n  migStrategy: {}\n", config.mig_strategy);
  if (config.resources.empty()) return text;
  text += fmt::format("sharing:\n  {}:\n", mps ? "mps" : "timeSlicing");
  text += fmt::format("    renameByDefault: {}\n    failRequestsGreaterThanOne: {}\n",
                      config.rename_by_default, config.fail_requests_greater_than_one);
  text += "    resources:\n";
  for (const SharedResource& resource : config.resources) {
    text += fmt::format("      - name: {}\n        replicas: {}", quoted(resource.name),
                        resource.replicas);
    const std::string services = services_of(resource);
    text += services.empty() ? "\n" : "  # " + services + "\n";
  }
  return text;
}

Result<PluginConfig> parse_plugin_config(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  Fields fields(document);
  fields.only({"version", "flags", "resources", "sharing", "imex", "health"});
  if (fields.has("version")) fields.exactly("version", "v1");
  PluginConfig config;
  for (const char* key : {"resources", "imex", "health"})
    if (fields.has(key)) config.ignored.emplace_back(key);
  if (fields.known("flags")) read_flags(fields.object("flags"), config);
  if (fields.known("sharing")) read_sharing(fields.object("sharing"), config);
  if (fields.error()) return failed(*fields.error());
  return config;
}

std::string plugin_json(const PluginConfig& config) {
  return write_form(config, describe_config);
}

std::string plugin_text(const PluginConfig& config) {
  if (config.resources.empty())
    return "nothing is shared: every container has a device of its own\n";
  std::string text =
      fmt::format("shared by {}, MIG strategy {}{}\n", to_string(config.method),
                  config.mig_strategy, config.rename_by_default ? ", offered as NAME.shared" : "");
  for (const SharedResource& resource : config.resources)
    text += fmt::format("  {}: {} containers per device\n", resource.name, resource.replicas);
  for (const std::string& note : config.ignored) text += fmt::format("not read: {}\n", note);
  return text;
}

}  // namespace partita::interop
