// Arrays and textures, for copies and for the driver's interface.
#pragma once

#include "abi.h"

namespace partita::remote::shim {

enum ResourceKind : int { kArray, kMipmapped, kLinear, kPitched };

struct Resource {  // cudaResourceDesc
  int kind;
  union {
    void* array;
    struct {
      void* at;
      ChannelDesc channels;
      std::size_t bytes;
    } linear;
    struct {
      void* at;
      ChannelDesc channels;
      std::size_t width, height, pitch;
    } pitched;
    int reserved[32];
  } of;
  unsigned flags;
};
static_assert(sizeof(Resource) == 144);

struct Sampling {  // cudaTextureDesc
  int beyond[3], filter, read_mode, srgb;
  float border[4];
  int normalized;
  unsigned anisotropy;
  int mipmap_filter;
  float bias, least, most;
  int plain_trilinear, seamless;
};
static_assert(sizeof(Sampling) == 72);

// Rows of an array, from a place in bytes and rows, from or to what lies at `host` (here or on the
// device).
Status copy_with_array(const void* handle, std::size_t x_bytes, std::size_t row, void* host,
                       std::size_t pitch, std::size_t width, std::size_t rows, int kind,
                       void* stream, bool later, bool to_array);
// One of both sides is an array: places in it, and the extent, are in its elements.
Status copy_space_with_arrays(const Copy3& copy, void* stream, bool later);

}  // namespace partita::remote::shim
