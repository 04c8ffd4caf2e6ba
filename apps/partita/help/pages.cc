
#include "decide/batch.h"
#include "command.h"
#include "decide/serving.h"
#include "help/docs.h"
#include "settings.h"
#include "version.h"

namespace partita::cli {
namespace {

// roff: backslashes and dashes are escaped, a leading dot or quote would be a request.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string flag_roff(const FlagDoc& flag) {
  std::string head;
  for (const std::string& name : flag.names)
    head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", roff(name));
  if (!flag.value.empty() && flag.names.front().starts_with('-'))
    head += fmt::format(" \\fI{}\\fR", roff(flag.value));
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

// What it takes, but for what all take.
std::string flags_roff(const CommandDoc& command) {
  std::string text;
  for (const FlagDoc& flag : command.positionals) text += flag_roff(flag);
  for (const FlagDoc& flag : command.flags)
    if (!flag.everywhere && flag.names.back() != "--help") text += flag_roff(flag);
  return text;
}

std::string examples_roff(const CommandDoc& command, const std::string& title) {
  std::string text;
  for (const std::string& example : command.examples) text += "    " + roff(example) + "\n";
  return text.empty() ? text : title + "\n.nf\n" + text + ".fi\n";
}

std::string command_roff(const CommandDoc& command) {
  std::string text =
      fmt::format(".SS {}\n{}.\n", roff(joined(command.path, " ")), roff(command.summary));
  return text + ".PP\n" + synopsis(command) + flags_roff(command) +
         examples_roff(command, ".PP\nExamples:");
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
  for (const std::string& status : kExitStatuses)
    text += fmt::format(".TP\n.B {}\n{}\n", status.substr(0, 1), roff(status.substr(3)));
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

std::string options_roff(const CommandDoc& command) {
  const std::string options = flags_roff(command);
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
  for (const CommandDoc* command : flatten(root))
    if (command != &root) text += command_roff(*command);
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
  text += commands_roff(command) + options_roff(command) + examples_roff(command, ".SH EXAMPLES");
  return text + ending(root) + ".SH SEE ALSO\n\\fBpartita\\fR(1), \\fBpartita\\-formats\\fR(5)\n";
}

Result<Exit> run_man(Context& context, const CommandDoc& root, const std::string& folder) {
  if (folder.empty()) return finish(context, {}, man_page(root));
  TRY(context.files.make_directories(folder));
  for (const CommandDoc* command : flatten(root)) {
    const std::string page = command == &root ? man_page(root) : command_page(*command, root);
    TRY(context.files.write_atomic(fmt::format("{}/{}.1", folder, page_name(*command)), page));
  }
  return Exit::done;
}

// What completes the value of a flag: words, and files besides.
struct Values {
  std::vector<std::string> words;
  bool files = false;
};

Values values_of(const FlagDoc& flag) {
  Values values;
  for (const std::string& part : split(flag.value, '|')) {
    if (part == "FILE" || part == "PATH" || part == "DIR" || part == "PLAN") {
      values.files = true;
    } else if (part == "GPU") {
      for (const hw::GpuModel& gpu : hw::builtin_catalogue().gpus) values.words.push_back(gpu.name);
    } else if (part == "PLANNER" || part == "PLANNERS") {
      for (const std::string& name : decide::planner_names()) values.words.push_back(name);
    } else if (part == "SCHEDULER" || part == "SCHEDULERS") {
      for (const std::string& name : decide::scheduler_names()) values.words.push_back(name);
    } else if (part == "RULE") {
      values.words.insert(values.words.end(), {"queueing", "execution:0.45", "execution:0.5"});
    } else if (!std::all_of(part.begin(), part.end(),
                            [](char c) { return c >= 'A' && c <= 'Z'; })) {
      values.words.push_back(part);
    }
  }
  return values;
}

// Everything that may stand where a word begins: subcommands, flags and the words of positionals.
std::vector<std::string> candidates_of(const CommandDoc& command) {
  std::vector<std::string> words;
  for (const CommandDoc& child : command.children) words.push_back(child.path.back());
  for (const FlagDoc& flag : command.positionals) {
    const Values values = values_of(flag);
    words.insert(words.end(), values.words.begin(), values.words.end());
  }
  for (const FlagDoc& flag : command.flags)
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  return words;
}

std::string bash_script(const CommandDoc& root) {
  std::string paths, values, words;
  for (const CommandDoc* command : flatten(root)) {
    const std::string name = joined(command->path, " ");
    if (command != &root) paths += fmt::format("{}\"{}\"", paths.empty() ? "" : " | ", name);
    words +=
        fmt::format("    \"{}\") words=\"{}\" ;;\n", name, joined(candidates_of(*command), " "));
    for (const FlagDoc& flag : command->flags) {
      if (flag.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& spelling : flag.names)
        patterns.push_back(fmt::format("\"{} {}\"", name, spelling));
      values += fmt::format("    {}) words=\"{}\" ;;\n", joined(patterns, " | "),
                            joined(values_of(flag).words, " "));
    }
  }
  return fmt::format(R"(# bash completion of partita; printed by `partita completion bash`
_partita() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local path=partita word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case "$path $word" in
    {}) path="$path $word" ;;
    esac
  done
  case "$path $before" in
{}    *)
      case "$path" in
{}      esac
      ;;
  esac
  # Without a word that fits, readline completes file names.
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _partita partita
)",
                     paths, values, words);
}

