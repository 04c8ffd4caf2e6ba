// Pieces of YAML as the forms of other tools need them. A double-quoted YAML scalar is written like
// a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "base/unicode.h"

namespace partita::interop {

inline std::string quoted(std::string_view text) { return JsonWriter().string(text).take(); }

// A comment cannot hold what would end it or hide the rest.
inline std::string comment(std::string_view text) { return utf8(printable(text)); }

// A name of the catalogue as Kubernetes wants names.
inline std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

}  // namespace partita::interop
