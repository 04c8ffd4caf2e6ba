// Texts put together. fmt::format_to(std::back_inserter(text), ...) and fmt::join compile much of
// fmt anew in every source that uses them; these do not.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace partita {

void append_formatted(std::string& text, fmt::string_view format, fmt::format_args arguments);

// append(text, "{} of {}\n", a, b): appends to `text`.
template <class... Arguments>
void append(std::string& text, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  append_formatted(text, format, fmt::make_format_args(arguments...));
}

// A label's value as the text format of metrics wants it between quotes.
std::string metric_label(std::string_view value);

// "a, b, c" of texts or whole numbers.
template <class Range>
std::string joined(const Range& parts, std::string_view between) {
  std::string text;
  std::string_view before;
  for (const auto& part : parts) {
    text += before;
    if constexpr (std::is_convertible_v<decltype(part), std::string_view>) {
      text += std::string_view(part);
    } else {
      text += std::to_string(part);
    }
    before = between;
  }
  return text;
}

}  // namespace partita
