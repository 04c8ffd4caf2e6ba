#include "base/append.h"

namespace partita {

void append_formatted(std::string& text, fmt::string_view format, fmt::format_args arguments) {
  text += fmt::vformat(format, arguments);
}

}  // namespace partita
