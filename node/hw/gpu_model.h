// GpuModel: what one kind of GPU can be cut into. Plain data from the catalogue (data/gpus/*.json).
// Compute slices (GPCs) and memory slices are counted apart; a placement is a start and a size in
// memory slices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace partita::hw {

// Bounds on a catalogue file; the largest known GPU has 7 compute and 12 memory slices.
inline constexpr int kMaxSlices = 16;
inline constexpr int kMaxMigProfiles = 32;

// How sure a catalogue entry is: A read on hardware, B vendor document, C vendor's hand-written
// code, D inferred by rule, U unknown (the value is then absent).
enum class Certainty { A, B, C, D, U };

struct Engines {
  int copy = 0, decode = 0, encode = 0, jpeg = 0, optical_flow = 0;
  bool operator==(const Engines&) const = default;
};

// A MIG profile: an instance shape.
struct MigProfile {
  std::string name;         // "3g.40gb"; never compare across GPU models
  int nvml_enum = 0;        // argument of nvmlDeviceGetGpuInstanceProfileInfo
  int profile_id = 0;       // GPU instance profile id
  int gpcs = 0;             // compute slices
  std::vector<int> starts;  // legal starts, in memory slices, ascending
  int size = 0;             // memory slices
  int max_instances = 0;    // on an empty GPU
  std::optional<int> sms;
  std::optional<Mib> memory;
  Engines engines;  // meaningless when engine_mark is U
  // Certainty of name, id, placements, max_instances, sms, memory, engines.
  Certainty name_mark = Certainty::U, id_mark = Certainty::U, placement_mark = Certainty::U,
            max_mark = Certainty::U, sms_mark = Certainty::U, memory_mark = Certainty::U,
            engine_mark = Certainty::U;
  std::vector<std::string> aliases = {};  // other names of it on some drivers, "7g.79gb"
  bool operator==(const MigProfile&) const = default;

  // No media-engine or graphics attribute in the name, and not the double-memory 1g.
  bool plain() const;
  // The double-memory 1g (NVML enum 9).
  bool double_memory() const { return nvml_enum == 9; }
};

// How long it takes to create and destroy an instance of `gpcs` compute slices; sequential per GPU.
struct ReconfigurationTime {
  int gpcs = 0;
  Seconds create, destroy;
  bool operator==(const ReconfigurationTime&) const = default;
};

struct GpuModel {
  std::string name;  // catalogue name, "A100-80GB"
  std::vector<std::string> nvml_names;
  std::string architecture;
  std::optional<int> total_sms;
  std::optional<Mib> total_memory;
  int memory_slices = 0;
  int compute_slices = 0;
  std::vector<MigProfile> profiles;  // ascending gpcs, then catalogue order
  std::vector<ReconfigurationTime> reconfiguration;
  std::string reconfiguration_source;
  std::vector<std::string> sources, notes;
  std::vector<std::string> pci_device_ids = {};  // "0x20B210DE": device, then vendor
  bool operator==(const GpuModel&) const = default;

  // Index into profiles of the profile with this name or alias, or -1.
  int profile_index(const std::string& profile_name) const;
};

}  // namespace partita::hw
