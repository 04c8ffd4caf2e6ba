#include "plan/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/unicode.h"

namespace partita::plan {
namespace {

// Levenshtein distance.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, replaced});
    }
  }
  return row.back();
}

// How far a mistyped key is from a known one; a known key that was only written in part is near.
std::size_t distance(std::string_view key, std::string_view known) {
  const bool part = key.size() >= 3 && known.find(key) != known.npos;
  return part ? 1 : edits(key, known);
}

// "; did you mean 'rate_rps'?" when a known key is near enough, else all of them.
std::string hint(std::string_view key, std::initializer_list<std::string_view> known) {
  const std::string_view nearest =
      *std::min_element(known.begin(), known.end(), [&](std::string_view a, std::string_view b) {
        return std::pair(distance(key, a), a) < std::pair(distance(key, b), b);
      });
  if (distance(key, nearest) <= nearest.size() / 3 + 1)
    return fmt::format("; did you mean '{}'?", nearest);
  return fmt::format("; known keys: {}", fmt::join(known, ", "));
}

}  // namespace

Fields::Fields(const Document& document, const Node& object)
    : document_(document), object_(object) {
  if (object.kind != Node::Kind::object) refuse(object, "an object with named values is needed");
}

void Fields::refuse(const Node& at, std::string message) {
  if (!error_) error_ = Error{ErrorCode::bad_input, std::move(message), document_.at(at)};
}

void Fields::refuse(const std::optional<Error>& error) {
  if (!error_) error_ = error;
}

template <class T>
T Fields::take(Result<T> value) {
  if (value) return *std::move(value);
  refuse(value.error());
  return T{};
}

void Fields::check(std::string_view key, double value, Range range) {
  if (error_) return;
  const auto demand = [&](std::string_view relation, double bound) {
    refuse(*object_.find(key),
           fmt::format("'{}' is {}, must be {} {:g}", key, value, relation, bound));
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
  return take(string_member(document_, object_, key));
}

std::string Fields::name(std::string_view key) {
  std::string value = text(key);
  if (error_) return value;
  if (const std::string fault = name_fault(value); !fault.empty())
    refuse(*object_.find(key), fmt::format("'{}' {}", key, fault));
  return value;
}

std::string Fields::name_of(const Node& node, std::string_view what) {
  const bool spelled = node.kind == Node::Kind::number && !node.text.empty();
  if (node.kind != Node::Kind::string && !spelled) {
    refuse(node, fmt::format("{} must be a text", what));
  } else if (const std::string fault = name_fault(node.text); !fault.empty()) {
    refuse(node, fmt::format("{} {}", what, fault));
  }
  return node.text;
}

const std::vector<Node>& Fields::list(std::string_view key, std::size_t max_items) {
  static const std::vector<Node> kNone;
  const Node* node = take(list_member(document_, object_, key));
  if (node && node->items.size() > max_items)
    refuse(*node, fmt::format("'{}' has {} items, at most {} are allowed", key, node->items.size(),
                              max_items));
  return error_ ? kNone : node->items;
}

const Node& Fields::object(std::string_view key) {
  const Node* node = object_.find(key);
  if (!node) {
    refuse(object_, fmt::format("'{}' is missing", key));
  } else if (node->kind != Node::Kind::object) {
    refuse(*node, fmt::format("'{}' must be an object", key));
  }
  return node ? *node : object_;
}

void Fields::only(std::initializer_list<std::string_view> keys) {
  for (const auto& [key, node] : object_.members) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      refuse(node, fmt::format("unknown key '{}'{}", utf8(printable(key.substr(0, 64))),
                               hint(key.substr(0, 64), keys)));
  }
}

void Fields::exactly(std::string_view key, std::string_view value) {
  const std::string found = text(key);
  if (!error_ && found != value)
    refuse(*object_.find(key), fmt::format("'{}' is '{}', must be '{}'", key,
                                           utf8(printable(found.substr(0, 64))), value));
}

}  // namespace partita::plan
