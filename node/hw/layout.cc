#include "hw/layout.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "hw/media.h"

namespace partita::hw {
namespace {

const MigProfile& profile_of(const GpuModel& gpu, const PlacedProfile& placed) {
  return gpu.profiles[static_cast<std::size_t>(placed.profile)];
}

bool known(const GpuModel& gpu, const PlacedProfile& placed) {
  return placed.profile >= 0 && placed.profile < static_cast<int>(gpu.profiles.size());
}

bool legal_start(const GpuModel& gpu, const PlacedProfile& placed) {
  return std::ranges::count(profile_of(gpu, placed).starts, placed.start) > 0;
}

// The placements of one conflicts() call, rule by rule.
struct Judged {
  const GpuModel& gpu;
  const std::vector<PlacedProfile>& placed;
  std::vector<Conflict> found;

  int size() const { return static_cast<int>(placed.size()); }
  const PlacedProfile& at(int i) const { return placed[static_cast<std::size_t>(i)]; }

  void check_names_and_starts() {
    for (int i = 0; i < size(); ++i) {
      if (!known(gpu, at(i))) {
        found.push_back({"unknown_profile", i, -1, static_cast<double>(gpu.profiles.size()),
                         static_cast<double>(at(i).profile)});
      } else if (!legal_start(gpu, at(i))) {
        const std::vector<int>& starts = profile_of(gpu, at(i)).starts;
        const int nearest = *std::ranges::min_element(
            starts, {}, [&](int s) { return std::abs(static_cast<double>(s) - at(i).start); });
        found.push_back({"illegal_start", i, -1, static_cast<double>(at(i).start),
                         static_cast<double>(nearest)});
      }
    }
  }

  // Each instance against the first holder of each of its slices, so that the list stays linear in
  // the input.
  void check_memory_slices() {
    std::vector<int> holder(static_cast<std::size_t>(gpu.memory_slices), -1);
    for (int i = 0; i < size(); ++i) {
      if (!known(gpu, at(i)) || !legal_start(gpu, at(i))) continue;
      const auto begin = holder.begin() + at(i).start;
      const auto end = begin + profile_of(gpu, at(i)).size;
      int reported = -1;
      for (auto slice = begin; slice != end; ++slice) {
        if (*slice >= 0 && *slice != reported) {
          reported = *slice;
          const auto shared = std::count(begin, end, reported);
          found.push_back({"memory_slices", reported, i, 0, static_cast<double>(shared)});
        }
        if (*slice < 0) *slice = i;
      }
    }
  }

  void check_compute_slices() {
    double need = 0;
    for (const PlacedProfile& p : placed)
      if (known(gpu, p)) need += profile_of(gpu, p).gpcs;
    if (need > gpu.compute_slices)
      found.push_back({"compute_slices", -1, -1, static_cast<double>(gpu.compute_slices), need});
  }

  void check_max_instances() {
    std::vector<int> count(gpu.profiles.size()), last(gpu.profiles.size());
    for (int i = 0; i < size(); ++i) {
      if (!known(gpu, at(i))) continue;
      ++count[static_cast<std::size_t>(at(i).profile)];
      last[static_cast<std::size_t>(at(i).profile)] = i;
    }
    for (std::size_t k = 0; k < count.size(); ++k)
      if (const int most = gpu.profiles[k].max_instances; count[k] > most)
        found.push_back({"max_instances", last[k], -1, static_cast<double>(most),
                         static_cast<double>(count[k])});
  }

  void check_media_engines() {
    const std::optional<Media> capacity = media_capacity(gpu);
    if (!capacity) return;
    for (std::size_t kind = 0; kind < capacity->size(); ++kind) {
      const double have = (*capacity)[kind];
      double need = 0;
      int last = -1;
      for (int i = 0; i < size(); ++i) {
        const int share = known(gpu, at(i)) ? media_of(profile_of(gpu, at(i)))[kind] : 0;
        need += share;
        if (share > 0) last = i;
      }
      if (need > have) found.push_back({"media_engines", last, -1, have, need});
    }
  }
};

// What a growing layout has taken of the GPU; the same rules as Judged, one instance at a time.
struct Occupancy {
  const GpuModel& gpu;
  Media media_left;
  std::vector<int> left_of_profile;
  int gpcs_left;
  std::bitset<kMaxSlices> memory = {};

  explicit Occupancy(const GpuModel& model) : gpu(model), gpcs_left(model.compute_slices) {
    media_left.fill(1 << 20);
    if (const auto capacity = media_capacity(gpu)) media_left = *capacity;
    for (const MigProfile& profile : gpu.profiles) left_of_profile.push_back(profile.max_instances);
  }

  std::bitset<kMaxSlices> span(const PlacedProfile& p) const {
    return (std::bitset<kMaxSlices>{}.set() >>
            static_cast<std::size_t>(kMaxSlices - profile_of(gpu, p).size))
           << static_cast<std::size_t>(p.start);
  }
  bool fits(const PlacedProfile& p) const {
    const MigProfile& profile = profile_of(gpu, p);
    const Media media = media_of(profile);
    return (memory & span(p)).none() && profile.gpcs <= gpcs_left &&
           left_of_profile[static_cast<std::size_t>(p.profile)] > 0 &&
           std::ranges::equal(media, media_left, std::less_equal{});
  }
  // sign +1 places, -1 takes away.
  void change(const PlacedProfile& p, int sign) {
    memory ^= span(p);
    gpcs_left -= sign * profile_of(gpu, p).gpcs;
    left_of_profile[static_cast<std::size_t>(p.profile)] -= sign;
    const Media media = media_of(profile_of(gpu, p));
    for (std::size_t kind = 0; kind < media.size(); ++kind) media_left[kind] -= sign * media[kind];
  }
};

// What is taken of a room.
Occupancy occupancy_of(const Room& room) {
  Occupancy taken(*room.gpu);
  for (const PlacedProfile& one : room.placed)
    if (known(*room.gpu, one)) taken.change(one, +1);
  for (const Taken& one : room.others) {
    for (int slice = one.start; slice < one.start + one.size; ++slice)
      if (slice >= 0 && slice < kMaxSlices) taken.memory.set(static_cast<std::size_t>(slice));
    taken.gpcs_left -= one.gpcs;
  }
  return taken;
}

// The largest shapes beside what is taken, of these profiles, the largest first.
struct LargestShapes {
  Occupancy taken;
  std::vector<int> profiles;