// Text inside single quotes of a shell; brackets and colons are special to zsh's _arguments.
std::string quoted(const std::string& text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (special.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_action(const FlagDoc& flag) {
  const Values values = values_of(flag);
  if (values.words.empty()) return values.files ? "_files" : " ";
  if (!values.files) return fmt::format("({})", joined(values.words, " "));
  return fmt::format("{{compadd -- {}; _files}}", joined(values.words, " "));
}

std::string zsh_function(const CommandDoc& command) {
  std::string text = fmt::format("_{}() {{\n", joined(command.path, "_"));
  if (!command.children.empty()) {
    text += "  if (( CURRENT == 2 )); then\n    local -a commands=(\n";
    for (const CommandDoc& child : command.children)
      text += fmt::format("      '{}:{}'\n", child.path.back(), quoted(child.summary, ""));
    text += fmt::format(
        "    )\n    _describe command commands\n    return\n  fi\n"
        "  local name=\"_{}_${{words[2]}}\"\n  shift words\n  (( CURRENT-- ))\n"
        "  (( $+functions[$name] )) && $name\n}}\n",
        joined(command.path, "_"));
    return text;
  }
  text += "  _arguments";
  for (const FlagDoc& flag : command.flags)
    for (const std::string& name : flag.names) {
      text += fmt::format(" \\\n    '{}[{}]", name, quoted(flag.text, "[]:\\"));
      if (!flag.value.empty())
        text += fmt::format(":{}:{}", quoted(flag.value, ":\\"), zsh_action(flag));
      text += "'";
    }
  for (const FlagDoc& flag : command.positionals)
    text += fmt::format(" \\\n    ':{}:{}'", flag.names[0], zsh_action(flag));
  return text + "\n}\n";
}

std::string zsh_script(const CommandDoc& root) {
  std::string text = "#compdef partita\n# zsh completion; printed by `partita completion zsh`\n";
  for (const CommandDoc* command : flatten(root)) text += zsh_function(*command);
  // The first call of an autoloaded file runs the file itself.
  return text +
         "if [[ $funcstack[1] == _partita ]]; then\n  _partita \"$@\"\nelse\n"
         "  compdef _partita partita\nfi\n";
}

std::string fish_flag(const FlagDoc& flag, const std::string& condition) {
  std::string line = fmt::format("complete -c partita -n '{}'", condition);
  for (const std::string& name : flag.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  const Values values = values_of(flag);
  if (!flag.value.empty()) line += values.files ? " -r -F" : " -x";
  if (!values.words.empty()) line += fmt::format(" -a '{}'", joined(values.words, " "));
  return line + fmt::format(" -d '{}'\n", quoted(flag.text, "\\"));
}

std::string fish_script(const CommandDoc& root) {
  std::string text =
      "# fish completion; printed by `partita completion fish`\ncomplete -c partita -f\n";
  for (const CommandDoc* command : flatten(root)) {
    std::vector<std::string> seen;
    for (std::size_t i = 1; i < command->path.size(); ++i)
      seen.push_back("__fish_seen_subcommand_from " + command->path[i]);
    const std::string inside = seen.empty() ? "__fish_use_subcommand" : joined(seen, "; and ");
    for (const CommandDoc& child : command->children)
      text += fmt::format("complete -c partita -n '{}' -a {} -d '{}'\n", inside, child.path.back(),
                          quoted(child.summary, "\\"));
    for (const FlagDoc& flag : command->positionals) {
      const Values values = values_of(flag);
      if (values.files) text += fmt::format("complete -c partita -n '{}' -F\n", inside);
      if (values.words.empty()) continue;
      text += fmt::format("complete -c partita -n '{}' -a '{}' -d '{}'\n", inside,
                          joined(values.words, " "), quoted(flag.text, "\\"));
    }
    for (const FlagDoc& flag : command->flags) text += fish_flag(flag, inside);
  }
  return text;
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

Command add_completion(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("completion", "Print a shell completion script");
  auto shell = std::make_shared<std::string>();
  one_of(command->add_option("SHELL", *shell, "The shell"), {"bash", "zsh", "fish"})->required();
  command->footer("source <(partita completion bash)");
  return {command, [&app, &program, shell](Context& context) -> Result<Exit> {
            CommandDoc root = docs_of(app, program).root;
            take_in_forms(root);
            const std::string script = *shell == "bash"  ? bash_script(root)
                                       : *shell == "zsh" ? zsh_script(root)
                                                         : fish_script(root);
            return finish(context, {}, script);
          }};
}

}  // namespace partita::cli
