// Frames: a header, a body of fields (codec.h), and bulk behind it. The bulk is not part of the
// body so that both sides can move it straight between its place and the transport.
//
//   client  operation   code, request (0 for async), body, bulk (Bulk::in)
//   server  answer      code | kAnswer, the request's number, body: Outcome then Reply, bulk (out)
//   server  notice      code, request 0, body, bulk
//
// Answers come in any order (streams are independent); notices of a stream come before the answer
// of a later synchronisation of it. Little-endian.
#pragma once

#include <vector>

#include "wire/codec.h"

namespace partita::remote {

inline constexpr std::uint16_t kAnswer = 0x8000;
inline constexpr std::size_t kMaxBody = 512 * 1024;
inline constexpr std::uint64_t kMaxBulk = std::uint64_t{1} << 40;

struct FrameHeader {
  std::uint32_t body_bytes = 0;
  std::uint16_t code = 0;
  std::uint16_t reserved = 0;
  std::uint32_t request = 0;
  std::uint32_t reserved2 = 0;
  std::uint64_t bulk_bytes = 0;
  bool operator==(const FrameHeader&) const = default;
};
static_assert(sizeof(FrameHeader) == 24);

// First in the body of every answer.
struct Outcome {
  std::int32_t status = 0;  // of this operation, CUDA's number
  std::int32_t sticky = 0;  // the first failure of an asynchronous one; stays until reset or exit
  FIELDS(status, sticky)
  bool operator==(const Outcome&) const = default;
};

// An operation alone, as nodes of graphs say what they do: no request, no bulk.
template <class Op>
std::vector<std::byte> frame_of(const Op& operation) {
  const FrameHeader header{.body_bytes = static_cast<std::uint32_t>(encoded_size(operation)),
                           .code = Op::kSpec.code};
  std::vector<std::byte> bytes(sizeof header + header.body_bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  encode(operation, bytes.data() + sizeof header);
  return bytes;
}

// Lengths within limits and reserved fields zero.
constexpr bool is_legal(const FrameHeader& header) {
  return header.body_bytes <= kMaxBody && header.bulk_bytes <= kMaxBulk && header.reserved == 0 &&
         header.reserved2 == 0;
}

}  // namespace partita::remote
