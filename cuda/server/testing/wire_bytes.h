// Numbers one behind the other, as arguments of library calls are on the wire.
#pragma once

#include <cstddef>
#include <vector>

namespace partita::remote::server {

struct WireBytes {
  std::vector<std::byte> bytes = {};
  template <class... Values>
  explicit WireBytes(const Values&... values) {
    (add(values), ...);
  }
  template <class T>
  void add(const T& value) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(T));
  }
};

}  // namespace partita::remote::server
