// Context: what every command of the command line may touch (the doors, standard output and error),
// and the few things that all commands share: exit statuses, -o and --format. Owned by main();
// single-threaded. A command is added by `Command add_x(CLI::App& app)`: flags are described there
// once, and help, man page and completions are made from that description (docs.h).
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "hw/catalogue.h"
#include "plan/reason.h"

namespace CLI {
class App;
}
namespace partita::api {
class Client;
}

namespace partita::cli {

// Exit statuses. no: infeasible, violations found, SLO or deadline missed (--require, --strict).
enum class Exit { done = 0, no = 1, bad_input = 2, environment = 3 };

// The exit status that an Error means.
Exit exit_of(const Error& error);

struct Context {
  Files& files;
  Clock& clock;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool colour = false;    // standard output shows colours, and NO_COLOR is not set
  int width = 100;        // columns of standard output; 100 where that is no terminal
  bool progress = false;  // standard error is a terminal whose lines can be overwritten
  int err_width = 100;
  bool progress_shown = false;      // a progress line stands there
  bool quiet = false;               // nothing but the result and what ends the command is said
  std::function<void()> last = {};  // what main() does last of all
  std::span<char* const> words = {};  // of the command line, the program's name first
  std::string verb = {};              // said instead of the command's own name; see verbs.h
};

// A subcommand: its flags, and what it does once they are parsed. Flags live in what `run`
// captures.
struct Command {
  CLI::App* app = nullptr;
  std::function<Result<Exit>(Context&)> run;
  // The same of an agent (--server); empty: as server/server.cc says.
  std::function<Result<Exit>(Context&, const api::Client&)> remote = {};
};

// A command that only has commands below it, which are given.
Command group_of(CLI::App* app, std::vector<Command> commands);

// The common output flags.
struct Output {
  std::string file;  // -o; empty = standard output
  std::string format = "text";
  bool json() const { return format == "json"; }
  bool svg() const { return format == "svg"; }
};

// Adds -o and --format to a command; `formats` are the words that --format accepts, the first is
// the default.
void add_output(CLI::App& command, Output& output, const std::vector<std::string>& formats);

// Whether a document is wanted: as it is, or, for csv, to make rows of.
inline bool wants_document(const Output& output) { return output.json() || output.format == "csv"; }

// Adds -o alone; `-` is standard output.
void add_output_file(CLI::App& command, std::string& file);

// Writes the result of a command where -o says: a file, atomically, or standard output. Text for
// people is made safe for terminals, as it is in the three functions below.
Result<void> deliver(Context& context, const Output& output, std::string_view content);

// The same as the end of a command.
Result<Exit> finish(Context& context, const Output& output, std::string_view content,
                    Exit exit = Exit::done);

// Lines on standard output, at once.
void say(Context& context, std::string_view text);
// Lines on standard error, unless all is to be quiet.
void note(Context& context, std::string_view text);
// The same, "partita: " before it.
void complain(Context& context, std::string_view message);
// Why a command ends, on standard error; also when all is to be quiet.
void refusal(Context& context, std::string_view message);

// The first line of a file that others may not read.
Result<std::string> read_secret(Context& context, const std::string& flag, const std::string& file);

// Refusals as every command says them: as text on standard error, as JSON on standard output.

// Says that there is no such thing ("plan"), or that none was found, and why. -o names the place of
// the thing; a refusal is never written there.
Result<Exit> refuse(Context& context, const Output& output, const std::string& thing,
                    const std::vector<plan::Reason>& reasons);

// The verdict on FILE: `ok`, a line, or the violations; exit 1 with them.
Result<Exit> say_verdict(Context& context, const Output& output, const std::string& file,
                         const std::string& ok, const std::vector<plan::Reason>& violations);

}  // namespace partita::cli
