#include "base/parse_number.h"

#include <charconv>
#include <type_traits>

namespace partita {
namespace {

template <class Number>
std::from_chars_result read_number(std::string_view text, int base, Number& value) {
  const char* const end = text.data() + text.size();
  if constexpr (std::is_floating_point_v<Number>) {
    return std::from_chars(text.data(), end, value);
  } else {
    return std::from_chars(text.data(), end, value, base);
  }
}

}  // namespace

template <class Number>
std::optional<Number> parse_number(std::string_view text, int base) {
  Number value{};
  const auto [rest, error] = read_number(text, base, value);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number value{};
  const auto [rest, error] = read_number(text, 10, value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

template std::optional<int> parse_number(std::string_view, int);
template std::optional<long> parse_number(std::string_view, int);
template std::optional<std::uint64_t> parse_number(std::string_view, int);
template std::optional<double> parse_number(std::string_view, int);
template std::optional<int> take_number(std::string_view&);
template std::optional<double> take_number(std::string_view&);

}  // namespace partita
