// Fields to bytes and back, generic over operations.h. Little-endian, packed; Text and Bytes have
// a 32-bit length before them. Decoding refuses what is short, long, or over its limit and never
// reads outside the body. Header only and without allocation, as the client lives in strangers'
// processes.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <type_traits>

#include "wire/operations.h"

namespace partita::remote {

template <class T>
concept Plain =
    std::is_trivially_copyable_v<T> && !std::is_same_v<T, Text> && !std::is_same_v<T, Bytes>;

// Bytes that `fields` of this value take.
template <class Fields>
std::size_t encoded_size(const Fields& value) {
  std::size_t size = 0;
  Fields::fields(value, [&]<class T>(std::string_view, const T& field) {
    if constexpr (Plain<T>) {
      size += sizeof(T);
    } else {
      size += 4 + field.size();
    }
  });
  return size;
}

// Writes them; `into` has encoded_size() bytes. Returns the end. Text and Bytes must be within
// their limits (check_limits).
template <class Fields>
std::byte* encode(const Fields& value, std::byte* into) {
  Fields::fields(value, [&]<class T>(std::string_view, const T& field) {
    if constexpr (Plain<T>) {
      std::memcpy(into, &field, sizeof(T));
      into += sizeof(T);
    } else {
      const auto size = static_cast<std::uint32_t>(field.size());
      std::memcpy(into, &size, 4);
      if (size > 0) std::memcpy(into + 4, field.data(), size);
      into += 4 + size;
    }
  });
  return into;
}

template <class Fields>
bool within_limits(const Fields& value) {
  bool within = true;
  Fields::fields(value, [&]<class T>(std::string_view, const T& field) {
    if constexpr (std::is_same_v<T, Text>) within = within && field.size() <= kMaxText;
    if constexpr (std::is_same_v<T, Bytes>) within = within && field.size() <= kMaxBytes;
  });
  return within;
}

// The value whose fields are exactly `body`; nothing when they are not. Text and Bytes point into
// `body`.
template <class Fields>
std::optional<Fields> decode(Bytes body) {
  Fields value;
  bool good = true;
  Fields::fields(value, [&]<class T>(std::string_view, T& field) {
    if constexpr (Plain<T>) {
      if (!good || body.size() < sizeof(T)) return void(good = false);
      std::memcpy(&field, body.data(), sizeof(T));
      body = body.subspan(sizeof(T));
    } else {
      std::uint32_t size = 0;
      if (!good || body.size() < 4) return void(good = false);
      std::memcpy(&size, body.data(), 4);
      const std::size_t most = std::is_same_v<T, Text> ? kMaxText : kMaxBytes;
      if (size > most || body.size() - 4 < size) return void(good = false);
      field = T(reinterpret_cast<typename T::const_pointer>(body.data() + 4), size);
      body = body.subspan(4 + size);
    }
  });
  if (!good || !body.empty()) return std::nullopt;
  return value;
}

// The word for a field's kind in docs and the protocol hash.
template <class T>
constexpr std::string_view kind_name() {
  if constexpr (std::is_same_v<T, std::uint32_t>)
    return "u32";
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return "u64";
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return "i32";
  else if constexpr (std::is_same_v<T, DevicePointer>)
    return "device pointer";
  else if constexpr (std::is_same_v<T, Token>)
    return "token";
  else if constexpr (std::is_same_v<T, Extent3>)
    return "extent";
  else if constexpr (std::is_same_v<T, Digest>)
    return "digest";
  else if constexpr (std::is_same_v<T, Text>)
    return "text";
  else if constexpr (std::is_same_v<T, Bytes>)
    return "bytes";
  else if constexpr (std::is_same_v<T, ModuleHandle>)
    return "module";
  else if constexpr (std::is_same_v<T, KernelHandle>)
    return "kernel";
  else if constexpr (std::is_same_v<T, StreamHandle>)
    return "stream";
  else if constexpr (std::is_same_v<T, EventHandle>)
    return "event";
  else if constexpr (std::is_same_v<T, GraphHandle>)
    return "graph";
  else if constexpr (std::is_same_v<T, GraphExecHandle>)
    return "executable graph";
  else if constexpr (std::is_same_v<T, NodeHandle>)
    return "node";
  else if constexpr (std::is_same_v<T, ArrayHandle>)
    return "array";
  else if constexpr (std::is_same_v<T, TextureHandle>)
    return "texture";
  else
    static_assert(sizeof(T) == 0, "a kind without a word");
}

// Calls visit.template operator()<Op>() for every operation of a table, in order.
template <class... Ops, class Visit>
constexpr void for_each(Table<Ops...>, Visit&& visit) {
  (visit.template operator()<Ops>(), ...);
}

// FNV-1a over version, codes, names, kinds and classes of both tables.
constexpr std::uint64_t protocol_hash() {
  std::uint64_t hash = 0xcbf29ce484222325;
  auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash = (hash ^ 0xff) * 0x100000001b3;
  };
  auto number = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  auto fields = [&]<class Fields>() {
    Fields value{};
    Fields::fields(value, [&]<class T>(std::string_view name, const T&) {
      add(name);
      add(kind_name<T>());
    });
  };
  auto operation = [&]<class Op>() {
    add(Op::kSpec.name);
    number(Op::kSpec.code);
    number(static_cast<std::uint64_t>(Op::kSpec.completion));
    number(static_cast<std::uint64_t>(Op::kSpec.bulk));
    fields.template operator()<Op>();
    fields.template operator()<typename Op::Reply>();
  };
  number(kWireVersion);
  for_each(ClientOperations{}, operation);
  for_each(ServerNotices{}, operation);
  return hash;
}

}  // namespace partita::remote
