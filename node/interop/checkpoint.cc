#include "interop/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/fields.h"
#include "base/json_writer.h"

namespace partita::interop {
namespace {

constexpr std::size_t kMaxBoards = 4096;
constexpr std::size_t kMaxInstances = 64;  // of one GPU
constexpr Range kEnums{.high = 1000};

// NVML's profile of a compute instance with so many slices.
struct ComputeProfile {
  int slices, nvml_enum;
};
constexpr std::array kComputeProfiles{
    ComputeProfile{1, 0}, ComputeProfile{2, 1}, ComputeProfile{3, 2}, ComputeProfile{4, 3},
    ComputeProfile{6, 6}, ComputeProfile{7, 4}, ComputeProfile{8, 5}};

std::optional<int> compute_enum(int slices) {
  const auto found = std::ranges::find(kComputeProfiles, slices, &ComputeProfile::slices);
  if (found == kComputeProfiles.end()) return std::nullopt;
  return found->nvml_enum;
}

// ---- writing ----

void write(JsonWriter& out, const hw::MigProfile& profile, const Slot& slot) {
  out.raw("{\"ProfileID\": ").number(long{profile.nvml_enum});
  out.raw(", \"Placement\": {\"Start\": ").number(long{*slot.start});
  out.raw(", \"Size\": ").number(long{profile.size});
  out.raw("}, \"ComputeInstances\": [{\"ProfileID\": ").number(long{*compute_enum(profile.gpcs)});
  out.raw(", \"EngProfileID\": 0}]}");
}

void write(JsonWriter& out, const GpuGeometry& gpu) {
  out.raw("{\"UUID\": ").string(gpu.board.uuid);
  out.raw(", \"MigMode\": ").raw(gpu.mig_enabled ? "1" : "0");
  out.raw(", \"GpuInstances\": ");
  if (gpu.slots.empty()) {  // as an absent list of Go reads
    out.raw("null}");
    return;
  }
  std::vector<Slot> slots = gpu.slots;  // in the order in which mig-parted reads a GPU back
  std::ranges::sort(slots, {}, [&](const Slot& slot) {
    return std::pair(gpu.profile_of(slot).nvml_enum, slot.start);
  });
  out.list(slots, "        ", [&](const Slot& s) { write(out, gpu.profile_of(s), s); }).raw("}");
}

// ---- reading ----

void read_compute(Fields fields, const hw::MigProfile& profile) {
  fields.only({"ProfileID", "EngProfileID"});
  const int compute = fields.integer("ProfileID", kEnums);
  const int engine = fields.integer("EngProfileID", kEnums);
  if (compute != compute_enum(profile.gpcs) || engine != 0)
    fields.refuse(fields.node(), fmt::format("{} needs one compute instance of all its {} slices",
                                             profile.name, profile.gpcs));
}

Slot read_instance(Fields fields, const hw::GpuModel& model) {
  fields.only({"ProfileID", "Placement", "ComputeInstances"});
  const int id = fields.integer("ProfileID", kEnums);
  const auto profile = std::ranges::find(model.profiles, id, &hw::MigProfile::nvml_enum);
  if (profile == model.profiles.end()) {
    fields.refuse("ProfileID", fmt::format("{} has no profile with the id {}", model.name, id));
    return {};
  }
  Fields place = fields.object("Placement");
  place.only({"Start", "Size"});
  Slot slot{.profile = static_cast<int>(profile - model.profiles.begin()),
            .start = place.integer("Start", {.high = hw::kMaxSlices})};
  if (place.integer("Size", {.high = hw::kMaxSlices}) != profile->size)
    place.refuse("Size", fmt::format("{} fills {} memory slices", profile->name, profile->size));
  const std::vector<Node>& compute = fields.list("ComputeInstances", kMaxInstances);
  if (compute.size() != 1)
    fields.refuse("ComputeInstances", fmt::format("{} needs one compute instance of all its {} "
                                                  "slices, {} are given",
                                                  profile->name, profile->gpcs, compute.size()));
  for (const Node& item : compute) read_compute({fields, item}, *profile);
  return slot;
}

void read_instances(Fields& fields, GpuGeometry& gpu) {
  std::vector<hw::PlacedProfile> places;
  for (const Node& item : fields.list("GpuInstances", kMaxInstances)) {
    gpu.slots.push_back(read_instance({fields, item}, *gpu.board.model));
    if (fields.error()) return;
    places.push_back({gpu.slots.back().profile, *gpu.slots.back().start});
    const std::string fault = layout_fault(*gpu.board.model, places);
    if (!fault.empty()) return fields.refuse(item, fault);
  }
  std::ranges::sort(gpu.slots, {}, [](const Slot& s) { return std::pair(s.start, s.profile); });
}

GpuGeometry read_gpu(Fields fields, const Board& board) {
  fields.only({"UUID", "MigMode", "GpuInstances"});
  GpuGeometry gpu{board, fields.integer("MigMode", {.high = 1}) == 1, {}};
  gpu.board.uuid = fields.name("UUID");
  if (fields.known("GpuInstances")) read_instances(fields, gpu);
  if (!gpu.mig_enabled && !gpu.slots.empty())
    fields.refuse("GpuInstances", "'GpuInstances' are given while 'MigMode' is 0");
  return gpu;
}

// The board that a device of the checkpoint is; the `position`-th one where boards have no UUIDs.
const Board* board_of(Fields& fields, const std::vector<Board>& boards, std::size_t position) {
  const std::string uuid = fields.name("UUID");
  if (std::ranges::all_of(boards, &std::string::empty, &Board::uuid)) {
    if (position < boards.size()) return &boards[position];
    fields.refuse(fields.node(),
                  fmt::format("the checkpoint has more GPUs than the {} there are", boards.size()));
    return nullptr;
  }
  const auto found = std::ranges::find(boards, uuid, &Board::uuid);
  if (found != boards.end()) return &*found;
  fields.refuse("UUID", fmt::format("the node has no GPU '{}'", uuid));
  return nullptr;
}

}  // namespace

Result<std::string> checkpoint_json(const Geometry& geometry) {
  for (const GpuGeometry& gpu : geometry.gpus) {
    if (gpu.board.uuid.empty())
      return bad_input("", fmt::format("a checkpoint names GPUs by UUID, and that of GPU {} is not "
                                       "known",
                                       gpu.board.index));
    for (const Slot& slot : gpu.slots) {
      CHECK(slot.start);
      if (!compute_enum(gpu.profile_of(slot).gpcs))
        return bad_input("", fmt::format("mig-parted has no compute instance of {} slices",
                                         gpu.profile_of(slot).gpcs));
    }
  }
  JsonWriter out;
  out.raw("{\n  \"Version\": \"v1\",\n  \"MigState\": {\n    \"Devices\": ");
  out.list(geometry.gpus, "      ", [&](const GpuGeometry& gpu) { write(out, gpu); });
  return out.raw("\n  }\n}\n").take();
}

Result<Geometry> parse_checkpoint(const std::string& file, std::string_view text,
                                  const std::vector<Board>& boards) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.only({"Version", "MigState"});
  fields.exactly("Version", "v1");
  Fields state = fields.object("MigState");
  state.only({"Devices"});
  Geometry geometry;
  std::set<std::string> seen;
  for (const Node& item : state.list("Devices", kMaxBoards)) {
    Fields device(state, item);
    const Board* board = board_of(device, boards, geometry.gpus.size());
    if (!board) break;
    geometry.gpus.push_back(read_gpu({state, item}, *board));
    if (fields.error()) break;
    if (!seen.insert(geometry.gpus.back().board.uuid).second)
      device.refuse("UUID",
                    fmt::format("GPU '{}' is listed twice", geometry.gpus.back().board.uuid));
  }
  if (fields.error()) return failed(*fields.error());
  std::ranges::sort(geometry.gpus, {}, [](const GpuGeometry& g) { return g.board.index; });
  return geometry;
}

}  // namespace partita::interop
