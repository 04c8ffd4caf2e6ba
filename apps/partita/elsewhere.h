// Elsewhere: commands that another program carries out, partita-lab or partita-remote, which lies
// beside this one or in ../lib/partita. `partita thermal ...` becomes that program, so that
// `partita` itself needs nothing of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "context.h"
#include "help/docs.h"

namespace partita::cli {

struct Elsewhere {
  std::string_view words;    // "thermal", "energy fit"
  std::string_view program;  // "partita-lab"
  std::string_view summary;
};
// The one that these words name, or that they are below ("thermal steady"); null: none.
const Elsewhere* elsewhere_of(std::string_view words);

// A command that stands for one of another program.
bool is_elsewhere(const CLI::App& command);
std::span<const Elsewhere> elsewhere();
Command add_elsewhere(CLI::App& parent, const Elsewhere& command);
// Those below a group ("energy").
std::vector<Command> add_elsewhere(CLI::App& parent, std::string_view group);

// Becomes that program, with the words of this one. Returns only to say why not.
Result<Exit> become(const Context& context, const Elsewhere& command);

// The commands of the other programs that are installed, put in their places in `own`.
CommandDocs with_others(CommandDocs own);
// What an installed program prints; empty where it is not installed or ends otherwise than with 0.
std::string said_by(std::string_view program, const std::string& words);
// Those programs.
inline constexpr std::string_view kOtherPrograms[] = {"partita-lab", "partita-remote"};

}  // namespace partita::cli