  explicit LargestShapes(Occupancy beside) : taken(std::move(beside)) {
    profiles = plain_profiles(taken.gpu);
    std::ranges::stable_sort(profiles, std::greater{}, [&](int k) { return shape_of(k); });
  }
  Shape shape_of(int k) const {
    const MigProfile& profile = taken.gpu.profiles[static_cast<std::size_t>(k)];
    return {profile.gpcs, profile.size};
  }
  // Of the profiles from `at` on, the first of them not before `least`: each set once.
  std::vector<Shape> search(std::size_t at, int least) {
    for (; at < profiles.size(); ++at, least = 0) {
      std::optional<std::vector<Shape>> best;
      const int k = profiles[at];
      for (const int start : taken.gpu.profiles[static_cast<std::size_t>(k)].starts) {
        if (start < least || !taken.fits({k, start})) continue;
        taken.change({k, start}, +1);
        std::vector<Shape> beside = search(at, start + 1);
        taken.change({k, start}, -1);
        if (!best || beside > *best) best = std::move(beside);
      }
      if (!best) continue;
      best->insert(best->begin(), shape_of(k));
      return *std::move(best);
    }
    return {};
  }
};

// Of two rooms.
std::vector<Shape> together(const std::vector<Shape>& a, const std::vector<Shape>& b) {
  std::vector<Shape> all;
  std::ranges::merge(a, b, std::back_inserter(all), std::greater{});
  return all;
}

struct Enumeration {
  std::vector<PlacedProfile> candidates;  // by start, then profile
  Occupancy occupancy;
  Layout layout = {};
  std::vector<Layout> maximal = {};

  // Visits every legal layout that extends `layout` with candidates from `from` on, each once.
  void visit(std::size_t from) {
    const auto fits = [&](const PlacedProfile& p) { return occupancy.fits(p); };
    if (std::ranges::none_of(candidates, fits)) {
      maximal.push_back(layout);
      return;
    }
    for (std::size_t i = from; i < candidates.size(); ++i) {
      if (!fits(candidates[i])) continue;
      occupancy.change(candidates[i], +1);
      layout.push_back(candidates[i]);
      visit(i + 1);
      layout.pop_back();
      occupancy.change(candidates[i], -1);
    }
  }
};

}  // namespace

std::vector<Conflict> conflicts(const GpuModel& gpu, const std::vector<PlacedProfile>& placed) {
  Judged judged{gpu, placed, {}};
  judged.check_names_and_starts();
  judged.check_memory_slices();
  judged.check_compute_slices();
  judged.check_max_instances();
  judged.check_media_engines();
  return judged.found;
}

std::vector<Layout> maximal_layouts(const GpuModel& gpu, const std::vector<int>& profiles) {
  Enumeration all{{}, Occupancy(gpu)};
  for (const int k : profiles) {
    CHECK(known(gpu, {k, 0}));
    for (const int start : gpu.profiles[static_cast<std::size_t>(k)].starts)
      all.candidates.push_back({k, start});
  }
  std::ranges::sort(all.candidates, {},
                    [](const PlacedProfile& p) { return std::pair(p.start, p.profile); });
  const auto repeated = std::ranges::unique(all.candidates);
  all.candidates.erase(repeated.begin(), repeated.end());
  all.visit(0);
  return std::move(all.maximal);
}

std::vector<Shape> largest_shapes(const Room& room) {
  return LargestShapes(occupancy_of(room)).search(0, 0);
}

std::vector<Spot> best_spots(const std::vector<Room>& rooms, const std::vector<int>& profile) {
  struct Candidate {
    Spot spot;
    std::vector<Shape> after;
  };
  std::vector<std::vector<Shape>> before;
  std::vector<Candidate> all;
  for (std::size_t r = 0; r < rooms.size(); ++r) {
    before.push_back(largest_shapes(rooms[r]));
    if (profile[r] < 0) continue;
    const Occupancy taken = occupancy_of(rooms[r]);
    for (const int start : rooms[r].gpu->profiles[static_cast<std::size_t>(profile[r])].starts) {
      if (!taken.fits({profile[r], start})) continue;
      Occupancy with = taken;
      with.change({profile[r], start}, +1);
      all.push_back({{r, start}, LargestShapes(std::move(with)).search(0, 0)});
    }
  }
  // What the other rooms offer is the same on both sides.
  std::ranges::stable_sort(all, [&](const Candidate& a, const Candidate& b) {
    if (a.spot.room == b.spot.room) return a.after > b.after;
    return together(a.after, before[b.spot.room]) > together(b.after, before[a.spot.room]);
  });
  std::vector<Spot> spots;
  for (const Candidate& one : all) spots.push_back(one.spot);
  return spots;
}

std::vector<int> plain_profiles(const GpuModel& gpu) {
  std::vector<int> plain;
  for (std::size_t k = 0; k < gpu.profiles.size(); ++k)
    if (gpu.profiles[k].plain()) plain.push_back(static_cast<int>(k));
  return plain;
}

}  // namespace partita::hw
