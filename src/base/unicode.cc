#include "base/unicode.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace partita {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Span {
  char32_t first, last;
};

template <std::size_t n>
bool contains(const Span (&spans)[n], char32_t c) {
  const Span* at =
      std::lower_bound(spans, spans + n, c, [](const Span& s, char32_t v) { return s.last < v; });
  return at != spans + n && at->first <= c;
}

// Controls, line and paragraph separators, direction overrides, and what XML cannot hold.
constexpr Span kForbidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0x200E, 0x200F},
                               {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF},
                               {0xFFFE, 0xFFFF}};
constexpr Span kCombining[] = {{0x300, 0x36F},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
                               {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F},
                               {0xFE20, 0xFE2F}};
constexpr Span kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                          {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                          {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                          {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

void append(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      tail(12);
    }
    tail(6);
  }
  tail(0);
}

}  // namespace

Decoded decode(std::string_view text) {
  constexpr Decoded kInvalid{kReplacement, 1};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return kInvalid;
  char32_t c = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return kInvalid;
    c = c << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
  if (c < kSmallest[bytes] || surrogate || c > 0x10FFFF) return kInvalid;
  return {c, bytes};
}

std::string name_fault(std::string_view text) {
  if (text.empty()) return "is empty";
  if (text.size() > kMaxNameBytes) return fmt::format("is longer than {} bytes", kMaxNameBytes);
  for (std::size_t i = 0; i < text.size();) {
    const Decoded next = decode(text.substr(i));
    if (!next.valid()) return "is not UTF-8";
    if (contains(kForbidden, next.c))
      return fmt::format("holds the control character U+{:04X}", static_cast<unsigned>(next.c));
    i += next.bytes;
  }
  return {};
}

std::u32string printable(std::string_view text) {
  std::u32string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto [c, bytes] = decode(text.substr(i));
    result += contains(kForbidden, c) ? kReplacement : c;
    i += bytes;
  }
  return result;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string utf8(std::u32string_view text) {
  std::string result;
  for (const char32_t c : text) append(result, c);
  return result;
}

int columns(char32_t c) { return contains(kCombining, c) ? 0 : contains(kWide, c) ? 2 : 1; }

int columns(std::string_view text) {
  int sum = 0;
  for (const char32_t c : printable(text)) sum += columns(c);
  return sum;
}

std::string elided(std::string_view text, double width, double (*measure)(char32_t)) {
  const std::u32string all = printable(text);
  double used = 0;
  for (const char32_t c : all) used += measure(c);
  if (used <= width) return utf8(all);
  // Take characters away right of the head: two thirds of what is left stay in front, one third
  // behind.
  used += measure(U'…');
  std::size_t head = all.size() - all.size() / 3, tail = head;
  while (used > width && (head > 0 || tail < all.size()))
    used -=
        measure(2 * (all.size() - tail) > head && tail < all.size() ? all[tail++] : all[--head]);
  return used > width ? "" : utf8(all.substr(0, head) + U'…' + all.substr(tail));
}

std::string fit(std::string_view text, int width) {
  const std::string result = elided(text, width, [](char32_t c) { return double{1} * columns(c); });
  return result + std::string(static_cast<std::size_t>(std::max(0, width - columns(result))), ' ');
}

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char c : utf8(printable(text))) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace partita
