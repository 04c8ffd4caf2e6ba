#include "server/textures.h"

#include <algorithm>
#include <limits>

#include "server/memory.h"

namespace partita::remote::server {
namespace {

constexpr std::uint64_t kMostTexels = std::uint64_t{1} << 30;  // in one direction
constexpr std::uint32_t kArrayFlags = 15;                      // CUDA's, but for those of images

Done check_texels(std::uint32_t kind, std::uint32_t channels, std::uint32_t channel_bytes) {
  const bool known = kind <= kFloatTexel && (channels == 1 || channels == 2 || channels == 4) &&
                     (channel_bytes == 1 || channel_bytes == 2 || channel_bytes == 4) &&
                     (kind != kFloatTexel || channel_bytes != 1);
  if (known) return {};
  return refuse(kInvalidValue, fmt::format("texels of kind {} with {} channels of {} bytes", kind,
                                           channels, channel_bytes));
}

// Whether [at, at + count) lies in [0, all).
bool inside(std::uint64_t at, std::uint64_t count, std::uint64_t all) {
  return at <= all && count <= all - at;
}

}  // namespace

Answered<DeviceTextures*> Textures::door() const {
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  DeviceTextures* const door = work_.backend().textures();
  if (door == nullptr)
    return refuse(kNotSupported, "this device keeps no arrays and textures; its client makes them");
  return door;
}

Reply<ArrayCreate> Textures::on(const ArrayCreate& op) {
  const Answered<DeviceTextures*> device = door();
  if (!device) return tl::unexpected<Refused>(device.error());
  if (Done good = check_texels(op.kind, op.channels, op.channel_bytes); !good)
    return tl::unexpected<Refused>(good.error());
  if (Done room = arrays_.room(op.array.value); !room) return tl::unexpected<Refused>(room.error());
  if (op.width == 0 || std::max({op.width, op.height, op.depth}) > kMostTexels ||
      (op.flags & ~kArrayFlags) != 0)
    return refuse(kInvalidValue, fmt::format("an array of {} x {} x {} with flags {:#x}", op.width,
                                             op.height, op.depth, op.flags));
  Array array{.row = op.width * op.channels * op.channel_bytes,
              .rows = std::max<std::uint64_t>(op.height, 1),
              .slices = std::max<std::uint64_t>(op.depth, 1)};
  if (__builtin_mul_overflow(array.row, array.rows, &array.bytes) ||
      __builtin_mul_overflow(array.bytes, array.slices, &array.bytes) ||
      array.bytes > limits_.memory || out_.counts.memory > limits_.memory - array.bytes)
    return refuse(kOutOfMemory,
                  fmt::format("an array of {} x {} x {} beside the {} bytes in use; {} are the "
                              "session's limit",
                              op.width, op.height, op.depth, out_.counts.memory, limits_.memory));
  const Answered<Id> made = (*device)->create_array(op);
  if (!made) return tl::unexpected<Refused>(made.error());
  array.id = *made;
  out_.counts.memory += array.bytes;
  arrays_.add(op.array.value, array);
  return NoReply{};
}

Done Textures::on(const ArrayDestroy& op) {
  const Array* const found = arrays_.find(op.array.value);
  if (found == nullptr) return arrays_.missing(op.array.value);
  work_.fence([this, id = found->id, bytes = found->bytes] {
    work_.backend().textures()->destroy_array(id);
    out_.counts.memory -= bytes;
  });
  arrays_.erase(op.array.value);
  return {};
}

Done Textures::on(const ArrayCopy& op) {
  const Answered<DeviceTextures*> device = door();
  if (!device) return tl::unexpected<Refused>(device.error());
  const Array* const array = arrays_.find(op.array.value);
  if (array == nullptr) return arrays_.missing(op.array.value);
  const Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  if (stream->capture != 0)
    return refuse(kNotSupported, "a copy from or to an array, captured in a graph");
  if (op.width == 0 || op.rows == 0 || op.slices == 0) return {};
  if (!inside(op.x, op.width, array->row) || !inside(op.y, op.rows, array->rows) ||
      !inside(op.z, op.slices, array->slices))
    return refuse(kInvalidValue,
                  fmt::format("{} bytes, {} rows, {} slices at {}, {}, {} of an array of "
                              "{}, {}, {}",
                              op.width, op.rows, op.slices, op.x, op.y, op.z, array->row,
                              array->rows, array->slices));
  std::uint64_t before = 0, rows = 0;
  if (op.slice_rows < op.rows || op.pitch < op.width ||
      __builtin_mul_overflow(op.slices - 1, op.slice_rows, &before) ||
      __builtin_add_overflow(before, op.rows, &rows) ||
      !allocations_.holds_rows(op.memory.value, op.width, op.pitch, rows))
    return refuse(kInvalidValue,
                  fmt::format("copying {} slices of {} rows of {} bytes at {:#x}: no allocation "
                              "holds them",
                              op.slices, op.rows, op.width, op.memory.value));
  return (*device)->copy(stream->id, array->id, op);
}

Done Textures::check_memory(const TextureCreate& op) const {
  if ((op.flags & kSurface) != 0)
    return refuse(kInvalidValue, "a surface of memory; it needs an array");
  if (Done good = check_texels(op.kind, op.channels, op.channel_bytes); !good) return good;
  const std::uint64_t width = op.width * op.channels * op.channel_bytes;
  if (op.width == 0 || op.width > kMostTexels || op.rows > kMostTexels ||
      !allocations_.holds_rows(op.memory.value, width, op.pitch,
                               std::max<std::uint64_t>(op.rows, 1)))
    return not_held("a texture of", op.memory, width);
  return {};
}

Reply<TextureCreate> Textures::on(const TextureCreate& op) {
  constexpr std::uint32_t kFlags = kSurface | kFiltered | kNormalized | kTexelsAsTheyAre;
  constexpr std::uint32_t kMostBeyond = 3;
  const Answered<DeviceTextures*> device = door();
  if (!device) return tl::unexpected<Refused>(device.error());
  if ((op.flags & ~kFlags) != 0 ||
      std::max({op.beyond_x, op.beyond_y, op.beyond_z}) > kMostBeyond ||
      (!op.border.empty() && op.border.size() != 4 * sizeof(float)))
    return refuse(kInvalidValue,
                  fmt::format("a texture with flags {:#x}, edges {}, {}, {} and a "
                              "border of {} bytes",
                              op.flags, op.beyond_x, op.beyond_y, op.beyond_z, op.border.size()));
  Id array = 0;
  if (op.array.value != 0) {
    const Array* const found = arrays_.find(op.array.value);
    if (found == nullptr) return arrays_.missing(op.array.value);
    array = found->id;
  } else if (Done good = check_memory(op); !good) {
    return tl::unexpected<Refused>(good.error());
  }
  if (textures_.all().size() >= limits_.textures)
    return refuse(kOutOfMemory, fmt::format("{} textures are the limit", limits_.textures));
  const Answered<std::uint64_t> made = (*device)->create(op, array);
  if (!made) return tl::unexpected<Refused>(made.error());
  textures_.add(*made, *made);
  return TextureCreate::Reply{{*made}};
}

Done Textures::on(const TextureDestroy& op) {
  if (textures_.find(op.texture.value) == nullptr) return textures_.missing(op.texture.value);
  work_.fence([this, texture = op.texture.value] { work_.backend().textures()->destroy(texture); });
  textures_.erase(op.texture.value);
  return {};
}

}  // namespace partita::remote::server
