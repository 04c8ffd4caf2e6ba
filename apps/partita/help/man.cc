#include <fmt/format.h>

#include <memory>

#include "base/append.h"
#include "flags.h"
#include "help/help_commands.h"
#include "settings.h"
#include "version.h"

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

// How it is said, a line for each form of a verb.
std::string synopsis(const CommandDoc& command) {
  std::string text = fmt::format(".B {}\n", roff(usage(command)));
  for (const CommandDoc& form : command.forms)
    text += fmt::format(".br\n.B {}\n", roff(usage(form)));
  return text;
}

std::string command_roff(const CommandDoc& command) {
  std::string text =
      fmt::format(".SS {}\n{}.\n", roff(joined(command.path, " ")), roff(command.summary));
  text += ".PP\n" + synopsis(command);
  for (const FlagDoc& flag : command.positionals) text += flag_roff(flag);
  for (const FlagDoc& flag : command.flags) {
    if (!flag.everywhere && flag.names.back() != "--help") text += flag_roff(flag);
  }
  if (!command.examples.empty()) {
    text += ".PP\nExamples:\n.nf\n";
    for (const std::string& example : command.examples) text += "    " + roff(example) + "\n";
    text += ".fi\n";
  }
  return text;
}

std::string title(const std::string& name) {
  return fmt::format(".TH {} 1 \"\" \"partita {}\" \"User Commands\"\n", roff(name), version());
}

// What all commands share.
std::string ending(const CommandDoc& root) {
  std::string text = fmt::format(".SH \"{}\"\n", kEverywhere);
  for (const FlagDoc& flag : root.flags)
    if (flag.everywhere) text += flag_roff(flag);
  text += ".SH EXIT STATUS\n";
  for (const std::string& status : kExitStatuses) {
    text += fmt::format(".TP\n.B {}\n{}\n", status.substr(0, 1), roff(status.substr(3)));
  }
  return text +
         ".SH ENVIRONMENT\n.TP\n.B PARTITA_COMMAND_OPTION, PARTITA_OPTION\nWhat stands for an "
         "option that is not given: \\fBPARTITA_PLAN_GPU\\fR for \\fBpartita plan \\-\\-gpu\\fR, "
         "\\fBPARTITA_GPU\\fR for \\fB\\-\\-gpu\\fR of every command.\n"
         ".TP\n.B PARTITA_CONFIG\nThe settings file, instead of " +
         roff(kSettingsFile) +
         ".\n.TP\n.B NO_COLOR\nWhen set and not empty, no colours are printed to terminals.\n"
         ".TP\n.B TERM\nWhere it is dumb there are neither colours nor progress lines.\n"
         ".TP\n.B COLUMNS\nHow wide text is, instead of the terminal's width.\n";
}

constexpr std::string_view kResults =
    "Results go to standard output or to the file of \\fB\\-o\\fR, which is written atomically; "
    "messages and progress go to standard error. Where a file is asked for, \\- is standard input "
    "or output.\n";

// What it takes, but for what all take.
std::string options_roff(const CommandDoc& command) {
  std::string options;
  for (const FlagDoc& flag : command.positionals) options += flag_roff(flag);
  for (const FlagDoc& flag : command.flags)
    if (!flag.everywhere && flag.names.back() != "--help") options += flag_roff(flag);
  return options.empty() ? options : ".SH OPTIONS\n" + options;
}

std::string man_page(const CommandDoc& root) {
  std::string text = title("PARTITA");
  text += fmt::format(".SH NAME\npartita \\- spatial GPU partitioning\n.SH SYNOPSIS\n.B {}\n",
                      roff(usage(root)));
  text += fmt::format(".SH DESCRIPTION\n{}\n.PP\n{}", roff(root.summary), kResults);
  text +=
      "File formats: \\fBpartita\\-formats\\fR(5). Each command has a page of its own, such as "
      "\\fBpartita\\-plan\\fR(1).\n.SH COMMANDS\n";
  for (const CommandDoc* command : flatten(root)) {
    if (command != &root) text += command_roff(*command);
  }
  return text + options_roff(root) + ending(root);
}

std::string page_name(const CommandDoc& command) { return joined(command.path, "-"); }

// A line per command below this one.
std::string commands_roff(const CommandDoc& command) {
  std::string text;
  for (const CommandDoc& child : command.children)
    text += fmt::format(".TP\n\\fB{}\\fR(1)\n{}.\n", roff(page_name(child)), roff(child.summary));
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

std::string command_page(const CommandDoc& command, const CommandDoc& root) {
  std::string text = title(page_name(command));
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}.\n.PP\n{}",
                      roff(page_name(command)), roff(command.summary), synopsis(command),
                      roff(command.summary), kResults);
  for (const CommandDoc& form : command.forms)
    text += fmt::format(".PP\n{}: {}.\n", roff(form.when), roff(form.summary));
  text += commands_roff(command) + options_roff(command);
  if (!command.examples.empty()) {
    text += ".SH EXAMPLES\n.nf\n";
    for (const std::string& example : command.examples) text += "    " + roff(example) + "\n";
    text += ".fi\n";
  }
  return text + ending(root) + ".SH SEE ALSO\n\\fBpartita\\fR(1), \\fBpartita\\-formats\\fR(5)\n";
}

Result<Exit> run_man(Context& context, const CommandDoc& root, const std::string& folder) {
  if (folder.empty()) {
    return finish(context, {}, man_page(root));
  }
  TRY(context.files.make_directories(folder));
  for (const CommandDoc* command : flatten(root)) {
    const std::string page = command == &root ? man_page(root) : command_page(*command, root);
    const std::string path = fmt::format("{}/{}.1", folder, page_name(*command));
    if (auto written = context.files.write_atomic(path, page); !written)
      return failed(written.error());
  }
  return Exit::done;
}

}  // namespace

Command add_man(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("man", "Print the man page (roff)")->group("");
  auto folder = std::make_shared<std::string>();
  flag(*command, "--pages", *folder);
  return {command, [&app, &program, folder](Context& context) {
            CommandDoc root = docs_of(app, program).root;
            take_in_forms(root);
            return run_man(context, root, *folder);
          }};
}

}  // namespace partita::cli
