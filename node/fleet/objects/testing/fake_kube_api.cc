#include "fleet/objects/testing/fake_kube_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/json_writer.h"

namespace partita::dra {
namespace {

Node& member(Node& object, std::string_view key) {
  if (object.find(key) == nullptr) set_member(object, key, object_node({}));
  return std::ranges::find(object.members, key, &Node::Member::key)->value;
}

std::string text_of(const Node& object, std::string_view part, std::string_view key) {
  const Node* in = object.find(part);
  const Node* found = in == nullptr ? nullptr : in->find(key);
  return found == nullptr ? "" : found->text;
}

int number_of(const Node& object, std::string_view part, std::string_view key) {
  const Node* in = object.find(part);
  const Node* found = in == nullptr ? nullptr : in->find(key);
  return found == nullptr ? 0 : static_cast<int>(found->number);
}

void merge(Node& into, const Node& from) {
  if (into.kind != Node::Kind::object || from.kind != Node::Kind::object) {
    into = from;
    return;
  }
  for (const Node::Member& one : from.members) merge(member(into, one.key), one.value);
}

Node parsed(const std::string& body) {
  const auto document = parse_document("body", body);
  CHECK(document.has_value());
  return document->root;
}

int units_of(const Node& body) {
  const std::string name = text_of(body, "metadata", "name");
  const std::size_t behind = name.rfind("-u");
  int units = 0;
  if (behind != std::string::npos)
    std::from_chars(name.data() + behind + 2, name.data() + name.size(), units);
  return units;
}

bool is_deployment(const std::string& path) {
  return path.find("/deployments/") != std::string::npos;
}

std::string service_of(const Node& body) {
  const Node* labels = body.find("spec")->find("selector")->find("matchLabels");
  return labels->find(kServiceLabel)->text;
}

}  // namespace

// A version of this writing, and a generation where the specification is another one.
void FakeKubeApi::mark(Node& body, const char* key) {
  set_member(member(body, "metadata"), key, text_node(std::to_string(++versions_)));
}

KubeReply FakeKubeApi::list(const std::string& path) const {
  Node items;
  items.kind = Node::Kind::list;
  for (const auto& [at, stored] : objects_)
    if (at.starts_with(path + "/")) items.items.push_back(stored.body);
  const Node meta = object_node({{"resourceVersion", text_node(std::to_string(versions_))}});
  return {200, JsonWriter().value(object_node({{"metadata", meta}, {"items", items}})).take()};
}

KubeReply FakeKubeApi::create(const std::string& path, const std::string& body) {
  Stored stored{parsed(body)};
  const std::string at = path + "/" + text_of(stored.body, "metadata", "name");
  if (objects_.contains(at)) return {409};
  mark(stored.body, "uid");
  mark(stored.body, "resourceVersion");
  set_member(member(stored.body, "metadata"), "generation", number_node(1));
  set_member(member(stored.body, "spec"), "byDefault", text_node("it says more"));
  objects_[at] = stored;
  return {201};
}

KubeReply FakeKubeApi::change(const std::string& path, const std::string& body) {
  const Node patch = parsed(body);
  const auto found = objects_.find(path);
  const std::string version = text_of(patch, "metadata", "resourceVersion");
  if (found == objects_.end()) return {version.empty() ? 201 : 409};
  Stored& stored = found->second;
  touched_foreign_ += stored.foreign;
  if (version != text_of(stored.body, "metadata", "resourceVersion")) return {409};
  const bool other = !holds(*stored.body.find("spec"), *patch.find("spec"));
  merge(stored.body, patch);
  mark(stored.body, "resourceVersion");
  if (other)
    set_member(member(stored.body, "metadata"), "generation",
               number_node(number_of(stored.body, "metadata", "generation") + 1));
  return {200};
}

KubeReply FakeKubeApi::remove(const std::string& path, const std::string& body) {
  const auto found = objects_.find(path);
  if (found == objects_.end()) return {404};
  touched_foreign_ += found->second.foreign;
  const Node& there = found->second.body;
  const Node asked = parsed(body);
  for (const char* key : {"uid", "resourceVersion"})
    if (text_of(asked, "preconditions", key) != text_of(there, "metadata", key)) return {409};
  if (chance(0.3))
    set_member(member(found->second.body, "metadata"), "deletionTimestamp", text_node("now"));
  else
    objects_.erase(found);
  return {200};
}

KubeReply FakeKubeApi::answer(std::string_view method, const std::string& path,
                              const std::string& body) {
  const std::string bare = path.substr(0, path.find('?'));
  if (method == "GET") return list(bare);
  ++writes_;
  if (method == "POST") return create(bare, body);
  if (method == "PATCH") return change(bare, body);
  return remove(bare, body);
}

Result<KubeReply> FakeKubeApi::ask(std::string_view method, const std::string& path,
                                   const std::string& body, std::string_view) {
  if (chance(0.2)) tick();  // the world does not wait for a round to end
  if (chance(trouble_)) {
    constexpr int kAnswers[] = {409, 429, 500, 503};
    if (const auto which = rng_.below(6); which < 4) return KubeReply{kAnswers[which]};
    return failed(Error{ErrorCode::environment, "nobody answers", path});
  }
  const KubeReply said = answer(method, path, body);
  if (chance(trouble_)) return failed(Error{ErrorCode::environment, "the answer is lost", path});
  return said;
}

int FakeKubeApi::room_left() const {
  int left = room_;
  for (const auto& [path, stored] : objects_) left -= stored.ready * units_of(stored.body);
  return left;
}

void FakeKubeApi::tick() {
  std::erase_if(objects_, [](const auto& one) {
    const Node* meta = one.second.body.find("metadata");
    return meta->find("deletionTimestamp") != nullptr;
  });
  for (auto& [path, stored] : objects_) {
    if (!is_deployment(path) || stored.foreign) continue;
    const int wanted = number_of(stored.body, "spec", "replicas");
    stored.ready = std::min(stored.ready, wanted);
    if (stored.ready < wanted && room_left() >= units_of(stored.body) && chance(0.5))
      ++stored.ready;
    if (!chance(0.6)) continue;
    Node status = object_node(
        {{"readyReplicas", number_node(stored.ready)}, {"updatedReplicas", number_node(wanted)}});
    set_member(status, "observedGeneration",
               number_node(number_of(stored.body, "metadata", "generation")));
    const Node* before = stored.body.find("status");
    if (before != nullptr && holds(*before, status)) continue;
    set_member(stored.body, "status", status);
    mark(stored.body, "resourceVersion");
  }
}

void FakeKubeApi::put_foreign(KubeKind kind, const std::string& name,
                              const std::string& name_space) {
  const std::string body = fmt::format(R"({{"metadata":{{"name":"{}","labels":{{"{}":"helm"}}}},
    "spec":{{"replicas":3,"selector":{{"matchLabels":{{"{}":"other"}}}}}}}})",
                                       name, kManagedBy, kServiceLabel);
  create(path_of(kind, name_space), body);
  objects_[path_of(kind, name_space) + "/" + name].foreign = true;
}

int FakeKubeApi::ready(const std::string& service) const {
  int all = 0;
  for (const auto& [path, stored] : objects_)
    if (is_deployment(path) && !stored.foreign && service_of(stored.body) == service &&
        stored.body.find("metadata")->find("deletionTimestamp") == nullptr)
      all += std::min(stored.ready, number_of(stored.body, "spec", "replicas"));
  return all;
}

int FakeKubeApi::count(KubeKind kind, const std::string& name_space) const {
  return static_cast<int>(std::ranges::count_if(objects_, [&](const auto& one) {
    return one.first.starts_with(path_of(kind, name_space) + "/") && !one.second.foreign;
  }));
}

}  // namespace partita::dra
