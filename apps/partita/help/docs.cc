#include "help/docs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/append.h"
#include "flags.h"
#include "settings.h"

namespace partita::cli {
namespace {

constexpr std::size_t kWidth = 80;

FlagDoc describe(const CLI::Option& option) {
  FlagDoc flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (option.get_positional()) flag.names = {option.get_name(true)};
  if (option.get_items_expected_max() > 0) flag.value = option.get_type_name();
  flag.text = option.get_description();
  flag.standard = option.get_default_str();
  flag.required = option.get_required();
  flag.everywhere = option.get_group() == kEverywhere;
  return flag;
}

CommandDoc describe_below(const CLI::App& app, std::vector<std::string> path) {
  path.push_back(app.get_name());
  CommandDoc command{path, app.get_description(), {}, {}, {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.positionals : command.flags).push_back(describe(*option));
  }
  for (const std::string& line : split(app.get_footer(), '\n')) {
    if (!line.empty()) command.examples.push_back(line);
  }
  for (const CLI::App* child : app.get_subcommands({})) {
    if (!child->get_group().empty()) command.children.push_back(describe_below(*child, path));
  }
  return command;
}

// Words of `text` in lines of at most kWidth columns, each after `indent` spaces.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string lines, line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      lines += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + std::string(indent, ' ') + line + "\n";
}

std::string flag_help(const FlagDoc& flag) {
  std::string head = joined(flag.names, ", ");
  if (!flag.value.empty() && flag.names.front().starts_with('-')) head += " " + flag.value;
  if (flag.required) head += "  (required)";
  if (!flag.standard.empty()) head += fmt::format("  [{}]", flag.standard);
  return fmt::format("  {}\n{}", head, wrapped(flag.text, 6));
}

// The options of every command, where this one is a command that can be run.
std::string everywhere_help(const CommandDoc& command) {
  std::string text;
  for (const FlagDoc& flag : command.flags)
    if (flag.everywhere) text += flag_help(flag);
  if (text.empty()) return text;
  text = fmt::format("\n{}:\n{}", kEverywhere, text);
  if (command.path.size() < 2) return text;
  return text + wrapped(fmt::format("An option that is not given is what {} or, for all commands, "
                                    "{} says, else what the settings file says.",
                                    variable_of(command.path, "OPTION"), variable_of("OPTION")),
                        2);
}

class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::vector<std::string> parents;
    for (const CLI::App* up = app->get_parent(); up != nullptr; up = up->get_parent()) {
      parents.insert(parents.begin(), up->get_name());
    }
    return help_text(describe_below(*app, parents));
  }
};

}  // namespace

const std::vector<std::string> kExitStatuses = {
    "0  done",
    "1  the answer is no: infeasible, violations found, SLO or deadline missed under --require",
    "2  bad usage or bad input: FILE:LINE or the flag is named, nothing is written",
    "3  the environment refused: driver, file system, network",
};

CommandDoc describe(const CLI::App& app) { return describe_below(app, {}); }

std::vector<const CommandDoc*> flatten(const CommandDoc& root) {
  std::vector<const CommandDoc*> all{&root};
  for (const CommandDoc& child : root.children) {
    const std::vector<const CommandDoc*> below = flatten(child);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::string usage(const CommandDoc& command) {
  std::string line = joined(command.path, " ");
  if (!command.children.empty()) line += " COMMAND";
  for (const FlagDoc& flag : command.positionals) {
    line += flag.required ? " " + flag.names[0] : " [" + flag.names[0] + "]";
  }
  for (const FlagDoc& flag : command.flags) {
    if (flag.required) line += fmt::format(" {} {}", flag.names.back(), flag.value);
  }
  return line + " [options]";
}

std::string help_text(const CommandDoc& command) {
  std::string text = wrapped(command.summary, 0);
  text += "\nUsage: " + usage(command) + "\n";
  if (!command.children.empty()) {
    text += "\nCommands:\n";
    std::size_t widest = 0;
    for (const CommandDoc& child : command.children) {
      widest = std::max(widest, child.path.back().size());
    }
    for (const CommandDoc& child : command.children) {
      text += fmt::format("  {:<{}}  {}\n", child.path.back(), widest, child.summary);
    }
  }
  if (!command.positionals.empty()) text += "\nArguments:\n";
  for (const FlagDoc& flag : command.positionals) text += flag_help(flag);
  if (!command.flags.empty()) text += "\nOptions:\n";
  for (const FlagDoc& flag : command.flags)
    if (!flag.everywhere) text += flag_help(flag);
  text += everywhere_help(command);
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  text += "\nExit status:\n";
  for (const std::string& status : kExitStatuses) text += "  " + status + "\n";
  return text;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace partita::cli
