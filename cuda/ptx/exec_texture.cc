// Textures and surfaces, lane by lane: filtered as the CUDA programming guide words it, with
// weights of 8 bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ptx/control.h"
#include "ptx/exec.h"
#include "ptx/memory_ops.h"
#include "ptx/texture.h"

namespace partita::ptx::control {
namespace {

constexpr std::uint64_t kNowhere = 0;  // an address that no memory has
using Texel = std::array<float, 4>;    // or the bits of integers
using Addresses = std::array<std::uint64_t, kLanes>;

template <class Each>
void each_lane(const Warp& w, const Each& each) {
  for (unsigned i = 0; i < kLanes; ++i)
    if ((w.mask >> i & 1) != 0) each(i);
}

// One access of a warp to global memory; nothing in `at` of a lane with address 0 that is `absent`.
struct Access {
  bool failed = false;
  LanePointers found;
};
Access look(const Op* op, Warp& w, const Addresses& address, std::uint32_t bytes, bool write,
            std::uint32_t span, std::uint32_t absent = 0) {
  Access access;
  const std::uint32_t mask = w.mask;
  w.mask &= ~absent;
  if (w.mask != 0) {
    Op memory = *op;
    memory.size = bytes;
    memory.flags = 0;
    memory.span = op->span + span;
    access.found = resolve(&memory, w, address.data(), write);
    access.failed = access.found.failed;
  }
  w.mask = mask;
  return access;
}

// ---- where ----

// Along one direction: the texel, or none (a border).
std::int64_t placed(std::int64_t at, std::int64_t count, BeyondEdge beyond, bool normalized) {
  if (at >= 0 && at < count) return at;
  if (beyond == BeyondEdge::border) return -1;
  if (!normalized || beyond == BeyondEdge::clamp) return std::clamp<std::int64_t>(at, 0, count - 1);
  if (beyond == BeyondEdge::wrap) return ((at % count) + count) % count;
  const std::int64_t in_pair = ((at % (2 * count)) + 2 * count) % (2 * count);
  return in_pair < count ? in_pair : 2 * count - 1 - in_pair;
}

std::int64_t whole(float value) {
  constexpr float kFar = 1e9F;  // beyond every texture; also what is no number
  return static_cast<std::int64_t>(std::floor(std::fmin(std::fmax(value, -kFar), kFar)));
}

struct Along {  // the two texels, and how much of the second
  std::int64_t first = 0, second = 0;
  float weight = 0;
};

// Of one lane.
struct Sample {
  Texture from;
  std::array<Along, 3> along = {};
  std::int64_t slice = 0;
};

std::int64_t extent(const Texture& from, std::size_t direction) {
  const std::uint32_t of[] = {from.width, from.height, from.depth};
  return std::max<std::int64_t>(of[direction], 1);
}

Along along(const Texture& from, std::size_t direction, float x, bool linear) {
  const std::int64_t count = extent(from, direction);
  const BeyondEdge beyond = from.beyond[direction];
  if (from.normalized) x *= static_cast<float>(count);
  if (!linear) {
    const std::int64_t at = placed(whole(x), count, beyond, from.normalized);
    return {at, at, 0};
  }
  const float shifted = x - 0.5F;
  const std::int64_t at = whole(shifted);
  const float weight = std::floor((shifted - std::floor(shifted)) * 256 + 0.5F) / 256;
  return {placed(at, count, beyond, from.normalized),
          placed(at + 1, count, beyond, from.normalized), std::isfinite(weight) ? weight : 0};
}

// The face of a cube that a direction meets, and where.
std::int64_t to_face(float& x, float& y, float z) {
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  float s = 0, t = 0, major = az;
  std::int64_t face = 4;
  if (ax >= ay && ax >= az) {
    face = x >= 0 ? 0 : 1, major = ax, s = x >= 0 ? -z : z, t = -y;
  } else if (ay >= az) {
    face = y >= 0 ? 2 : 3, major = ay, s = x, t = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5, s = z >= 0 ? x : -x, t = -y;
  }
  x = (s / major + 1) / 2;
  y = (t / major + 1) / 2;
  return face;
}

Sample where(const TextureOp& what, Warp& w, unsigned lane, const Texture& from) {
  Sample sample{.from = from};
  const std::int64_t layers = std::max<std::int64_t>(from.layers, 1);
  if (what.has_layer) {
    const auto layer = lane_registers<std::uint32_t>(w, what.layer)[lane];
    const std::int64_t count = what.is_cube ? std::max<std::int64_t>(layers / 6, 1) : layers;
    sample.slice = std::min<std::int64_t>(layer, count - 1);
  }
  if (what.by_number) {
    for (std::size_t i = 0; i < what.directions; ++i) {
      const std::int64_t at = lane_registers<std::int32_t>(w, what.coordinates[i])[lane];
      const BeyondEdge beyond = from.is_line ? BeyondEdge::border : from.beyond[i];
      sample.along[i].first = sample.along[i].second = placed(at, extent(from, i), beyond, false);
    }
    return sample;
  }
  std::array<float, 3> at = {};
  for (std::size_t i = 0; i < what.directions; ++i)
    at[i] = lane_registers<float>(w, what.coordinates[i])[lane];
  if (what.is_cube) sample.slice = sample.slice * 6 + to_face(at[0], at[1], at[2]);
  const std::size_t directions = what.is_cube ? 2 : what.directions;
  const bool linear = from.linear != 0 || what.kind == TextureOp::Kind::gather;
  for (std::size_t i = 0; i < directions; ++i) sample.along[i] = along(from, i, at[i], linear);
  return sample;
}

// ---- what ----

float half_of(std::uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}

float as_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A channel as the kernel sees it: a float, or the bits of an integer.
float channel(const Texture& from, const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, from.channel_bytes);
  if (from.kind == TexelKind::floating)
    return from.channel_bytes == 2 ? half_of(static_cast<std::uint16_t>(bits)) : as_float(bits);
  const unsigned unused = 32 - 8U * from.channel_bytes;
  const bool is_signed = from.kind == TexelKind::signed_integer;
  const auto number = static_cast<std::int32_t>(bits << unused) >> unused;
  if (!from.as_fraction) return as_float(is_signed ? static_cast<std::uint32_t>(number) : bits);
  const float most = static_cast<float>(
      (std::uint64_t{1} << (8U * from.channel_bytes - (is_signed ? 1U : 0U))) - 1);
  return is_signed ? std::fmax(static_cast<float>(number) / most, -1.F)
                   : static_cast<float>(bits) / most;
}

Texel texel(const Texture& from, const std::byte* at) {
  Texel made = {};
  for (std::size_t i = 0; i < from.channels; ++i)
    made[i] = channel(from, at + i * from.channel_bytes);
  return made;
}

std::uint64_t address_of(const Sample& sample, std::int64_t x, std::int64_t y, std::int64_t z) {
  const Texture& from = sample.from;
  return from.begin + static_cast<std::uint64_t>(sample.slice + z) * from.slice_pitch +
         static_cast<std::uint64_t>(y) * from.row_pitch +
         static_cast<std::uint64_t>(x) * from.channels * from.channel_bytes;
}

std::uint32_t texel_bytes(const Sample& sample) {
  return std::uint32_t{sample.from.channels} * sample.from.channel_bytes;
}

using Samples = std::array<Sample, kLanes>;
using Texels = std::array<Texel, kLanes>;

// The texel of each lane at this corner (bits: the second along x, y, z). False: a fault.
bool fetch(const Op* op, Warp& w, const Samples& samples, unsigned corner, Texels& to) {
  Addresses address = {};
  std::uint32_t absent = 0;
  each_lane(w, [&](unsigned i) {
    const Sample& sample = samples[i];
    const auto pick = [&](unsigned which) {
      const Along& one = sample.along[which];
      return (corner >> which & 1) != 0 ? one.second : one.first;
    };
    const std::int64_t x = pick(0), y = pick(1), z = pick(2);
    if (x < 0 || y < 0 || z < 0) {
      absent |= 1U << i;
      for (std::size_t c = 0; c < 4; ++c)
        to[i][c] = sample.from.is_line ? 0 : sample.from.border[c];
    } else {
      address[i] = address_of(sample, x, y, z);
    }
  });
  // Lanes may have textures of their own, whose texels are of other sizes.
  for (std::uint32_t left = w.mask & ~absent; left != 0;) {
    const std::uint32_t bytes = texel_bytes(samples[static_cast<unsigned>(std::countr_zero(left))]);
    std::uint32_t now = 0;
    each_lane(w, [&](unsigned i) {
      if ((left >> i & 1) != 0 && texel_bytes(samples[i]) == bytes) now |= 1U << i;
    });
    const Access access = look(op, w, address, bytes, false, 1, ~now);
    if (access.failed) return false;
    each_lane(w, [&](unsigned i) {
      if ((now >> i & 1) != 0) to[i] = texel(samples[i].from, access.found.at[i]);
    });
    left &= ~now;
  }
  return true;
}

const Op* give(const Op* op, Warp& w, const TextureOp& what, const Texels& texels) {
  for (std::size_t c = 0; c < what.values.size(); ++c) {
    if (!what.values[c]) continue;
    float* const to = lane_registers<float>(w, *what.values[c]);
    each_lane(w, [&](unsigned i) { std::memcpy(&to[i], &texels[i][c], sizeof(float)); });
  }
  return op + 1;
}

const Op* sampled(const Op* op, Warp& w, const TextureOp& what, const Samples& samples) {
  bool linear = false;
  each_lane(
      w, [&](unsigned i) { linear = linear || (samples[i].from.linear != 0 && !what.by_number); });
  Texels sums = {};
  if (!linear) return fetch(op, w, samples, 0, sums) ? give(op, w, what, sums) : nullptr;
  const unsigned directions = what.is_cube ? 2 : what.directions;
  for (unsigned corner = 0; corner < 1U << directions; ++corner) {
    Texels texels = {};
    if (!fetch(op, w, samples, corner, texels)) return nullptr;
    each_lane(w, [&](unsigned i) {
      float weight = 1;
      for (unsigned d = 0; d < directions; ++d) {
        const float second = samples[i].along[d].weight;
        weight *= (corner >> d & 1) != 0 ? second : 1 - second;
      }
      for (std::size_t c = 0; c < 4; ++c)
        if (weight != 0) sums[i][c] += weight * texels[i][c];
    });
  }
  return give(op, w, what, sums);
}

// The four texels that a filter would take, against the clock from below left.
const Op* gathered(const Op* op, Warp& w, const TextureOp& what, const Samples& samples) {
  constexpr unsigned kCorners[] = {2, 3, 1, 0};
  Texels result = {};
  for (std::size_t at = 0; at < 4; ++at) {
    Texels texels = {};
    if (!fetch(op, w, samples, kCorners[at], texels)) return nullptr;
    each_lane(w, [&](unsigned i) { result[i][at] = texels[i][what.component]; });
  }
  return give(op, w, what, result);
}

// ---- surfaces ----

// The bytes of a lane, or none: beyond the edge, where that is no fault.
std::uint64_t surface_address(const TextureOp& what, Warp& w, unsigned lane, const Texture& from,
                              std::uint32_t bytes, bool& absent) {
  const std::int64_t row =
      static_cast<std::int64_t>(from.width) * from.channels * from.channel_bytes;
  std::array<std::int64_t, 3> at = {};
  for (std::size_t i = 0; i < what.directions; ++i) {
    at[i] = lane_registers<std::int32_t>(w, what.coordinates[i])[lane];
    const std::int64_t most = i == 0 ? row - bytes : extent(from, i) - 1;
    if (at[i] >= 0 && at[i] <= most) continue;
    if (what.outside == TextureOp::Outside::fault) return kNowhere;
    if (what.outside == TextureOp::Outside::zero) absent = true;
    at[i] = std::clamp<std::int64_t>(at[i], 0, std::max<std::int64_t>(most, 0));
  }
  std::int64_t slice = at[2];
  if (what.has_layer) {
    slice = lane_registers<std::int32_t>(w, what.layer)[lane];
    if (slice < 0 || slice >= std::max<std::int64_t>(from.layers, 1)) return kNowhere;
  }
  return from.begin + static_cast<std::uint64_t>(slice) * from.slice_pitch +
         static_cast<std::uint64_t>(at[1]) * from.row_pitch + static_cast<std::uint64_t>(at[0]);
}

const Op* surface(const Op* op, Warp& w, const TextureOp& what, const Samples& samples) {
  const auto count = static_cast<std::uint32_t>(what.values.size());
  const std::uint32_t bytes = what.bytes * count,
                      in_register = std::max<std::uint32_t>(what.bytes, 2);
  const bool store = what.kind == TextureOp::Kind::store;
  Addresses address = {};
  std::uint32_t absent = 0;
  each_lane(w, [&](unsigned i) {
    bool outside = false;
    address[i] = surface_address(what, w, i, samples[i].from, bytes, outside);
    if (outside) absent |= 1U << i;
  });
  const Access access = look(op, w, address, bytes, store, 1, absent);
  if (access.failed) return nullptr;
  each_lane(w, [&](unsigned i) {
    const bool is_absent = (absent >> i & 1) != 0;
    for (std::uint32_t c = 0; c < count; ++c) {
      std::byte* const lane = w.registers + *what.values[c] + i * in_register;
      if (store) {
        if (!is_absent) std::memcpy(access.found.at[i] + c * what.bytes, lane, what.bytes);
        continue;
      }
      std::memset(lane, 0, in_register);
      if (!is_absent) std::memcpy(lane, access.found.at[i] + c * what.bytes, what.bytes);
    }
  });
  return op + 1;
}

}  // namespace

