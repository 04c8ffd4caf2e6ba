#include "image/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace partita::remote::image {
namespace {

std::string own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// This test itself: linked against libc, without device code.
TEST(Program, OwnImports) {
  const std::string content = own_file();
  const auto program = read_program(std::as_bytes(std::span(content)));
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_NE(std::find(program->needed.begin(), program->needed.end(), "libc.so.6"),
            program->needed.end());
  // Not one that a sanitizer has, too, whose names have no version.
  const auto found = std::ranges::find(program->imports, "__libc_start_main", &Import::name);
  ASSERT_NE(found, program->imports.end());
  EXPECT_TRUE(found->version.starts_with("GLIBC_2")) << found->version;
  EXPECT_FALSE(program->has_device_code);
  EXPECT_FALSE(program->static_runtime);
}

TEST(Program, CutsDoNoHarm) {
  const std::string content = own_file();
  for (std::size_t size = 0; size < content.size(); size += content.size() / 61 + 1)
    EXPECT_FALSE(read_program(std::as_bytes(std::span(content).first(size)))) << size;
  EXPECT_FALSE(read_program(std::as_bytes(std::span(std::string_view("#!/bin/sh\n")))));
}

}  // namespace
}  // namespace partita::remote::image
