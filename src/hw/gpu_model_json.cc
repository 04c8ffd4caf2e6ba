// The JSON form of a GpuModel: parse_gpu_model and gpu_model_json of catalogue.h.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "base/document.h"
#include "hw/catalogue.h"

namespace partita::hw {
namespace {

constexpr std::string_view kApiVersion = "partita/v1";
constexpr std::string_view kKind = "GpuModel";
constexpr std::string_view kCertainties = "ABCDU";  // in the order of the enum
constexpr int kMost = 1 << 30;                      // bound of counts that have no other

// Reads typed members and keeps the first refusal, so that a reader of forty fields stays a list of
// forty lines.
class Reader {
 public:
  explicit Reader(const Document& document) : document_(document) {}

  const std::optional<Error>& error() const { return error_; }

  void refuse(const Node& at, std::string message) {
    if (!error_) error_ = Error{ErrorCode::bad_input, std::move(message), document_.at(at)};
  }

  // Refuses members that nobody would read: most often a misspelt optional key.
  void allow_only(const Node& object, std::initializer_list<std::string_view> keys) {
    for (const auto& [key, value] : object.members)
      if (std::ranges::find(keys, key) == keys.end())
        refuse(value, fmt::format("unknown key '{}'", key));
  }

  std::string text(const Node& object, std::string_view key) {
    const std::string value = take(string_member(document_, object, key));
    if (value.empty()) refuse(object, fmt::format("'{}' is empty", key));
    return value;
  }

  int integer(const Node& object, std::string_view key, int low, int high) {
    const int value = take(integer_member(document_, object, key));
    if (value < low || value > high)
      refuse(at(object, key), fmt::format("'{}' is {}, not in {}..{}", key, value, low, high));
    return value;
  }

  // Null or missing means unknown.
  std::optional<int> known_integer(const Node& object, std::string_view key, int high) {
    if (!known(object, key)) return std::nullopt;
    return integer(object, key, 1, high);
  }
  bool known(const Node& object, std::string_view key) const {
    const Node* node = object.find(key);
    return node != nullptr && node->kind != Node::Kind::null;
  }

  Seconds seconds(const Node& object, std::string_view key) {
    const double value = take(number_member(document_, object, key));
    if (value < 0) refuse(at(object, key), fmt::format("'{}' is negative", key));
    return {value};
  }

  const std::vector<Node>& list(const Node& object, std::string_view key) {
    const auto node = list_member(document_, object, key);
    if (!node) keep(node.error());
    return node ? (*node)->items : nothing_.items;
  }

  const Node& object(const Node& parent, std::string_view key) {
    const Node* node = parent.find(key);
    if (node != nullptr && node->kind == Node::Kind::object) return *node;
    refuse(node != nullptr ? *node : parent, fmt::format("'{}' must be an object", key));
    return nothing_;
  }

  std::vector<std::string> texts(const Node& object, std::string_view key) {
    std::vector<std::string> values;
    for (const Node& item : list(object, key)) {
      if (item.kind != Node::Kind::string || item.text.empty())
        refuse(item, fmt::format("'{}' must list strings", key));
      values.push_back(item.text);
    }
    return values;
  }

  Certainty certainty(const Node& object, std::string_view key) {
    const std::string letter = text(object, key);
    const auto index = kCertainties.find(letter);
    if (letter.size() == 1 && index != std::string::npos) return static_cast<Certainty>(index);
    refuse(at(object, key), fmt::format("'{}' is '{}', not one of A, B, C, D, U", key, letter));
    return Certainty::U;
  }

 private:
  const Node& at(const Node& object, std::string_view key) const {
    const Node* node = object.find(key);
    return node != nullptr ? *node : object;
  }
  void keep(const Error& error) {
    if (!error_) error_ = error;
  }
  template <class T>
  T take(const Result<T>& result) {
    if (!result) keep(result.error());
    return result ? *result : T{};
  }

