// Where a kernel's parameters lie in its parameter block, and how many threads a block of it may
// have: from a cubin's `.nv.info.KERNEL` sections, or from the heads of entries in PTX text. The
// text is only scanned for its entries; who runs it reads it properly and compares.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/reading.h"

namespace partita::remote::image {

struct Place {
  std::uint32_t offset = 0, size = 0;
  bool operator==(const Place&) const = default;
};

struct Layout {
  std::vector<Place> parameters;
  std::uint32_t bytes = 0;    // of the whole block
  std::uint32_t threads = 0;  // the most of a block that it was compiled for; 0: not said
  bool operator==(const Layout&) const = default;
};

inline constexpr std::uint32_t kMaxParameterBytes = 32 * 1024;
inline constexpr std::size_t kMaxParameters = 8192;

// By kernel name.
using Layouts = std::map<std::string, Layout, std::less<>>;

Result<Layouts> cubin_layouts(Blob elf);
Result<Layouts> ptx_layouts(std::string_view text);

}  // namespace partita::remote::image
