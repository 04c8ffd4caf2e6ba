#include "control/request.h"

#include <fmt/format.h>

namespace partita::control {

Result<Mode> parse_mode(const std::string& text) {
  for (const Mode mode : {Mode::automatic, Mode::approve, Mode::observe})
    if (text == to_string(mode)) return mode;
  return bad_input("mode",
                   fmt::format("'{}' is no mode (there are automatic, approve and observe)", text));
}

}  // namespace partita::control
