#include "base/document.h"

#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita {
namespace {

// Builds the tree from a stream of events; both parsers feed it. The first refusal sticks.
class TreeBuilder {
 public:
  bool scalar(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return true;
    }
    Open& open = stack_.back();
    Node& parent = open.node;
    if (parent.kind == Node::Kind::list) {
      parent.items.push_back(std::move(node));
      return true;
    }
    if (!open.has_key) return refuse(node.line, "a key must be a string");
    open.has_key = false;
    // The YAML parser gives an empty value the place of the token behind it.
    if (node.kind == Node::Kind::null) node.line = open.key_line;
    parent.members.push_back({std::move(open.key), std::move(node)});
    return true;
  }

  // A key is either announced (JSON) or the next scalar of an object (YAML).
  bool key(std::string text, int line) {
    Open& open = stack_.back();
    if (!open.keys.insert(text).second)
      return refuse(line, fmt::format("duplicate key '{}'", text));
    open.key = std::move(text);
    open.key_line = line;
    open.has_key = true;
    return true;
  }
  bool wants_key() const {
    return !stack_.empty() && stack_.back().node.kind == Node::Kind::object &&
           !stack_.back().has_key;
  }

  bool open(Node::Kind kind, int line) {
    if (stack_.size() >= kMaxDocumentDepth)
      return refuse(line, fmt::format("nested deeper than {} levels", kMaxDocumentDepth));
    if (wants_key()) return refuse(line, "a key must be a string");
    Node node;
    node.kind = kind;
    node.line = line;
    stack_.push_back({.node = std::move(node)});
    return true;
  }
  bool close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    return scalar(std::move(node));
  }

  bool refuse(int line, std::string message) {
    if (refusal_.empty()) {
      refusal_ = std::move(message);
      refusal_line_ = line;
    }
    return false;
  }

  Result<Document> finish(const std::string& file) {
    if (!refusal_.empty())
      return bad_input(fmt::format("{}:{}", file, refusal_line_), std::move(refusal_));
    return Document{file, std::move(root_)};
  }

 private:
  struct Open {
    Node node;
    std::string key = {};
    int key_line = 0;
    bool has_key = false;
    std::set<std::string> keys = {};
  };
  Node root_;
  std::vector<Open> stack_;
  std::string refusal_;
  int refusal_line_ = 0;
};

// Walks over the text and counts lines, so that a SAX event knows where it is.
struct Cursor {
  const char* at;
  int line = 1;
  char last = 0;
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Cursor* cursor) : at_(at), cursor_(cursor) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    cursor_->last = *at_;
    cursor_->line += *at_ == '\n';
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Cursor* cursor_;
};

Node make_number(double value, int line) {
  Node node;
  node.kind = Node::Kind::number;
  node.number = value;
  node.line = line;
  return node;
}

class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonHandler(TreeBuilder& builder, const Cursor& cursor) : builder_(builder), cursor_(cursor) {}

  bool null() override { return builder_.scalar(with_kind(Node::Kind::null)); }
  bool boolean(bool value) override {
    Node node = with_kind(Node::Kind::boolean);
    node.boolean = value;
    return builder_.scalar(std::move(node));
  }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    Node node = with_kind(Node::Kind::string);
    node.text = std::move(value);
    return builder_.scalar(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return builder_.open(Node::Kind::object, line()); }
  bool key(string_t& value) override { return builder_.key(std::move(value), line()); }
  bool end_object() override { return builder_.close(); }
  bool start_array(std::size_t) override { return builder_.open(Node::Kind::list, line()); }
  bool end_array() override { return builder_.close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    std::string_view what = e.what();
    // "[json.exception...] parse error at line 3, column 7: reason"
    const auto reason = what.find(": ");
    const auto at = what.find("at line ");
    int where = where_number_ended();  // what no line is told of is a number out of range
    if (at != std::string_view::npos)
      std::from_chars(what.data() + at + 8, what.data() + what.size(), where);
    if (reason != std::string_view::npos) what.remove_prefix(reason + 2);
    return builder_.refuse(where, "not valid JSON: " + std::string(what));
  }

 private:
  int line() const { return cursor_.line; }
  // A number ends where the character after it is seen: that may be the line break.
  int where_number_ended() const { return line() - (cursor_.last == '\n'); }
  bool number(double value) {
    const int where = where_number_ended();
    if (!std::isfinite(value)) return builder_.refuse(where, "number out of range");
    return builder_.scalar(make_number(value, where));
  }
  Node with_kind(Node::Kind kind) const {
    Node node;
    node.kind = kind;
    node.line = line();
    return node;
  }

  TreeBuilder& builder_;
  const Cursor& cursor_;
};

Result<Document> parse_json(const std::string& file, std::string_view text) {
  TreeBuilder builder;
  Cursor cursor{text.data()};
  JsonHandler handler(builder, cursor);
  const CountingIterator begin(text.data(), &cursor);
  const CountingIterator end(text.data() + text.size(), &cursor);
  static_cast<void>(nlohmann::json::sax_parse(begin, end, &handler));  // the builder knows
  return builder.finish(file);
}

