// ChunkedBody: a request's body in HTTP/1.1's chunked form (RFC 9112, 7.1), taken apart piece by
// piece. Extensions and trailers are read and dropped, up to kMostChunkExtras bytes of a body; what
// breaks the form is refused. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace partita::serve {

inline constexpr std::size_t kMostChunkExtras = 4096;

class ChunkedBody {
 public:
  struct Taken {
    std::size_t wire = 0, body = 0;  // bytes used up, bytes written
  };
  // Takes what there is, as far as there is room for it; what lies between the bytes of the body
  // also without room.
  Taken take(std::string_view wire, std::span<char> into);
  bool ended() const { return state_ == State::ended; }
  bool broken() const { return state_ == State::broken; }

 private:
  enum class State : std::uint8_t {
    size,
    extension,
    size_end,
    data,
    data_return,
    data_end,
    trailer_begin,
    trailer,
    trailer_end,
    last_end,
    ended,
    broken
  };
  State next(char c);
  State size_digit(char c);
  State extra(State stays);

  State state_ = State::size;
  int digits_ = 0;
  std::uint64_t left_ = 0;  // of the chunk
  std::size_t extras_ = 0;
};

}  // namespace partita::serve
