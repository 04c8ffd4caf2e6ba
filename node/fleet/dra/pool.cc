#include "fleet/dra/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/index.h"
#include "hw/media.h"

namespace partita::dra {
namespace {

constexpr const char* kCompute = "compute-slices";

std::string slice_name(int slice) { return fmt::format("memory-slice-{}", slice); }

// "3g.40gb" as part of a DNS label: "3g40gb".
std::string letters_of(const std::string& profile) {
  std::string text;
  for (const char c : profile)
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) text += c;
  return text;
}

// How many instances of a profile there may be, where slices do not say it.
std::string most_name(const hw::MigProfile& profile) {
  return fmt::format("most-{}-{}", letters_of(profile.name), profile.profile_id);
}
bool is_limited(const hw::MigProfile& profile) {
  return profile.max_instances < std::ssize(profile.starts);
}

void take_slices(Counters& counters, int start, int size, int gpcs) {
  for (int slice = start; slice < start + size; ++slice) ++counters[slice_name(slice)];
  counters[kCompute] += gpcs;
}

Counters taken_by(const hw::GpuModel& model, const hw::PlacedProfile& place) {
  const hw::MigProfile& profile = model.profiles[at(place.profile)];
  Counters takes;
  take_slices(takes, place.start, profile.size, profile.gpcs);
  if (is_limited(profile)) takes[most_name(profile)] = 1;
  if (hw::media_capacity(model))
    for (std::size_t kind = 0; kind < hw::kMediaNames.size(); ++kind)
      if (const int engines = hw::media_of(profile)[kind]; engines > 0)
        takes[std::string(hw::kMediaNames[kind])] = engines;
  return takes;
}

Counters whole(const hw::GpuModel& model) {
  Counters all;
  take_slices(all, 0, model.memory_slices, model.compute_slices);
  for (const hw::MigProfile& profile : model.profiles)
    if (is_limited(profile)) all[most_name(profile)] = profile.max_instances;
  if (const auto media = hw::media_capacity(model))
    for (std::size_t kind = 0; kind < media->size(); ++kind)
      all[std::string(hw::kMediaNames[kind])] = (*media)[kind];
  CHECK(all.size() <= kMaxCounters);
  return all;
}

hw::PlacedProfile place_of(const PoolGpu& gpu, const device::Instance& one) {
  return {gpu.model->profile_index(one.profile), one.start};
}

// What is left for claims beside the instances of others.
Counters left_for_claims(const PoolGpu& gpu) {
  Counters left = whole(*gpu.model);
  for (const device::Instance& one : gpu.gpu.instances) {
    const hw::PlacedProfile place = place_of(gpu, one);
    if (std::ranges::count(gpu.claimed, place) > 0) continue;
    Counters takes;
    if (place.profile >= 0)
      takes = taken_by(*gpu.model, place);
    else
      take_slices(takes, one.start, one.size, one.gpcs);
    for (const auto& [name, count] : takes)
      if (const auto of = left.find(name); of != left.end())
        of->second = std::max(0, of->second - count);
  }
  return left;
}

hw::Room room_of(const PoolGpu& gpu) {
  hw::Room room{gpu.model.get(), gpu.claimed, {}};
  for (const device::Instance& one : gpu.gpu.instances) {
    const hw::PlacedProfile place = place_of(gpu, one);
    if (place.profile < 0)
      room.others.push_back({one.start, one.size, one.gpcs});
    else if (std::ranges::count(room.placed, place) == 0)
      room.placed.push_back(place);
  }
  return room;
}

using Place = std::tuple<std::size_t, int, int>;  // GPU, profile, start

// Of the places that are free now: how many of the same shape are better.
std::map<Place, std::size_t> ranks_of(const std::vector<PoolGpu>& gpus) {
  std::vector<hw::Room> rooms;
  std::set<std::string> names;
  for (const PoolGpu& gpu : gpus) {
    rooms.push_back(room_of(gpu));
    for (const hw::MigProfile& profile : gpu.model->profiles) names.insert(profile.name);
  }
  std::map<Place, std::size_t> ranks;
  for (const std::string& name : names) {
    std::vector<int> profiles;
    for (const PoolGpu& gpu : gpus) profiles.push_back(gpu.model->profile_index(name));
    std::size_t rank = 0;
    for (const hw::Spot& spot : hw::best_spots(rooms, profiles))
      ranks[{spot.room, profiles[spot.room], spot.start}] = rank++;
  }
  return ranks;
}

}  // namespace

std::string counters_name(const PoolGpu& gpu) { return fmt::format("gpu-{}", gpu.gpu.index); }

Pool pool_of(std::vector<PoolGpu> gpus) {
  Pool pool{std::move(gpus), {}, {}};
  for (std::size_t g = 0; g < pool.gpus.size(); ++g) {
    const PoolGpu& gpu = pool.gpus[g];
    pool.counters.push_back(left_for_claims(gpu));
    for (int p = 0; p < std::ssize(gpu.model->profiles); ++p) {
      const hw::MigProfile& profile = gpu.model->profiles[at(p)];
      for (const int start : profile.starts)
        pool.devices.push_back({fmt::format("{}-mig-{}-{}-{}", counters_name(gpu),
                                            letters_of(profile.name), profile.profile_id, start),
                                g,
                                {p, start},
                                taken_by(*gpu.model, {p, start})});
    }
  }
  const std::map<Place, std::size_t> ranks = ranks_of(pool.gpus);
  std::ranges::stable_sort(pool.devices, {}, [&](const PoolDevice& device) {
    const auto rank = ranks.find({device.gpu, device.place.profile, device.place.start});
    return rank == ranks.end() ? pool.devices.size() : rank->second;
  });
  return pool;
}

const PoolDevice* find_device(const Pool& pool, const std::string& name) {
  const auto found = std::ranges::find(pool.devices, name, &PoolDevice::name);
  return found == pool.devices.end() ? nullptr : &*found;
}

}  // namespace partita::dra
