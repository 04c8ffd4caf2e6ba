#include "base/proto_scan.h"

#include <algorithm>
#include <cstring>

namespace partita {

ProtoScan::ProtoScan(std::span<const std::string_view> pieces) : pieces_(pieces) {
  for (const std::string_view piece : pieces) size_ += piece.size();
  end_ = size_;
  settle();
}

// Goes over pieces that are done, or empty.
void ProtoScan::settle() {
  while (piece_ < pieces_.size() && at_ == pieces_[piece_].size()) {
    ++piece_;
    at_ = 0;
  }
}

void ProtoScan::fail(std::string_view what) {
  if (!error_.empty()) return;
  error_ = "byte " + std::to_string(position_) + ": ";
  error_ += what;
}

void ProtoScan::seek(std::uint64_t position) {
  if (position < position_) {
    position_ = 0;
    piece_ = at_ = 0;
    settle();
  }
  jump(position - position_);
}

void ProtoScan::jump(std::uint64_t bytes) {
  if (bytes > end_ - position_) fail("longer than what holds it");
  if (!ok()) return;
  position_ += bytes;
  while (bytes > 0) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes, pieces_[piece_].size() - at_);
    at_ += static_cast<std::size_t>(part);
    bytes -= part;
    settle();
  }
}

void ProtoScan::copy(std::span<char> into) {
  if (into.size() > end_ - position_) fail("ends too soon");
  if (!ok()) return;
  position_ += into.size();
  while (!into.empty()) {
    const std::size_t part = std::min(into.size(), pieces_[piece_].size() - at_);
    std::memcpy(into.data(), pieces_[piece_].data() + at_, part);
    into = into.subspan(part);
    at_ += part;
    settle();
  }
}

std::uint64_t ProtoScan::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; ok() && shift < 70; shift += 7) {
    if (position_ == end_) {
      fail("ends inside of a number");
      return 0;
    }
    const auto byte = static_cast<unsigned char>(pieces_[piece_][at_]);
    ++at_;
    ++position_;
    if (at_ == pieces_[piece_].size()) settle();
    if (shift == 63 && byte > 1) break;
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than 64 bits");
  return 0;
}

std::uint64_t ProtoScan::tag() {
  const std::uint64_t value = varint();
  const std::uint64_t type = value & 7;
  const bool known = type == 0 || type == 1 || type == 2 || type == 5;
  if (value < 8 || value > 0xFFFF'FFFF || !known) fail("no field begins here");
  return value;
}

std::uint32_t ProtoScan::fixed32() {
  std::uint32_t value = 0;
  char bytes[4] = {};
  copy(bytes);
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::uint64_t ProtoScan::fixed64() {
  std::uint64_t value = 0;
  char bytes[8] = {};
  copy(bytes);
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::uint64_t ProtoScan::length() {
  const std::uint64_t value = varint();
  if (value > end_ - position_) fail("longer than what holds it");
  return ok() ? value : 0;
}

std::string ProtoScan::text(WireType type, std::size_t limit) {
  if (type != WireType::bytes) fail("a string is wanted");
  const std::uint64_t bytes = length();
  if (bytes > limit) fail("a string that is too long");
  if (!ok()) return {};
  std::string out(static_cast<std::size_t>(bytes), '\0');
  copy(out);
  return out;
}

void ProtoScan::skip(WireType type) {
  switch (type) {
    case WireType::varint:
      varint();
      return;
    case WireType::fixed64:
      return jump(8);
    case WireType::fixed32:
      return jump(4);
    case WireType::bytes:
      return jump(length());
  }
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_field(std::string& out, std::uint32_t number, std::string_view bytes) {
  append_varint(out, number << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_field(std::string& out, std::uint32_t number, std::uint64_t value) {
  append_varint(out, number << 3);
  append_varint(out, value);
}

}  // namespace partita
