// Textures and surfaces. Oracle: the formulas of the CUDA programming guide for one coordinate at a
// time, in double, on a picture that is a function here.
#include "ptx/texture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

using testing::HasSubstr;

// One lane each: reads coordinates at in + 16 lane, writes four words at out + 16 lane.
std::string texture_kernel(const std::string& instruction) {
  return R"(
.visible .entry k(.param .u64 handle, .param .u64 in, .param .u64 out)
{
.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .b16 %rs<9>;
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd4, %r1, 16;
ld.param.u64 %rd1, [handle];
ld.param.u64 %rd2, [in];
ld.param.u64 %rd3, [out];
add.u64 %rd2, %rd2, %rd4;
add.u64 %rd3, %rd3, %rd4;
ld.global.f32 %f1, [%rd2];
ld.global.f32 %f2, [%rd2+4];
ld.global.f32 %f3, [%rd2+8];
ld.global.u32 %r2, [%rd2];
ld.global.u32 %r3, [%rd2+4];
ld.global.u32 %r4, [%rd2+8];
)" + instruction +
         R"(
st.global.v4.u32 [%rd3], {%r5, %r6, %r7, %r8};
ret;
}
)";
}

struct Coordinates {
  float x, y, z;
  std::uint32_t layer;
};
using FourWords = std::array<std::uint32_t, 4>;

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

class Picture {
 public:
  Picture(const std::string& instruction, const Texture& shape)
      : device_(texture_kernel(instruction)), texture_(shape) {
    const std::uint64_t slices = std::max({shape.depth, shape.layers, 1U});
    const std::uint64_t rows = std::max(shape.height, 1U);
    texture_.row_pitch = (shape.width * element() + 63) / 64 * 64;
    texture_.slice_pitch = texture_.row_pitch * rows;
    bytes_.resize(texture_.slice_pitch * slices);
    std::mt19937 rng(5);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(rng());
    if (shape.kind == TexelKind::floating)
      for (std::size_t at = 0; at + 4 <= bytes_.size(); at += 4) {
        const float value = static_cast<float>(rng() % 1000) / 8 - 60;
        std::memcpy(&bytes_[at], &value, 4);
      }
    texture_.begin = device_.upload(bytes_);
    handle_ = device_.upload(std::vector<Texture>{texture_});
  }

  std::vector<FourWords> read(const std::vector<Coordinates>& at) {
    const std::uint64_t in = device_.upload(at), out = device_.allocate(at.size() * 16);
    faults_ = device_
                  .run("k", {1, 1, 1}, {static_cast<std::uint32_t>(at.size()), 1, 1},
                       Parameters().add(handle_).add(in).add(out))
                  ->faults();
    return device_.download<FourWords>(out, at.size());
  }
  std::vector<std::byte> now() {
    return device_.download<std::byte>(texture_.begin, bytes_.size());
  }

  // A channel of a texel as a number.
  double texel(std::int64_t x, std::int64_t y, std::int64_t z, std::size_t channel) const {
    const std::size_t at = static_cast<std::size_t>(z) * texture_.slice_pitch +
                           static_cast<std::size_t>(y) * texture_.row_pitch +
                           static_cast<std::size_t>(x) * element() +
                           channel * texture_.channel_bytes;
    if (channel >= texture_.channels) return 0;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes_[at], texture_.channel_bytes);
    if (texture_.kind == TexelKind::floating) return as_float(bits);
    if (texture_.kind == TexelKind::unsigned_integer)
      return texture_.as_fraction ? bits / (std::pow(2.0, 8 * texture_.channel_bytes) - 1) : bits;
    const double number = texture_.channel_bytes == 1   ? static_cast<std::int8_t>(bits)
                          : texture_.channel_bytes == 2 ? static_cast<std::int16_t>(bits)
                                                        : static_cast<std::int32_t>(bits);
    if (!texture_.as_fraction) return number;
    return std::max(number / (std::pow(2.0, 8 * texture_.channel_bytes - 1) - 1), -1.0);
  }

  std::size_t element() const { return std::size_t{texture_.channels} * texture_.channel_bytes; }
  const std::vector<Fault>& faults() const { return faults_; }
  std::vector<std::byte>& bytes() { return bytes_; }
  const Texture& texture() const { return texture_; }

 private:
  Device device_;
  Texture texture_;
  std::vector<std::byte> bytes_;
  std::uint64_t handle_ = 0;
  std::vector<Fault> faults_;
};

