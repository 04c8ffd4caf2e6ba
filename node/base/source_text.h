// source_text: a file of the checkout, for tests and benchmarks alone: the build gives only them
// PARTITA_SOURCE_DIR.
#pragma once

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/files.h"

// Where tests and benchmarks run: the source folder.
#ifndef PARTITA_SOURCE_DIR
#define PARTITA_SOURCE_DIR "."
#endif

namespace partita {

// The whole file, by its path from the top of the checkout; it must be there.
inline std::string source_text(const std::string& path) {
  const auto text = RealFiles().read(std::string(PARTITA_SOURCE_DIR) + "/" + path);
  CHECK(text.has_value());
  return *text;
}

// A settings file with what it shows as examples switched on: "#key: value" and "#  - item" are,
// and "# Prose" is not.
inline std::string with_examples(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    const std::size_t mark = line.find_first_not_of(' ');
    const auto follows = [&](std::size_t by) { return line.substr(mark + by, 1) == " "; };
    if (mark != line.npos && line[mark] == '#' && follows(1) == follows(2)) line.erase(mark, 1);
    out += line + "\n";
    at = end + 1;
  }
  return out;
}

}  // namespace partita
