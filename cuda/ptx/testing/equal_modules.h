// Modules compared as to_text keeps them: for tests and fuzz targets.
#pragma once

#include <vector>

#include "ptx/module.h"

namespace partita::ptx {

inline std::vector<Variable> without_lines(std::vector<Variable> variables) {
  for (Variable& variable : variables) variable.line = 0;
  return variables;
}

// The module with every line of the text set to 0 and no locations.
inline Module without_lines(Module module) {
  module.variables = without_lines(std::move(module.variables));
  for (Function& function : module.functions) {
    function.line = 0;
    function.locations.clear();
    function.results = without_lines(std::move(function.results));
    function.parameters = without_lines(std::move(function.parameters));
    function.variables = without_lines(std::move(function.variables));
    for (Instruction& instruction : function.code) instruction.line = 0;
    for (Prototype& prototype : function.prototypes) {
      prototype.results = without_lines(std::move(prototype.results));
      prototype.parameters = without_lines(std::move(prototype.parameters));
    }
  }
  return module;
}

}  // namespace partita::ptx
