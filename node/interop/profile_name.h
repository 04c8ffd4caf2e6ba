// Profile names as mig-parted writes them: [<c>c.]<g>g.<gb>gb, then +attribute[,attribute] or
// -attribute. Pure; limits: numbers of at most kMaxProfileDigits digits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/gpu_model.h"

namespace partita::interop {

inline constexpr std::size_t kMaxProfileDigits = 4;

struct ProfileName {
  int c = 0;  // compute slices of the compute instance; g where the name does not say
  int g = 0;  // compute slices of the GPU instance
  int gb = 0;
  std::vector<std::string> with;  // after '+'
  std::string without = {};       // after '-'
  bool operator==(const ProfileName&) const = default;

  // The name without a compute instance of full size: "3g.40gb", "1c.3g.40gb", "1g.10gb+me".
  std::string text() const;
};

// Bad input without context when `text` is no such name.
Result<ProfileName> parse_profile_name(std::string_view text);

// Index into the model's profiles of the profile with this name (aliases count). Bad input without
// context: no such profile on this model, a compute instance smaller than its GPU instance.
Result<int> find_profile(const hw::GpuModel& model, const ProfileName& name);

}  // namespace partita::interop
