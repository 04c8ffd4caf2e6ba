// The JSON form of a GpuModel: parse_gpu_model and gpu_model_json of catalogue.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/append.h"
#include "base/fields.h"
#include "base/json_writer.h"
#include "hw/catalogue.h"

namespace partita::hw {
namespace {

constexpr std::string_view kApiVersion = "partita/v1";
constexpr std::string_view kKind = "GpuModel";
constexpr std::string_view kCertainties = "ABCDU";  // in the order of the enum
constexpr double kMost = 1e9;                       // bound of counts that have no other
constexpr Range kCounts{.high = kMost};

// Null or missing means unknown.
std::optional<int> known_integer(Fields& in, std::string_view key, double high) {
  if (!in.known(key)) return std::nullopt;
  return in.integer(key, {.low = 1, .high = high});
}

Certainty read_certainty(Fields& in, std::string_view key) {
  const std::string letter = in.text(key);
  const auto index = kCertainties.find(letter);
  if (letter.size() == 1 && index != std::string::npos) return static_cast<Certainty>(index);
  in.refuse(key, fmt::format("'{}' is not one of A, B, C, D, U", key));
  return Certainty::U;
}

Engines read_engines(Fields in) {
  in.only({"copy", "decode", "encode", "jpeg", "optical_flow"});
  return {.copy = in.integer("copy", kCounts),
          .decode = in.integer("decode", kCounts),
          .encode = in.integer("encode", kCounts),
          .jpeg = in.integer("jpeg", kCounts),
          .optical_flow = in.integer("optical_flow", kCounts)};
}

void read_marks(Fields in, MigProfile& profile) {
  in.only({"name", "id", "placements", "max_instances", "sms", "memory", "engines"});
  profile.name_mark = read_certainty(in, "name");
  profile.id_mark = read_certainty(in, "id");
  profile.placement_mark = read_certainty(in, "placements");
  profile.max_mark = read_certainty(in, "max_instances");
  profile.sms_mark = read_certainty(in, "sms");
  profile.memory_mark = read_certainty(in, "memory");
  profile.engine_mark = read_certainty(in, "engines");
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

void read_placements(Fields in, const GpuModel& gpu, MigProfile& profile) {
  in.only({"starts", "size"});
  profile.size = in.integer("size", {.low = 1, .high = 1.0 * gpu.memory_slices});
  for (const Node& item : in.list("starts")) {
    const int last = profile.starts.empty() ? -1 : profile.starts.back();
    const int start = static_cast<int>(std::clamp(item.number, -1.0, 1.0 * kMaxSlices));
    if (item.kind != Node::Kind::number || start != item.number || start <= last)
      in.refuse(item, "'starts' must list ascending memory slices");
    if (start + profile.size > gpu.memory_slices)
      in.refuse(item, fmt::format("start {} and size {} reach beyond {} memory slices", item.number,
                                  profile.size, gpu.memory_slices));
    profile.starts.push_back(start);
  }
  if (profile.starts.empty()) in.refuse("starts", "'starts' is empty");
}

// A mark says unknown exactly when the value is absent.
void check_mark(Fields& in, std::string_view key, Certainty mark) {
  if (in.known(key) == (mark == Certainty::U))
    in.refuse(key, fmt::format("'{}' and its certainty disagree about being unknown", key));
}

MigProfile read_profile(Fields in, const GpuModel& gpu) {
  in.only({"name", "aliases", "nvml_enum", "profile_id", "gpcs", "placements", "max_instances",
           "sms", "memory_mib", "engines", "certainty"});
  MigProfile profile;
  profile.name = in.text("name");
  if (in.known("aliases")) profile.aliases = in.texts("aliases");
  profile.nvml_enum = in.integer("nvml_enum", {.high = kMaxMigProfiles - 1});
  profile.profile_id = in.integer("profile_id", kCounts);
  profile.gpcs = in.integer("gpcs", {.low = 1, .high = 1.0 * gpu.compute_slices});
  read_placements(in.object("placements"), gpu, profile);
  profile.max_instances =
      in.integer("max_instances", {.low = 1, .high = 1.0 * most_instances(gpu, profile)});
  profile.sms = known_integer(in, "sms", gpu.total_sms.value_or(kMost));
  if (const auto mib = known_integer(in, "memory_mib", kMost)) profile.memory = Mib{1.0 * *mib};
  if (profile.memory && gpu.total_memory && *profile.memory > *gpu.total_memory)
    in.refuse("memory_mib", "'memory_mib' is more than the GPU has");
  if (in.known("engines")) profile.engines = read_engines(in.object("engines"));
  read_marks(in.object("certainty"), profile);
  check_mark(in, "sms", profile.sms_mark);
  check_mark(in, "memory_mib", profile.memory_mark);
  check_mark(in, "engines", profile.engine_mark);
  return profile;
}

void read_profiles(Fields& in, GpuModel& gpu) {
  std::set<std::string> names;
  std::set<int> enums, ids;
  for (const Node& node : in.list("profiles", kMaxMigProfiles)) {
    MigProfile profile = read_profile({in, node}, gpu);
    if (!enums.insert(profile.nvml_enum).second)
      in.refuse(node, fmt::format("duplicate nvml_enum {}", profile.nvml_enum));
    if (!ids.insert(profile.profile_id).second)
      in.refuse(node, fmt::format("duplicate profile_id {}", profile.profile_id));
    std::vector<std::string> own = profile.aliases;
    own.push_back(profile.name);
    for (const std::string& name : own)
      if (!names.insert(name).second)
        in.refuse(node, fmt::format("duplicate profile name '{}'", name));
    if (!gpu.profiles.empty() && profile.gpcs < gpu.profiles.back().gpcs)
      in.refuse(node, "profiles must be in ascending order of gpcs");
    gpu.profiles.push_back(std::move(profile));
  }
}

ReconfigurationTime read_time(Fields in, const GpuModel& gpu) {
  in.only({"gpcs", "create_s", "destroy_s"});
  return {.gpcs = in.integer("gpcs", {.low = 1, .high = 1.0 * gpu.compute_slices}),
          .create = {in.number("create_s", kNotNegative)},
          .destroy = {in.number("destroy_s", kNotNegative)}};
}

void read_reconfiguration(Fields in, GpuModel& gpu) {
  in.only({"source", "times"});
  gpu.reconfiguration_source = in.text("source");
  std::set<int> sizes;
  for (const Node& item : in.list("times")) {
    gpu.reconfiguration.push_back(read_time({in, item}, gpu));
    const int gpcs = gpu.reconfiguration.back().gpcs;
    if (!sizes.empty() && gpcs <= *sizes.rbegin())
      in.refuse(item, "'times' must be in ascending order of gpcs");
    sizes.insert(gpcs);
  }
  for (const MigProfile& profile : gpu.profiles)
    if (!sizes.contains(profile.gpcs))
      in.refuse("times",
                fmt::format("'times' lacks {} gpcs, which '{}' needs", profile.gpcs, profile.name));
}

GpuModel read_gpu_model(Fields& in) {
  in.only({"api_version", "kind", "name", "nvml_names", "pci_device_ids", "architecture", "sms",
           "memory_mib", "compute_slices", "memory_slices", "profiles", "reconfiguration",
           "sources", "notes"});
  in.exactly("api_version", kApiVersion);
  in.exactly("kind", kKind);
  GpuModel gpu;
  gpu.name = in.text("name");
  gpu.nvml_names = in.texts("nvml_names");
  gpu.pci_device_ids = in.texts("pci_device_ids");
  gpu.architecture = in.text("architecture");
  gpu.total_sms = known_integer(in, "sms", kMost);
  if (const auto mib = known_integer(in, "memory_mib", kMost)) gpu.total_memory = Mib{1.0 * *mib};
  gpu.compute_slices = in.integer("compute_slices", {.low = 1, .high = kMaxSlices});
  gpu.memory_slices = in.integer("memory_slices", {.low = 1, .high = kMaxSlices});
  read_profiles(in, gpu);
  read_reconfiguration(in.object("reconfiguration"), gpu);
  gpu.sources = in.texts("sources");
  gpu.notes = in.texts("notes");
  return gpu;
}

std::string json_string(const std::string& text) { return JsonWriter().string(text).take(); }

std::string json_string(Certainty mark) {
  return json_string(std::string(1, kCertainties[static_cast<std::size_t>(mark)]));
}

// The items between brackets, on one line or one to a line.
std::string list_of(const std::vector<std::string>& items, const std::string& indent = "") {
  if (indent.empty() || items.empty()) return fmt::format("[{}]", joined(items, ", "));
  return fmt::format("[\n{0}  {1}\n{0}]", indent, joined(items, ",\n" + indent + "  "));
}

std::string texts_json(std::vector<std::string> texts, const std::string& indent = "") {
  for (std::string& text : texts) text = json_string(text);
  return list_of(texts, indent);
}

template <class T>
std::string known_json(const std::optional<T>& value) {
  if (!value) return "null";
  if constexpr (std::is_same_v<T, Mib>)
    return fmt::format("{}", value->value);
  else
    return fmt::format("{}", *value);
}

std::string engines_json(const MigProfile& profile) {
  if (profile.engine_mark == Certainty::U) return "null";
  const Engines& e = profile.engines;
  return fmt::format(
      R"({{"copy": {}, "decode": {}, "encode": {}, "jpeg": {}, "optical_flow": {}}})", e.copy,
      e.decode, e.encode, e.jpeg, e.optical_flow);
}

std::string certainty_json(const MigProfile& p) {
  return fmt::format(
      R"({{"name": {}, "id": {}, "placements": {}, "max_instances": {},
                    "sms": {}, "memory": {}, "engines": {}}})",
      json_string(p.name_mark), json_string(p.id_mark), json_string(p.placement_mark),
      json_string(p.max_mark), json_string(p.sms_mark), json_string(p.memory_mark),
      json_string(p.engine_mark));
}

