#include "base/append.h"

namespace partita {

void append_formatted(std::string& text, fmt::string_view format, fmt::format_args arguments) {
  text += fmt::vformat(format, arguments);
}

std::string metric_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace partita
