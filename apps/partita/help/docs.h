// Docs: the tree of commands and flags as data, read from the CLI11 tree. Help, man page and shell
// completions are all printed from it, so that none of them can say anything else than what the
// parser accepts.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "program.h"

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace partita::cli {

struct VerbForm;

struct FlagDoc {
  std::vector<std::string> names;  // "-o", "--output"; a positional has one name without dashes
  std::string value;               // "FILE", "text|json"; empty for a switch
  std::string text;
  std::string standard;  // the default, for people; may be empty
  bool required = false;
  bool everywhere = false;  // every command has it
  std::vector<std::string> older = {};  // names that are understood and not shown
};

struct CommandDoc {
  std::vector<std::string> path;  // "partita", "profile", "fit"
  std::string summary;
  std::vector<FlagDoc> positionals, flags;
  std::vector<std::string> examples;
  std::vector<CommandDoc> children;  // hidden commands are left out
  bool elsewhere = false;            // a name for a command of another program
  std::string when = {}, was = {};   // of a verb's form: what asks for it, and its older name
  std::string word = {};  // of a verb's form: the word, or its begin, that asks for it; empty: none
  std::vector<CommandDoc> forms = {};  // of a verb
};

// A kind of document that a program knows.
struct KindDoc {
  std::string name, about;
};

// All that a program says of itself: the document `kind: CommandDocs`.
struct CommandDocs {
  CommandDoc root;
  std::vector<KindDoc> kinds;
};
std::string docs_json(const CommandDocs& docs);
Result<CommandDocs> parse_docs(const std::string& file, std::string_view text);

CommandDoc describe(const CLI::App& app);

// With the flags and words of a verb's forms among its own, here and below.
void take_in_forms(CommandDoc& command);

// All commands below and including `root`, parents before children.
std::vector<const CommandDoc*> flatten(const CommandDoc& root);

// "partita plan --services FILE [options]"
std::string usage(const CommandDoc& command);

// What --help prints; of an older name, how it is said now, too.
std::string help_of(const CLI::App& command);
// "partita watch is an older name of `partita show --watch`."
std::string older_name(const VerbForm& form);

// Gives help_text to CLI11's --help. Set on the root before commands are added: they inherit it.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// What an exit status means, one line each.
extern const std::vector<std::string> kExitStatuses;
Command add_completion(CLI::App& app, const Program& program);
Command add_man(CLI::App& app, const Program& program);

// All of them.
std::vector<Command> add_help_commands(CLI::App& app, const Program& program);
// What the installed programs say of themselves.
CommandDocs docs_of(const CLI::App& app, const Program& program);

}  // namespace partita::cli
