#include "ptx/device_print.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace partita::ptx {
namespace {

constexpr std::size_t kMaxField = 4096;  // of one conversion

struct Conversion {
  std::string flags = {};
  int width = 0, precision = -1;
  bool is_long = false;
  char kind = 0;
};

template <class T>
std::string formatted(const Conversion& c, const char* length, T value) {
  std::string format = "%" + c.flags + std::to_string(c.width);
  if (c.width == 0) format.pop_back();
  if (c.precision >= 0) format += "." + std::to_string(c.precision);
  format += length;
  format += c.kind;
  std::vector<char> field(kMaxField);
  const int count = std::snprintf(field.data(), field.size(), format.c_str(), value);
  return count < 0 ? std::string() : std::string(field.data());
}

class Printer {
 public:
  Printer(std::string_view format, const std::function<bool(std::span<std::byte>)>& bytes,
          const std::function<std::string(std::uint64_t)>& string)
      : format_(format), bytes_(bytes), string_(string) {}

  DevicePrint run() {
    while (at_ < format_.size() && !result_.failed) {
      const char c = format_[at_++];
      if (c != '%') {
        result_.text += c;
      } else if (at_ < format_.size() && format_[at_] == '%') {
        result_.text += format_[at_++];
      } else {
        conversion();
      }
    }
    return std::move(result_);
  }

 private:
  template <class T>
  T take() {
    T value{};
    std::byte raw[sizeof(T)];
    if (!bytes_({raw, sizeof(T)})) result_.failed = true;
    std::memcpy(&value, raw, sizeof(T));
    ++result_.arguments;
    return value;
  }
  int number() {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      return take<std::int32_t>();
    }
    int value = 0;
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9' && value < 10'000)
      value = 10 * value + (format_[at_++] - '0');
    return value;
  }

  void conversion() {
    const std::size_t begin = at_ - 1;
    Conversion c;
    while (at_ < format_.size() &&
           std::string_view("-+ #0").find(format_[at_]) != std::string::npos)
      c.flags += format_[at_++];
    c.width = number();
    if (c.width < 0) c.flags += '-', c.width = -c.width;
    if (at_ < format_.size() && format_[at_] == '.') ++at_, c.precision = number();
    while (at_ < format_.size() &&
           std::string_view("lhjzt").find(format_[at_]) != std::string::npos)
      c.is_long = format_[at_++] != 'h' || c.is_long;
    c.width = std::min(c.width, 2000);
    c.precision = std::min(c.precision, 1000);
    c.kind = at_ < format_.size() ? format_[at_++] : '\0';
    switch (c.kind) {
      case 'd':
      case 'i':
        result_.text += c.is_long ? formatted(c, "ll", static_cast<long long>(take<std::int64_t>()))
                                  : formatted(c, "", take<std::int32_t>());
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        result_.text +=
            c.is_long ? formatted(c, "ll", static_cast<unsigned long long>(take<std::uint64_t>()))
                      : formatted(c, "", take<std::uint32_t>());
        break;
      case 'c':
        result_.text += formatted(c, "", take<std::int32_t>());
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        result_.text += formatted(c, "", take<double>());
        break;
      case 'p': {
        c.kind = 'x';
        c.flags += '#';
        result_.text += formatted(c, "ll", static_cast<unsigned long long>(take<std::uint64_t>()));
        break;
      }
      case 's': {
        const auto address = take<std::uint64_t>();
        result_.text += formatted(c, "", string_(address).c_str());
        break;
      }
      default:
        result_.text += format_.substr(begin, at_ - begin);  // not a conversion: as it stands
    }
  }

  std::string_view format_;
  const std::function<bool(std::span<std::byte>)>& bytes_;
  const std::function<std::string(std::uint64_t)>& string_;
  std::size_t at_ = 0;
  DevicePrint result_;
};

}  // namespace

DevicePrint print_like_device(std::string_view format,
                              const std::function<bool(std::span<std::byte>)>& bytes,
                              const std::function<std::string(std::uint64_t)>& string) {
  return Printer(format, bytes, string).run();
}

}  // namespace partita::ptx
