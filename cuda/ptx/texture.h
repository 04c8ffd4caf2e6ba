// What the handle of a texture or surface points to: a description in the device's memory, which
// whoever makes the object writes there; so may kernels: nothing in it is believed. The texels are
// memory like any other.
#pragma once

#include <cstdint>

namespace partita::ptx {

enum class TexelKind : std::uint8_t { signed_integer, unsigned_integer, floating };
enum class BeyondEdge : std::uint8_t { wrap, clamp, mirror, border };  // cudaTextureAddressMode

struct alignas(128) Texture {
  static constexpr std::uint64_t kMagic = 0x7478'6574'6172'7470;
  std::uint64_t magic = kMagic;
  std::uint64_t begin = 0;  // address of the first texel
  std::uint64_t row_pitch = 0,
                slice_pitch = 0;  // bytes from row to row, slice or layer to the next
  // Texels; 0: it has no such direction. A texture of layers has them, one of cubes 6 for each.
  std::uint32_t width = 0, height = 0, depth = 0, layers = 0;
  TexelKind kind = TexelKind::unsigned_integer;
  std::uint8_t channels = 1, channel_bytes = 1;
  std::uint8_t linear = 0;       // filtered; else the nearest texel
  std::uint8_t normalized = 0;   // coordinates are 0 to 1 over the width
  std::uint8_t as_fraction = 0;  // integers are read as 0 to 1, or -1 to 1
  BeyondEdge beyond[3] = {BeyondEdge::clamp, BeyondEdge::clamp, BeyondEdge::clamp};
  std::uint8_t is_line = 0;  // plain memory: beyond its end are zeros
  float border[4] = {};
  bool operator==(const Texture&) const = default;
};

}  // namespace partita::ptx
