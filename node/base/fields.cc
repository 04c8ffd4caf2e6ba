#include "base/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/append.h"
#include "base/nearest.h"
#include "base/unicode.h"

namespace partita {
namespace {

// An unquoted YAML scalar that looks like a number is text where text is asked for.
bool is_text(const Node& node) {
  return node.kind == Node::Kind::string || (node.kind == Node::Kind::number && !node.text.empty());
}

// A word of the file, safe to print.
std::string quoted_word(std::string_view word) {
  return fmt::format("'{}'", utf8(printable(word.substr(0, kMaxWordBytes))));
}

}  // namespace

Fields::Fields(const Document& document, const Node& object, std::optional<Error>& error)
    : document_(document), object_(object), error_(error) {
  if (object.kind != Node::Kind::object) refuse(object, "must be an object with named values");
}

bool Fields::known(std::string_view key) const {
  const Node* node = object_.find(key);
  return node && node->kind != Node::Kind::null;
}

void Fields::refuse(const Node& at, std::string message) {
  if (!error_) error_ = Error{ErrorCode::bad_input, std::move(message), document_.at(at)};
}

void Fields::refuse(std::string_view key, std::string message) {
  const Node* node = object_.find(key);
  refuse(node ? *node : object_, std::move(message));
}

template <class T>
T Fields::take(Result<T> value) {
  if (value) return *std::move(value);
  if (!error_) error_ = value.error();
  return T{};
}

void Fields::check(std::string_view key, double value, Range range) {
  if (error_) return;
  const auto demand = [&](std::string_view relation, double bound) {
    refuse(key, fmt::format("'{}' is {}, must be {} {:g}", key, value, relation, bound));
  };
  if (range.above ? value <= range.low : value < range.low)
    demand(range.above ? "above" : "at least", range.low);
  if (range.below ? value >= range.high : value > range.high)
    demand(range.below ? "below" : "at most", range.high);
}

double Fields::number(std::string_view key, Range range) {
  const double value = take(number_member(document_, object_, key));
  check(key, value, range);
  return value;
}

int Fields::integer(std::string_view key, Range range) {
  const int value = take(integer_member(document_, object_, key));
  check(key, value, range);
  return value;
}

long Fields::whole(std::string_view key, Range range) {
  const double value = number(key, range);
  if (!error_ && value != std::floor(value))
    refuse(key, fmt::format("'{}' must be a whole number", key));
  return error_ ? 0 : static_cast<long>(value);
}

bool Fields::boolean(std::string_view key) {
  const Node* node = object_.find(key);
  if (!node) {
    refuse(object_, fmt::format("'{}' is missing", key));
  } else if (node->kind != Node::Kind::boolean) {
    refuse(*node, fmt::format("'{}' must be true or false", key));
  }
  return node && node->boolean;
}

std::string Fields::text(std::string_view key) {
  std::string value = take(string_member(document_, object_, key));
  if (value.empty()) refuse(key, fmt::format("'{}' is empty", key));
  return value;
}

std::string Fields::note(std::string_view key) {
  return take(string_member(document_, object_, key));
}

std::string Fields::name(std::string_view key) {
  std::string value = take(string_member(document_, object_, key));
  if (const std::string fault = name_fault(value); !fault.empty())
    refuse(key, fmt::format("'{}' {}", key, fault));
  return value;
}

std::string Fields::name_of(const Node& item, std::string_view what) {
  if (!is_text(item)) {
    refuse(item, fmt::format("{} must be a text", what));
  } else if (const std::string fault = name_fault(item.text); !fault.empty()) {
    refuse(item, fmt::format("{} {}", what, fault));
  }
  return item.text;
}

std::vector<std::string> Fields::texts(std::string_view key) {
  std::vector<std::string> values;
  for (const Node& item : list(key)) {
    if (!is_text(item) || item.text.empty()) refuse(item, fmt::format("'{}' must list texts", key));
    values.push_back(item.text);
  }
  return values;
}

const std::vector<Node>& Fields::list(std::string_view key, std::size_t max_items) {
  static const std::vector<Node> kNone;
  const Node* node = take(list_member(document_, object_, key));
  if (node && node->items.size() > max_items)
    refuse(*node, fmt::format("'{}' has {} items, at most {} are allowed", key, node->items.size(),
                              max_items));
  return error_ ? kNone : node->items;
}

Fields Fields::object(std::string_view key) {
  const Node* node = object_.find(key);
  if (!node) {
    refuse(object_, fmt::format("'{}' is missing", key));
  } else if (node->kind != Node::Kind::object) {
    refuse(*node, fmt::format("'{}' must be an object", key));
  }
  return Fields(*this, node ? *node : object_);
}

void Fields::only(const std::vector<std::string_view>& keys) {
  for (const auto& [key, node] : object_.members) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::string hint = did_you_mean(key, {keys.begin(), keys.end()});
    refuse(node, fmt::format(
                     "unknown key {}{}", quoted_word(key),
                     hint.empty() ? fmt::format("; known keys: {}", joined(keys, ", ")) : hint));
  }
}

void Fields::exactly(std::string_view key, std::string_view value) {
  const std::string found = text(key);
  if (found != value)
    refuse(key, fmt::format("'{}' is {}, must be '{}'", key, quoted_word(found), value));
}

}  // namespace partita
