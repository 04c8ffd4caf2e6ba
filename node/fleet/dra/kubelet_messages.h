// Messages between the kubelet and a plugin: pluginregistration.Registration, and DRAPlugin of
// k8s.io.kubelet.pkg.apis.dra.v1 (Kubernetes 1.34). Requests lie in pieces, as gRPC has them. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::dra {

using Pieces = std::span<const std::string_view>;

struct ClaimName {
  std::string name_space, uid, name;
  bool operator==(const ClaimName&) const = default;
};
inline constexpr std::size_t kMaxClaimsOfCall = 256;
// Of NodePrepareResourcesRequest and NodeUnprepareResourcesRequest. Refused: no such message, a UID
// that is none, more than kMaxClaimsOfCall.
Result<std::vector<ClaimName>> parse_claim_names(Pieces message);

struct PreparedDevice {
  std::string request, pool, device, cdi_id;
};
struct PreparedClaim {
  std::string uid;
  std::vector<PreparedDevice> devices = {};
  std::string error = {};  // not empty: it is not prepared
};
std::string encode_prepared(const std::vector<PreparedClaim>& claims);
// The same for claims that were given back: their devices do not count.
std::string encode_unprepared(const std::vector<PreparedClaim>& claims);

// The answer to GetInfo.
std::string encode_plugin_info(std::string_view endpoint);
// What the kubelet thinks of the registration: why not, or nothing.
Result<std::string> parse_registration_status(Pieces message);

}  // namespace partita::dra
