// Arrays, textures and surfaces. Of servers that run PTX on cores: an array is memory with rows, an
// object the address of its description (ptx/texture.h). GPUs keep theirs: an array has a handle
// there, its bytes come and go through memory of the device, an object's number is the driver's.
#include "textures.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "copies.h"
#include "ptx/texture.h"

namespace partita::remote::shim {
namespace {

using client::kInvalidHandle;
using client::kInvalidValue;
using client::kOk;
using ptx::Texture;

enum ArrayFlags : unsigned { kLayered = 1, kCubemap = 4 };

struct Array {
  ChannelDesc channels = {};
  Place3 extent = {};  // in texels, as given
  unsigned flags = 0;
  Texture texels = {};
  std::uint64_t handle = 0;  // of the device's own; 0: the texels are memory
};

// Known by their addresses, which are the handles.
struct Known {
  std::mutex mutex;
  std::map<const void*, std::unique_ptr<Array>> arrays;
  std::map<std::uint64_t, Resource> objects;
};
Known& known() {
  static Known* const made = new Known;
  return *made;
}

Array* array_of(const void* handle) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().arrays.find(handle);
  return found == known().arrays.end() ? nullptr : found->second.get();
}

// Whether the device keeps arrays and textures itself. The session is ready.
bool are_kept() { return session().device().backend != "cpu"; }

std::size_t element_bytes(const Texture& texels) {
  return std::size_t{texels.channels} * texels.channel_bytes;
}

// Channels of one size, one, two or four of them.
bool describe(const ChannelDesc& given, Texture& to) {
  const int bits[] = {given.x, given.y, given.z, given.w};
  int count = 0;
  while (count < 4 && bits[count] != 0) ++count;
  const bool known = (count == 1 || count == 2 || count == 4) &&
                     (given.x == 8 || given.x == 16 || given.x == 32) && given.kind >= 0 &&
                     given.kind <= 2;
  if (!known || std::any_of(bits, bits + count, [&](int one) { return one != given.x; }))
    return false;
  to.channels = static_cast<std::uint8_t>(count);
  to.channel_bytes = static_cast<std::uint8_t>(given.x / 8);
  to.kind = static_cast<ptx::TexelKind>(given.kind);
  return true;
}

Status make_array(void** handle, const ChannelDesc* channels, const Place3& extent,
                  unsigned flags) {
  constexpr std::size_t kRow = 64, kMost = std::size_t{1} << 30;
  if (const Status status = session().ready(); status != kOk) return status;
  auto array = std::make_unique<Array>();
  if (handle == nullptr || channels == nullptr || !describe(*channels, array->texels) ||
      extent.x == 0 || extent.x > kMost || extent.y > kMost || extent.z > kMost)
    return kInvalidValue;
  array->channels = *channels;
  array->extent = extent;
  array->flags = flags;
  Texture& texels = array->texels;
  const bool layered = (flags & (kLayered | kCubemap)) != 0;
  texels.width = static_cast<std::uint32_t>(extent.x);
  texels.height = static_cast<std::uint32_t>(extent.y);
  (layered ? texels.layers : texels.depth) = static_cast<std::uint32_t>(extent.z);
  texels.row_pitch = (extent.x * element_bytes(texels) + kRow - 1) / kRow * kRow;
  texels.slice_pitch = texels.row_pitch * std::max<std::size_t>(extent.y, 1);
  const auto made =
      are_kept()
          ? session().textures.create_array({.width = extent.x,
                                             .height = extent.y,
                                             .depth = extent.z,
                                             .kind = static_cast<std::uint32_t>(texels.kind),
                                             .channels = texels.channels,
                                             .channel_bytes = texels.channel_bytes,
                                             .flags = flags})
          : session().memory.allocate(texels.slice_pitch * std::max<std::size_t>(extent.z, 1));
  if (!made) return made.error();
  (are_kept() ? array->handle : texels.begin) = *made;
  const std::lock_guard lock(known().mutex);
  *handle = array.get();
  known().arrays[array.get()] = std::move(array);
  return kOk;
}

Status free_array(void* handle) {
  if (handle == nullptr) return kOk;
  const std::lock_guard lock(known().mutex);
  const auto found = known().arrays.find(handle);
  if (found == known().arrays.end()) return kInvalidHandle;
  const Array& array = *found->second;
  const Status status = array.handle != 0 ? session().textures.destroy_array(array.handle)
                                          : session().memory.release(array.texels.begin);
  known().arrays.erase(found);
  return status;
}

// What lies outside an array that the device keeps, and how: rows `pitch` apart, `slice_rows` of
// them from one slice to the next.
struct Outside {
  std::byte* at = nullptr;
  std::size_t pitch = 0, slice_rows = 0;
};

// Rows of the program's, one behind the other.
template <class Copy>
void each_row(const ArrayCopy& what, const Outside& outside, Copy&& copy) {
  for (std::size_t z = 0; z < what.slices; ++z)
    for (std::size_t y = 0; y < what.rows; ++y)
      copy((z * what.rows + y) * what.width,
           outside.at + (z * outside.slice_rows + y) * outside.pitch);
}

// Through packed memory on the device, unless both sides are there.
Status copy_kept(ArrayCopy what, const Outside& outside, void* stream, bool later) {
  const std::uint64_t on = number_of(stream);
  if (what.width == 0 || what.rows == 0 || what.slices == 0) return session().failure();
  if (outside.pitch < what.width) return client::kInvalidPitch;
  const auto state = session().captures.state_of(on);
  if (state && state->status != 0) return unsupported("copies of arrays in a graph (on a GPU)");
  if (session().memory.contains(number_of(outside.at))) {
    what.memory = {number_of(outside.at)};
    what.pitch = outside.pitch, what.slice_rows = outside.slice_rows;
    return session().memory.copy(on, what);
  }
  std::vector<std::byte> packed(what.width * what.rows * what.slices);
  const auto staging = session().memory.allocate(packed.size());
  if (!staging) return staging.error();
  what.memory = {*staging};
  what.pitch = what.width, what.slice_rows = what.rows;
  Status status = kOk;
  if (what.out == 0) {
    each_row(what, outside, [&](std::size_t at, const std::byte* row) {
      std::memcpy(packed.data() + at, row, what.width);
    });
    status = session().memory.copy_in(on, *staging, packed.data(), packed.size());
  }
  if (status == kOk) status = session().memory.copy(on, what);
  if (status == kOk && what.out != 0) {
    status = session().memory.copy_out(on, packed.data(), *staging, packed.size(), false);
    if (status == kOk)
      each_row(what, outside, [&](std::size_t at, std::byte* row) {
        std::memcpy(row, packed.data() + at, what.width);
      });
  }
  const Status freed = session().memory.release_on(on, *staging);
  if (status == kOk && what.out == 0 && !later) status = session().streams.synchronise(on);
  return status != kOk ? status : freed;
}

}  // namespace

