#include "interop/dra.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <regex>
#include <set>

#include "base/document.h"
#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

constexpr const char* kSubdomain =
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

// Parses every document of a YAML stream.
std::vector<Document> documents(const std::string& text) {
  std::vector<Document> all;
  for (std::size_t at = text.find("---\n"); at != text.npos;) {
    const std::size_t next = text.find("\n---\n", at);
    const std::size_t end = next == text.npos ? text.size() : next + 1;
    const auto document = parse_document("d.yaml", text.substr(at + 4, end - at - 4));
    EXPECT_TRUE(document) << to_string(document.error());
    if (document) all.push_back(*document);
    at = next == text.npos ? text.npos : next + 1;
  }
  return all;
}

const Node& at(const Node& node, const std::string& path) {
  const Node* found = &node;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('/', from), path.size());
    std::string key = path.substr(from, dot - from);
    std::ranges::replace(key, '~', '/');  // keys may hold a slash
    found = found->kind == Node::Kind::list ? &found->items.at(std::stoul(key)) : found->find(key);
    if (!found) throw std::runtime_error(path + ": no " + key);
    from = dot + 1;
  }
  return *found;
}

Geometry small() {
  const hw::GpuModel& a100 = model("A100-80GB");
  Geometry geometry{{{{.index = 0, .model = &a100, .uuid = "GPU-a0"}, true, {}},
                     {{.index = 1, .model = &a100, .uuid = "GPU-a1"}, true, {}}}};
  Slot chat = slot(a100, "4g.40gb", 0), search = slot(a100, "3g.40gb", 4);
  chat.service = "chat \"v2\"";
  chat.batch = 8;
  chat.processes = 1;
  search.service = "search";
  search.batch = 16;
  search.processes = 3;
  geometry.gpus[0].slots = {chat, search};
  search.batch = 32;
  search.uuid = "MIG-b1";
  geometry.gpus[1].slots = {search};
  return geometry;
}

TEST(Dra, TemplatesByHand) {
  const Result<std::string> text = dra_yaml(small(), {.kube_namespace = "inference"});
  ASSERT_TRUE(text) << to_string(text.error());
  const std::vector<Document> all = documents(*text);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(at(all[0].root, "kind").text, "DeviceClass");
  EXPECT_EQ(at(all[0].root, "metadata/name").text, "a100-80gb.mig.partita");
  EXPECT_EQ(at(all[0].root, "spec/selectors/1/cel/expression").text,
            "device.attributes['gpu.nvidia.com'].productName in ['NVIDIA A100-SXM4-80GB', 'NVIDIA "
            "A100 80GB PCIe']");
  const Node& chat = all[1].root;
  EXPECT_EQ(at(chat, "kind").text, "ResourceClaimTemplate");
  EXPECT_EQ(at(chat, "metadata/namespace").text, "inference");
  EXPECT_EQ(at(chat, "metadata/name").text, "chat--20--22v2--22.a100-80gb.4g.40gb.x1");
  EXPECT_EQ(at(chat, "metadata/annotations/partita~service").text, "chat \"v2\"");
}

TEST(Dra, SharingAndReplicas) {
  const std::vector<Document> all = documents(*dra_yaml(small(), {}));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(at(all[1].root, "spec/spec/devices").find("config"), nullptr);  // one process
  const Node& search = all[2].root;
  const std::string request = "spec/spec/devices/requests/0/exactly/";
  EXPECT_EQ(at(search, request + "deviceClassName").text, "a100-80gb.mig.partita");
  EXPECT_EQ(at(search, request + "selectors/0/cel/expression").text,
            "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'");
  const std::string mps = "spec/spec/devices/config/0/opaque/parameters/sharing/";
  EXPECT_EQ(at(search, mps + "strategy").text, "MPS");
  EXPECT_EQ(at(search, mps + "mpsConfig/defaultActiveThreadPercentage").number, 33);
  // A third of 40192 MiB.
  EXPECT_EQ(at(search, mps + "mpsConfig/defaultPinnedDeviceMemoryLimit").text, "13397Mi");
}

TEST(Dra, ExactClaimsNameTheGpuAndTheDevice) {
  const std::vector<Document> all = documents(*dra_yaml(small(), {.exact = true}));
  ASSERT_EQ(all.size(), 4U);
  const std::string selectors = "spec/devices/requests/0/exactly/selectors";
  EXPECT_EQ(at(all[1].root, "kind").text, "ResourceClaim");
  EXPECT_EQ(at(all[2].root, "metadata/name").text, "search.gpu0.at4");
  EXPECT_EQ(at(all[2].root, selectors).items.size(), 2U);
  EXPECT_EQ(at(all[2].root, selectors + "/1/cel/expression").text,
            "device.attributes['gpu.nvidia.com'].parentUUID == 'GPU-a0'");
  EXPECT_EQ(at(all[3].root, selectors + "/2/cel/expression").text,
            "device.attributes['gpu.nvidia.com'].uuid == 'MIG-b1'");
}

