// The body of a function: declarations, labels and instructions between its braces.
#pragma once

#include <cstddef>

#include "ptx/module.h"
#include "ptx/names.h"
#include "ptx/reader.h"

namespace partita::ptx {

// What a module may still take.
struct Budget {
  std::size_t statements = kMaxStatements;
  std::size_t registers = kMaxStatements;
  std::size_t initial_bytes = kMaxPtxBytes;
};

// True while there is room; else the reader has failed.
bool spend(Reader& reader, std::size_t& left, std::size_t amount, std::string_view what);

// (PARAMETER, PARAMETER): declarations whose names are new in `names`, where given. Those in
// registers become registers of `function`.
std::vector<Variable> read_parameters(Reader& reader, Budget& budget, Names* names,
                                      Function* function);

// Behind the opening brace of `function`, to behind the closing one. `names` has its parameters.
void read_body(Reader& reader, Budget& budget, Names& names, Function& function);

// .loc of a module or a body, behind the word: nothing but where `function` is given.
void read_location(Reader& reader, Function* function);

}  // namespace partita::ptx