Status copy_with_array(const void* handle, std::size_t x_bytes, std::size_t row, void* host,
                       std::size_t pitch, std::size_t width, std::size_t rows, int kind,
                       void* stream, bool later, bool to_array) {
  Array* const array = array_of(handle);
  if (array == nullptr) return kInvalidHandle;
  const Texture& texels = array->texels;
  const std::size_t all_rows = std::max<std::size_t>(texels.height, 1);
  if (x_bytes + width > texels.width * element_bytes(texels) || row + rows > all_rows)
    return kInvalidValue;
  if (array->handle != 0)
    return copy_kept({.array = {array->handle},
                      .x = x_bytes,
                      .y = row,
                      .width = width,
                      .rows = rows,
                      .out = to_array ? 0U : 1U},
                     {static_cast<std::byte*>(host), pitch, rows}, stream, later);
  void* const there = handle_of(texels.begin + row * texels.row_pitch + x_bytes);
  const RowsCopy copy = to_array
                            ? RowsCopy{there, texels.row_pitch, host, pitch, width, rows, kind}
                            : RowsCopy{host, pitch, there, texels.row_pitch, width, rows, kind};
  return copy_rows(copy, stream, later);
}

namespace {

// Bytes one behind the other, over as many rows as they fill.
Status copy_packed(const void* handle, std::size_t x_bytes, std::size_t row, void* host,
                   std::size_t bytes, int kind, void* stream, bool later, bool to_array) {
  Array* const array = array_of(handle);
  if (array == nullptr) return kInvalidHandle;
  const std::size_t width = array->texels.width * element_bytes(array->texels);
  auto* at = static_cast<std::byte*>(host);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, width - std::min(width, x_bytes));
    const bool whole = x_bytes == 0 && bytes >= width;
    const std::size_t rows = whole ? bytes / width : 1;
    if (part == 0) return kInvalidValue;
    const Status status =
        copy_with_array(handle, x_bytes, row, at, part, part, rows, kind, stream, later, to_array);
    if (status != kOk) return status;
    at += part * rows, bytes -= part * rows, row += rows, x_bytes = 0;
  }
  return kOk;
}

