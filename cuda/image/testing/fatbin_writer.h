// Writes fat binaries for tests, as nvcc lays them out.
#pragma once

#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "image/fatbin.h"

namespace partita::remote::image {

struct MemberText {
  MemberKind kind = MemberKind::ptx;
  Compression compression = Compression::none;
  std::uint32_t sm = 90;
  std::string_view text;
};

inline std::vector<std::byte> compressed(std::string_view text, Compression compression) {
  std::vector<std::byte> bytes;
  if (compression == Compression::none) {
    const auto raw = std::as_bytes(std::span(text));
    bytes.assign(raw.begin(), raw.end());
  } else if (compression == Compression::zstd) {
    bytes.resize(ZSTD_compressBound(text.size()));
    bytes.resize(ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 3));
  } else {
    bytes.resize(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(text.size()))));
    bytes.resize(static_cast<std::size_t>(
        LZ4_compress_default(text.data(), reinterpret_cast<char*>(bytes.data()),
                             static_cast<int>(text.size()), static_cast<int>(bytes.size()))));
  }
  return bytes;
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// One container with these members.
inline std::vector<std::byte> container_with(const std::vector<MemberText>& members) {
  constexpr std::size_t kMember = 64, kUnit = 8;
  std::vector<std::byte> all(kContainerHeader);
  for (const MemberText& member : members) {
    const std::vector<std::byte> stored = compressed(member.text, member.compression);
    const std::size_t begin = all.size(), padded = (stored.size() + kUnit - 1) / kUnit * kUnit;
    all.resize(begin + kMember + padded);
    put(all, begin, static_cast<std::uint16_t>(member.kind));
    put(all, begin + 2, std::uint16_t{0x101});
    put(all, begin + 4, std::uint32_t{kMember});
    put(all, begin + 8, std::uint64_t{padded});
    put(all, begin + 28, member.sm);
    if (member.compression != Compression::none) {
      const bool zstd = member.compression == Compression::zstd;
      put(all, begin + 16, static_cast<std::uint32_t>(stored.size()));
      put(all, begin + 40, std::uint64_t{zstd ? 0x8000U : 0x2000U});
      put(all, begin + 56, std::uint64_t{member.text.size()});
    }
    std::memcpy(all.data() + begin + kMember, stored.data(), stored.size());
  }
  put(all, 0, kContainerMagic);
  put(all, 4, std::uint16_t{1});
  put(all, 6, std::uint16_t{kContainerHeader});
  put(all, 8, std::uint64_t{all.size() - kContainerHeader});
  return all;
}

}  // namespace partita::remote::image
