// Writes JSON piece by piece, in the order and line breaks of its caller. Used by the forms of
// every module. Limit: punctuation is the caller's; nothing checks that the result is JSON.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace partita {

class JsonWriter {
 public:
  JsonWriter& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  // JSON is UTF-8: a byte of `value` that is not becomes U+FFFD.
  JsonWriter& string(std::string_view value);
  // The shortest digits that read back as the same double; JSON has no word for infinity.
  JsonWriter& number(double value);
  JsonWriter& number(long value);
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  // Items one to a line, separated by commas.
  template <class Items, class Write>
  JsonWriter& list(const Items& items, std::string_view indent, Write write) {
    text_ += '[';
    bool first = true;
    for (const auto& item : items) {
      raw(first ? "\n" : ",\n").raw(indent);
      write(item);
      first = false;
    }
    text_ += ']';
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace partita