Status texels_of(const Resource& resource, Texture& to) {
  switch (resource.kind) {
    case kArray: {
      const Array* const array = array_of(resource.of.array);
      if (array == nullptr) return kInvalidHandle;
      to = array->texels;
      return kOk;
    }
    case kLinear: {
      const auto& [at, channels, bytes] = resource.of.linear;
      const auto block = session().memory.block_of(number_of(at));
      if (!describe(channels, to) || !block) return kInvalidValue;
      // More may be said than there is; it is not there to be read.
      const std::uint64_t behind = block->address + block->bytes - number_of(at);
      to.begin = number_of(at);
      to.width =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, behind) / element_bytes(to));
      to.is_line = true;
      return kOk;
    }
    case kPitched: {
      const auto& [at, channels, width, height, pitch] = resource.of.pitched;
      if (!describe(channels, to) || height == 0 || width * element_bytes(to) > pitch ||
          !session().memory.covers(number_of(at), pitch * (height - 1) + width * element_bytes(to)))
        return kInvalidValue;
      to.begin = number_of(at);
      to.width = static_cast<std::uint32_t>(width);
      to.height = static_cast<std::uint32_t>(height);
      to.row_pitch = pitch;
      return kOk;
    }
    default:
      return unsupported("mipmapped arrays");
  }
}

Status describe(const Sampling& how, Texture& to) {
  constexpr int kFraction = 1, kLinearFilter = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (how.beyond[i] < 0 || how.beyond[i] > 3) return kInvalidValue;
    to.beyond[i] = static_cast<ptx::BeyondEdge>(how.beyond[i]);
  }
  to.linear = how.filter == kLinearFilter && !to.is_line;
  to.as_fraction = how.read_mode == kFraction;
  to.normalized = how.normalized != 0;
  std::copy(how.border, how.border + 4, to.border);
  if (to.as_fraction && (to.kind == ptx::TexelKind::floating || to.channel_bytes == 4))
    to.as_fraction = false;
  const bool integers = to.kind != ptx::TexelKind::floating && !to.as_fraction;
  if (to.linear && integers) return kInvalidValue;
  return how.srgb != 0 ? unsupported("sRGB textures") : kOk;
}

// The description goes to the device before anybody can use it.
client::Got<std::uint64_t> describe_there(const Texture& texture) {
  const auto memory = session().memory.allocate(sizeof texture);
  if (!memory) return memory;
  Status status = session().memory.copy_in(0, *memory, &texture, sizeof texture);
  if (status == kOk) status = session().streams.synchronise(0);
  if (status != kOk) return client::refused(status);
  return memory;
}