// The type of a plain (unquoted) YAML scalar.
Node plain_scalar(const std::string& text, int line) {
  Node node;
  node.line = line;
  node.text = text;
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return node;
  node.kind = Node::Kind::boolean;
  if (text == "true" || text == "True" || text == "TRUE") {
    node.boolean = true;
    return node;
  }
  if (text == "false" || text == "False" || text == "FALSE") return node;
  node.kind = Node::Kind::string;
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::optional<double> value = parse_number<double>(digits);
  if (value && std::isfinite(*value)) {
    node.kind = Node::Kind::number;
    node.number = *value;
  }
  return node;
}

class YamlStop : public std::exception {};

class YamlHandler : public YAML::EventHandler {
 public:
  explicit YamlHandler(TreeBuilder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    no_anchor(mark, anchor);
    keep(take(Node{}, mark));
  }
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}  // its anchor was refused before
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    no_anchor(mark, anchor);
    const int line = mark.line + 1;
    if (builder_.wants_key()) return keep(builder_.key(value, line));
    if (tag == "?") return keep(builder_.scalar(plain_scalar(value, line)));
    Node node;
    node.kind = Node::Kind::string;
    node.text = value;
    keep(take(std::move(node), mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    no_anchor(mark, anchor);
    keep(builder_.open(Node::Kind::list, mark.line + 1));
  }
  void OnSequenceEnd() override { keep(builder_.close()); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    no_anchor(mark, anchor);
    keep(builder_.open(Node::Kind::object, mark.line + 1));
  }
  void OnMapEnd() override { keep(builder_.close()); }

 private:
  bool take(Node node, const YAML::Mark& mark) {
    node.line = mark.line + 1;
    if (builder_.wants_key()) return builder_.refuse(node.line, "a key must be a string");
    return builder_.scalar(std::move(node));
  }
  void no_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor)
      keep(builder_.refuse(mark.line + 1, "anchors are not supported"));
  }
  static void keep(bool ok) {
    if (!ok) throw YamlStop();
  }
  TreeBuilder& builder_;
};

Result<Document> parse_yaml(const std::string& file, std::string_view text) {
  TreeBuilder builder;
  YamlHandler handler(builder);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(handler)) return bad_input(file + ":1", "the file is empty");
    struct Refuse : YamlHandler {
      using YamlHandler::YamlHandler;
      void OnDocumentStart(const YAML::Mark&) override { throw YamlStop(); }
    } second(builder);
    try {
      parser.HandleNextDocument(second);
    } catch (const YamlStop&) {
      builder.refuse(1, "more than one YAML document");
    }
  } catch (const YamlStop&) {
  } catch (const YAML::Exception& e) {
    builder.refuse(std::max(1, e.mark.line + 1), "not valid YAML: " + e.msg);
  }
  return builder.finish(file);
}

}  // namespace

Result<void> check_text(const std::string& file, std::string_view text) {
  int line = 1;
  bool blank = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const Decoded next = decode(text.substr(i));
    const bool control =
        static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r';
    if (!next.valid() || control || c == 0x7f)
      return bad_input(fmt::format("{}:{}", file, line),
                       !next.valid() ? "not text: invalid UTF-8" : "not text: a control character");
    line += c == '\n';
    blank = blank && (c == ' ' || c == '\n' || c == '\t' || c == '\r');
    i += next.bytes;
  }
  if (blank) return bad_input(file + ":1", "the file is empty");
  return {};
}

Result<Document> parse_document(const std::string& file, std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  TRY(check_text(file, text));
  const char first = text[text.find_first_not_of(" \t\r\n")];
  return first == '{' || first == '[' || file.ends_with(".json") ? parse_json(file, text)
                                                                 : parse_yaml(file, text);
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, node] : members)
    if (name == key) return &node;
  return nullptr;
}

std::string Document::at(const Node& node) const { return fmt::format("{}:{}", file, node.line); }

namespace {

Result<const Node*> member(const Document& document, const Node& object, std::string_view key) {
  if (object.kind != Node::Kind::object)
    return bad_input(document.at(object), fmt::format("must be an object with '{}'", key));
  const Node* node = object.find(key);
  if (!node) return bad_input(document.at(object), fmt::format("'{}' is missing", key));
  return node;
}

}  // namespace

Result<double> number_member(const Document& document, const Node& object, std::string_view key) {
  const auto node = TRY(member(document, object, key));
  if (node->kind != Node::Kind::number)
    return bad_input(document.at(*node), fmt::format("'{}' must be a finite number", key));
  return node->number;
}

Result<std::string> string_member(const Document& document, const Node& object,
                                  std::string_view key) {
  const auto node = TRY(member(document, object, key));
  // An unquoted YAML scalar that looks like a number (a service named 7) is text where text is
  // asked for.
  const bool spelled = node->kind == Node::Kind::number && !node->text.empty();
  if (node->kind != Node::Kind::string && !spelled)
    return bad_input(document.at(*node), fmt::format("'{}' must be a text", key));
  return node->text;
}

Result<int> integer_member(const Document& document, const Node& object, std::string_view key) {
  const auto value = TRY(number_member(document, object, key));
  constexpr double kLimit = std::numeric_limits<int>::max();
  if (value != std::floor(value) || std::abs(value) > kLimit)
    return bad_input(document.at(*object.find(key)),
                     fmt::format("'{}' must be a whole number", key));
  return static_cast<int>(value);
}

Result<const Node*> list_member(const Document& document, const Node& object,
                                std::string_view key) {
  const auto node = TRY(member(document, object, key));
  if (node->kind != Node::Kind::list)
    return bad_input(document.at(*node), fmt::format("'{}' must be a list", key));
  return node;
}

}  // namespace partita
