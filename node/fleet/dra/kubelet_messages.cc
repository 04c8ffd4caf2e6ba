#include "fleet/dra/kubelet_messages.h"

#include "base/proto_scan.h"
#include "fleet/dra/claims.h"
#include "fleet/dra/resource_slices.h"

namespace partita::dra {
namespace {

constexpr std::size_t kMaxName = 253, kMaxSaid = 4096;

ClaimName read_claim_name(ProtoScan& scan) {
  ClaimName claim;
  scan.message(scan.length(), [&](std::uint32_t number, WireType type) {
    if (number == 1)
      claim.name_space = scan.text(type, kMaxName);
    else if (number == 2)
      claim.uid = scan.text(type, kMaxName);
    else if (number == 3)
      claim.name = scan.text(type, kMaxName);
    else
      scan.skip(type);
  });
  return claim;
}

std::string encode_device(const PreparedDevice& device) {
  std::string bytes;
  append_field(bytes, 1, device.request);
  append_field(bytes, 2, device.pool);
  append_field(bytes, 3, device.device);
  append_field(bytes, 4, device.cdi_id);
  return bytes;
}

// An entry of map<string, message>.
void append_entry(std::string& out, const std::string& key, const std::string& message) {
  std::string entry;
  append_field(entry, 1, key);
  append_field(entry, 2, message);
  append_field(out, 1, entry);
}

}  // namespace

Result<std::vector<ClaimName>> parse_claim_names(Pieces message) {
  std::vector<ClaimName> claims;
  ProtoScan scan(message);
  scan.message(scan.size(), [&](std::uint32_t number, WireType type) {
    if (number != 1) return scan.skip(type);
    if (type != WireType::bytes) return scan.fail("a claim is wanted");
    claims.push_back(read_claim_name(scan));
    if (claims.size() > kMaxClaimsOfCall) return scan.fail("too many claims");
    if (scan.ok() && !is_uid(claims.back().uid)) scan.fail("a claim without a UID");
  });
  if (!scan.ok()) return bad_input("the kubelet's message", scan.error());
  return claims;
}

std::string encode_prepared(const std::vector<PreparedClaim>& claims) {
  std::string out;
  for (const PreparedClaim& claim : claims) {
    std::string answer;
    if (claim.error.empty())
      for (const PreparedDevice& device : claim.devices)
        append_field(answer, 1, encode_device(device));
    else
      append_field(answer, 2, claim.error);
    append_entry(out, claim.uid, answer);
  }
  return out;
}

std::string encode_unprepared(const std::vector<PreparedClaim>& claims) {
  std::string out;
  for (const PreparedClaim& claim : claims) {
    std::string answer;
    if (!claim.error.empty()) append_field(answer, 1, claim.error);
    append_entry(out, claim.uid, answer);
  }
  return out;
}

std::string encode_plugin_info(std::string_view endpoint) {
  std::string out;
  append_field(out, 1, "DRAPlugin");
  append_field(out, 2, kDriver);
  append_field(out, 3, endpoint);
  append_field(out, 4, "v1.DRAPlugin");
  return out;
}

Result<std::string> parse_registration_status(Pieces message) {
  bool registered = false;
  std::string error;
  ProtoScan scan(message);
  scan.message(scan.size(), [&](std::uint32_t number, WireType type) {
    if (number == 1 && type == WireType::varint)
      registered = scan.varint() != 0;
    else if (number == 2)
      error = scan.text(type, kMaxSaid);
    else
      scan.skip(type);
  });
  if (!scan.ok()) return bad_input("the kubelet's message", scan.error());
  return registered ? "" : error.empty() ? "the kubelet says no" : error;
}

}  // namespace partita::dra
