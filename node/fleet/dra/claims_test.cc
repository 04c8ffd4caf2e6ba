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
  EXPECT_TRUE(claim->shares.empty());
}

// Who is not a pod, or has no UID that can be one, has no cgroup that is looked for.
TEST(DraClaims, PodsThatMayUseIt) {
  const auto claim = parse_claim("claim", R"({"metadata":{"namespace":"ml","name":"train",
 "uid":"6f1d-0a"},"status":{"reservedFor":[{"resource":"pods","name":"a","uid":"5f-1"},
 {"resource":"jobs","name":"b","uid":"5f-2"},{"resource":"pods","name":"c","uid":"../5f"},
 {"resource":"pods","name":"d"},{"resource":"pods","name":"e","uid":"5f-3"}]}})");
  ASSERT_TRUE(claim) << to_string(claim.error());
  EXPECT_EQ(claim->pods, (std::vector<ClaimPod>{{"a", "5f-1"}, {"e", "5f-3"}}));
}

std::string config(const std::string& source, const std::string& parameters) {
  return R"({"source":")" + source + R"(","opaque":{"driver":"partita.gpu","parameters":)" +
         parameters + "}}";
}
std::string share_text(const std::string& more) {
  return R"({"apiVersion":"partita.gpu/v1","kind":"PartitaShare")" + more + "}";
}

TEST(DraClaims, ParametersForThisDriverAreSeen) {
  const auto claim = parse_claim(
      "claim", claim_text(R"(,"config":[)" +
                          config("FromClass", share_text(R"(,"mps":{"threadPercentage":40})")) +
                          "," + config("FromClaim", share_text(R"(,"powerCapWatts":250)")) +
                          R"(,{"opaque":{"driver":"net.example","parameters":{"kind":"Mtu"}}}])"));
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->fault, "");
  EXPECT_EQ(claim->shares,
            (std::vector<ShareFor>{{{}, true, {MpsShare{40}, {}}}, {{}, false, {{}, 250}}}));
}

TEST(DraClaims, WrongParametersAreTheClaimsFault) {
  for (const auto& [parameters, part] : std::vector<std::pair<std::string, std::string>>{
           {share_text(R"(,"mps":{"threadPercentage":140})"), "threadPercentage"},
           {share_text(R"(,"mps":{"threadPercentage":0})"), "threadPercentage"},
           {share_text(R"(,"mps":{"memoryMib":0})"), "memoryMib"},
           {share_text(R"(,"mps":{"clients":2})"), "clients"},
           {share_text(R"(,"lanes":3)"), "lanes"},
           {share_text(R"(,"powerCapWatts":"300")"), "powerCapWatts"},
           {share_text(""), "neither"},
           {R"({"apiVersion":"partita.gpu/v2","kind":"PartitaShare"})", "apiVersion"},
           {R"({"apiVersion":"partita.gpu/v1","kind":"MigConfig"})", "kind"},
           {"7", ""}}) {
    const auto claim =
        parse_claim("claim", claim_text(R"(,"config":[)" + config("FromClaim", parameters) + "]"));
    ASSERT_TRUE(claim) << parameters;
    EXPECT_NE(claim->fault.find("claim:"), std::string::npos) << parameters;
    EXPECT_NE(claim->fault.find(part), std::string::npos) << claim->fault;
  }
}

TEST(DraShare, TheLastWordHoldsAndAClaimsComesAfterItsClass) {
  const ShareFor by_class{{}, true, {MpsShare{50, 4000}, 200}};
  const ShareFor of_claim{{"a"}, false, {MpsShare{30}, {}}};
  const SharedInstance small{"a/big", false, 9728}, other{"b", false, 9728};
  EXPECT_EQ(*share_of({of_claim, by_class}, small), (Share{MpsShare{30}, 200}));
  EXPECT_EQ(*share_of({of_claim, by_class}, other), (Share{MpsShare{50, 4000}, 200}));
  EXPECT_EQ(*share_of({}, small), Share{});
  const ShareFor cap{{}, false, {{}, 250}};
  EXPECT_FALSE(share_of({cap}, small)) << "others share the GPU";
  EXPECT_EQ(share_of({by_class, cap}, {"a", true, {}})->power_cap_w, 250);
  EXPECT_FALSE(share_of({{{}, false, {MpsShare{50, 10'000}, {}}}}, small));
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
  EXPECT_TRUE(parse_standing_shares("cdi", cdi_json(kUid, {{"gpu-0-mig-1", one}}))->empty());
  // Beside each other neither hides the other.
  const Document two = read(cdi_json(kUid, {{"a", one}, {"b", one}}));
  for (const Node& each : two.root.find("devices")->items)
    EXPECT_EQ(each.find("containerEdits")->find("env")->items.size(), 1u);
}

TEST(Cdi, RemembersShares) {
  CdiDevice one{
      "gpu-0-mig-1", {}, {MpsShare{50}, 250.5}, {{"CUDA_MPS_PIPE_DIRECTORY", "/r/p"}}, "/r/p"};
  one.lease.lease.uuid = "MIG-1";
  one.lease.lease.gpu_uuid = "GPU-1";
  const std::string text = cdi_json(kUid, {one});
  EXPECT_EQ(*parse_standing_shares("cdi", text),
            (std::vector<StandingShare>{{"MIG-1", "GPU-1", true, 250.5}}));
  const Document document = *parse_document("cdi", text);
  const Node& edits = *document.root.find("devices")->items[0].find("containerEdits");
  EXPECT_EQ(edits.find("env")->items.back().text, "CUDA_MPS_PIPE_DIRECTORY=/r/p");
  EXPECT_EQ(edits.find("mounts")->items[0].find("hostPath")->text, "/r/p");
  EXPECT_TRUE(is_cdi_file(cdi_file_name(kUid)));
  EXPECT_FALSE(is_cdi_file("nvidia.yaml"));
}

}  // namespace
}  // namespace partita::dra
