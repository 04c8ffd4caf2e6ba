#include "wire/trace/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace partita::remote {
namespace {

constexpr std::size_t kShownBytes = 32;
constexpr std::size_t kOutcomeBytes = 8;

std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kShownBytes))) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return text + (bytes.size() > kShownBytes ? ".." : "");
}

std::string in_words(std::uint32_t value) { return fmt::format("{}", value); }
std::string in_words(std::int32_t value) { return fmt::format("{}", value); }
std::string in_words(std::uint64_t value) { return fmt::format("{}", value); }
std::string in_words(DevicePointer value) { return fmt::format("{:#x}", value.value); }
std::string in_words(Token value) { return fmt::format("{:#x}", value.value); }
std::string in_words(const Extent3& value) {
  return fmt::format("{}x{}x{}", value.x, value.y, value.z);
}
std::string in_words(const Digest& value) { return hex(Bytes(value.bytes).first(8)) + ".."; }
std::string in_words(Bytes value) {
  return value.empty() ? "none" : fmt::format("{}:{}", value.size(), hex(value));
}
// Nothing in it moves a terminal's cursor or ends the quotes.
std::string in_words(Text value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    const bool plain = code >= 0x20 && code < 0x7f && c != '"' && c != '\\';
    text += plain ? std::string(1, c) : fmt::format("\\x{:02x}", code);
  }
  return text + "\"";
}
template <class Tag>
std::string in_words(Handle<Tag> value) {
  return fmt::format("{}", value.value);
}

template <class Fields>
std::string fields_in_words(Bytes body) {
  const auto value = decode<Fields>(body);
  if (!value) return fmt::format(" (its {} bytes do not decode)", body.size());
  std::string text;
  Fields::fields(*value, [&](std::string_view name, const auto& field) {
    text += fmt::format(" {}={}", name, in_words(field));
  });
  return text;
}

template <class Op>
std::string answer_in_words(Bytes body) {
  const auto outcome = decode<Outcome>(body.first(std::min(body.size(), kOutcomeBytes)));
  if (!outcome) return fmt::format(" (its {} bytes do not decode)", body.size());
  std::string text = fmt::format(" status={}", outcome->status);
  if (outcome->sticky != 0) text += fmt::format(" sticky={}", outcome->sticky);
  return text + fields_in_words<typename Op::Reply>(body.subspan(kOutcomeBytes));
}

template <class Visit>
bool with_frame(const FrameHeader& header, Direction direction, Visit&& visit) {
  const bool answer = (header.code & kAnswer) != 0;
  const unsigned code = header.code & static_cast<unsigned>(~kAnswer);
  if (direction == Direction::up) {
    return !answer && with_operation(ClientOperations{}, code, visit);
  }
  return answer ? with_operation(ClientOperations{}, code, visit)
                : with_operation(ServerNotices{}, code, visit);
}

std::string_view class_word(Completion completion) {
  constexpr std::array<std::string_view, 4> kWords{"local", "async", "memo", "sync"};
  return kWords[static_cast<std::size_t>(completion)];
}

std::string_view bulk_word(Bulk bulk, bool notice) {
  if (bulk == Bulk::none) return "-";
  return bulk == Bulk::in ? (notice ? "with it" : "in") : "out";
}

template <class Fields>
std::string field_list() {
  std::string text;
  Fields value{};
  Fields::fields(value, [&]<class T>(std::string_view name, const T&) {
    text += fmt::format("{}`{}` {}", text.empty() ? "" : ", ", name, kind_name<T>());
  });
  return text.empty() ? "-" : text;
}

template <class... Ops>
std::string rows(Table<Ops...> table, bool notices) {
  std::string text;
  for_each(table, [&]<class Op>() {
    text += fmt::format("| {} | `{}` |", Op::kSpec.code, Op::kSpec.name);
    if (!notices) text += fmt::format(" {} |", class_word(Op::kSpec.completion));
    text += fmt::format(" {} | {} |", field_list<Op>(), bulk_word(Op::kSpec.bulk, notices));
    if (!notices) text += fmt::format(" {} |", field_list<typename Op::Reply>());
    text += "\n";
  });
  return text;
}

}  // namespace

std::optional<Spec> spec_of(const FrameHeader& header, Direction direction) {
  std::optional<Spec> spec;
  with_frame(header, direction, [&]<class Op>() { spec = Op::kSpec; });
  return spec;
}

std::string describe(const FrameHeader& header, Bytes body, Direction direction) {
  std::string text;
  const bool answer = (header.code & kAnswer) != 0;
  const bool known = with_frame(header, direction, [&]<class Op>() {
    text = std::string(Op::kSpec.name) + (answer ? " answer" : "");
    if (header.request != 0) text += fmt::format(" #{}", header.request);
    text += answer ? answer_in_words<Op>(body) : fields_in_words<Op>(body);
  });
  if (!known) text = fmt::format("unknown code {:#x} with {} bytes", header.code, body.size());
  if (header.bulk_bytes > 0) text += fmt::format(" + {} bytes", header.bulk_bytes);
  return text;
}

std::optional<Outcome> outcome_of(const FrameHeader& header, Bytes body) {
  if ((header.code & kAnswer) == 0 || body.size() < kOutcomeBytes) return std::nullopt;
  return decode<Outcome>(body.first(kOutcomeBytes));
}

std::string protocol_page() {
  return fmt::format(
      R"(# The protocol of remote CUDA

Made by `partita remote operations --format markdown` from `cuda/wire/operations.h`; a test
compares the two.

Version {}, hash of the table {:#018x}: both are in `hello`, and a server refuses a client whose
table is another.

A frame is a header of {} bytes, a body of fields, and bulk; all of it is little-endian. The header:
`body_bytes` u32, `code` u16, 0 u16, `request` u32, 0 u32, `bulk_bytes` u64. The code of an answer
has the bit {:#x} set, and its body begins with `status` i32 and `sticky` i32 (CUDA's error numbers;
the second one is of asynchronous operations before). Fields lie packed in the order given here:
text and bytes with their u32 length before them; handles, device pointers and tokens as u64; an
extent as three u32; a digest as 32 bytes. Limits: body {} bytes, text {}, bytes {}, bulk {}.

Classes: async operations have request 0 and no answer; a failure shows at the next answer. sync
ones are waited for. memo ones are asked once and then known. Everything else that CUDA offers is
answered by the client itself.

## Operations of the client

| code | operation | class | fields | bulk | answer |
| --- | --- | --- | --- | --- | --- |
{}
## Notices of the server

| code | notice | fields | bulk |
| --- | --- | --- | --- |
{})",
      kWireVersion, protocol_hash(), sizeof(FrameHeader), kAnswer, kMaxBody, kMaxText, kMaxBytes,
      kMaxBulk, rows(ClientOperations{}, false), rows(ServerNotices{}, true));
}

}  // namespace partita::remote
