// Sections of 64-bit little-endian ELF files: cubins and executables.
#pragma once

#include <vector>

#include "base/result.h"
#include "image/reading.h"

namespace partita::remote::image {

struct Section {
  std::string_view name;
  std::uint32_t type = 0, link = 0, info = 0;
  std::uint64_t address = 0;
  Blob bytes;  // empty for those without bytes in the file
};

// Sections whose bytes lie inside; bad_input for what is no such file.
Result<std::vector<Section>> sections_of(Blob elf);

const Section* find_section_type(std::span<const Section> sections, std::uint32_t type);

}  // namespace partita::remote::image
