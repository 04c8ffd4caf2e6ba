#include "hw/gpu_model.h"

#include <algorithm>

namespace partita::hw {

bool MigProfile::plain() const {
  return name.find_first_of("+-") == std::string::npos && !double_memory();
}

int GpuModel::profile_index(const std::string& profile_name) const {
  const auto called = [&](const MigProfile& profile) {
    return profile.name == profile_name || std::ranges::count(profile.aliases, profile_name) > 0;
  };
  const auto found = std::ranges::find_if(profiles, called);
  return found == profiles.end() ? -1 : static_cast<int>(found - profiles.begin());
}

}  // namespace partita::hw
