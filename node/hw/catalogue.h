// The catalogue of GPU models: compiled in from data/gpus/*.json, replaceable with --catalogue DIR.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/gpu_model.h"

namespace partita::hw {

struct Catalogue {
  std::vector<GpuModel> gpus;  // sorted by name
  // The model with this catalogue name (case-insensitive), or the only one whose name goes on after
  // it with a dash ("A30" is A30-24GB), or CPU units (cpu_units.h); null when there is none, or
  // several.
  const GpuModel* find(std::string_view name) const;
  // find(), or bad_input that lists the names that `name` may stand for, or the nearest ones.
  Result<const GpuModel*> get(std::string_view name) const;
};

// The compiled-in catalogue. Parsed once; never fails (a test parses every shipped file).
const Catalogue& builtin_catalogue();
// The same model, or the same refusal, as builtin_catalogue().get(name), without parsing the others
// where the name is one model's.
Result<GpuModel> builtin_model(std::string_view name);

// One catalogue file. Refused with FILE:LINE: ranges, starts, duplicates, impossible max_instances.
Result<GpuModel> parse_gpu_model(const std::string& file, std::string_view text);

// The JSON form read by parse_gpu_model; the shipped files are exactly this text.
std::string gpu_model_json(const GpuModel& gpu);

}  // namespace partita::hw
