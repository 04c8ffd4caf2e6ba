// ResourceClaims as the API server says them: which devices of this driver a claim was given, and
// what happens to claims. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/dra/share.h"

namespace partita::dra {

struct ClaimedDevice {
  std::string request, pool, device;
  bool operator==(const ClaimedDevice&) const = default;
};

// A pod that may use a claim.
struct ClaimPod {
  std::string name, uid;  // is_uid(uid)
  bool operator==(const ClaimPod&) const = default;
};

struct Claim {
  std::string name_space, name, uid;
  std::vector<ClaimedDevice> devices = {};  // of this driver, of any pool; none: not allocated
  std::vector<ShareFor> shares = {};        // opaque parameters for this driver
  std::string fault = {};                   // why one of those cannot be taken
  std::string resource_version = {};
  std::vector<ClaimPod> pods = {};
  bool operator==(const Claim&) const = default;
};

// Whether this can be the UID of an object: names of files are made of it.
bool is_uid(std::string_view text);

// One ResourceClaim. Refused with FILE:LINE: it has no name or UID.
Result<Claim> parse_claim(const std::string& file, std::string_view text);

struct ClaimList {
  std::vector<Claim> claims;
  std::string resource_version;  // from which changes are watched
};
Result<ClaimList> parse_claims(const std::string& file, std::string_view text);

// An event of a watch, a line of JSON.
struct ClaimEvent {
  enum class Kind { is, gone, mark, too_old };  // too_old: everything is to be listed again
  Kind kind = Kind::mark;
  Claim claim;  // is, gone; of a mark its resource_version
};
Result<ClaimEvent> parse_claim_event(const std::string& file, std::string_view line);

}  // namespace partita::dra
