#include "serve/measure/gpu_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"

namespace partita::serve {
namespace {

using device::GpuState;
using device::Instance;
using device::ProfileInfo;

constexpr double kWhole = 100;

// Some process that uses the GPU, or nothing.
std::optional<device::Holder> holder_of(const GpuState& state) {
  if (!state.holders.empty()) return state.holders.front();
  for (const Instance& instance : state.instances)
    if (instance.busy()) return instance.holders.front();
  return std::nullopt;
}

// The profiles of a size, the one with the least memory first.
std::vector<ProfileInfo> profiles_of(std::vector<ProfileInfo> offered, int gpcs) {
  std::erase_if(offered, [&](const ProfileInfo& profile) {
    return profile.gpcs != gpcs || !exec::is_plain(profile.name);
  });
  std::ranges::stable_sort(offered, {}, &ProfileInfo::size);
  return offered;
}

}  // namespace

Result<std::vector<int>> parse_sizes(const std::string& flag, const std::string& text,
                                     const std::vector<int>& offered) {
  if (text == "all") return offered;
  const auto refused = [&](const std::string& word) {
    return bad_input(flag, fmt::format("'{}': this GPU has sizes of {} compute slices; say them as "
                                       "in 1g,2g or 1..3",
                                       word, joined(offered, ", ")));
  };
  std::set<int> sizes;
  for (const std::string& word : split(text, ',')) {
    std::string_view rest = word;
    const auto first = take_number<int>(rest);
    if (!first) return refused(word);
    int last = *first;
    if (rest.starts_with(".."))
      last = parse_number<int>(rest.substr(2)).value_or(0);
    else if (!rest.empty() && rest != "g")
      return refused(word);
    const std::size_t before = sizes.size();
    for (const int size : offered)
      if (size >= *first && size <= last) sizes.insert(size);
    const bool one = last == *first;
    if (sizes.size() == before && !(one && sizes.contains(*first))) return refused(word);
  }
  return std::vector<int>(sizes.begin(), sizes.end());
}

GpuPlaces::~GpuPlaces() { static_cast<void>(give_back()); }

Result<GpuState> GpuPlaces::read() {
  Result<GpuState> state = driver_.read(gpu_);
  if (state && state->lost)
    return failed({ErrorCode::lost, fmt::format("GPU {} fell off the bus", gpu_), "--gpu-index"});
  return state;
}

Result<std::vector<int>> GpuPlaces::sizes() {
  const GpuState state = TRY(read());
  std::set<int> sizes;
  if (state.mig_enabled) {
    const std::vector<ProfileInfo> offered = TRY(driver_.profiles(gpu_));
    for (const ProfileInfo& profile : offered)
      if (exec::is_plain(profile.name)) sizes.insert(profile.gpcs);
  } else {
    for (int gpcs = 1; gpcs <= slices_; ++gpcs) sizes.insert(gpcs);
  }
  if (sizes.empty()) {
    return failed({ErrorCode::not_supported,
                   fmt::format("GPU {} ({}) has no sizes that are known", gpu_, state.name),
                   "--gpu-index"});
  }
  return std::vector<int>(sizes.begin(), sizes.end());
}

Result<GpuPlace> GpuPlaces::borrow(int gpcs) {
  TRY(give_back());
  const GpuState state = TRY(read());
  const auto holder = holder_of(state);
  const auto in_use = [&](const std::string& what) {
    return failed({ErrorCode::in_use,
                   fmt::format("GPU {} is used by process {}{}; {}", gpu_, holder->pid,
                               holder->name.empty() ? "" : " (" + holder->name + ")", what),
                   "--gpu-index"});
  };
  GpuPlace place{.gpcs = gpcs, .device = state.uuid};
  if (!state.mig_enabled) {
    if (holder) return in_use("a whole GPU is measured when nobody else uses it");
    place.percentage = kWhole * gpcs / slices_;
  } else if (const auto idle = std::ranges::find_if(state.instances,
                                                    [&](const Instance& instance) {
                                                      return instance.gpcs == gpcs &&
                                                             exec::is_plain(instance.profile) &&
                                                             instance.whole() && !instance.busy();
                                                    });
             idle != state.instances.end()) {
    place.device = idle->uuid();
    place.profile = idle->profile;
  } else if (holder) {
    return in_use(
        fmt::format("no instance of {} compute slices is idle, and instances are made "
                    "only on a GPU that nobody uses",
                    gpcs));
  } else {
    const std::vector<ProfileInfo> offered = TRY(driver_.profiles(gpu_));
    const exec::Loan lent = TRY(loans_.make(gpu_, profiles_of(offered, gpcs)));
    lent_ = place.device = lent.device;
    place.profile = lent.profile;
  }
  place_ = place;
  return place;
}

Result<void> GpuPlaces::give_back() {
  place_.reset();
  return lent_.empty() ? Result<void>{} : loans_.give_back(std::exchange(lent_, {}));
}

std::optional<Mib> GpuPlaces::memory_used() {
  if (!place_) return std::nullopt;
  const Result<telemetry::GpuSample> sample = driver_.telemetry(gpu_);
  if (!sample) return std::nullopt;
  for (const telemetry::InstanceSample& instance : sample->instances)
    if (instance.uuid == place_->device) return instance.memory_used;
  if (!place_->profile.empty()) return std::nullopt;
  Mib total;
  for (const telemetry::Process& process : sample->processes) total.value += process.memory.value;
  return total.value > 0 ? std::optional(total) : std::nullopt;
}

}  // namespace partita::serve
