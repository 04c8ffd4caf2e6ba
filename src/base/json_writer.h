// Writes JSON piece by piece, in the order and line breaks of its caller. Used by the forms of
// every module. Limit: punctuation is the caller's; nothing checks that the result is JSON.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/unicode.h"

namespace partita {

class JsonWriter {
 public:
  JsonWriter& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  // JSON is UTF-8: a byte of `value` that is not becomes U+FFFD.
  JsonWriter& string(std::string_view value) {
    text_ += '"';
    while (!value.empty()) {
      const Decoded next = decode(value);
      if (!next.valid()) {
        text_ += "\xEF\xBF\xBD";
      } else if (next.c < 0x20 || next.c == 0x7F) {
        fmt::format_to(std::back_inserter(text_), "\\u{:04x}", static_cast<unsigned>(next.c));
      } else {
        if (next.c == '"' || next.c == '\\') text_ += '\\';
        text_ += value.substr(0, next.bytes);
      }
      value.remove_prefix(next.bytes);
    }
    text_ += '"';
    return *this;
  }
  // The shortest digits that read back as the same double; JSON has no word for infinity.
  JsonWriter& number(double value) {
    if (!std::isfinite(value)) return raw("null");
    fmt::format_to(std::back_inserter(text_), "{}", value);
    return *this;
  }
  JsonWriter& number(long value) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
    return *this;
  }
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
