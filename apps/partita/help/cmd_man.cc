#include <fmt/format.h>

#include "commands.h"
#include "help/docs.h"
#include "flags.h"

namespace partita::cli {
namespace {

// roff: backslashes and dashes are escaped, a leading dot or quote would be a request.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string flag_roff(const FlagDoc& flag) {
  std::string head;
  for (const std::string& name : flag.names) {
    head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", roff(name));
  }
  if (!flag.value.empty() && flag.names.front().starts_with('-')) {
    head += fmt::format(" \\fI{}\\fR", roff(flag.value));
  }
  std::string notes;
  if (flag.required) notes += " Required.";
  if (!flag.standard.empty()) notes += fmt::format(" Default: {}.", roff(flag.standard));
  return fmt::format(".TP\n{}\n{}.{}\n", head, roff(flag.text), notes);
}

std::string command_roff(const CommandDoc& command) {
  std::string text =
      fmt::format(".SS {}\n{}.\n", roff(fmt::format("{}", fmt::join(command.path, " "))),
                  roff(command.summary));
  text += fmt::format(".PP\n.B {}\n", roff(usage(command)));
  for (const FlagDoc& flag : command.positionals) text += flag_roff(flag);
  for (const FlagDoc& flag : command.flags) {
    if (flag.names.back() != "--help") text += flag_roff(flag);
  }
  if (!command.examples.empty()) {
    text += ".PP\nExamples:\n.nf\n";
    for (const std::string& example : command.examples) text += "    " + roff(example) + "\n";
    text += ".fi\n";
  }
  return text;
}

std::string man_page(const CommandDoc& root) {
  std::string text =
      fmt::format(".TH PARTITA 1 \"\" \"partita {}\" \"User Commands\"\n", PARTITA_VERSION);
  text += fmt::format(".SH NAME\npartita \\- spatial GPU partitioning\n.SH SYNOPSIS\n.B {}\n",
                      roff(usage(root)));
  text += fmt::format(".SH DESCRIPTION\n{}\n", roff(root.summary));
  text +=
      ".PP\nResults go to standard output or to the file of \\fB\\-o\\fR, which is written "
      "atomically; messages and progress go to standard error. Where a file is asked for, \\- is "
      "standard input or output. File formats are described in "
      "docs/formats.md.\n.SH COMMANDS\n";
  for (const CommandDoc* command : flatten(root)) {
    if (command != &root) text += command_roff(*command);
  }
  text += ".SH EXIT STATUS\n";
  for (const std::string& status : kExitStatuses) {
    text += fmt::format(".TP\n.B {}\n{}\n", status.substr(0, 1), roff(status.substr(3)));
  }
  text +=
      ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nWhen set and not empty, no colours are printed to "
      "terminals.\n.TP\n.B TERM\nWhere it is dumb there are neither colours nor progress lines.\n"
      ".TP\n.B COLUMNS\nHow wide text is, instead of the terminal's width.\n";
  return text;
}

}  // namespace

Command add_man(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the man page (roff)")->group("");
  return {command, [&app](Context& context) -> Result<Exit> {
            auto written = deliver(context, {}, man_page(describe(app)));
            if (!written) return failed(written.error());
            return Exit::done;
          }};
}

}  // namespace partita::cli
