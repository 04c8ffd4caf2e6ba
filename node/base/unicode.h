// Text that people wrote, made safe to print: what a name may hold, how many terminal columns it
// fills, and how to cut it. Categories and widths are those of utf8proc (Unicode 15). Limit: a
// width is a guess for scripts that join or stack characters.
#pragma once

#include <string>
#include <string_view>

namespace partita {

inline constexpr std::size_t kMaxNameBytes = 128;

// The code point that starts `text` (not empty), and its bytes. What is not UTF-8, surrogates
// included, is U+FFFD of one byte.
struct Decoded {
  char32_t c;
  std::size_t bytes;
  bool valid() const { return bytes > 1 || c < 0x80; }
};
Decoded decode(std::string_view text);

// Why `text` cannot be a name (1..kMaxNameBytes bytes of UTF-8 without control, line or
// text-direction characters); empty when it can.
std::string name_fault(std::string_view text);

// Code points; everything that a name may not hold becomes U+FFFD, so the result is safe in
// terminals and XML.
std::u32string printable(std::string_view text);
std::string utf8(std::u32string_view text);

// ASCII letters made small; everything else stays.
std::string lower_case(std::string_view text);

// Terminal columns: 0 (combining), 1 or 2 (East Asian wide, emoji).
int columns(char32_t c);
int columns(std::string_view text);

// `text` without what a name may not hold, and without as much of its middle as makes it `width`
// wide: names often differ at their ends. `measure` gives the width of one character. Empty when
// not even the ellipsis fits.
std::string elided(std::string_view text, double width, double (*measure)(char32_t));

// Exactly `width` columns: padded with spaces or elided.
std::string fit(std::string_view text, int width);

// Text for between XML tags or in attributes; what XML cannot hold is replaced as printable() does.
std::string xml_escaped(std::string_view text);

}  // namespace partita
