// Little-endian values out of bytes that may be wrong: nothing where they do not lie inside.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace partita::remote::image {

using Blob = std::span<const std::byte>;

template <class T>
std::optional<T> read_at(Blob bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The bytes [offset, offset + size), or nothing when they are not all there.
inline std::optional<Blob> slice(Blob bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.subspan(offset, size);
}

// The text from `offset` to its NUL; empty when there is none.
inline std::string_view text_at(Blob bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return {};
  const Blob rest = bytes.subspan(offset);
  const auto end = std::find(rest.begin(), rest.end(), std::byte{0});
  if (end == rest.end()) return {};
  return {reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(end - rest.begin())};
}

}  // namespace partita::remote::image
