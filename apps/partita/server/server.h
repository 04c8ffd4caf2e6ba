// `partita --server URL COMMAND`: commands of a node as clients of its agent's API. Said once here,
// for the whole tree of commands; those that cannot be remote say so.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "api/operations.h"
#include "context.h"

namespace partita::cli {

// Adds --server and what belongs to it to the program, and lets every command obey it.
std::vector<Command> with_server(CLI::App& app, std::vector<Command> commands);

// The operation that a command ("batch cancel") is; null: none alone.
const api::Operation* operation_of(std::string_view words);
// Its command below `parent`, or those of a group ("batch"). On this machine they only say that an
// agent does them.
Command add_operation(CLI::App& parent, const api::Operation& operation);
std::vector<Command> add_operations(CLI::App& parent, std::string_view group);

}  // namespace partita::cli