const Op* texture(const Op* op, Warp& w) {
  const TextureOp& what = w.block->run->program->textures[static_cast<std::size_t>(op->imm)];
  Addresses address = {};
  const std::uint64_t* const handles = lane_registers<std::uint64_t>(w, what.handle);
  each_lane(w, [&](unsigned i) { address[i] = handles[i]; });
  const Access described = look(op, w, address, sizeof(Texture), false, 0);
  if (described.failed) return nullptr;
  Samples samples;
  bool wrong = false;
  each_lane(w, [&](unsigned i) {
    Texture from;
    std::memcpy(static_cast<void*>(&from), described.found.at[i], sizeof from);
    const bool sound =
        from.magic == Texture::kMagic && from.channels >= 1 && from.channels <= 4 &&
        (from.channel_bytes == 1 || from.channel_bytes == 2 || from.channel_bytes == 4);
    if (!sound) address[i] = kNowhere, wrong = true;
    if (sound && what.kind != TextureOp::Kind::load && what.kind != TextureOp::Kind::store)
      samples[i] = where(what, w, i, from);
    else
      samples[i].from = from;
  });
  // What is no description ends the launch as any other wild pointer does.
  if (wrong) return look(op, w, address, sizeof(Texture), false, 0).failed ? nullptr : op + 1;
  switch (what.kind) {
    case TextureOp::Kind::sample:
      return sampled(op, w, what, samples);
    case TextureOp::Kind::gather:
      return gathered(op, w, what, samples);
    default:
      return surface(op, w, what, samples);
  }
}

}  // namespace partita::ptx::control
