#include "interop/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/form.h"

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

// ---- what a checkpoint states, in NVML's numbers ----

struct StatedCompute {
  int profile = 0, engine = 0;
  bool operator==(const StatedCompute&) const = default;
};

struct StatedSlot {
  int profile = 0, start = 0, size = 0;
  std::vector<StatedCompute> compute;
};

struct StatedGpu {
  std::string uuid;
  int mode = 0;
  std::vector<StatedSlot> slots;
};

void describe_stated(Form& f, StatedCompute& one) {
  f.closed();
  f.integer("ProfileID", one.profile, kEnums, "of the compute instance");
  f.integer("EngProfileID", one.engine, kEnums, "of its engines");
}

void describe_stated(Form& f, StatedSlot& one) {
  f.closed();
  f.integer("ProfileID", one.profile, kEnums, "of the GPU instance");
  const auto placement = [](Form& place, StatedSlot& slot) {
    place.closed();
    place.integer("Start", slot.start, {.high = hw::kMaxSlices}, "first memory slice");
    place.integer("Size", slot.size, {.high = hw::kMaxSlices}, "memory slices");
  };
  f.object("Placement", one, placement, "where it is");
  f.list("ComputeInstances", one.compute, describe_stated, {.most = kMaxInstances}, "in it");
}

StatedGpu stated_of(const GpuGeometry& gpu) {
  StatedGpu stated{.uuid = gpu.board.uuid, .mode = gpu.mig_enabled, .slots = {}};
  for (const Slot& slot : gpu.slots) {
    const hw::MigProfile& profile = gpu.profile_of(slot);
    stated.slots.push_back(
        {profile.nvml_enum, *slot.start, profile.size, {{*compute_enum(profile.gpcs), 0}}});
  }
  const auto order = [](const StatedSlot& slot) { return std::pair(slot.profile, slot.start); };
  std::ranges::sort(stated.slots, {}, order);  // in which mig-parted reads a GPU back
  return stated;
}

// ---- what is accepted ----

// Adds the slot to the GPU.
void accept(Fields& in, GpuGeometry& gpu, const StatedSlot& one) {
  const hw::GpuModel& model = *gpu.board.model;
  const auto profile = std::ranges::find(model.profiles, one.profile, &hw::MigProfile::nvml_enum);
  if (profile == model.profiles.end())
    return in.refuse("ProfileID",
                     fmt::format("{} has no profile with the id {}", model.name, one.profile));
  if (one.size != profile->size)
    in.refuse("Placement", fmt::format("{} fills {} memory slices", profile->name, profile->size));
  const std::string whole = fmt::format("{} needs one compute instance of all its {} slices",
                                        profile->name, profile->gpcs);
  if (one.compute.size() != 1) {
    in.refuse("ComputeInstances", fmt::format("{}, {} are given", whole, one.compute.size()));
  } else if (one.compute.front().profile != compute_enum(profile->gpcs) ||
             one.compute.front().engine != 0) {
    in.refuse("ComputeInstances", whole);
  }
  gpu.slots.push_back({.profile = static_cast<int>(profile - model.profiles.begin()),
                       .start = one.start});
  std::vector<hw::PlacedProfile> places;
  for (const Slot& slot : gpu.slots) places.push_back({slot.profile, *slot.start});
  const std::string fault = layout_fault(model, places);
  if (!fault.empty()) in.refuse(in.node(), fault);
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

struct GpuCheckpoint {
  const std::vector<Board>& boards;
  const std::vector<GpuGeometry>& all;

  void operator()(Form& f, GpuGeometry& gpu) const {
    Fields* const in = f.reading();
    if (in) {
      const Board* board = board_of(*in, boards, all.size() - 1);
      if (!board) return;
      gpu.board = *board;
    }
    StatedGpu stated = in || !gpu.board.model ? StatedGpu{} : stated_of(gpu);
    const auto slot = [&](Form& item, StatedSlot& one) {
      describe_stated(item, one);
      if (item.reading() && !item.reading()->error()) accept(*item.reading(), gpu, one);
    };
    f.closed();
    f.name("UUID", stated.uuid, "of the GPU");
    f.integer("MigMode", stated.mode, {.high = 1}, "1: on");
    f.optional().or_null().list("GpuInstances", stated.slots, slot,
                                {.most = kMaxInstances, .indent = "        "}, "on it");
    if (!in || in->error()) return;
    gpu.board.uuid = stated.uuid;
    gpu.mig_enabled = stated.mode == 1;
    std::ranges::sort(gpu.slots, {}, [](const Slot& s) { return std::pair(s.start, s.profile); });
    if (!gpu.mig_enabled && !gpu.slots.empty())
      in->refuse("GpuInstances", "'GpuInstances' are given while 'MigMode' is 0");
    for (const GpuGeometry& other : all)
      if (&other != &gpu && other.board.uuid == stated.uuid)
        in->refuse("UUID", fmt::format("GPU '{}' is listed twice", stated.uuid));
  }
};

struct CheckpointForm {
  const std::vector<Board>& boards;

  void operator()(Form& f, Geometry& geometry) const {
    f.closed();
    f.lines("  ");
    form::constant(f, "Version", "v1");
    const auto state = [&](Form& inner, Geometry& of) {
      inner.closed();
      inner.lines("    ");
      inner.list("Devices", of.gpus, GpuCheckpoint{boards, of.gpus},
                 {.most = kMaxBoards, .indent = "      "}, "GPUs that can do MIG");
    };
    f.object("MigState", geometry, state, "of the node");
    if (!f.reading()) return;
    std::ranges::sort(geometry.gpus, {}, [](const GpuGeometry& g) { return g.board.index; });
  }
};

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
  return write_form(geometry, CheckpointForm{{}});
}

Result<Geometry> parse_checkpoint(const std::string& file, std::string_view text,
                                  const std::vector<Board>& boards) {
  return read_form<Geometry>(file, text, CheckpointForm{boards});
}

}  // namespace partita::interop
