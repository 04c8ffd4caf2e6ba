#include "base/json_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/unicode.h"

namespace partita {

JsonWriter& JsonWriter::string(std::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    const Decoded next = decode(value);
    if (!next.valid()) {
      text_ += "\xEF\xBF\xBD";
    } else if (next.c < 0x20 || next.c == 0x7F) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(next.c));
    } else {
      if (next.c == '"' || next.c == '\\') text_ += '\\';
      text_ += value.substr(0, next.bytes);
    }
    value.remove_prefix(next.bytes);
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  return std::isfinite(value) ? raw(fmt::to_string(value)) : raw("null");
}

JsonWriter& JsonWriter::number(long value) { return raw(fmt::to_string(value)); }

}  // namespace partita
