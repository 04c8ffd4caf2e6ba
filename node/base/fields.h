// Fields: reads the members of one object of a Document. The first refusal sticks, later reads
// return zero values, so a reader is a straight list of reads with one check of error() at its end.
// The Fields of a nested object share the refusal of their parent and must not outlive it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"

namespace partita {

// The largest rate, duration or count that a file may hold: sums of a million of them stay exact
// enough and finite.
inline constexpr double kMaxQuantity = 1e12;
inline constexpr std::size_t kMaxItems = 1'000'000;

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
  explicit Fields(const Document& document) : Fields(document, document.root, own_) {}
  // An object inside the one that `parent` reads.
  Fields(Fields& parent, const Node& object) : Fields(parent.document_, object, parent.error_) {}
  Fields(const Fields&) = delete;

  const Node& node() const { return object_; }
  bool has(std::string_view key) const { return object_.find(key) != nullptr; }
  bool known(std::string_view key) const;  // has it, and it is not null

  // Required members. Missing, of another kind or out of range: refused.
  double number(std::string_view key, Range range);
  int integer(std::string_view key, Range range);
  long whole(std::string_view key, Range range);  // an integer that an int may not hold
  bool boolean(std::string_view key);
  std::string text(std::string_view key);  // not empty
  std::string note(std::string_view key);  // text, or empty
  std::string name(std::string_view key);  // text that is a name, see unicode.h
  std::vector<std::string> texts(std::string_view key);
  const std::vector<Node>& list(std::string_view key, std::size_t max_items = kMaxItems);
  Fields object(std::string_view key);

  // Refuses members other than `keys`, with the nearest of them as a hint.
  void only(const std::vector<std::string_view>& keys);
  // A member that must hold `value`.
  void exactly(std::string_view key, std::string_view value);
  // A list item that must be a name.
  std::string name_of(const Node& item, std::string_view what);

  void refuse(const Node& at, std::string message);
  // At the member, or at the object when it has none of this name.
  void refuse(std::string_view key, std::string message);
  const std::optional<Error>& error() const { return error_; }

 private:
  Fields(const Document& document, const Node& object, std::optional<Error>& error);
  template <class T>
  T take(Result<T> value);
  void check(std::string_view key, double value, Range range);

  const Document& document_;
  const Node& object_;
  std::optional<Error> own_;
  std::optional<Error>& error_;  // own_, or that of the outermost object
};

}  // namespace partita