// The texel along one direction, or -1: a border.
std::int64_t edge(double at, std::int64_t count, BeyondEdge beyond) {
  const auto whole = static_cast<std::int64_t>(std::floor(at));
  switch (beyond) {
    case BeyondEdge::clamp:
      return std::clamp<std::int64_t>(whole, 0, count - 1);
    case BeyondEdge::border:
      return whole < 0 || whole >= count ? -1 : whole;
    case BeyondEdge::wrap:
      return whole - static_cast<std::int64_t>(
                         std::floor(static_cast<double>(whole) / static_cast<double>(count))) *
                         count;
    default: {
      const double turns = std::floor(static_cast<double>(whole) / static_cast<double>(count));
      const std::int64_t within = whole - static_cast<std::int64_t>(turns) * count;
      return static_cast<std::int64_t>(turns) % 2 == 0 ? within : count - 1 - within;
    }
  }
}

// By the guide: the nearest, or weights of 8 bits over the neighbours.
double wanted(const Picture& picture, const Coordinates& at, std::size_t directions, bool layered,
              std::size_t channel) {
  const Texture& of = picture.texture();
  const double given[] = {at.x, at.y, at.z};
  const std::int64_t counts[] = {of.width, of.height, of.depth};
  double value = 0;
  for (unsigned corner = 0; corner < (of.linear ? 1U << directions : 1U); ++corner) {
    std::int64_t index[3] = {0, 0, 0};
    double weight = 1;
    bool border = false;
    for (std::size_t d = 0; d < directions; ++d) {
      double place =
          of.normalized
              ? static_cast<double>(static_cast<float>(given[d]) * static_cast<float>(counts[d]))
              : given[d];
      if (of.linear) {
        place -= 0.5;
        const double fraction = std::floor((place - std::floor(place)) * 256 + 0.5) / 256;
        weight *= (corner >> d & 1) != 0 ? fraction : 1 - fraction;
        place = std::floor(place) + (corner >> d & 1);
      }
      index[d] = edge(place, counts[d], of.beyond[d]);
      border = border || index[d] < 0;
    }
    const std::int64_t z = layered ? std::min<std::int64_t>(at.layer, of.layers - 1) : index[2];
    value += weight * (border ? static_cast<double>(of.border[channel])
                              : picture.texel(index[0], index[1], z, channel));
  }
  return value;
}

std::vector<Coordinates> drawn(const Texture& of, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<Coordinates> all;
  const auto along = [&](std::uint32_t count) {
    const float eighths = static_cast<float>(static_cast<int>(rng() % (count * 24 + 64)) -
                                             static_cast<int>(count * 8) - 32) /
                          8;
    return of.normalized ? eighths / static_cast<float>(std::max(count, 1U)) : eighths;
  };
  for (int i = 0; i < 96; ++i)
    all.push_back({along(of.width), along(of.height), along(of.depth),
                   static_cast<std::uint32_t>(rng() % 5)});
  return all;
}

