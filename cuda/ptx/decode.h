// Decodes a kernel, with the functions it may call, from the parsed module into a program. What
// cannot be executed is refused with NAME:LINE and the instruction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/program.h"

namespace partita::ptx {

// Device addresses of variables in the arena, by name.
using Addresses = std::map<std::string, std::uint64_t>;

std::uint64_t function_address(std::size_t index);  // of a function, by its index in the module

Result<Program> decode(const Module& module, const Function& kernel, const Addresses& addresses,
                       std::string_view name);

}  // namespace partita::ptx
