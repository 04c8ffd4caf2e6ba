// The protobuf wire format: reads a message that lies in pieces (as gRPC hands it over) from left
// to right without joining or copying them, and writes one. Groups are refused, unknown fields
// skipped by their length. The first mistake stays; the owner asks error() at the end. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace partita {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

class ProtoScan {
 public:
  // Views of the whole message; they outlive the scan.
  explicit ProtoScan(std::span<const std::string_view> pieces);

  std::uint64_t size() const { return size_; }
  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position);

  // Calls field(number, type) for each field of a message of `length` bytes that begins here; field
  // consumes the value, skip() where it does not know it.
  template <class F>
  void message(std::uint64_t length, F&& field);
  std::uint64_t varint();
  std::uint32_t fixed32();
  std::uint64_t fixed64();
  std::uint64_t length();  // of the bytes that begin behind it; checked against the end
  std::string text(WireType type, std::size_t limit);
  void copy(std::span<char> into);
  void jump(std::uint64_t bytes);
  void skip(WireType type);

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  void fail(std::string_view what);

 private:
  std::uint64_t tag();
  void settle();

  std::span<const std::string_view> pieces_;
  std::uint64_t size_ = 0, position_ = 0, end_ = 0;
  std::size_t piece_ = 0, at_ = 0;
  std::string error_;
};

template <class F>
void ProtoScan::message(std::uint64_t length, F&& field) {
  const std::uint64_t outer = end_;
  if (length > end_ - position_) fail("longer than what holds it");
  if (!ok()) return;
  end_ = position_ + length;
  while (ok() && position_ < end_) {
    const std::uint64_t tag_value = tag();
    if (ok())
      field(static_cast<std::uint32_t>(tag_value >> 3), static_cast<WireType>(tag_value & 7));
  }
  end_ = outer;
}

void append_varint(std::string& out, std::uint64_t value);
void append_field(std::string& out, std::uint32_t number, std::string_view bytes);
void append_field(std::string& out, std::uint32_t number, std::uint64_t value);

}  // namespace partita