  const Document& document_;
  const Node nothing_ = {};
  std::optional<Error> error_;
};

Engines read_engines(Reader& in, const Node& node) {
  in.allow_only(node, {"copy", "decode", "encode", "jpeg", "optical_flow"});
  return {.copy = in.integer(node, "copy", 0, kMost),
          .decode = in.integer(node, "decode", 0, kMost),
          .encode = in.integer(node, "encode", 0, kMost),
          .jpeg = in.integer(node, "jpeg", 0, kMost),
          .optical_flow = in.integer(node, "optical_flow", 0, kMost)};
}

void read_certainty(Reader& in, const Node& node, MigProfile& profile) {
  in.allow_only(node, {"name", "id", "placements", "max_instances", "sms", "memory", "engines"});
  profile.name_mark = in.certainty(node, "name");
  profile.id_mark = in.certainty(node, "id");
  profile.placement_mark = in.certainty(node, "placements");
  profile.max_mark = in.certainty(node, "max_instances");
  profile.sms_mark = in.certainty(node, "sms");
  profile.memory_mark = in.certainty(node, "memory");
  profile.engine_mark = in.certainty(node, "engines");
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

void read_placements(Reader& in, const Node& node, const GpuModel& gpu, MigProfile& profile) {
  in.allow_only(node, {"starts", "size"});
  profile.size = in.integer(node, "size", 1, gpu.memory_slices);
  for (const Node& item : in.list(node, "starts")) {
    const int last = profile.starts.empty() ? -1 : profile.starts.back();
    const int start = static_cast<int>(std::clamp(item.number, -1.0, 1.0 * kMaxSlices));
    if (item.kind != Node::Kind::number || start != item.number || start <= last)
      in.refuse(item, "'starts' must list ascending memory slices");
    if (start + profile.size > gpu.memory_slices)
      in.refuse(item, fmt::format("start {} and size {} reach beyond {} memory slices", item.number,
                                  profile.size, gpu.memory_slices));
    profile.starts.push_back(start);
  }
  if (profile.starts.empty()) in.refuse(node, "'starts' is empty");
}

// A mark says unknown exactly when the value is absent.
void check_mark(Reader& in, const Node& node, std::string_view key, Certainty mark) {
  if (in.known(node, key) == (mark == Certainty::U))
    in.refuse(node, fmt::format("'{}' and its certainty disagree about being unknown", key));
}

MigProfile read_profile(Reader& in, const Node& node, const GpuModel& gpu) {
  in.allow_only(node, {"name", "aliases", "nvml_enum", "profile_id", "gpcs", "placements",
                       "max_instances", "sms", "memory_mib", "engines", "certainty"});
  MigProfile profile;
  profile.name = in.text(node, "name");
  if (in.known(node, "aliases")) profile.aliases = in.texts(node, "aliases");
  profile.nvml_enum = in.integer(node, "nvml_enum", 0, kMaxMigProfiles - 1);
  profile.profile_id = in.integer(node, "profile_id", 0, kMost);
  profile.gpcs = in.integer(node, "gpcs", 1, gpu.compute_slices);
  read_placements(in, in.object(node, "placements"), gpu, profile);
  profile.max_instances = in.integer(node, "max_instances", 1, most_instances(gpu, profile));
  profile.sms = in.known_integer(node, "sms", gpu.total_sms.value_or(kMost));
  if (const auto mib = in.known_integer(node, "memory_mib", kMost))
    profile.memory = Mib{1.0 * *mib};
  if (profile.memory && gpu.total_memory && *profile.memory > *gpu.total_memory)
    in.refuse(node, "'memory_mib' is more than the GPU has");
  if (in.known(node, "engines")) profile.engines = read_engines(in, in.object(node, "engines"));
  read_certainty(in, in.object(node, "certainty"), profile);
  check_mark(in, node, "sms", profile.sms_mark);
  check_mark(in, node, "memory_mib", profile.memory_mark);
  check_mark(in, node, "engines", profile.engine_mark);
  return profile;
}

void read_profiles(Reader& in, const Node& root, GpuModel& gpu) {
  std::set<std::string> names;
  std::set<int> enums, ids;
  for (const Node& node : in.list(root, "profiles")) {
    if (gpu.profiles.size() == kMaxMigProfiles)
      return in.refuse(node, fmt::format("more than {} profiles", kMaxMigProfiles));
    MigProfile profile = read_profile(in, node, gpu);
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

void read_reconfiguration(Reader& in, const Node& node, GpuModel& gpu) {
  in.allow_only(node, {"source", "times"});
  gpu.reconfiguration_source = in.text(node, "source");
  std::set<int> sizes;
  for (const Node& item : in.list(node, "times")) {
    in.allow_only(item, {"gpcs", "create_s", "destroy_s"});
    gpu.reconfiguration.push_back({.gpcs = in.integer(item, "gpcs", 1, gpu.compute_slices),
                                   .create = in.seconds(item, "create_s"),
                                   .destroy = in.seconds(item, "destroy_s")});
    const int gpcs = gpu.reconfiguration.back().gpcs;
    if (!sizes.empty() && gpcs <= *sizes.rbegin())
      in.refuse(item, "'times' must be in ascending order of gpcs");
    sizes.insert(gpcs);
  }
  for (const MigProfile& profile : gpu.profiles)
    if (!sizes.contains(profile.gpcs))
      in.refuse(node,
                fmt::format("'times' lacks {} gpcs, which '{}' needs", profile.gpcs, profile.name));
}

GpuModel read_gpu_model(Reader& in, const Node& root) {
  in.allow_only(root, {"api_version", "kind", "name", "nvml_names", "pci_device_ids",
                       "architecture", "sms", "memory_mib", "compute_slices", "memory_slices",
                       "profiles", "reconfiguration", "sources", "notes"});
  if (in.text(root, "api_version") != kApiVersion)
    in.refuse(root, fmt::format("'api_version' is not '{}'", kApiVersion));
  if (in.text(root, "kind") != kKind) in.refuse(root, fmt::format("'kind' is not '{}'", kKind));
  GpuModel gpu;
  gpu.name = in.text(root, "name");
  gpu.nvml_names = in.texts(root, "nvml_names");
  gpu.pci_device_ids = in.texts(root, "pci_device_ids");
  gpu.architecture = in.text(root, "architecture");
  gpu.total_sms = in.known_integer(root, "sms", kMost);
  if (const auto mib = in.known_integer(root, "memory_mib", kMost))
    gpu.total_memory = Mib{1.0 * *mib};
  gpu.compute_slices = in.integer(root, "compute_slices", 1, kMaxSlices);
  gpu.memory_slices = in.integer(root, "memory_slices", 1, kMaxSlices);
  read_profiles(in, root, gpu);
  read_reconfiguration(in, in.object(root, "reconfiguration"), gpu);
  gpu.sources = in.texts(root, "sources");
  gpu.notes = in.texts(root, "notes");
  return gpu;
}

std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

std::string json_string(Certainty mark) {
  return json_string(std::string(1, kCertainties[static_cast<std::size_t>(mark)]));
}

// The items between brackets, on one line or one to a line.
std::string list_of(const std::vector<std::string>& items, const std::string& indent = "") {
  if (indent.empty() || items.empty()) return fmt::format("[{}]", fmt::join(items, ", "));
  return fmt::format("[\n{0}  {1}\n{0}]", indent, fmt::join(items, ",\n" + indent + "  "));
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
      json_string(p.name), aliases, p.nvml_enum, p.profile_id, p.gpcs, fmt::join(p.starts, ", "),
      p.size, p.max_instances, known_json(p.sms), known_json(p.memory), engines_json(p),
      certainty_json(p));
}

}  // namespace

Result<GpuModel> parse_gpu_model(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  Reader in(*document);
  GpuModel gpu = read_gpu_model(in, document->root);
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
