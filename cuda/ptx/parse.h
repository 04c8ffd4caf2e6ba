// Reads PTX text. Pure; every length is bounded (module.h).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/module.h"

namespace partita::ptx {

// bad_input with context "NAME:LINE" and what was expected there; `limit` beyond the limits. A
// trailing NUL (as fat binaries have) is allowed.
Result<Module> parse(std::string_view text, std::string_view name = "ptx");
// Variables and functions of the module, and what uses them, get other names; nothing in a function
// has one of the old ones (parse() sees to it).
void rename_symbols(Module& module, const std::map<std::string, std::string>& renamed);
// PTX that parses to an equal module except for lines and locations.
std::string to_text(const Module& module);

}  // namespace partita::ptx
