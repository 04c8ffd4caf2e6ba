// PartitaShare: opaque parameters of a claim or a DeviceClass: how the processes of a pod share
// their instance through MPS, and what its GPU may draw. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/units.h"

namespace partita::dra {

// What each process of a pod gets of its instance.
struct MpsShare {
  double thread_percentage = 100;
  std::optional<double> memory_mib = {};  // that it may allocate; nothing: all
  bool operator==(const MpsShare&) const = default;
};
struct Share {
  std::optional<MpsShare> mps = {};
  std::optional<double> power_cap_w = {};  // of the GPU
  bool operator==(const Share&) const = default;
};
// Refused with FILE:LINE: another kind or version, a key that it has not, a value out of range, or
// nothing that is asked for.
Result<Share> parse_share(const std::string& file, const Node& parameters);

// One entry of a claim's configuration.
struct ShareFor {
  std::vector<std::string> requests = {};  // none: all
  bool of_class = false;                   // a DeviceClass says so, which its owner alone writes
  Share share;
  bool operator==(const ShareFor&) const = default;
};

// The instance that a claim is given, as a share may depend on it.
struct SharedInstance {
  std::string request;  // of the claim; "main/sub" where there are alternatives
  bool whole_gpu = false;
  std::optional<double> memory_mib = {};
};
// What holds for an instance: of each part the last that is said, a claim's word after its class's.
// Refused by a sentence: a claim that caps a GPU which is not its own, more memory than there is.
Result<Share> share_of(const std::vector<ShareFor>& said, const SharedInstance& instance);

}  // namespace partita::dra