std::string profile_json(const MigProfile& p) {
  const std::string aliases =
      p.aliases.empty() ? "" : fmt::format(R"( "aliases": {},)", texts_json(p.aliases));
  return fmt::format(
      R"({{
      "name": {},{} "nvml_enum": {}, "profile_id": {}, "gpcs": {},
      "placements": {{"starts": [{}], "size": {}}}, "max_instances": {},
      "sms": {}, "memory_mib": {},
      "engines": {},
      "certainty": {}
    }})",
      json_string(p.name), aliases, p.nvml_enum, p.profile_id, p.gpcs, joined(p.starts, ", "),
      p.size, p.max_instances, known_json(p.sms), known_json(p.memory), engines_json(p),
      certainty_json(p));
}

}  // namespace

Result<GpuModel> parse_gpu_model(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  Fields in(document);
  GpuModel gpu = read_gpu_model(in);
  if (in.error()) return failed(*in.error());
  return gpu;
}

std::string gpu_model_json(const GpuModel& gpu) {
  std::vector<std::string> profiles, times;
  for (const MigProfile& profile : gpu.profiles) profiles.push_back(profile_json(profile));
  for (const ReconfigurationTime& time : gpu.reconfiguration)
    times.push_back(fmt::format(R"({{"gpcs": {}, "create_s": {}, "destroy_s": {}}})", time.gpcs,
                                time.create.value, time.destroy.value));
  return fmt::format(
      R"({{
  "api_version": "{}",
  "kind": "{}",
  "name": {},
  "nvml_names": {},
  "pci_device_ids": {},
  "architecture": {},
  "sms": {},
  "memory_mib": {},
  "compute_slices": {},
  "memory_slices": {},
  "profiles": {},
  "reconfiguration": {{
    "source": {},
    "times": {}
  }},
  "sources": {},
  "notes": {}
}}
)",
      kApiVersion, kKind, json_string(gpu.name), texts_json(gpu.nvml_names),
      texts_json(gpu.pci_device_ids), json_string(gpu.architecture), known_json(gpu.total_sms),
      known_json(gpu.total_memory), gpu.compute_slices, gpu.memory_slices, list_of(profiles, "  "),
      json_string(gpu.reconfiguration_source), list_of(times, "    "),
      texts_json(gpu.sources, "  "), texts_json(gpu.notes, "  "));
}

}  // namespace partita::hw
