// SHA-256 (FIPS 180-4). Names images; not built to be fast (about 300 MB/s).
#pragma once

#include <array>

#include "image/reading.h"

namespace partita::remote::image {

std::array<std::byte, 32> sha256(Blob bytes);

}  // namespace partita::remote::image
