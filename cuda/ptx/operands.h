// Operands of instructions.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "ptx/module.h"
#include "ptx/names.h"
#include "ptx/reader.h"

namespace partita::ptx {

struct ReadOperands {
  std::vector<Operand> operands = {};
  // Those that may be labels: symbols that are no variables. Names are of the text.
  struct Open {
    std::size_t item = 0;
    std::string_view name = {};
  };
  std::vector<Open> open = {};
};
// Operands up to the semicolon, which stays. Registers and variables are resolved. `call`:
// parentheses are lists.
ReadOperands read_operands(Reader& reader, const Names& names, bool call);

// Whether %NAME is one that PTX itself defines.
bool is_special(std::string_view name);

}  // namespace partita::ptx
