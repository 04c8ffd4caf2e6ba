// Answers in the form of gzip (RFC 1952), for those who ask for it; requests that come so. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/door/exchange.h"
#include "base/result.h"

namespace partita::serve {

// "gzip" among the words of Accept-Encoding, and not with q=0.
bool accepts_gzip(std::string_view accepted);
// Quickly rather than small; empty where there is no memory.
std::string gzipped(std::string_view text);
inline constexpr std::size_t kWorthGzip = 1024;

// Of a Content-Encoding: gzip, or deflate (RFC 1950).
bool is_packed(std::string_view encoding);
enum class UnpackFault { broken, too_long, no_room };
// What a whole body was before it was packed. Little that becomes much more than `most` bytes is
// too_long. `room`: asked before so many bytes of memory are taken; false: there is none.
tl::expected<std::string, UnpackFault> unpacked(std::string_view body, std::size_t most,
                                                const std::function<bool(std::size_t)>& room);
// So much may come of a body of so many bytes, whatever is allowed otherwise: who sends little does
// not keep a loop busy for long.
inline constexpr std::size_t kUnpackedAnyway = 1u << 20, kUnpackedTimes = 20;
// The reply's text, and what says so; shorter texts and those with spans behind stay.
void compress(Reply& reply);

}  // namespace partita::serve
