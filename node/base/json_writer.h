// Writes JSON piece by piece, in the order and line breaks of its caller, which is base/form.h.
// Limit: punctuation is the caller's; nothing checks that the result is JSON.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace partita {

class Node;

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
  // The value without blanks.
  JsonWriter& value(const Node& node);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace partita
