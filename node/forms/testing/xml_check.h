// For the tests of the pictures: why a text is not well-formed XML (elements, attributes in double
// quotes, the five entities); run() is empty if it is. Stricter than XML: one element, one newline
// at the end, no character that printable() would replace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/unicode.h"
#include "forms/vocabulary.h"

namespace partita::forms {

class XmlCheck {
 public:
  explicit XmlCheck(std::string_view text) : rest_(text) {}

  std::string run() {
    do {
      if (std::string fault = rest_.starts_with('<') ? tag() : characters(); !fault.empty())
        return fault;
    } while (!open_.empty());
    return rest_ == "\n" ? "" : "text after the root element";
  }

 private:
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(std::min(count, rest_.size()));
    return taken;
  }
  std::string characters() {
    const auto end = rest_.find('<');
    if (end == rest_.npos) return "the text ends inside an element";
    std::string text(take(end));
    std::erase(text, '\n');
    return entities(text);
  }
  static std::string entities(std::string_view text) {
    for (std::size_t at = 0; (at = text.find('&', at)) != text.npos; ++at) {
      const auto name = text.substr(at, text.find(';', at) - at);
      if (name != "&amp" && name != "&lt" && name != "&gt" && name != "&quot" && name != "&#39")
        return "bad entity " + std::string(name);
    }
    for (const char32_t c : printable(text))
      if (c == 0xFFFD) return "a character that XML or a reader cannot have";
    return "";
  }
  std::string tag() {
    take(1);
    if (rest_.starts_with('/')) {
      take(1);
      const auto name = take(rest_.find('>'));
      take(1);
      if (open_.empty() || open_.back() != name) return "unexpected end of " + std::string(name);
      open_.pop_back();
      return "";
    }
    const auto name = take(rest_.find_first_of(" />"));
    if (name.empty()) return "an empty name";
    while (rest_.starts_with(' '))
      if (std::string fault = attribute(); !fault.empty()) return fault;
    if (!rest_.starts_with("/>")) open_.push_back(std::string(name));
    if (rest_.starts_with('/')) take(1);
    return take(1) == ">" ? "" : "a tag without end";
  }
  std::string attribute() {
    const auto equals = rest_.find('=');
    const char quote = equals < rest_.size() - 1 ? rest_[equals + 1] : ' ';
    if ((quote != '"' && quote != '\'') ||
        rest_.substr(1, equals).find_first_of(" <>&'") < equals - 1)
      return "a bad attribute";
    take(equals + 2);
    const auto value = take(rest_.find(quote));
    take(1);
    return value.find('<') == value.npos ? entities(value) : "< in an attribute";
  }

  std::string_view rest_;
  std::vector<std::string> open_;
};

}  // namespace partita::forms
