#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/append.h"
#include "base/fields.h"
#include "base/nearest.h"
#include "base/words.h"
#include "interop/mig_parted.h"
#include "interop/placing.h"

namespace partita::interop {
namespace {

constexpr Range kIndices{.high = 1e6};
constexpr Range kCounts{.high = 1e6};
constexpr std::size_t kMaxDevices = 4096;  // of one entry

MigDevice read_device(Fields& devices, const Node::Member& member) {
  MigDevice device;
  device.line = member.value.line;
  const Result<ProfileName> name = parse_profile_name(member.key);
  if (!name) {
    devices.refuse(member.value, name.error().message);
    return device;
  }
  device.profile = *name;
  device.count = devices.integer(member.key, kCounts);
  return device;
}

std::vector<MigDevice> read_devices(Fields fields) {
  std::vector<MigDevice> devices;
  for (const Node::Member& member : fields.node().members) {
    devices.push_back(read_device(fields, member));
    if (fields.error()) return devices;
  }
  const bool none = std::ranges::all_of(devices, [](const MigDevice& d) { return d.count == 0; });
  if (none && !devices.empty())
    fields.refuse(fields.node(), "'mig-devices' counts 0 of every profile");
  return devices;
}

// `devices: all` or a list of indices.
void read_which(Fields& fields, MigPartedEntry& entry) {
  const Node* node = fields.node().find("devices");
  entry.devices_line = node ? node->line : entry.line;
  if (node && node->kind == Node::Kind::string) {
    entry.all = node->text == "all";
    if (!entry.all) fields.refuse(*node, "'devices' must be 'all' or a list of GPU indices");
    return;
  }
  for (const Node& item : fields.list("devices", kMaxDevices)) {
    const bool index = item.kind == Node::Kind::number && item.number >= 0 &&
                       item.number <= kIndices.high && item.number == static_cast<int>(item.number);
    if (!index) {
      fields.refuse(item, "'devices' must list GPU indices");
    } else if (std::ranges::count(entry.devices, static_cast<int>(item.number)) > 0) {
      fields.refuse(item, fmt::format("'devices' names GPU {} twice", item.number));
    } else {
      entry.devices.push_back(static_cast<int>(item.number));
    }
  }
}

// "0x" and eight hexadecimal digits: device, then vendor.
bool is_pci_id(std::string_view text) {
  return text.size() == 10 && (text.starts_with("0x") || text.starts_with("0X")) &&
         text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
}

void read_filter(Fields& fields, MigPartedEntry& entry) {
  const Node* node = fields.node().find("device-filter");
  if (!node) return;
  if (node->kind == Node::Kind::list) {
    entry.device_filter = fields.texts("device-filter");
  } else {
    entry.device_filter = {fields.text("device-filter")};
  }
  for (const std::string& id : entry.device_filter)
    if (!is_pci_id(id))
      fields.refuse(*node, "'device-filter' must hold PCI ids such as \"0x20B210DE\"");
}

MigPartedEntry read_entry(Fields fields) {
  fields.only({"device-filter", "devices", "mig-enabled", "mig-devices"});
  MigPartedEntry entry;
  entry.line = fields.node().line;
  read_filter(fields, entry);
  read_which(fields, entry);
  entry.mig_enabled = fields.boolean("mig-enabled");
  if (fields.known("mig-devices")) {
    entry.mig_devices = read_devices(fields.object("mig-devices"));
    if (!entry.mig_enabled && !entry.mig_devices.empty())
      fields.refuse("mig-devices", "'mig-devices' is given while 'mig-enabled' is false");
  } else if (entry.mig_enabled) {
    fields.refuse("mig-devices", "'mig-devices' is needed while 'mig-enabled' is true");
  }
  return entry;
}

MigPartedLabel read_label(Fields& configs, const Node::Member& member) {
  MigPartedLabel label;
  label.name = member.key;
  const std::vector<Node>& items = configs.list(member.key);
  if (items.empty()) configs.refuse(member.value, "a label needs at least one entry");
  for (const Node& item : items) {
    label.entries.push_back(read_entry({configs, item}));
    if (configs.error()) break;
  }
  return label;
}

bool matches(const MigPartedEntry& entry, const Board& board) {
  const auto listed = [&](const std::string& id) {
    if (!board.pci_device_id.empty()) return same_word(id, board.pci_device_id);
    return std::ranges::any_of(board.model->pci_device_ids,
                               [&](const std::string& known) { return same_word(id, known); });
  };
  if (!entry.device_filter.empty() && std::ranges::none_of(entry.device_filter, listed))
    return false;
  return entry.all || std::ranges::count(entry.devices, board.index) > 0;
}

Result<GpuGeometry> cut(const std::string& file, const MigPartedEntry& entry, const Board& board) {
  GpuGeometry gpu{board, entry.mig_enabled, {}};
  std::vector<int> counts(board.model->profiles.size());
  for (const MigDevice& device : entry.mig_devices) {
    const Result<int> profile = find_profile(*board.model, device.profile);
    if (!profile)
      return bad_input(fmt::format("{}:{}", file, device.line), profile.error().message);
    counts[static_cast<std::size_t>(*profile)] += device.count;
  }
  const Result<hw::Layout> layout = roomiest_layout(*board.model, counts);
  if (!layout) return bad_input(fmt::format("{}:{}", file, entry.line), layout.error().message);
  for (const hw::PlacedProfile& place : *layout)
    gpu.slots.push_back({.profile = place.profile, .start = place.start});
  return gpu;
}

}  // namespace

Result<MigPartedFile> parse_mig_parted(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  Fields fields(document);
  fields.only({"version", "mig-configs"});
  fields.exactly("version", "v1");
  MigPartedFile parsed{file, {}};
  Fields configs = fields.object("mig-configs");
  if (!fields.error() && configs.node().members.empty())
    fields.refuse("mig-configs", "'mig-configs' has no label");
  if (fields.error()) return failed(*fields.error());
  for (const Node::Member& member : configs.node().members) {
    parsed.labels.push_back(read_label(configs, member));
    if (fields.error()) return failed(*fields.error());
  }
  return parsed;
}

Result<const MigPartedLabel*> chosen_label(const MigPartedFile& file, const std::string& name) {
  std::vector<std::string> names;
  for (const MigPartedLabel& label : file.labels) {
    if (label.name == name) return &label;
    names.push_back(label.name);
  }
  if (name.empty() && file.labels.size() == 1) return &file.labels.front();
  if (name.empty())
    return bad_input("--label", fmt::format("{} has the labels {}: name one", file.file,
                                            joined(names, ", ")));
  return bad_input(
      "--label", fmt::format("{} has no label '{}'{}", file.file, name, did_you_mean(name, names)));
}

Result<Geometry> geometry_of(const MigPartedFile& file, const MigPartedLabel& label,
                             const std::vector<Board>& boards) {
  std::map<int, GpuGeometry> gpus;
  for (const MigPartedEntry& entry : label.entries) {
    for (const int index : entry.devices)
      if (std::ranges::count(boards, index, &Board::index) == 0)
        return bad_input(
            fmt::format("{}:{}", file.file, entry.devices_line),
            fmt::format("'devices' names GPU {}, which the node does not have", index));
    for (const Board& board : boards) {
      if (!matches(entry, board)) continue;
      GpuGeometry gpu = TRY(cut(file.file, entry, board));
      gpus.insert_or_assign(board.index, std::move(gpu));
    }
  }
  Geometry geometry;
  for (auto& [index, gpu] : gpus) geometry.gpus.push_back(std::move(gpu));
  return geometry;
}

}  // namespace partita::interop
