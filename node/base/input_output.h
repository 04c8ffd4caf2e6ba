// What people hand in and take out besides the Files door: standard input, and files with the modes
// that their umask says rather than Partita's own.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace partita {

// All of standard input, whatever it is; more than kMaxFileBytes (files.h) is an Error.
Result<std::string> read_standard_input();

// As Files::write_atomic, but its mode follows the umask, and a device or a pipe of that name is
// written to. "-" is standard output.
Result<void> write_output(const std::string& path, std::string_view content);

}  // namespace partita
