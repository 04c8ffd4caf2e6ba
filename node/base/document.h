// Document: a JSON or YAML text as a tree in which every value knows its line, so that readers can
// refuse bad input with FILE:LINE. Both formats give the same tree. Limits: kMaxDocumentDepth
// levels. Example:  auto doc = parse_document("services.yaml", text);  auto rate =
// doc->root.number("rate_rps");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita {

inline constexpr int kMaxDocumentDepth = 64;

class Node {
 public:
  enum class Kind { null, boolean, number, string, list, object };
  struct Member;

  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;            // Kind::number; never NaN or infinite
  std::string text;             // Kind::string, and the spelling of a YAML scalar
  std::vector<Node> items;      // Kind::list
  std::vector<Member> members;  // Kind::object, in file order, keys unique
  int line = 0;                 // 1-based

  // The member named `key`, or null when this is no object or has none.
  const Node* find(std::string_view key) const;
};

struct Node::Member {
  std::string key;
  Node value;
};

struct Document {
  std::string file;  // for messages
  Node root;

  // "FILE:LINE" of a node.
  std::string at(const Node& node) const;
};

// Parses JSON (.json, or text that starts with '{' or '[') or YAML (everything else). Duplicate
// keys, NaN, infinities, invalid UTF-8, control bytes, empty text and too deep nesting are bad
// input with their line.
Result<Document> parse_document(const std::string& file, std::string_view text);

// Text check alone, for readers of other formats: refuses invalid UTF-8, control bytes and blank
// text with FILE:LINE.
Result<void> check_text(const std::string& file, std::string_view text);

// Typed member access. Missing or of another kind: bad_input with FILE:LINE and the key's name.
Result<double> number_member(const Document&, const Node& object, std::string_view key);
Result<std::string> string_member(const Document&, const Node& object, std::string_view key);
Result<int> integer_member(const Document&, const Node& object, std::string_view key);
Result<const Node*> list_member(const Document&, const Node& object, std::string_view key);

}  // namespace partita
