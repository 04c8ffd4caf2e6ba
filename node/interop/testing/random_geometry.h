// Random geometries for tests: legal layouts on any GPU model of the catalogue. Test code only.
#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "interop/geometry.h"

namespace partita::interop {

// Any legal set of instances, from none to as many as fit.
inline GpuGeometry any_gpu(int index, const hw::GpuModel& model) {
  GpuGeometry gpu{.board = {.index = index, .model = &model}, .slots = {}};
  std::vector<hw::PlacedProfile> places;
  for (int tries = *rc::gen::inRange(0, 12); tries > 0; --tries) {
    const int k = *rc::gen::inRange(0, static_cast<int>(model.profiles.size()));
    places.push_back({k, *rc::gen::elementOf(model.profiles[static_cast<std::size_t>(k)].starts)});
    if (!hw::conflicts(model, places).empty()) {
      places.pop_back();
      continue;
    }
    gpu.slots.push_back({.profile = k, .start = places.back().start});
  }
  std::ranges::sort(gpu.slots, {}, [](const Slot& s) { return std::pair(s.start, s.profile); });
  return gpu;
}

// Up to six GPUs of one model, or of any, with gaps between their indices; some without MIG.
inline Geometry any_geometry(bool one_model) {
  const std::vector<hw::GpuModel>& models = hw::builtin_catalogue().gpus;
  const auto pick = [&] { return *rc::gen::inRange<std::size_t>(0, models.size()); };
  const std::size_t common = pick();
  Geometry geometry;
  int index = 0;
  for (int n = *rc::gen::inRange(1, 7); n > 0; --n) {
    index += *rc::gen::inRange(1, 3);
    GpuGeometry gpu = any_gpu(index, models[one_model ? common : pick()]);
    if (*rc::gen::inRange(0, 5) == 0) {
      gpu.mig_enabled = false;
      gpu.slots.clear();
    }
    geometry.gpus.push_back(std::move(gpu));
  }
  return geometry;
}

inline std::vector<Board> boards(const Geometry& geometry) {
  std::vector<Board> all;
  for (const GpuGeometry& gpu : geometry.gpus) all.push_back(gpu.board);
  return all;
}

// The model of the catalogue with this name.
inline const hw::GpuModel& model(const std::string& name) {
  return **hw::builtin_catalogue().get(name);
}

inline Slot slot(const hw::GpuModel& gpu, const std::string& profile, int start) {
  return {.profile = gpu.profile_index(profile), .start = start};
}

}  // namespace partita::interop