TEST(Textures, AreReadAsTheGuideSays) {
  struct Geometry {
    std::string instruction;
    std::size_t directions;
    bool layered;
  };
  const Geometry geometries[] = {
      {"tex.1d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1}];", 1, false},
      {"tex.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2}];", 2, false},
      {"tex.level.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2}], %f3;", 2, false},
      {"tex.3d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2, %f3, %f3}];", 3, false},
      {"ld.global.u32 %r4, [%rd2+12]; tex.a2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r4, %f1, "
       "%f2, %f2}];",
       2, true}};
  std::uint32_t seed = 1;
  for (const Geometry& geometry : geometries)
    for (const bool linear : {false, true})
      for (const bool normalized : {false, true})
        for (const BeyondEdge beyond :
             {BeyondEdge::wrap, BeyondEdge::clamp, BeyondEdge::mirror, BeyondEdge::border}) {
          const bool of_pairs = beyond == BeyondEdge::wrap || beyond == BeyondEdge::mirror;
          if (of_pairs && !normalized) continue;
          Texture shape{.width = 7,
                        .kind = TexelKind::floating,
                        .channels = 2,
                        .channel_bytes = 4,
                        .linear = linear,
                        .normalized = normalized,
                        .beyond = {beyond, beyond, beyond},
                        .border = {1, 2, 3, 4}};
          if (geometry.directions > 1) shape.height = 5;
          if (geometry.directions > 2) shape.depth = 4;
          if (geometry.layered) shape.layers = 3;
          Picture picture(geometry.instruction, shape);
          const auto places = drawn(shape, ++seed);
          const auto found = picture.read(places);
          ASSERT_THAT(picture.faults(), testing::IsEmpty());
          for (std::size_t i = 0; i < places.size(); ++i)
            for (std::size_t channel = 0; channel < 2; ++channel)
              ASSERT_NEAR(
                  as_float(found[i][channel]),
                  wanted(picture, places[i], geometry.directions, geometry.layered, channel), 2e-4)
                  << geometry.instruction << " linear " << linear << " normalized " << normalized
                  << " beyond " << static_cast<int>(beyond) << " at " << places[i].x << ' '
                  << places[i].y << ' ' << places[i].z;
        }
}

TEST(Textures, TexelsOfEveryKind) {
  for (const TexelKind kind : {TexelKind::signed_integer, TexelKind::unsigned_integer})
    for (const std::uint8_t bytes : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}})
      for (const std::uint8_t channels : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}})
        for (const bool fraction : {false, true}) {
          if (fraction && bytes == 4) continue;
          const Texture shape{.width = 9,
                              .height = 4,
                              .kind = kind,
                              .channels = channels,
                              .channel_bytes = bytes,
                              .as_fraction = fraction};
          const std::string type = fraction                            ? "f32"
                                   : kind == TexelKind::signed_integer ? "s32"
                                                                       : "u32";
          Picture picture("tex.2d.v4." + type + ".f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2}];",
                          shape);
          const auto places = drawn(shape, 7);
          const auto found = picture.read(places);
          for (std::size_t i = 0; i < places.size(); ++i)
            for (std::size_t c = 0; c < 4; ++c) {
              const double value = wanted(picture, places[i], 2, false, c);
              if (fraction)
                ASSERT_NEAR(as_float(found[i][c]), value, 1e-6);
              else
                ASSERT_EQ(found[i][c],
                          static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
            }
        }
}

TEST(Textures, LinesAreFetchedByNumberAndEndInZeros) {
  const Texture shape{
      .width = 10, .kind = TexelKind::signed_integer, .channel_bytes = 4, .is_line = true};
  Picture picture("tex.1d.v4.s32.s32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2}];", shape);
  std::vector<Coordinates> places;
  for (const int at : {0, 3, 9, 10, -1, 1 << 30})
    places.push_back({std::bit_cast<float>(at), 0, 0, 0});
  const auto found = picture.read(places);
  EXPECT_THAT(picture.faults(), testing::IsEmpty());
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(static_cast<std::int32_t>(found[i][0]),
              static_cast<std::int32_t>(picture.texel(std::bit_cast<int>(places[i].x), 0, 0, 0)));
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(found[i][0], 0u);
}

