// A second protobuf codec, for tests: builds a message field by field, and takes one apart into the
// list of its fields. Slow and plain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace partita::serve::test {

struct Message {
  std::string bytes = {};

  Message& varint(std::uint64_t value) {
    while (value > 127) {
      bytes += static_cast<char>(value % 128 + 128);
      value /= 128;
    }
    bytes += static_cast<char>(value);
    return *this;
  }
  Message& number(unsigned field, std::int64_t value) {
    return varint(field * 8).varint(static_cast<std::uint64_t>(value));
  }
  Message& text(unsigned field, std::string_view value) {
    varint(field * 8 + 2).varint(value.size());
    bytes += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes); }
  Message& packed(unsigned field, const std::vector<std::int64_t>& values) {
    Message inside;
    for (const std::int64_t value : values) inside.varint(static_cast<std::uint64_t>(value));
    return message(field, inside);
  }
  // An entry of a map<string, InferParameter>.
  Message& parameter(unsigned field, std::string_view key, std::int64_t value) {
    return message(field, Message().text(1, key).message(2, Message().number(2, value)));
  }
};

// The strings and messages of a message by their field, and its numbers.
struct Fields {
  std::map<unsigned, std::vector<std::string>> texts = {};
  std::map<unsigned, std::vector<std::int64_t>> numbers = {};
  bool whole = true;

  explicit Fields(std::string_view bytes) {
    std::size_t at = 0;
    const auto read = [&] {
      std::uint64_t value = 0, scale = 1;
      while (at < bytes.size()) {
        const auto byte = static_cast<unsigned char>(bytes[at++]);
        value += scale * (byte % 128);
        scale *= 128;
        if (byte < 128) return value;
      }
      whole = false;
      return std::uint64_t{0};
    };
    while (at < bytes.size() && whole) {
      const std::uint64_t tag = read(), value = read();
      const auto field = static_cast<unsigned>(tag / 8);
      if (tag % 8 == 0) {
        numbers[field].push_back(static_cast<std::int64_t>(value));
      } else if (tag % 8 == 2 && value <= bytes.size() - at) {
        texts[field].emplace_back(bytes.substr(at, value));
        at += value;
      } else {
        whole = false;
      }
    }
  }
  std::string text(unsigned field, std::size_t index = 0) const {
    const auto found = texts.find(field);
    return found == texts.end() || index >= found->second.size() ? "<none>" : found->second[index];
  }
};

}  // namespace partita::serve::test
