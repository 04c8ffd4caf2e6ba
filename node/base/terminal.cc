#include "base/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.h"
#include "base/unicode.h"

namespace partita {
namespace {

// Everything that a Painter writes.
constexpr std::string_view kPlain = "\x1b[0m", kBold = "\x1b[1m", kDim = "\x1b[2m",
                           kInkColour = "\x1b[38;5;16m", kBackground = "\x1b[48;5;";

// A bar ends in one column more.
int unit_columns(BarShape shape) {
  return std::max(1, (shape.width - 1) / std::max(1, shape.units));
}

// Found by search: the largest least CIEDE2000 distance over four kinds of sight, among colours
// that carry dark text. Ordered so that the first few are further apart still.
constexpr std::array<Rgb, kDistinctColours> kColours{{
    {129, 183, 246},
    {255, 246, 147},
    {147, 147, 39},
    {228, 174, 192},
    {237, 102, 129},
    {201, 255, 219},
    {192, 192, 84},
    {57, 246, 255},
    {165, 129, 174},
    {57, 165, 138},
    {138, 129, 237},
    {174, 210, 156},
}};

// The first label that fits, else the last one cut, padded to the width.
std::string label(const LabelledBox& box, int width) {
  for (const std::string& text : box.labels)
    if (columns(text) <= width) return fit(text, width);
  return fit(box.labels.back(), width);
}

}  // namespace

std::string number_text(double value) {
  if (!std::isfinite(value)) return "unbounded";
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string duration_text(double seconds) {
  if (seconds < 0) return "-" + duration_text(-seconds);
  if (!std::isfinite(seconds)) return number_text(seconds);
  struct Unit {
    const char* name;
    double size;
  };
  for (const auto& [name, size] : {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}})
    if (seconds < 0.9995e3 * size && seconds > 0)  // 999.6 us is 1 ms
      return fmt::format("{:.3g} {}", seconds / size, name);
  if (seconds < 999.95) return number_text(seconds) + " s";
  const auto [unit, names] = seconds < 3599.5 ? std::pair(60.0, std::pair("min", "s"))
                                              : std::pair(3600.0, std::pair("h", "min"));
  const double parts = std::round(seconds / unit * 60), whole = std::floor(parts / 60);
  return fmt::format("{:.0f} {} {:.0f} {}", whole, names.first, parts - 60 * whole, names.second);
}

std::string count_text(long count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : noun == "process" ? "es" : "s");
}

Rgb distinct_colour(int n) { return kColours[at(n % kDistinctColours)]; }

std::string Painter::wrapped(std::string_view code, const std::string& text) const {
  return colour_ ? std::string(code).append(text).append(kPlain) : text;
}

std::string Painter::bold(const std::string& text) const { return wrapped(kBold, text); }
std::string Painter::dim(const std::string& text) const { return wrapped(kDim, text); }

std::size_t Painter::code_at(std::string_view text) const {
  if (!colour_) return 0;
  for (const std::string_view code : {kPlain, kBold, kDim, kInkColour})
    if (text.starts_with(code)) return code.size();
  if (!text.starts_with(kBackground)) return 0;
  const std::size_t end = text.find_first_not_of("0123456789", kBackground.size());
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

std::string shown(std::string_view text, const Painter& painter) {
  std::string result;
  while (!text.empty()) {
    const Decoded next = decode(text);
    std::size_t bytes = painter.code_at(text);
    if (bytes == 0) bytes = next.bytes;
    if (bytes > next.bytes || text[0] == '\n' || text[0] == '\t' ||
        name_fault(text.substr(0, next.bytes)).empty()) {
      result += text.substr(0, bytes);
    } else if (next.valid() && next.c >= 0x80) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(next.c));
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(bytes);
  }
  return result;
}

std::string folded(std::string_view line, int width, int indent) {
  std::string text;
  int at = 0;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' ', line.find_first_not_of(' ')));
    const int wide = columns(word);
    if (at > indent && at + wide > width) {
      const std::size_t spaces = std::min(word.size(), word.find_first_not_of(' '));
      text.append("\n").append(static_cast<std::size_t>(indent), ' ').append(word.substr(spaces));
      at = indent + wide - static_cast<int>(spaces);
    } else {
      text += word;
      at += wide;
    }
    line.remove_prefix(word.size());
  }
  return text + "\n";
}

std::string repeated(std::string_view piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

std::string Painter::filled(const std::string& text, Rgb c) const {
  const auto level = [](int channel) { return (channel * 5 + 127) / 255; };  // 6x6x6 ANSI cube
  const int index = 16 + 36 * level(c.red) + 6 * level(c.green) + level(c.blue);
  return wrapped(fmt::format("{}{}m{}", kBackground, index, kInkColour), text);
}

std::string aligned(const std::vector<TextRow>& rows) {
  std::vector<int> widths(rows.front().size());
  for (const TextRow& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  std::string text;
  for (const TextRow& row : rows) {
    text += fit(row.front(), widths.front());
    for (std::size_t i = 1; i + 1 < row.size(); ++i)
      text.append(static_cast<std::size_t>(2 + widths[i] - columns(row[i])), ' ').append(row[i]);
    text.append("  ").append(row.back()).append("\n");
  }
  return text;
}

std::string ruler_text(BarShape shape) {
  const int width = unit_columns(shape);
  const int digits = static_cast<int>(std::to_string(std::max(0, shape.units - 1)).size());
  const int every = (digits + width) / width;  // units per number
  std::string text;
  for (int i = 0; i < shape.units; i += every) {
    const int room = std::min(every, shape.units - i) * width - 1;
    std::string number = std::to_string(i);
    if (static_cast<int>(number.size()) > room) number.clear();
    text += (i == 0 ? "┌" : "┬") + number + repeated("─", room - static_cast<int>(number.size()));
  }
  return text + "┐";
}

std::string bar_text(BarShape shape, const std::vector<LabelledBox>& boxes,
                     const Painter& painter) {
  const int width = unit_columns(shape);
  std::string text;
  int at = 0;
  const auto leave_free = [&](int end) {
    if (end > at) text.append("│").append(painter.dim(repeated("·", end - at - 1)));
    at = std::max(at, end);
  };
  for (const LabelledBox& box : boxes) {
    leave_free(box.start * width);
    const int end = (box.start + box.size) * width;
    if (end <= at) continue;
    const std::string inside = label(box, end - at - 1);
    text.append("│").append(box.colour ? painter.filled(inside, *box.colour) : inside);
    at = end;
  }
  leave_free(shape.units * width);
  return text + "│";
}

}  // namespace partita
