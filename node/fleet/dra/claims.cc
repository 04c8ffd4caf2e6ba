#include "fleet/dra/claims.h"

#include <algorithm>

#include "base/document.h"
#include "fleet/dra/resource_slices.h"

namespace partita::dra {
namespace {

constexpr std::size_t kMaxUid = 64;

std::string text_of(const Node* object, std::string_view key) {
  const Node* found = object == nullptr ? nullptr : object->find(key);
  return found == nullptr ? "" : found->text;
}

const Node* follow(const Node* node, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (node != nullptr) node = node->find(key);
  return node;
}

// What cannot be taken is this claim's fault, not that of the list that it is in.
void read_share(const std::string& file, const Node& entry, Claim& claim) {
  const Node* const opaque = entry.find("opaque");
  if (text_of(opaque, "driver") != kDriver) return;
  const Node* const parameters = follow(opaque, {"parameters"});
  auto share = parse_share(file, parameters == nullptr ? *opaque : *parameters);
  if (!share) claim.fault = to_string(share.error());
  if (!share) return;
  ShareFor one{{}, text_of(&entry, "source") == "FromClass", *std::move(share)};
  if (const Node* requests = entry.find("requests"))
    for (const Node& name : requests->items) one.requests.push_back(name.text);
  claim.shares.push_back(std::move(one));
}

void read_allocation(const std::string& file, const Node& object, Claim& claim) {
  const Node* devices = follow(&object, {"status", "allocation", "devices"});
  if (const Node* results = follow(devices, {"results"}))
    for (const Node& one : results->items)
      if (text_of(&one, "driver") == kDriver)
        claim.devices.push_back(
            {text_of(&one, "request"), text_of(&one, "pool"), text_of(&one, "device")});
  if (const Node* config = follow(devices, {"config"}))
    for (const Node& one : config->items) read_share(file, one, claim);
}

void read_pods(const Node& object, Claim& claim) {
  const Node* const users = follow(&object, {"status", "reservedFor"});
  if (users == nullptr) return;
  for (const Node& one : users->items)
    if (const std::string uid = text_of(&one, "uid");
        text_of(&one, "resource") == "pods" && is_uid(uid))
      claim.pods.push_back({text_of(&one, "name"), uid});
}

Result<Claim> claim_of(const Document& document, const Node& object) {
  const Node* meta = object.find("metadata");
  Claim claim{text_of(meta, "namespace"), text_of(meta, "name"), text_of(meta, "uid")};
  if (claim.name.empty() || claim.name_space.empty() || !is_uid(claim.uid))
    return bad_input(document.at(object),
                     "no ResourceClaim: metadata with namespace, name and uid is wanted");
  claim.resource_version = text_of(meta, "resourceVersion");
  read_allocation(document.file, object, claim);
  read_pods(object, claim);
  return claim;
}

}  // namespace

bool is_uid(std::string_view text) {
  return !text.empty() && text.size() <= kMaxUid && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
}

Result<Claim> parse_claim(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  return claim_of(*document, document->root);
}

Result<ClaimList> parse_claims(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  ClaimList list{{}, text_of(document->root.find("metadata"), "resourceVersion")};
  const Node* items = document->root.find("items");
  if (items == nullptr) return bad_input(document->at(document->root), "no list of claims");
  for (const Node& item : items->items) {
    auto claim = claim_of(*document, item);
    if (!claim) return failed(claim.error());
    list.claims.push_back(*std::move(claim));
  }
  return list;
}

Result<ClaimEvent> parse_claim_event(const std::string& file, std::string_view line) {
  const auto document = parse_document(file, line);
  if (!document) return failed(document.error());
  const std::string type = text_of(&document->root, "type");
  const Node* object = document->root.find("object");
  if (object == nullptr) return bad_input(document->at(document->root), "no event of a watch");
  if (type == "ERROR") return ClaimEvent{ClaimEvent::Kind::too_old, {}};  // 410, and whatever else
  if (type == "BOOKMARK") {
    ClaimEvent mark;
    mark.claim.resource_version = text_of(object->find("metadata"), "resourceVersion");
    return mark;
  }
  auto claim = claim_of(*document, *object);
  if (!claim) return failed(claim.error());
  return ClaimEvent{type == "DELETED" ? ClaimEvent::Kind::gone : ClaimEvent::Kind::is,
                    *std::move(claim)};
}

}  // namespace partita::dra
