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

class Patch {
 public:
  std::optional<std::string> of(const Node& before, const Node& after) {
    change(before, after);
    if (null_) return {};
    return out_.take();
  }

 private:
  void key(std::string_view name, bool& first) {
    if (!first) out_.raw(",");
    first = false;
    out_.string(name).raw(":");
  }

  void whole(const Node& node) {
    switch (node.kind) {
      case NodeKind::null:
        null_ = true;
        return;
      case NodeKind::boolean:
        out_.boolean(node.boolean);
        return;
      case NodeKind::number:
        out_.number(node.number);
        return;
      case NodeKind::string:
        out_.string(node.text);
        return;
      case NodeKind::list:
        out_.raw("[");
        for (bool first = true; const Node& item : node.items) {
          if (!first) out_.raw(",");
          first = false;
          whole(item);
        }
        out_.raw("]");
        return;
      case NodeKind::object:
        out_.raw("{");
        for (bool first = true; const Node::Member& member : node.members) {
          key(member.key, first);
          whole(member.value);
        }
        out_.raw("}");
        return;
    }
  }

  void change(const Node& before, const Node& after) {
    if (before.kind == NodeKind::list && after.kind == NodeKind::object)
      null_ = true;  // reads as a patch
    if (before.kind != after.kind) return whole(after);
    if (after.kind == NodeKind::object) return change_members(before, after);
    if (after.kind == NodeKind::list) return change_items(before, after);
    whole(after);
  }

  void change_members(const Node& before, const Node& after) {
    bool first = true;
    out_.raw("{");
    for (const Node::Member& member : after.members) {
      const Node* was = before.find(member.key);
      if (was != nullptr && same(*was, member.value)) continue;
      key(member.key, first);
      was == nullptr ? whole(member.value) : change(*was, member.value);
    }
    for (const Node::Member& member : before.members) {
      if (after.find(member.key) != nullptr) continue;
      key(member.key, first);
      out_.raw("null");
    }
    out_.raw("}");
  }

  void change_items(const Node& before, const Node& after) {
    bool first = true;
    out_.raw("{");
    for (std::size_t i = 0; i < after.items.size(); ++i) {
      const bool is_new = i >= before.items.size();
      if (!is_new && same(before.items[i], after.items[i])) continue;
      key(std::to_string(i), first);
      is_new ? whole(after.items[i]) : change(before.items[i], after.items[i]);
    }
    if (before.items.size() != after.items.size()) {
      key("length", first);
      out_.number(static_cast<long>(after.items.size()));
    }
    out_.raw("}");
  }

  JsonWriter out_;
  bool null_ = false;
};

}  // namespace

std::optional<std::string> changes_between(const Node& before, const Node& after) {
  return Patch().of(before, after);
}

}  // namespace partita::api
