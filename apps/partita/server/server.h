// `partita --server URL COMMAND`: commands of a node as clients of its agent's API. Said once here,
// for the whole tree of commands; those that cannot be remote say so.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "context.h"

namespace partita::cli {

// Adds --server and what belongs to it to the program, and lets every command obey it.
std::vector<Command> with_server(CLI::App& app, std::vector<Command> commands);

}  // namespace partita::cli
