#include "fleet/objects/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/index.h"

namespace partita::dra {
namespace {

constexpr int kMostPods = 1'000'000;

struct KindRow {
  std::string_view word, group, plural;
};
constexpr std::array<KindRow, kKubeKinds> kKinds = {{
    {"DeviceClass", "/apis/resource.k8s.io/v1", "deviceclasses"},
    {"Service", "/api/v1", "services"},
    {"PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets"},
    {"ResourceClaimTemplate", "/apis/resource.k8s.io/v1", "resourceclaimtemplates"},
    {"Deployment", "/apis/apps/v1", "deployments"},
}};

const KindRow& row_of(KubeKind kind) { return kKinds[at(static_cast<int>(kind))]; }

const Node* follow(const Node& from, std::initializer_list<std::string_view> keys) {
  const Node* node = &from;
  for (const std::string_view key : keys)
    if (node != nullptr) node = node->find(key);
  return node;
}

std::string text_at(const Node& from, std::initializer_list<std::string_view> keys) {
  const Node* found = follow(from, keys);
  return found != nullptr && found->kind == Node::Kind::string ? found->text : "";
}

std::optional<KubeKind> kind_named(std::string_view word) {
  const auto row = std::ranges::find(kKinds, word, &KindRow::word);
  if (row == kKinds.end()) return std::nullopt;
  return static_cast<KubeKind>(row - kKinds.begin());
}

// A number that the API server leaves out where it is none.
Result<double> count_at(const Document& document, const Node& item,
                        std::initializer_list<std::string_view> keys, double most) {
  const Node* found = follow(item, keys);
  if (found == nullptr) return 0.0;
  if (found->kind != Node::Kind::number || found->number < 0 || found->number > most)
    return bad_input(document.at(*found), "a number of 0 and more is wanted");
  return found->number;
}

Result<void> read_pods(const Document& document, const Node& item, KubeObject& object) {
  object.service = text_at(item, {"spec", "selector", "matchLabels", kServiceLabel});
  const auto replicas = count_at(document, item, {"spec", "replicas"}, kMostPods);
  const auto ready = count_at(document, item, {"status", "readyReplicas"}, kMostPods);
  const auto updated = count_at(document, item, {"status", "updatedReplicas"}, kMostPods);
  const auto generation = count_at(document, item, {"metadata", "generation"}, 1e15);
  const auto observed = count_at(document, item, {"status", "observedGeneration"}, 1e15);
  for (const auto* one : {&replicas, &ready, &updated, &generation, &observed})
    if (!*one) return failed(one->error());
  object.replicas = static_cast<int>(*replicas);
  object.ready = static_cast<int>(*ready);
  object.updated = static_cast<int>(*updated);
  object.observed = *observed >= *generation;
  return {};
}

Result<KubeObject> object_of(const Document& document, const Node& item,
                             std::optional<KubeKind> kind) {
  if (!kind) kind = kind_named(text_at(item, {"kind"}));
  if (!kind) return bad_input(document.at(item), "no kind of object that a plan has");
  KubeObject object{*kind, text_at(item, {"metadata", "name"}),
                    text_at(item, {"metadata", "labels", kManagedBy}),
                    text_at(item, {"metadata", "labels", kPlan})};
  if (object.name.empty()) return bad_input(document.at(item), "an object without a name");
  object.uid = text_at(item, {"metadata", "uid"});
  object.version = text_at(item, {"metadata", "resourceVersion"});
  object.deleting = follow(item, {"metadata", "deletionTimestamp"}) != nullptr;
  if (*kind == KubeKind::deployment)
    if (auto read = read_pods(document, item, object); !read) return failed(read.error());
  object.body = item;
  return object;
}

bool holds_members(const Node& whole, const Node& part) {
  return std::ranges::all_of(part.members, [&](const Node::Member& member) {
    const Node* found = whole.find(member.key);
    return found != nullptr && holds(*found, member.value);
  });
}

}  // namespace

std::string_view word_of(KubeKind kind) { return row_of(kind).word; }

std::string path_of(KubeKind kind, const std::string& name_space) {
  const KindRow& row = row_of(kind);
  if (kind == KubeKind::device_class) return fmt::format("{}/{}", row.group, row.plural);
  return fmt::format("{}/namespaces/{}/{}", row.group, name_space, row.plural);
}

Result<KubeList> parse_objects(const std::string& file, std::string_view text,
                               std::optional<KubeKind> kind) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  const Node* items = document->root.find("items");
  const bool is_list = items != nullptr && items->kind == Node::Kind::list;
  if (!is_list) return bad_input(document->at(document->root), "no list of objects");
  KubeList list{{}, text_at(document->root, {"metadata", "resourceVersion"})};
  for (const Node& item : items->items) {
    auto object = object_of(*document, item, kind);
    if (!object) return failed(object.error());
    list.objects.push_back(*std::move(object));
  }
  return list;
}

bool says_change(std::string_view line) {
  const auto document = parse_document("the API server's event", line);
  if (!document) return false;
  const std::string type = text_at(document->root, {"type"});
  return !type.empty() && type != "BOOKMARK";
}

bool holds(const Node& whole, const Node& part) {
  if (whole.kind != part.kind) return false;
  switch (part.kind) {
    case Node::Kind::object:
      return holds_members(whole, part);
    case Node::Kind::list:
      return std::ranges::equal(whole.items, part.items, holds);
    case Node::Kind::number:
      return whole.number == part.number;
    case Node::Kind::boolean:
      return whole.boolean == part.boolean;
    case Node::Kind::string:
      return whole.text == part.text;
    case Node::Kind::null:
      return true;
  }
  return false;
}

void set_member(Node& object, std::string_view key, Node value) {
  const auto found = std::ranges::find(object.members, key, &Node::Member::key);
  if (found != object.members.end())
    found->value = std::move(value);
  else
    object.members.push_back({std::string(key), std::move(value)});
}

Node text_node(std::string_view text) {
  Node node;
  node.kind = Node::Kind::string;
  node.text = text;
  return node;
}

Node number_node(double number) {
  Node node;
  node.kind = Node::Kind::number;
  node.number = number;
  return node;
}

Node object_node(std::vector<Node::Member> members) {
  Node node;
  node.kind = Node::Kind::object;
  node.members = std::move(members);
  return node;
}

}  // namespace partita::dra
