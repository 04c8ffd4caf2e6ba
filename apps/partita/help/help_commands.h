// Commands about the program itself, made from the tree of commands that they are part of: help,
// schema, completion, man, docs.
#pragma once

#include "help/docs.h"
#include "program.h"

namespace partita::cli {

Command add_help(CLI::App& app, const Program& program);
Command add_schema(CLI::App& app, const Program& program);
Command add_docs(CLI::App& app, const Program& program);
Command add_completion(CLI::App& app, const Program& program);
Command add_man(CLI::App& app, const Program& program);

// All of them.
std::vector<Command> add_help_commands(CLI::App& app, const Program& program);
// What the installed programs say of themselves.
CommandDocs docs_of(const CLI::App& app, const Program& program);

}  // namespace partita::cli
