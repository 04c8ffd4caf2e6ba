// The tables of data/published as tests and benchmarks want them; they alone include this.
#pragma once

#include <string>

#include "base/check.h"
#include "base/source_text.h"
#include "profile/readers.h"

namespace partita::profile {

// The eleven models measured on an A100-80GB that ParvaGPU published, read once.
inline const ProfileTable& published_profiles() {
  static const ProfileTable table = [] {
    const std::string file = "data/published/parvagpu/a100-80gb.csv";
    const Result<ProfileTable> read = parse_native_csv(file, source_text(file));
    CHECK(read.has_value());
    return *read;
  }();
  return table;
}

}  // namespace partita::profile