// Of a device that keeps it itself.
client::Got<std::uint64_t> keep_there(const Resource& resource, const Texture& texture,
                                      bool surface) {
  TextureCreate what{.memory = {texture.begin},
                     .width = texture.width,
                     .rows = texture.height,
                     .pitch = texture.row_pitch,
                     .kind = static_cast<std::uint32_t>(texture.kind),
                     .channels = texture.channels,
                     .channel_bytes = texture.channel_bytes,
                     .beyond_x = static_cast<std::uint32_t>(texture.beyond[0]),
                     .beyond_y = static_cast<std::uint32_t>(texture.beyond[1]),
                     .beyond_z = static_cast<std::uint32_t>(texture.beyond[2]),
                     .border = std::as_bytes(std::span(texture.border))};
  if (resource.kind == kArray) {
    const Array* const array = array_of(resource.of.array);
    if (array == nullptr) return client::refused(kInvalidHandle);
    what.array = {array->handle};
  }
  const bool integers = texture.kind != ptx::TexelKind::floating && texture.as_fraction == 0;
  what.flags = (surface ? kSurface : 0U) | (texture.linear != 0 ? kFiltered : 0U) |
               (texture.normalized != 0 ? kNormalized : 0U) | (integers ? kTexelsAsTheyAre : 0U);
  return session().textures.create(what);
}

Status make_object(std::uint64_t* object, const Resource* resource, const Sampling* how) {
  if (const Status status = session().ready(); status != kOk) return status;
  if (object == nullptr || resource == nullptr) return kInvalidValue;
  Texture texture;
  if (const Status status = texels_of(*resource, texture); status != kOk) return status;
  if (how != nullptr)
    if (const Status status = describe(*how, texture); status != kOk) return status;
  const auto made =
      are_kept() ? keep_there(*resource, texture, how == nullptr) : describe_there(texture);
  if (!made) return made.error();
  const std::lock_guard lock(known().mutex);
  known().objects[*made] = *resource;
  *object = *made;
  return kOk;
}

Status destroy_object(std::uint64_t object) {
  const std::lock_guard lock(known().mutex);
  if (known().objects.erase(object) == 0) return object == 0 ? kOk : kInvalidValue;
  return are_kept() ? session().textures.destroy(object) : session().memory.release(object);
}

}  // namespace

Status copy_space_with_arrays(const Copy3& c, void* stream, bool later) {
  if (c.from_array != nullptr && c.to_array != nullptr)
    return unsupported("cudaMemcpy3D (between arrays)");
  const bool to_array = c.to_array != nullptr;
  Array* const array = array_of(to_array ? c.to_array : c.from_array);
  if (array == nullptr) return kInvalidHandle;
  const Texture& texels = array->texels;
  const Place3& inside = to_array ? c.to_place : c.from_place;
  const Place3& outside = to_array ? c.from_place : c.to_place;
  const Pitched& memory = to_array ? c.from : c.to;
  const std::size_t element = element_bytes(texels);
  const std::size_t slices = std::max<std::size_t>({texels.depth, texels.layers, 1});
  if (inside.x + c.extent.x > texels.width ||
      inside.y + c.extent.y > std::max<std::size_t>(texels.height, 1) ||
      inside.z + c.extent.z > slices)
    return kInvalidValue;
  if (array->handle != 0)
    return copy_kept({.array = {array->handle},
                      .x = inside.x * element,
                      .y = inside.y,
                      .z = inside.z,
                      .width = c.extent.x * element,
                      .rows = c.extent.y,
                      .slices = c.extent.z,
                      .out = to_array ? 0U : 1U},
                     {static_cast<std::byte*>(memory.memory) +
                          (outside.z * memory.height + outside.y) * memory.pitch + outside.x,
                      memory.pitch, memory.height},
                     stream, later);
  Status status = kOk;
  for (std::size_t z = 0; z < c.extent.z && status == kOk; ++z) {
    void* const there = handle_of(texels.begin + (inside.z + z) * texels.slice_pitch +
                                  inside.y * texels.row_pitch + inside.x * element);
    auto* const here = static_cast<std::byte*>(memory.memory) +
                       ((outside.z + z) * memory.height + outside.y) * memory.pitch + outside.x;
    const std::size_t width = c.extent.x * element;
    status = copy_rows(
        to_array ? RowsCopy{there, texels.row_pitch, here, memory.pitch, width, c.extent.y, c.kind}
                 : RowsCopy{here, memory.pitch, there, texels.row_pitch, width, c.extent.y, c.kind},
        stream, later);
  }
  return status;
}

