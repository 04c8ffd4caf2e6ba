// Which Partita this is: what git says where it is built from a tag on, else CMake's version. In a
// source of its own, so that a new version compiles nothing else.
#pragma once

#include <string>

namespace partita::cli {

std::string version();

}  // namespace partita::cli
