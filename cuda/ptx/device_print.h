// printf as a device prints: the format and the arguments as vprintf's buffer has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace partita::ptx {

struct DevicePrint {
  bool failed = false;  // an argument could not be read
  std::string text = {};
  int arguments = 0;
};
// `bytes` reads the next argument (4 or 8 bytes, aligned), `string` a string's text.
DevicePrint print_like_device(std::string_view format,
                              const std::function<bool(std::span<std::byte>)>& bytes,
                              const std::function<std::string(std::uint64_t)>& string);

}  // namespace partita::ptx