// Lanes may have textures of their own, of other texels.
TEST(Textures, EachLaneHasTheHandleThatItHolds) {
  Device device(
      texture_kernel("mul.wide.u32 %rd5, %r1, 128; add.u64 %rd1, %rd1, %rd5;"
                     "tex.1d.v4.u32.s32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2}];"));
  const std::uint64_t bytes = device.upload(std::vector<std::uint8_t>{7, 8, 9, 10});
  const std::uint64_t words = device.upload(std::vector<std::uint32_t>{70, 80, 90, 100});
  const Texture of_bytes{.begin = bytes, .width = 4, .is_line = true};
  const Texture of_words{.begin = words, .width = 4, .channel_bytes = 4, .is_line = true};
  const std::uint64_t handles = device.upload(std::vector<Texture>{of_bytes, of_words, of_bytes});
  const float at = std::bit_cast<float>(3), before = std::bit_cast<float>(1);
  const std::uint64_t in =
      device.upload(std::vector<Coordinates>{{at, 0, 0, 0}, {before, 0, 0, 0}, {before, 0, 0, 0}});
  const std::uint64_t out = device.allocate(48);
  const auto run =
      device.run("k", {1, 1, 1}, {3, 1, 1}, Parameters().add(handles).add(in).add(out));
  EXPECT_THAT(run->faults(), testing::IsEmpty());
  const auto found = device.download<FourWords>(out, 3);
  EXPECT_EQ(found[0][0], 10U);
  EXPECT_EQ(found[1][0], 80U);
  EXPECT_EQ(found[2][0], 8U);
}

// Faces as the guide's table has them: each axis' middle is the middle of its face.
TEST(Textures, CubesHaveSixFaces) {
  const Texture shape{.width = 3,
                      .height = 3,
                      .layers = 6,
                      .kind = TexelKind::floating,
                      .channel_bytes = 4,
                      .normalized = true};
  Picture picture("tex.cube.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2, %f3, %f3}];", shape);
  const std::vector<Coordinates> axes = {{2, 0, 0, 0},  {-2, 0, 0, 0}, {0, 2, 0, 0},
                                         {0, -2, 0, 0}, {0, 0, 2, 0},  {0, 0, -2, 0}};
  const auto found = picture.read(axes);
  for (std::size_t face = 0; face < 6; ++face)
    EXPECT_EQ(as_float(found[face][0]), picture.texel(1, 1, static_cast<std::int64_t>(face), 0))
        << face;
  // To the right on the first face is -z, down is -y.
  EXPECT_EQ(as_float(picture.read({{1, 0, -0.9F, 0}})[0][0]), picture.texel(2, 1, 0, 0));
  EXPECT_EQ(as_float(picture.read({{1, -0.9F, 0, 0}})[0][0]), picture.texel(1, 2, 0, 0));
  EXPECT_EQ(as_float(picture.read({{0.9F, 0, 1, 0}})[0][0]), picture.texel(2, 1, 4, 0));
  EXPECT_EQ(as_float(picture.read({{0.9F, 0, -1, 0}})[0][0]), picture.texel(0, 1, 5, 0));
}

TEST(Textures, FourAreGatheredAgainstTheClock) {
  const Texture shape{
      .width = 8, .height = 8, .kind = TexelKind::floating, .channels = 2, .channel_bytes = 4};
  Picture picture("tld4.g.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2}];", shape);
  const auto found = picture.read({{3.75F, 4.75F, 0, 0}})[0];
  const std::pair<int, int> around[] = {{3, 5}, {4, 5}, {4, 4}, {3, 4}};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(as_float(found[i]), picture.texel(around[i].first, around[i].second, 0, 1)) << i;
}

