#include "image/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace partita::remote::image {
namespace {

std::string hex(std::string_view text) {
  std::string digits;
  for (const std::byte byte : sha256(std::as_bytes(std::span(text)))) {
    constexpr char kDigits[] = "0123456789abcdef";
    digits += kDigits[std::to_integer<unsigned>(byte) >> 4];
    digits += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return digits;
}

// The examples of FIPS 180-4 and its predecessor.
TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around the end of a block, where the padding needs one more.
TEST(Sha256, LengthsAroundABlock) {
  EXPECT_EQ(hex(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(hex(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(hex(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

}  // namespace
}  // namespace partita::remote::image
