// source_text: a file of the checkout, for tests and benchmarks alone: the build gives only them
// PARTITA_SOURCE_DIR.
#pragma once

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

}  // namespace partita