TEST(Surfaces, AreReadAndWrittenByBytes) {
  const Texture shape{.width = 6,
                      .height = 4,
                      .kind = TexelKind::unsigned_integer,
                      .channels = 4,
                      .channel_bytes = 1};
  Picture reader(
      "suld.b.2d.v4.b8.trap {%rs1, %rs2, %rs3, %rs4}, [%rd1, {%r2, %r3}];"
      "cvt.u32.u16 %r5, %rs1; cvt.u32.u16 %r6, %rs2; cvt.u32.u16 %r7, %rs3; cvt.u32.u16 %r8, %rs4;",
      shape);
  const auto at = [](int x, int y) {
    return Coordinates{std::bit_cast<float>(x), std::bit_cast<float>(y), 0, 0};
  };
  const auto found = reader.read({at(0, 0), at(8, 1), at(20, 3)});
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(found[0][c], static_cast<std::uint32_t>(reader.texel(0, 0, 0, c)));
    EXPECT_EQ(found[1][c], static_cast<std::uint32_t>(reader.texel(2, 1, 0, c)));
    EXPECT_EQ(found[2][c], static_cast<std::uint32_t>(reader.texel(5, 3, 0, c)));
  }
  EXPECT_THAT(reader.faults(), testing::IsEmpty());
  reader.read({at(24, 0)});
  ASSERT_FALSE(reader.faults().empty());  // .trap

  Picture writer("mov.u32 %r5, 0x01020304; sust.b.2d.b32.zero [%rd1, {%r2, %r3}], {%r5};", shape);
  writer.read({at(4, 1), at(24, 1), at(0, -1)});
  std::vector<std::byte> expected = writer.bytes();
  const std::uint32_t stored = 0x01020304;
  std::memcpy(&expected[writer.texture().row_pitch + 4], &stored, 4);
  EXPECT_EQ(writer.now(), expected);
  EXPECT_THAT(writer.faults(), testing::IsEmpty());

  Picture clamped("suld.b.2d.b32.clamp {%r5}, [%rd1, {%r2, %r3}];", shape);
  const auto edges = clamped.read({at(100, 100), at(-5, 2)});
  std::uint32_t corner = 0, left = 0;
  std::memcpy(&corner, &clamped.bytes()[3 * clamped.texture().row_pitch + 20], 4);
  std::memcpy(&left, &clamped.bytes()[2 * clamped.texture().row_pitch], 4);
  EXPECT_EQ(edges[0][0], corner);
  EXPECT_EQ(edges[1][0], left);
}

TEST(Textures, WhatIsNoHandleIsAFault) {
  Device device(texture_kernel("tex.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2}];"));
  const std::uint64_t zeros = device.upload(std::vector<std::uint64_t>(64));
  for (const std::uint64_t handle : {std::uint64_t{0}, std::uint64_t{1} << 40, zeros}) {
    const auto run =
        device.run("k", {1, 1, 1}, {32, 1, 1}, Parameters().add(handle).add(zeros).add(zeros));
    EXPECT_FALSE(run->faults().empty()) << handle;
  }
}

TEST(Textures, WhatIsNotThereIsRefused) {
  const auto refusal = [](const std::string& instruction) {
    const auto machine = std::move(*Machine::open(std::uint64_t{1} << 26));
    const auto module =
        machine->load(".version 7.8\n.target sm_80\n.address_size 64\n.global .texref named;\n" +
                          texture_kernel(instruction),
                      "test");
    if (!module) return to_string(module.error());
    const auto found = machine->find_kernel(*module, "k");
    return found ? std::string() : to_string(found.error());
  };
  for (const std::string instruction :
       {"tex.grad.2d.v4.f32.f32 {%f5, %f6, %f7, %f8}, [%rd1, {%f1, %f2}], {%f1, %f2}, {%f1, %f2};",
        "tex.2d.v2.f32.f32 {%f5, %f6}, [%rd1, {%f1, %f2}];",
        "suld.p.2d.v4.b32.trap {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}];"})
    EXPECT_THAT(refusal(instruction), HasSubstr("not supported")) << instruction;
}

}  // namespace
}  // namespace partita::ptx
