// What operations of remote execution are made of: the kinds of their parameters, and when the
// caller may go on (Completion). Values only. All handles are chosen by the client, so that making
// one needs no answer; 0 is none (of a stream: the default stream). FIELDS lists the fields of a
// message.
#pragma once

#include <boost/preprocessor/seq/for_each.hpp>
#include <boost/preprocessor/stringize.hpp>
#include <boost/preprocessor/variadic/to_seq.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace partita::remote {

template <class Tag>
struct Handle {
  std::uint64_t value = 0;
  bool operator==(const Handle&) const = default;
  auto operator<=>(const Handle&) const = default;
};
using ModuleHandle = Handle<struct ModuleTag>;
using KernelHandle = Handle<struct KernelTag>;
using StreamHandle = Handle<struct StreamTag>;
using EventHandle = Handle<struct EventTag>;
using GraphHandle = Handle<struct GraphTag>;
using GraphExecHandle = Handle<struct GraphExecTag>;
using NodeHandle = Handle<struct NodeTag>;
using ArrayHandle = Handle<struct ArrayTag>;
using TextureHandle = Handle<struct TextureTag>;  // the server's: kernels know it by this number

// An address in the session's arena; the server checks it against the allocations before use.
struct DevicePointer {
  std::uint64_t value = 0;
  bool operator==(const DevicePointer&) const = default;
};
// Something the client wants back unchanged (a callback, a place in its memory); no meaning here.
struct Token {
  std::uint64_t value = 0;
  bool operator==(const Token&) const = default;
};
struct Extent3 {
  std::uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Extent3&) const = default;
};
struct Digest {  // SHA-256
  std::byte bytes[32] = {};
  bool operator==(const Digest&) const = default;
};

// Small variable parts lie in the frame: Text and Bytes point into the receive buffer and last as
// long as it does. Large ones are the frame's bulk (frame.h), which is not a field.
using Text = std::string_view;
using Bytes = std::span<const std::byte>;
inline constexpr std::size_t kMaxText = 4096;
inline constexpr std::size_t kMaxBytes = 256 * 1024;

enum class Completion : std::uint8_t {
  local,  // answered by the client from what it knows; never on the wire
  async,  // sent, not answered; a failure shows at the next answer of its stream or session
  memo,   // answered once per key, then from memory
  sync,   // the caller waits for the answer
};

// How the bulk of a frame is used: none, from the client (host in), or in the answer (host out).
enum class Bulk : std::uint8_t { none, in, out };

struct Spec {
  std::string_view name;
  std::uint16_t code = 0;
  Completion completion = Completion::async;
  Bulk bulk = Bulk::none;
};

}  // namespace partita::remote

// In a struct: fields(message, field), which calls field("name", message.name) for each of these,
// in their order on the wire.
#define FIELDS(...)                                                                       \
  static constexpr void fields([[maybe_unused]] auto& o, [[maybe_unused]] auto&& field) { \
    __VA_OPT__(BOOST_PP_SEQ_FOR_EACH(FIELD_, o, BOOST_PP_VARIADIC_TO_SEQ(__VA_ARGS__)))   \
  }
#define FIELD_(r, message, name) field(BOOST_PP_STRINGIZE(name), message.name);
