#include "base/elements.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita {
namespace {

constexpr ElementType kTypes[] = {
    {"u8", 1, 'u'},  {"s8", 1, 's'},  {"u16", 2, 'u'}, {"s16", 2, 's'}, {"u32", 4, 'u'},
    {"s32", 4, 's'}, {"u64", 8, 'u'}, {"s64", 8, 's'}, {"f32", 4, 'f'}, {"f64", 8, 'f'}};

std::uint64_t float_bits(const ElementType& type, double value) {
  return type.bytes == 8 ? std::bit_cast<std::uint64_t>(value)
                         : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

tl::unexpected<Error> no_value(std::string_view value, std::string_view why) {
  return bad_input({}, fmt::format("'{}' {}", utf8(printable(value.substr(0, 64))), why));
}

}  // namespace

Result<ElementType> element_type(std::string_view name) {
  for (const ElementType& type : kTypes)
    if (type.name == name) return type;
  return bad_input({}, fmt::format("no type '{}': u8 s8 u16 s16 u32 s32 u64 s64 f32 f64",
                                   utf8(printable(name.substr(0, 64)))));
}

Result<std::uint64_t> element_bits(const ElementType& type, std::string_view value) {
  const auto bits = static_cast<int>(8 * type.bytes);
  const std::string too_large = fmt::format("is more than {} holds", type.name);
  if (type.kind == 'f') {
    const auto number = parse_number<double>(value);
    if (!number) return no_value(value, "is no number");
    if (type.bytes == 4 && std::isfinite(*number) && std::abs(*number) > 3.4028235e38)
      return no_value(value, too_large);
    return float_bits(type, *number);
  }
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - bits + (type.kind == 's' ? 1 : 0));
  if (const auto number = parse_number<std::uint64_t>(value))
    return *number <= most ? Result<std::uint64_t>(*number) : no_value(value, too_large);
  const auto number = parse_number<std::int64_t>(value);
  if (!number) return no_value(value, "is no whole number");
  if (type.kind == 'u' || *number < -static_cast<std::int64_t>(most) - 1)
    return no_value(value, fmt::format("is less than {} holds", type.name));
  return static_cast<std::uint64_t>(*number);
}

std::string text_of_element(const ElementType& type, const std::byte* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, type.bytes);
  if (type.kind == 'f')
    return type.bytes == 8
               ? fmt::format("{}", std::bit_cast<double>(bits))
               : fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  if (type.kind == 'u') return fmt::format("{}", bits);
  const std::size_t unused = 64 - 8 * type.bytes;
  return fmt::format("{}", static_cast<std::int64_t>(bits << unused) >> unused);
}

Result<void> fill_elements(std::span<std::byte> memory, const ElementType& type,
                           std::string_view fill) {
  const bool ramp = fill == "ramp";
  const std::uint64_t all = ramp || fill == "zero" ? 0 : TRY(element_bits(type, fill));
  for (std::uint64_t i = 0; i < memory.size() / type.bytes; ++i) {
    const std::uint64_t bits = !ramp              ? all
                               : type.kind == 'f' ? float_bits(type, static_cast<double>(i))
                                                  : i;
    std::memcpy(memory.data() + i * type.bytes, &bits, type.bytes);
  }
  return {};
}

}  // namespace partita
