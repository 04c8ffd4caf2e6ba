// The JSON form of a GpuModel: parse_gpu_model and gpu_model_json of catalogue.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/form.h"
#include "hw/catalogue.h"

namespace partita::hw {
namespace {

constexpr double kMost = 1e9;  // bound of counts that have no other
constexpr Range kCounts{.high = kMost};
constexpr Range kMemory{.low = 1, .high = kMost};

void describe_engines(Form& f, Engines& engines) {
  f.closed();
  f.integer("copy", engines.copy, kCounts, "");
  f.integer("decode", engines.decode, kCounts, "");
  f.integer("encode", engines.encode, kCounts, "");
  f.integer("jpeg", engines.jpeg, kCounts, "");
  f.integer("optical_flow", engines.optical_flow, kCounts, "");
}

void describe_marks(Form& f, MigProfile& profile) {
  f.closed();
  const auto mark = [&](std::string_view key, Certainty& certainty) {
    f.word(key, certainty, {"A", "B", "C", "D", "U"}, "");
  };
  mark("name", profile.name_mark);
  mark("id", profile.id_mark);
  mark("placements", profile.placement_mark);
  mark("max_instances", profile.max_mark);
  f.line("                    ");
  mark("sms", profile.sms_mark);
  mark("memory", profile.memory_mark);
  mark("engines", profile.engine_mark);
}

// MiB are whole.
void check_memory(Fields& in, const std::optional<Mib>& memory) {
  if (memory && memory->value != std::floor(memory->value))
    in.refuse("memory_mib", "'memory_mib' must be a whole number");
}

// Instances of this profile alone that an empty GPU can hold.
int most_instances(const GpuModel& gpu, const MigProfile& profile) {
  int count = 0, free_from = 0;
  for (const int start : profile.starts) {
    if (start < free_from) continue;
    ++count;
    free_from = start + profile.size;
  }
  return std::min(count, gpu.compute_slices / std::max(1, profile.gpcs));
}

void describe_placements(Form& f, MigProfile& profile, const GpuModel& gpu) {
  f.closed();
  f.integers("starts", profile.starts, {.high = kMaxSlices}, {.least = 1}, "");
  f.integer("size", profile.size, {.low = 1, .high = 1.0 * gpu.memory_slices}, "");
  Fields* const in = f.reading();
  for (std::size_t i = 0; in && i < profile.starts.size() && !in->error(); ++i) {
    const Node& item = in->list("starts")[i];
    if (i > 0 && profile.starts[i] <= profile.starts[i - 1])
      in->refuse(item, "'starts' must list ascending memory slices");
    if (profile.starts[i] + profile.size > gpu.memory_slices)
      in->refuse(item, fmt::format("start {} and size {} reach beyond {} memory slices",
                                   profile.starts[i], profile.size, gpu.memory_slices));
  }
}

// A mark says unknown exactly when the value is absent.
void check_mark(Fields& in, std::string_view key, Certainty mark) {
  if (in.known(key) == (mark == Certainty::U))
    in.refuse(key, fmt::format("'{}' and its certainty disagree about being unknown", key));
}

void describe_profile(Form& f, MigProfile& profile, const GpuModel& gpu) {
  constexpr std::string_view kLine = "      ";
  f.closed();
  f.line(kLine).text("name", profile.name, "");
  f.optional(!profile.aliases.empty()).notes("aliases", profile.aliases, {}, "");
  f.integer("nvml_enum", profile.nvml_enum, {.high = kMaxMigProfiles - 1}, "");
  f.integer("profile_id", profile.profile_id, kCounts, "");
  f.integer("gpcs", profile.gpcs, {.low = 1, .high = 1.0 * gpu.compute_slices}, "");
  const auto placements = [&](Form& g, MigProfile& p) { describe_placements(g, p, gpu); };
  f.line(kLine).object("placements", profile, placements, "");
  f.integer("max_instances", profile.max_instances,
            {.low = 1, .high = 1.0 * most_instances(gpu, profile)}, "");
  const Range sms{.low = 1, .high = 1.0 * gpu.total_sms.value_or(kMost)};
  f.line(kLine).or_null().integer("sms", profile.sms, sms, "");
  f.or_null().number("memory_mib", profile.memory, kMemory, "");
  std::optional<Engines> engines;
  if (profile.engine_mark != Certainty::U) engines = profile.engines;
  f.line(kLine).or_null().optional().object("engines", engines, describe_engines, "");
  if (engines) profile.engines = *engines;
  f.line(kLine).object("certainty", profile, describe_marks, "");
  f.lines(kLine);  // of the brace that ends it
  Fields* const in = f.reading();
  if (in == nullptr) return;
  check_memory(*in, profile.memory);
  if (profile.memory && gpu.total_memory && *profile.memory > *gpu.total_memory)
    in->refuse("memory_mib", "'memory_mib' is more than the GPU has");
  check_mark(*in, "sms", profile.sms_mark);
  check_mark(*in, "memory_mib", profile.memory_mark);
  check_mark(*in, "engines", profile.engine_mark);
}

void check_profiles(Fields& in, const GpuModel& gpu) {
  std::set<std::string> names;
  std::set<int> enums, ids;
  int gpcs = 0;
  for (std::size_t i = 0; i < gpu.profiles.size() && !in.error(); ++i) {
    const MigProfile& profile = gpu.profiles[i];
    const Node& node = in.list("profiles")[i];
    if (!enums.insert(profile.nvml_enum).second)
      in.refuse(node, fmt::format("duplicate nvml_enum {}", profile.nvml_enum));
    if (!ids.insert(profile.profile_id).second)
      in.refuse(node, fmt::format("duplicate profile_id {}", profile.profile_id));
    std::vector<std::string> own = profile.aliases;
    own.push_back(profile.name);
    for (const std::string& name : own)
      if (!names.insert(name).second)
        in.refuse(node, fmt::format("duplicate profile name '{}'", name));
    if (profile.gpcs < std::exchange(gpcs, profile.gpcs))
      in.refuse(node, "profiles must be in ascending order of gpcs");
  }
}

void describe_reconfiguration(Form& f, GpuModel& gpu) {
  f.closed();
  f.lines("    ");
  f.text("source", gpu.reconfiguration_source, "");
  const auto describe_time = [&](Form& g, ReconfigurationTime& time) {
    g.closed();
    g.integer("gpcs", time.gpcs, {.low = 1, .high = 1.0 * gpu.compute_slices}, "");
    g.number("create_s", time.create, kNotNegative, "");
    g.number("destroy_s", time.destroy, kNotNegative, "");
  };
  f.list("times", gpu.reconfiguration, describe_time, {.indent = "      ", .close = "\n    "}, "");
  Fields* const in = f.reading();
  if (in == nullptr) return;
  std::set<int> sizes;
  for (std::size_t i = 0; i < gpu.reconfiguration.size() && !in->error(); ++i) {
    const int gpcs = gpu.reconfiguration[i].gpcs;
    if (!sizes.empty() && gpcs <= *sizes.rbegin())
      in->refuse(in->list("times")[i], "'times' must be in ascending order of gpcs");
    sizes.insert(gpcs);
  }
  for (const MigProfile& profile : gpu.profiles)
    if (!sizes.contains(profile.gpcs))
      in->refuse("times", fmt::format("'times' lacks {} gpcs, which '{}' needs", profile.gpcs,
                                      profile.name));
}

void describe_gpu(Form& f, GpuModel& gpu) {
  constexpr ListForm kLines{.indent = "    ", .close = "\n  "};
  f.closed();
  f.lines("  ");
  f.document("GpuModel");
  f.text("name", gpu.name, "");
  f.notes("nvml_names", gpu.nvml_names, {}, "");
  f.notes("pci_device_ids", gpu.pci_device_ids, {}, "");
  f.text("architecture", gpu.architecture, "");
  f.or_null().integer("sms", gpu.total_sms, {.low = 1, .high = kMost}, "");
  f.or_null().number("memory_mib", gpu.total_memory, kMemory, "");
  if (Fields* const in = f.reading()) check_memory(*in, gpu.total_memory);
  f.integer("compute_slices", gpu.compute_slices, {.low = 1, .high = kMaxSlices}, "");
  f.integer("memory_slices", gpu.memory_slices, {.low = 1, .high = kMaxSlices}, "");
  const auto profile = [&](Form& g, MigProfile& p) { describe_profile(g, p, gpu); };
  f.list("profiles", gpu.profiles, profile,
         {.most = kMaxMigProfiles, .indent = kLines.indent, .close = kLines.close}, "");
  if (Fields* const in = f.reading()) check_profiles(*in, gpu);
  f.object("reconfiguration", gpu, describe_reconfiguration, "");
  f.notes("sources", gpu.sources, kLines, "");
  f.notes("notes", gpu.notes, kLines, "");
}

}  // namespace

Result<GpuModel> parse_gpu_model(const std::string& file, std::string_view text) {
  return read_form<GpuModel>(file, text, describe_gpu);
}

std::string gpu_model_json(const GpuModel& gpu) { return write_form(gpu, describe_gpu); }

}  // namespace partita::hw
