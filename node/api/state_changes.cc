#include "api/state_changes.h"

#include <algorithm>

#include "base/json_writer.h"

namespace partita::api {
namespace {

using NodeKind = Node::Kind;

bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case NodeKind::null:
      return true;
    case NodeKind::boolean:
      return a.boolean == b.boolean;
    case NodeKind::number:
      return a.number == b.number;
    case NodeKind::string:
      return a.text == b.text;
    case NodeKind::list:
      return std::ranges::equal(a.items, b.items, same);
    case NodeKind::object:
      return std::ranges::equal(a.members, b.members,
                                [](const Node::Member& one, const Node::Member& other) {
                                  return one.key == other.key && same(one.value, other.value);
                                });
  }
  return false;
}

bool has_null(const Node& node) {
  return node.kind == NodeKind::null || std::ranges::any_of(node.items, has_null) ||
         std::ranges::any_of(node.members, has_null, &Node::Member::value);
}

// None where a patch cannot say it.
std::optional<Node> patch_of(const Node& before, const Node& after) {
  if (before.kind == NodeKind::list && after.kind == NodeKind::object) return {};  // reads as one
  const bool list = after.kind == NodeKind::list;
  if (before.kind != after.kind || (!list && after.kind != NodeKind::object))
    return has_null(after) ? std::nullopt : std::optional(after);
  Node patch;
  patch.kind = NodeKind::object;
  const auto add = [&](std::string key, const Node* was, const Node& is) {
    if (was != nullptr && same(*was, is)) return true;
    std::optional<Node> change = patch_of(was != nullptr ? *was : Node(), is);
    if (change) patch.members.push_back({std::move(key), *std::move(change)});
    return change.has_value();
  };
  for (const Node::Member& member : after.members)
    if (!add(member.key, before.find(member.key), member.value)) return {};
  for (const Node::Member& member : before.members)
    if (after.find(member.key) == nullptr) patch.members.push_back({member.key, Node()});
  for (std::size_t i = 0; i < after.items.size(); ++i)
    if (!add(std::to_string(i), i < before.items.size() ? &before.items[i] : nullptr,
             after.items[i]))
      return {};
  if (before.items.size() == after.items.size()) return patch;
  Node length;
  length.kind = NodeKind::number;
  length.number = static_cast<double>(after.items.size());
  patch.members.push_back({"length", length});
  return patch;
}

}  // namespace

std::optional<std::string> changes_between(const Node& before, const Node& after) {
  const std::optional<Node> patch = patch_of(before, after);
  return patch ? std::optional(JsonWriter().value(*patch).take()) : std::nullopt;
}

}  // namespace partita::api
