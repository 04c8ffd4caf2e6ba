// Verbs: `partita verify FILE` is `batch verify`, `kernels verify` or `power verify` where the file
// is of that kind, and so are `simulate` and `compare`. The longer names stay.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace partita::cli {

// The words of a command line with the verb replaced, where what it is about wants that.
std::vector<std::string> with_verb(Files& files, std::span<char* const> words);

}  // namespace partita::cli
