// Fields: reads the members of one object of a Document. The first refusal sticks, later reads
// return zero values, so a reader is a straight list of reads with one check of error() at its end.
// Internal to the readers.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"

namespace partita::plan {

// The largest rate, duration or count that a file may hold: sums of a million of them stay exact
// enough and finite.
inline constexpr double kMaxQuantity = 1e12;

struct Range {
  double low = 0;
  double high = kMaxQuantity;
  bool above = false;  // low itself is refused
  bool below = false;  // high itself is refused
};
inline constexpr Range kNotNegative{};
inline constexpr Range kPositive{.above = true};

class Fields {
 public:
  Fields(const Document& document, const Node& object);

  bool has(std::string_view key) const { return object_.find(key) != nullptr; }
  // Required members. Missing, of another kind or out of range: refused.
  double number(std::string_view key, Range range);
  int integer(std::string_view key, Range range);
  bool boolean(std::string_view key);
  std::string text(std::string_view key);
  std::string name(std::string_view key);  // text that is a name, see unicode.h
  const std::vector<Node>& list(std::string_view key, std::size_t max_items);
  const Node& object(std::string_view key);

  // Refuses members other than `keys`, with the nearest of them as a hint.
  void only(std::initializer_list<std::string_view> keys);
  // A member that must hold `value`.
  void exactly(std::string_view key, std::string_view value);
  // A list item that must be a name.
  std::string name_of(const Node& node, std::string_view what);

  void refuse(const Node& at, std::string message);
  // Takes over the refusal of a nested reader.
  void refuse(const std::optional<Error>& error);
  const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  T take(Result<T> value);
  void check(std::string_view key, double value, Range range);

  const Document& document_;
  const Node& object_;
  std::optional<Error> error_;
};

}  // namespace partita::plan
