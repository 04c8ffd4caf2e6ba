#include "base/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace partita {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool changes_direction(utf8proc_propval_t bidi_class) {
  switch (bidi_class) {
    case UTF8PROC_BIDI_CLASS_LRE:
    case UTF8PROC_BIDI_CLASS_LRO:
    case UTF8PROC_BIDI_CLASS_RLE:
    case UTF8PROC_BIDI_CLASS_RLO:
    case UTF8PROC_BIDI_CLASS_PDF:
    case UTF8PROC_BIDI_CLASS_LRI:
    case UTF8PROC_BIDI_CLASS_RLI:
    case UTF8PROC_BIDI_CLASS_FSI:
    case UTF8PROC_BIDI_CLASS_PDI:
      return true;
    default:
      return false;
  }
}

// Controls, line and paragraph separators, what changes the direction of text, and what XML cannot
// hold.
bool forbidden(char32_t c) {
  const utf8proc_property_t& property = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  switch (property.category) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    case UTF8PROC_CATEGORY_CF:
      return changes_direction(property.bidi_class) || c == 0x061C || c == 0x200E || c == 0x200F ||
             c == 0xFEFF;
    default:
      return c == 0xFFFE || c == 0xFFFF;
  }
}

}  // namespace

Decoded decode(std::string_view text) {
  if (!text.empty() && static_cast<unsigned char>(text.front()) < 0x80)
    return {static_cast<char32_t>(text.front()), 1};
  utf8proc_int32_t c = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &c);
  if (bytes <= 0) return {kReplacement, 1};
  return {static_cast<char32_t>(c), static_cast<std::size_t>(bytes)};
}

std::string name_fault(std::string_view text) {
  if (text.empty()) return "is empty";
  if (text.size() > kMaxNameBytes) return fmt::format("is longer than {} bytes", kMaxNameBytes);
  for (std::size_t i = 0; i < text.size();) {
    const Decoded next = decode(text.substr(i));
    if (!next.valid()) return "is not UTF-8";
    if (forbidden(next.c))
      return fmt::format("holds the control character U+{:04X}", static_cast<unsigned>(next.c));
    i += next.bytes;
  }
  return {};
}

std::u32string printable(std::string_view text) {
  std::u32string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto [c, bytes] = decode(text.substr(i));
    result += forbidden(c) ? kReplacement : c;
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
  for (const char32_t c : text) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const utf8proc_ssize_t count =
        utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    result.append(bytes.begin(), bytes.begin() + count);
  }
  return result;
}

int columns(char32_t c) { return utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)); }

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
