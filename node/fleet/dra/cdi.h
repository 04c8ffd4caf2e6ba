// Files of the Container Device Interface (CDI 0.6): what a container that has a claim gets, its
// device nodes, the UUID of its MIG device and how it is shared. One file per claim, which is also
// what this driver remembers of it: what is to be undone. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "act/lease/lease_forms.h"
#include "fleet/dra/share.h"

namespace partita::dra {

struct CdiDevice {
  std::string device;  // of the pool
  lease::LeaseDocument lease;
  Share share = {};
  std::map<std::string, std::string> environment = {};  // beside what the lease says
  std::string mount = {};                               // a directory of the host, or none
};

// "partita.gpu-claim-UID.json": its name in the CDI directory.
std::string cdi_file_name(const std::string& uid);
// "partita.gpu/claim=UID-DEVICE": how the kubelet is told of it.
std::string cdi_id(const std::string& uid, const std::string& device);
std::string cdi_json(const std::string& uid, const std::vector<CdiDevice>& devices);

// What a file says of the shares of its devices.
struct StandingShare {
  std::string uuid;  // of the MIG device
  std::string gpu;   // UUID
  bool mps = false;
  std::optional<double> power_cap_w = {};
  bool operator==(const StandingShare&) const = default;
};
// Devices without a share are left out. Refused with FILE:LINE, a file without devices too.
Result<std::vector<StandingShare>> parse_standing_shares(const std::string& file,
                                                         std::string_view text);
// Whether a name in the CDI directory is that of a claim's file.
bool is_cdi_file(std::string_view name);

}  // namespace partita::dra
