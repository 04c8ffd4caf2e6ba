// Answers in the form of gzip (RFC 1952), for those who ask for it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/door/exchange.h"

namespace partita::serve {

// "gzip" among the words of Accept-Encoding, and not with q=0.
bool accepts_gzip(std::string_view accepted);
// Quickly rather than small; empty where there is no memory.
std::string gzipped(std::string_view text);
inline constexpr std::size_t kWorthGzip = 1024;
// The reply's text, and what says so; shorter texts and those with spans behind stay.
void compress(Reply& reply);

}  // namespace partita::serve