TEST(Dra, WhatCannotBeClaimed) {
  const auto refusal = [](auto change, const DraOptions& options) {
    Geometry geometry = small();
    change(geometry);
    const Result<std::string> text = dra_yaml(geometry, options);
    return text ? std::string("accepted") : to_string(text.error());
  };
  const auto nothing = [](Geometry&) {};
  EXPECT_TRUE(refusal([](Geometry& g) { g = {}; }, {}).starts_with("no service is on these"));
  EXPECT_EQ(refusal([](Geometry& g) { g = {}; }, {.exact = true}), "there is no instance to claim");
  EXPECT_TRUE(refusal([](Geometry& g) { g.gpus[1].board.uuid = ""; }, {.exact = true})
                  .starts_with("an exact claim names the GPU by UUID, and that of GPU 1"));
  EXPECT_EQ(
      refusal([](Geometry& g) { g.gpus[1].slots[0].uuid = "x' || true || '"; }, {.exact = true}),
      "GPU 1: a name or UUID that Kubernetes cannot hold");
  EXPECT_TRUE(refusal([](Geometry& g) { g.gpus[0].slots[0].service = std::string(128, 'A'); }, {})
                  .ends_with("its name is too long for Kubernetes"));
  for (const char* name : {"", "A", "a.b", "-a", "a_b"})
    EXPECT_TRUE(refusal(nothing, {.kube_namespace = name}).starts_with("--namespace: ")) << name;
}

// The name that a label was made from.
std::optional<std::string> undone(std::string label) {
  if (label.starts_with("x--00")) label.erase(0, 5);
  std::string name;
  for (std::size_t i = 0; i < label.size(); ++i) {
    if (label[i] == '-' && i + 1 < label.size() && label[i + 1] == '-') {
      if (i + 3 >= label.size()) return std::nullopt;
      name += static_cast<char>(std::stoi(label.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      name += label[i];
    }
  }
  return name;
}

TEST(DnsLabel, ByHand) {
  EXPECT_EQ(dns_label("bert-base-2"), "bert-base-2");
  EXPECT_EQ(dns_label("Bert"), "x--00--42ert");
  EXPECT_EQ(dns_label("bert_base"), "bert--5fbase");
  EXPECT_EQ(dns_label("a--b"), "a--2d-b");
  EXPECT_EQ(dns_label("a-"), "a--2d");
  EXPECT_EQ(dns_label("-a"), "x--00--2da");
}

RC_GTEST_PROP(DnsLabelProperty, IsALabelFromWhichTheNameFollows, ()) {
  std::string name;
  for (int n = *rc::gen::inRange(1, 12); n > 0; --n)
    name += *rc::gen::element<std::string>("a", "z", "0", "-", "--", "x--00", "-2d", "Z", "_", ".",
                                           " ", "é", "語", "'");
  const std::string label = dns_label(name);
  RC_ASSERT(std::regex_match(label, std::regex("[a-z0-9]([-a-z0-9]*[a-z0-9])?")));
  RC_ASSERT(undone(label) == name);
}

RC_GTEST_PROP(DraProperty, ObjectsHaveUniqueValidNamesAndCoverEveryInstance, ()) {
  Geometry geometry = any_geometry(*rc::gen::arbitrary<bool>());
  int instances = 0;
  for (GpuGeometry& gpu : geometry.gpus) {
    gpu.board.uuid = "GPU-" + std::to_string(gpu.board.index);
    for (Slot& s : gpu.slots) {
      s.service = *rc::gen::element<std::string>("a", "A", "a.b", "a-b", "a_b");
      s.processes = *rc::gen::inRange(1, 4);
      ++instances;
    }
  }
  const bool exact = *rc::gen::arbitrary<bool>();
  const Result<std::string> text = dra_yaml(geometry, {.exact = exact});
  RC_ASSERT(static_cast<bool>(text) == (instances > 0));
  if (!text) return;
  std::set<std::string> names;
  int covered = 0;
  for (const Document& document : documents(*text)) {
    const std::string& name = at(document.root, "metadata/name").text;
    RC_ASSERT(std::regex_match(name, std::regex(kSubdomain)));
    RC_ASSERT(name.size() <= 253);
    RC_ASSERT(names.insert(name).second);
    const std::string& kind = at(document.root, "kind").text;
    if (kind == "ResourceClaim") ++covered;
    if (kind == "ResourceClaimTemplate")
      covered += std::stoi(at(document.root, "metadata/annotations/partita~replicas").text);
  }
  RC_ASSERT(covered == instances);
}

}  // namespace
}  // namespace partita::interop
