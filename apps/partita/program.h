// Program: one of the three of this command line - partita, partita-lab, partita-remote - as a list
// of commands: they are described, one is chosen and run, and what came out is the exit status.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "context.h"

namespace partita::cli {

struct Entry {
  std::string_view name;  // of the command at the top
  std::function<Command(CLI::App& app)> add;
};

struct Program {
  std::string summary;
  std::vector<Entry> commands;  // in the order in which help lists them
  std::vector<DocumentKind> (*kinds)() = nullptr;  // of documents, sorted by name
  bool whole = false;  // partita itself: it knows the others' commands by name
  // What is said once for the whole tree of commands; null: nothing.
  std::vector<Command> (*dress)(CLI::App& app, std::vector<Command> commands) = nullptr;
};

int run_program(int argc, char** argv, const Program& program);

}  // namespace partita::cli
