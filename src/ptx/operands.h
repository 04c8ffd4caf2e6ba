// Operands of instructions.
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/module.h"
#include "ptx/names.h"
#include "ptx/reader.h"

namespace partita::ptx {

struct ReadOperands {
  std::vector<Operand> operands = {};
  std::vector<std::size_t> open = {};  // those that may be labels: symbols that are no variables
};
// Operands up to the semicolon, which stays. Registers and variables are resolved. `call`:
// parentheses are lists.
ReadOperands read_operands(Reader& reader, const Names& names, bool call);

// Whether %NAME is one that PTX itself defines.
bool is_special(std::string_view name);

}  // namespace partita::ptx
