#include "fleet/dra/claims.h"

#include <gtest/gtest.h>

#include "base/document.h"
#include "fleet/dra/cdi.h"
#include "fleet/dra/kubelet_messages.h"

namespace partita::dra {
namespace {

constexpr const char* kUid = "6f1d-0a";

std::string claim_text(const std::string& more = "") {
  return R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"namespace":"ml",
 "name":"train","uid":"6f1d-0a","resourceVersion":"12","annotations":{"note":"two\nlines"}},
 "status":{"allocation":{"devices":{"results":[
  {"request":"mig","driver":"partita.gpu","pool":"n1","device":"gpu-0-mig-1g10gb-19-3"},
  {"request":"nic","driver":"net.example","pool":"n1","device":"eth0"}])" +
         more + "}}}}";
}

TEST(DraClaims, DevicesOfThisDriverAlone) {
  const auto claim = parse_claim("claim", claim_text());
  ASSERT_TRUE(claim) << to_string(claim.error());
  EXPECT_EQ(claim->uid, kUid);
  EXPECT_EQ(claim->name_space + "/" + claim->name, "ml/train");
  EXPECT_EQ(claim->devices, (std::vector<ClaimedDevice>{{"mig", "n1", "gpu-0-mig-1g10gb-19-3"}}));
  EXPECT_TRUE(claim->parameters.empty());
}

TEST(DraClaims, ParametersForThisDriverAreSeen) {
  const auto claim = parse_claim("claim", claim_text(R"(,"config":[
   {"source":"FromClaim","opaque":{"driver":"partita.gpu","parameters":{"kind":"PartitaShare"}}},
   {"opaque":{"driver":"net.example","parameters":{"kind":"Mtu"}}}])"));
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->parameters, std::vector<std::string>{"PartitaShare"});
}

TEST(DraClaims, WhatCannotBeAFileNameIsNoUid) {
  EXPECT_TRUE(is_uid(kUid));
  for (const std::string uid : {"", "../etc", "a b", "a/b", "a.b"}) EXPECT_FALSE(is_uid(uid));
  EXPECT_FALSE(is_uid(std::string(65, 'a')));
  std::string text = claim_text();
  text.replace(text.find(kUid), std::string(kUid).size(), "../../x");
  EXPECT_FALSE(parse_claim("claim", text));
}

TEST(DraClaims, ListsAndEvents) {
  const auto list = parse_claims(
      "list", R"({"metadata":{"resourceVersion":"40"},"items":[)" + claim_text() + "]}");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->resource_version, "40");
  EXPECT_EQ(list->claims.size(), 1u);
  const auto event = [](const std::string& type, const std::string& object) {
    return parse_claim_event("event", "{\"type\":\"" + type + "\",\"object\":" + object + "}");
  };
  EXPECT_EQ(event("ADDED", claim_text())->kind, ClaimEvent::Kind::is);
  EXPECT_EQ(event("DELETED", claim_text())->kind, ClaimEvent::Kind::gone);
  EXPECT_EQ(event("BOOKMARK", R"({"metadata":{"resourceVersion":"9"}})")->claim.resource_version,
            "9");
  EXPECT_EQ(event("ERROR", R"({"kind":"Status","code":410})")->kind, ClaimEvent::Kind::too_old);
  EXPECT_FALSE(event("ADDED", "{}"));
  EXPECT_FALSE(parse_claim_event("event", "{\"type\":\"ADDED\"}"));
}

// By hand, as protoc encodes: NodePrepareResourcesRequest{claims: [{"ml", "6f1d-0a", "train"}]}.
TEST(DraMessages, BytesOfTheKubelet) {
  const std::string claim = std::string("\x0a\x02ml\x12\x07") + "6f1d-0a" + "\x1a\x05train";
  const std::string message = std::string("\x0a\x14") + claim;
  const std::string_view whole[] = {message};
  const auto names = parse_claim_names(whole);
  ASSERT_TRUE(names) << to_string(names.error());
  EXPECT_EQ(*names, (std::vector<ClaimName>{{"ml", kUid, "train"}}));
  const std::string_view halves[] = {std::string_view(message).substr(0, 5),
                                     std::string_view(message).substr(5)};
  EXPECT_EQ(*parse_claim_names(halves), *names);
  const std::string_view cut[] = {std::string_view(message).substr(0, 9)};
  EXPECT_FALSE(parse_claim_names(cut));

  EXPECT_EQ(encode_prepared({{"u", {{"r", "p", "d", "c"}}}}),
            std::string("\x0a\x13\x0a\x01u\x12\x0e\x0a\x0c\x0a\x01r\x12\x01p\x1a\x01"
                        "d\x22\x01"
                        "c"));
  EXPECT_EQ(encode_prepared({{"u", {{"r", "p", "d", "c"}}, "no"}}),
            std::string("\x0a\x09\x0a\x01u\x12\x04\x12\x02no"));
  EXPECT_EQ(encode_unprepared({{"u", {}, "no"}, {"v"}}),
            std::string("\x0a\x09\x0a\x01u\x12\x04\x0a\x02no\x0a\x05\x0a\x01v\x12\x00", 18));
}

TEST(DraMessages, WhatTheKubeletThinks) {
  const std::string_view yes[] = {std::string_view("\x08\x01")};
  EXPECT_EQ(*parse_registration_status(yes), "");
  const std::string_view no[] = {std::string_view("\x12\x03old")};
  EXPECT_EQ(*parse_registration_status(no), "old");
  EXPECT_NE(*parse_registration_status({}), "");
}

TEST(Cdi, SaysNodesAndUuid) {
  lease::LeaseDocument one;
  one.lease.uuid = "MIG-1";
  one.nodes.paths = {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30"};
  const auto read = [](const std::string& text) { return *parse_document("cdi", text); };
  const Document alone = read(cdi_json(kUid, {{"gpu-0-mig-1", one}}));
  EXPECT_EQ(alone.root.find("kind")->text, "partita.gpu/claim");
  const Node& device = alone.root.find("devices")->items.front();
  EXPECT_EQ("partita.gpu/claim=" + device.find("name")->text, cdi_id(kUid, "gpu-0-mig-1"));
  const Node& edits = *device.find("containerEdits");
  EXPECT_EQ(edits.find("deviceNodes")->items.back().find("path")->text,
            "/dev/nvidia-caps/nvidia-cap30");
  ASSERT_EQ(edits.find("env")->items.size(), 2u);
  EXPECT_EQ(edits.find("env")->items[0].text, "PARTITA_DEVICE_GPU_0_MIG_1=MIG-1");
  EXPECT_EQ(edits.find("env")->items[1].text, "CUDA_VISIBLE_DEVICES=MIG-1");
  // Beside each other neither hides the other.
  const Document two = read(cdi_json(kUid, {{"a", one}, {"b", one}}));
  for (const Node& each : two.root.find("devices")->items)
    EXPECT_EQ(each.find("containerEdits")->find("env")->items.size(), 1u);
}

}  // namespace
}  // namespace partita::dra
