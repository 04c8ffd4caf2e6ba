#include "image/layout.h"

#include <gtest/gtest.h>

#include <cstring>

namespace partita::remote::image {
namespace {

Layouts of_ptx(std::string_view text) {
  const auto layouts = ptx_layouts(text);
  EXPECT_TRUE(layouts) << (layouts ? "" : layouts.error().message);
  return layouts ? *layouts : Layouts{};
}

// The layouts that nvcc gives the same kernels: char, short, double, a struct of 176 bytes, one
// aligned to 16, a pointer; a struct of 6000 bytes; none.
TEST(PtxLayout, AsTheCompilerLaysThemOut) {
  const Layouts layouts = of_ptx(R"(
.version 8.0
.target sm_80
.address_size 64
// .entry not_this(.param .u64 x)
.visible .entry k2(.param .u8 a, .param .u16 b, .param .f64 c, .param .align 1 .b8 d[176],
                   .param .align 16 .b8 e[16], .param .u64 .ptr .global .align 4 f)
.maxntid 256, 1, 1
{ ret; }
.entry k5 ( .param .align 1 .b8 k5_param_0[6000] , .param .u64 k5_param_1 ) { ret; }
/* .entry nor this( */
.visible .entry k3()
{ ret; }
.visible .entry k4
{ ret; }
.visible .entry k6()
.reqntid 16, 2 .minnctapersm 2
{ ret; }
.visible .entry k7 .maxntid 99999, 99999, 99999 { ret; }
)");
  ASSERT_EQ(layouts.size(), 6u);
  const std::vector<Place> expected = {{0, 1}, {2, 2}, {8, 8}, {16, 176}, {192, 16}, {208, 8}};
  EXPECT_EQ(layouts.find("k2")->second, (Layout{expected, 216, 256}));
  EXPECT_EQ(layouts.find("k5")->second, (Layout{{{0, 6000}, {6000, 8}}, 6008}));
  EXPECT_EQ(layouts.find("k3")->second, Layout{});
  EXPECT_EQ(layouts.find("k4")->second, Layout{});
  EXPECT_EQ(layouts.find("k6")->second.threads, 32u);
  EXPECT_GT(layouts.find("k7")->second.threads, 1024u) << "no limit, and no small remainder";
}

TEST(PtxLayout, WhatItCannotReadIsRefused) {
  for (const std::string_view list :
       {".param .texref t", ".param .u64", ".param .u64 a,", ".reg .u64 a", ".param .u63 a",
        ".param .align 3 .b8 a[4]", ".param .b8 a[99999999]", ".param .b64 a[4097]",
        ".param .b8 a[", ".param .u64 a .param .u64 b"}) {
    EXPECT_FALSE(ptx_layouts(".entry k(" + std::string(list) + ")")) << list;
  }
}

// A cubin with one section `.nv.info.NAME` of these bytes.
std::string cubin(const std::string& name, const std::string& info) {
  const std::string names = std::string(1, '\0') + ".nv.info." + name + std::string(1, '\0');
  std::string file(64 + 3 * 64, '\0');
  const auto put64 = [&](std::size_t at, std::uint64_t value) {
    std::memcpy(file.data() + at, &value, 8);
  };
  const auto put16 = [&](std::size_t at, std::uint16_t value) {
    std::memcpy(file.data() + at, &value, 2);
  };
  std::memcpy(file.data(),
              "\x7f"
              "ELF\x02\x01\x01\x41\x08",
              9);
  put64(40, 64);
  put16(58, 64), put16(60, 3), put16(62, 1);
  const auto section = [&](std::size_t index, std::uint64_t name_at, std::uint64_t type,
                           std::uint64_t offset, std::uint64_t size) {
    put64(64 + index * 64, name_at | type << 32);
    put64(64 + index * 64 + 24, offset);
    put64(64 + index * 64 + 32, size);
  };
  section(1, 0, 3, file.size(), names.size());
  section(2, 1, 0x70000000, file.size() + names.size(), info.size());
  return file + names + info;
}

std::string record(unsigned form, unsigned what, std::uint16_t length, const std::string& behind) {
  std::string bytes = {static_cast<char>(form), static_cast<char>(what)};
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  return bytes + behind;
}
std::string parameter(std::uint16_t ordinal, std::uint16_t offset, std::uint32_t word) {
  std::string bytes(4, '\0');
  bytes.append(reinterpret_cast<const char*>(&ordinal), 2);
  bytes.append(reinterpret_cast<const char*>(&offset), 2);
  bytes.append(reinterpret_cast<const char*>(&word), 4);
  return bytes;
}

Result<Layouts> of_cubin(const std::string& file) {
  return cubin_layouts(std::as_bytes(std::span(file)));
}

// Records as they stand in a cubin of nvcc 13 for (float*, int) and for (6000 bytes, int*).
TEST(CubinLayout, BothFormsOfRecords) {
  const auto first = of_cubin(cubin("k1", record(4, 0x37, 4, "\x82" + std::string(3, '\0')) +
                                              record(4, 0x17, 12, parameter(1, 8, 0x0011f000)) +
                                              record(4, 0x17, 12, parameter(0, 0, 0x0021f000)) +
                                              record(3, 0x1b, 255, "") + record(3, 0x19, 12, "")));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->find("k1")->second, (Layout{{{0, 8}, {8, 4}}, 12}));
  const auto second = of_cubin(cubin("k5", record(4, 0x45, 12, parameter(1, 6000, 8)) +
                                               record(4, 0x45, 12, parameter(0, 0, 6000)) +
                                               record(3, 0x19, 6008, "")));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->find("k5")->second, (Layout{{{0, 6000}, {6000, 8}}, 6008}));
  const auto none = of_cubin(cubin("k3", record(3, 0x50, 0, "")));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->find("k3")->second, Layout{});
}

TEST(CubinLayout, CutAndLyingRecordsAreRefused) {
  const std::string good = record(4, 0x17, 12, parameter(0, 0, 0x0021f000));
  for (std::size_t size = 1; size < good.size(); ++size)
    EXPECT_FALSE(of_cubin(cubin("k", good.substr(0, size)))) << size;
  EXPECT_FALSE(of_cubin(cubin("k", record(4, 0x17, 12, parameter(65000, 0, 0x0021f000)))));
  EXPECT_FALSE(of_cubin(cubin("k", record(4, 0x45, 12, parameter(0, 0, 0x7fffffff)))));
  EXPECT_FALSE(of_cubin(cubin("k", good + record(3, 0x19, 4, ""))));
  const std::string file = cubin("k", good);
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(of_cubin(file.substr(0, size))) << size;
}

}  // namespace
}  // namespace partita::remote::image