CUDA_EXPORT ChannelDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}
CUDA_EXPORT Status cudaMallocArray(void** array, const ChannelDesc* channels, std::size_t width,
                                   std::size_t height, unsigned flags) {
  return guarded([&] { return make_array(array, channels, {width, height, 0}, flags); });
}
GUARDED(cudaMalloc3DArray,
        (void** array, const ChannelDesc* channels, Place3 extent, unsigned flags),
        make_array(array, channels, extent, flags))
GUARDED(cudaFreeArray, (void* array), free_array(array))
CUDA_EXPORT Status cudaArrayGetInfo(ChannelDesc* channels, Place3* extent, unsigned* flags,
                                    void* handle) {
  return guarded([&] {
    const Array* const array = array_of(handle);
    if (array == nullptr) return kInvalidHandle;
    if (channels != nullptr) *channels = array->channels;
    if (extent != nullptr) *extent = array->extent;
    if (flags != nullptr) *flags = array->flags;
    return kOk;
  });
}
CUDA_EXPORT Status cudaGetChannelDesc(ChannelDesc* channels, const void* handle) {
  return guarded([&] {
    const Array* const array = array_of(handle);
    if (array == nullptr) return kInvalidHandle;
    return hand_out(array->channels, channels);
  });
}

// ---- copies ----

EITHER_FUNCTION(cudaMemcpy2DToArray,
                (void* to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                 std::size_t width, std::size_t rows, int kind),
                copy_with_array(to, x, y, const_cast<void*>(from), pitch, width, rows, kind, stream,
                                later, true))
EITHER_FUNCTION(cudaMemcpy2DFromArray,
                (void* to, std::size_t pitch, const void* from, std::size_t x, std::size_t y,
                 std::size_t width, std::size_t rows, int kind),
                copy_with_array(from, x, y, to, pitch, width, rows, kind, stream, later, false))
EITHER_FUNCTION(cudaMemcpyToArray,
                (void* to, std::size_t x, std::size_t y, const void* from, std::size_t bytes,
                 int kind),
                copy_packed(to, x, y, const_cast<void*>(from), bytes, kind, stream, later, true))
EITHER_FUNCTION(cudaMemcpyFromArray,
                (void* to, const void* from, std::size_t x, std::size_t y, std::size_t bytes,
                 int kind),
                copy_packed(from, x, y, to, bytes, kind, stream, later, false))

// ---- objects ----

CUDA_EXPORT Status cudaCreateTextureObject(std::uint64_t* object, const Resource* resource,
                                           const Sampling* how, const void* view) {
  return guarded([&] {
    if (view != nullptr) return unsupported("cudaCreateTextureObject (a view)");
    if (how == nullptr) return kInvalidValue;
    return make_object(object, resource, how);
  });
}
GUARDED(cudaDestroyTextureObject, (std::uint64_t object), destroy_object(object))
CUDA_EXPORT Status cudaGetTextureObjectResourceDesc(Resource* resource, std::uint64_t object) {
  return guarded([&] {
    const std::lock_guard lock(known().mutex);
    const auto found = known().objects.find(object);
    if (resource == nullptr || found == known().objects.end()) return kInvalidValue;
    *resource = found->second;
    return kOk;
  });
}
CUDA_EXPORT Status cudaCreateSurfaceObject(std::uint64_t* object, const Resource* resource) {
  return guarded([&] {
    if (resource != nullptr && resource->kind != kArray) return kInvalidValue;
    return make_object(object, resource, nullptr);
  });
}
GUARDED(cudaDestroySurfaceObject, (std::uint64_t object), destroy_object(object))

}  // namespace partita::remote::shim
