#include "hw/layout.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "base/check.h"

namespace partita::hw {
namespace {

// Media engines are a resource of their own: an instance takes its share of the engines that the
// whole GPU has. So +me, which brings the single optical-flow (on A30 also JPEG) engine, exists
// once, and beside +me.all, which takes them all, only -me fits. Copy engines grow with the slices
// and never decide.
using Media = std::array<int, 4>;

Media media_of(const MigProfile& profile) {
  if (profile.engine_mark == Certainty::U) return {};
  const Engines& e = profile.engines;
  return {e.decode, e.encode, e.jpeg, e.optical_flow};
}

// Engines of the whole GPU: those of an instance that covers it. Absent when no such instance is
// known.
std::optional<Media> media_capacity(const GpuModel& gpu) {
  for (const MigProfile& profile : gpu.profiles)
    if (profile.size == gpu.memory_slices && profile.engine_mark != Certainty::U)
      return media_of(profile);
  return std::nullopt;
}

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

std::vector<int> plain_profiles(const GpuModel& gpu) {
  std::vector<int> plain;
  for (std::size_t k = 0; k < gpu.profiles.size(); ++k)
    if (gpu.profiles[k].plain()) plain.push_back(static_cast<int>(k));
  return plain;
}

}  // namespace partita::hw
