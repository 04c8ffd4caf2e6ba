#include "interop/placing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace partita::interop {
namespace {

const hw::MigProfile& profile_at(const hw::GpuModel& model, int k) {
  return model.profiles[static_cast<std::size_t>(k)];
}

// Profiles from the largest to the smallest.
std::vector<int> largest_first(const hw::GpuModel& model) {
  std::vector<int> order(model.profiles.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int a, int b) {
    const hw::MigProfile &x = profile_at(model, a), &y = profile_at(model, b);
    return std::tuple(-x.gpcs, -x.size, a) < std::tuple(-y.gpcs, -y.size, b);
  });
  return order;
}

hw::Layout sorted(hw::Layout layout) {
  std::ranges::sort(layout, {},
                    [](const hw::PlacedProfile& p) { return std::pair(p.start, p.profile); });
  return layout;
}

struct Search {
  const hw::GpuModel& model;
  std::vector<int> order;   // of profiles
  std::vector<int> wanted;  // one profile per instance, largest first, equal ones side by side
  std::vector<hw::PlacedProfile> placed = {};
  hw::Layout best = {};
  std::vector<int> best_room = {};
  bool found = false;

  std::vector<int> room(const hw::Layout& layout) const {
    std::vector<int> counts;
    for (const int k : order) counts.push_back(room_for(model, layout, k));
    return counts;
  }

  void keep_if_better() {
    const hw::Layout layout = sorted(placed);
    const std::vector<int> left = room(layout);
    const auto key = [](const hw::PlacedProfile& p) { return std::pair(p.start, p.profile); };
    const bool first_of_equals =
        left == best_room && std::ranges::lexicographical_compare(layout, best, {}, key, key);
    if (found && left <= best_room && !first_of_equals) return;
    found = true;
    best = layout;
    best_room = left;
  }

  // Equal profiles take ascending starts, so that every layout is seen once.
  void visit(std::size_t next) {
    if (next == wanted.size()) return keep_if_better();
    const int k = wanted[next];
    const bool again = next > 0 && wanted[next - 1] == k;
    for (const int start : profile_at(model, k).starts) {
      if (again && start <= placed.back().start) continue;
      placed.push_back({k, start});
      if (hw::conflicts(model, placed).empty()) visit(next + 1);
      placed.pop_back();
    }
  }
};

// The rule that counts alone break; empty when they break none.
std::string counts_fault(const hw::GpuModel& model, const std::vector<int>& counts) {
  int gpcs = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const hw::MigProfile& profile = model.profiles[k];
    if (counts[k] > profile.max_instances)
      return fmt::format("at most {} x {} fit", profile.max_instances, profile.name);
    gpcs += counts[k] * profile.gpcs;
  }
  if (gpcs <= model.compute_slices) return "";
  return fmt::format("needs {} compute slices, the GPU has {}", gpcs, model.compute_slices);
}

}  // namespace

int room_for(const hw::GpuModel& model, const hw::Layout& layout, int profile) {
  // All spans of one profile are equally long, so taking the first start that is free is optimal;
  // every other rule counts instances and looks at no place.
  std::vector<hw::PlacedProfile> placed = layout;
  int room = 0;
  for (const int start : profile_at(model, profile).starts) {
    placed.push_back({profile, start});
    if (hw::conflicts(model, placed).empty()) {
      ++room;
    } else {
      placed.pop_back();
    }
  }
  return room;
}

Result<hw::Layout> roomiest_layout(const hw::GpuModel& model, const std::vector<int>& counts) {
  CHECK(counts.size() == model.profiles.size());
  std::string fault = counts_fault(model, counts);
  if (fault.empty()) {
    Search search{model, largest_first(model), {}};
    for (const int k : search.order)
      search.wanted.insert(search.wanted.end(),
                           static_cast<std::size_t>(counts[static_cast<std::size_t>(k)]), k);
    search.visit(0);
    if (search.found) return std::move(search.best);
    fault = "no places leave every memory slice and media engine to one instance";
  }
  return bad_input("", fmt::format("{} do not fit on one {}: {}", counts_text(model, counts),
                                   model.name, fault));
}

}  // namespace partita::interop
