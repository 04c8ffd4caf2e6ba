#include "help/docs.h"

#include <set>

#include "base/nearest.h"
#include "command.h"
#include "elsewhere.h"
#include "settings.h"
#include "verbs.h"

namespace partita::cli {
namespace {

constexpr std::size_t kWidth = 80;

FlagDoc flag_doc(const CLI::Option& option) {
  FlagDoc flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    (&name == &option.get_lnames().front() ? flag.names : flag.older).push_back("--" + name);
  if (option.get_positional()) flag.names = {option.get_name(true)};
  if (option.get_items_expected_max() > 0) flag.value = option.get_type_name();
  flag.text = option.get_description();
  flag.standard = option.get_default_str();
  flag.required = option.get_required();
  flag.everywhere = option.get_group() == kEverywhere;
  return flag;
}

CommandDoc describe_one(const CLI::App& app, std::vector<std::string> path) {
  CommandDoc command{std::move(path), app.get_description(), {}, {}, {}, {}, is_elsewhere(app)};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.positionals : command.flags).push_back(flag_doc(*option));
  }
  for (const std::string& line : split(app.get_footer(), '\n'))
    if (!line.empty()) command.examples.push_back(line);
  return command;
}

// A form of the verb that has this path.
CommandDoc describe_form(const FormOf& of, const std::vector<std::string>& path) {
  CommandDoc form = describe_one(*of.app, path);
  form.when = when_text(*of.form);
  form.was = std::string(of.form->was);
  const Trigger& first = of.form->first();
  const bool asked_by_flag =
      (first.is == Trigger::Is::flag || first.is == Trigger::Is::url) &&
      std::ranges::count(of.form->when, Trigger::Is::kind, &Trigger::is) == 0;
  for (FlagDoc& flag : form.flags)
    flag.required = flag.required || (asked_by_flag && first.text == flag.names.back());
  const bool prefix = first.is == Trigger::Is::prefix;
  if (prefix || first.is == Trigger::Is::word) {
    form.word = std::string(first.text);
    form.positionals = {{{form.word + (prefix ? "NUMBER" : "")}, {}, form.summary, {}, true}};
  }
  const std::string marker = marker_of(*of.form);
  if (marker.empty()) return form;
  const FlagWords& words = words_of(marker);
  if (!words.value.empty()) form.positionals.clear();  // it is said behind the flag
  form.flags.insert(form.flags.begin(),
                    {{marker}, std::string(words.value), std::string(words.text), {}, true});
  return form;
}

CommandDoc describe_below(const CLI::App& app, std::vector<std::string> path) {
  path.push_back(app.get_name());
  CommandDoc command = describe_one(app, path);
  for (const FormOf& one : forms_of(app)) command.forms.push_back(describe_form(one, path));
  for (const CLI::App* child : app.get_subcommands({}))
    if (!child->get_group().empty()) command.children.push_back(describe_below(*child, path));
  return command;
}

// How the lines of a text stand: the first and the others behind so many blanks, all but the last
// with this at their end.
struct Lines {
  std::size_t first = 0, others = 0;
  std::string_view end = {};
};

// Words of `text` in lines of at most kWidth columns.
std::string wrapped(const std::string& text, const Lines& how) {
  std::string lines, line(how.first, ' ');
  bool begun = false;
  const auto end_line = [&] {
    lines += line + std::string(how.end) + "\n";
    line = std::string(how.others, ' ');
    begun = false;
  };
  for (std::string word : split(text, ' ')) {
    while (how.others + word.size() + how.end.size() > kWidth) {  // a list is broken behind a bar
      const std::size_t room = kWidth - std::min(kWidth, line.size() + 1 + how.end.size());
      const std::size_t bar = word.rfind('|', room == 0 ? 0 : room - 1);
      if (bar == word.npos && !begun) break;
      if (bar != word.npos) line += (begun ? " " : "") + word.substr(0, bar + 1);
      if (bar != word.npos) word.erase(0, bar + 1);
      end_line();
    }
    if (begun && line.size() + 1 + word.size() + how.end.size() > kWidth) end_line();
    line += (begun ? " " : "") + word;
    begun = true;
  }
  return lines + line + "\n";
}
std::string wrapped(const std::string& text, std::size_t indent) {
  return wrapped(text, {indent, indent});
}

std::string flag_help(const FlagDoc& flag) {
  std::string head = joined(flag.names, ", ");
  if (!flag.value.empty() && flag.names.front().starts_with('-')) head += " " + flag.value;
  if (flag.required) head += "  (required)";
  if (!flag.standard.empty()) head += fmt::format("  [{}]", flag.standard);
  return wrapped(head, {2, 10}) + wrapped(flag.text, 6);
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

void describe_flag(Form& f, FlagDoc& flag) {
  f.notes("names", flag.names, {}, "its spellings");
  f.notes("older", flag.older, {}, "its older spellings, which are understood and not shown");
  f.note("value", flag.value, "what stands behind it; empty: nothing");
  f.note("text", flag.text, "what it means");
  f.note("default", flag.standard, "for people");
  f.boolean("required", flag.required, "it must be given");
  f.boolean("everywhere", flag.everywhere, "every command has it");
}

void describe_command(Form& f, CommandDoc& command) {
  f.notes("path", command.path, {}, "its words");
  f.note("summary", command.summary, "a sentence");
  f.list("positionals", command.positionals, describe_flag, {}, "in order");
  f.list("flags", command.flags, describe_flag, {}, "in order");
  f.notes("examples", command.examples, {}, "lines");
  f.boolean("elsewhere", command.elsewhere, "another program's");
  f.optional(!command.was.empty()).note("when", command.when, "of a verb's form: what asks for it");
  f.optional(!command.was.empty()).note("was", command.was, "of a verb's form: its older name");
  if (f.reading() == nullptr ? !command.forms.empty() : f.reading()->has("forms"))
    f.list("forms", command.forms, describe_command, {}, "of a verb, by what it is about");
  if (f.reading() == nullptr || f.reading()->has("children"))
    f.list("children", command.children, describe_command, {}, "below it");
}

void describe_kind(Form& f, KindDoc& kind) {
  f.note("name", kind.name, "of the kind");
  f.note("about", kind.about, "what such a document says");
}

void describe_docs(Form& f, CommandDocs& docs) {
  f.document("CommandDocs");
  f.object("root", docs.root, describe_command, "the program");
  f.list("kinds", docs.kinds, describe_kind, {}, "of documents");
}

class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return help_of(*app);
  }
};
bool has_flag(const CommandDoc& command, const FlagDoc& of) {
  return std::ranges::any_of(
      command.flags, [&](const FlagDoc& flag) { return flag.names.back() == of.names.back(); });
}

// What a form has besides what the verb and the forms before it told; the rest by name.
std::string form_help(const CommandDoc& form, const CommandDoc& told) {
  std::string text = "\n" + wrapped(fmt::format("{}: {}", form.when, form.summary), 0);
  std::vector<std::string> known;
  for (const FlagDoc& flag : form.positionals) text += flag_help(flag);
  for (const FlagDoc& flag : form.flags) {
    if (!has_flag(told, flag))
      text += flag_help(flag);
    else if (!flag.everywhere && flag.names.back() != "--help")
      known.push_back(flag.names.back());
  }
  if (!known.empty()) text += wrapped("As above: " + joined(known, ", "), 2);
  return text;
}

std::string help_text(const CommandDoc& command) {
  std::string text = wrapped(command.summary, 0);
  text += "\n" + wrapped("Usage: " + usage(command), {0, 10});
  std::set<std::string> said = {usage(command)};
  for (const CommandDoc& form : command.forms)
    if (said.insert(usage(form)).second) text += wrapped(usage(form), {7, 10});
  if (!command.children.empty()) {
    text += "\nCommands:\n";
    std::size_t widest = 0;
    for (const CommandDoc& child : command.children)
      widest = std::max(widest, child.path.back().size());
    for (const CommandDoc& child : command.children)
      text += wrapped(fmt::format("{:<{}}  {}", child.path.back(), widest, child.summary),
                      {2, widest + 4});
  }
  if (!command.positionals.empty()) text += "\nArguments:\n";
  for (const FlagDoc& flag : command.positionals) text += flag_help(flag);
  if (!command.flags.empty()) text += "\nOptions:\n";
  for (const FlagDoc& flag : command.flags)
    if (!flag.everywhere) text += flag_help(flag);
  CommandDoc told = command;
  told.forms.clear();
  for (const CommandDoc& form : command.forms) {
    text += form_help(form, told);
    told.forms = {form};
    take_in_forms(told);
  }
  text += everywhere_help(command);
  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : command.examples) text += wrapped(example, {2, 6, " \\"});
  for (const CommandDoc& form : command.forms)
    for (const std::string& example : form.examples) text += wrapped(example, {2, 6, " \\"});
  text += "\nExit status:\n";
  for (const std::string& status : kExitStatuses) text += wrapped(status, {2, 5});
  return text;
}
// Of a group that is not listed any more.
std::string older_names_below(const CLI::App& group, const std::string& path) {
  std::string text;
  if (!group.get_group().empty()) return text;
  for (const CLI::App* child : group.get_subcommands({}))
    if (const VerbForm* form = form_called(path + " " + child->get_name()))
      text += (text.empty() ? "\nOlder names:\n" : "") + older_name(*form);
  return text;
}

Result<Exit> run_help(Context& context, const CLI::App& root, bool whole,
                      std::vector<std::string> path) {
  const Elsewhere* other = whole ? elsewhere_of(joined(path, " ")) : nullptr;
  if (other != nullptr) return become(context, *other);
  const VerbForm* older = form_called(joined(path, " "));
  std::string before;
  if (older != nullptr && is_only_words(*older)) {
    before = older_name(*older) + "\n";
    path = split(older->verb, ' ');
  }
  const CLI::App* command = &root;
  for (const std::string& name : path) {
    const std::vector<std::string> names = names_below(*command);
    const CLI::App* found = child_named(*command, name);
    if (found == nullptr)
      return bad_input("", names.empty() ? fmt::format("'{}': unexpected argument", name)
                                         : fmt::format("unknown command '{}'{}", name,
                                                       did_you_mean(name, names)));
    command = found;
  }
  return finish(context, {}, before + help_of(*command));
}

Command add_help(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("help", "Explain a command");
  auto path = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *path, "The command, with its subcommand where there is one")
      ->type_name("COMMAND");
  command->footer("partita help plan");
  return {command, [&app, whole = program.whole, path](Context& context) {
            return run_help(context, app, whole, *path);
          }};
}

Result<Exit> run_schema(Context& context, const Program& program, const std::string& name,
                        const Output& output) {
  Table table = headed("KIND|WHAT IT SAYS");
  std::vector<std::string> names;
  std::vector<KindDoc> known;
  for (const DocumentKind& kind : program.kinds()) {
    if (kind.name == name) return finish(context, output, kind.schema());
    known.push_back({std::string(kind.name), std::string(kind.about)});
  }
  if (program.whole) {
    known = with_others({{}, std::move(known)}).kinds;
    std::ranges::sort(known, {}, &KindDoc::name);
    if (std::ranges::find(known, name, &KindDoc::name) != known.end())
      for (const std::string_view other : kOtherPrograms)
        if (const std::string said = said_by(other, "schema " + name); !said.empty())
          return finish(context, output, said);
  }
  for (const KindDoc& kind : known) {
    names.push_back(kind.name);
    table.add("{}|{}", kind.name, kind.about);
  }
  if (!name.empty())
    return bad_input("KIND", fmt::format("unknown kind '{}'{} (there are {})", name,
                                         did_you_mean(name, names), joined(names, ", ")));
  return finish(context, output, to_string(table));
}

Command add_schema(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "schema", "Print the JSON Schema of a kind of document; without a kind list them");
  auto kind = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  command->add_option("KIND", *kind, "Kind of document, as in its `kind`")->type_name("KIND");
  add_output_file(*command, output->file);
  command->footer("partita schema ServingPlan");
  return {command, [&program, kind, output](Context& context) {
            return run_schema(context, program, *kind, *output);
          }};
}

Command add_docs(CLI::App& app, const Program& program) {
  CLI::App* command =
      app.add_subcommand("docs", "Print the commands, their flags and documents as JSON")
          ->group("");
  return {command, [&app, &program](Context& context) -> Result<Exit> {
            return finish(context, {.file = {}, .format = "json"},
                          docs_json(docs_of(app, program)));
          }};
}

}  // namespace

const std::vector<std::string> kExitStatuses = {
    "0  done",
    "1  the answer is no: infeasible, violations found, SLO or deadline missed (--require, "
    "--strict)",
    "2  bad usage or bad input: FILE:LINE or the flag is named, nothing is written",
    "3  the environment refused: driver, file system, network",
};

std::string docs_json(const CommandDocs& docs) { return write_form(docs, describe_docs); }

Result<CommandDocs> parse_docs(const std::string& file, std::string_view text) {
  return read_form<CommandDocs>(file, text, describe_docs);
}

CommandDoc describe(const CLI::App& app) { return describe_below(app, {}); }

void take_in_forms(CommandDoc& command) {
  for (const CommandDoc& form : command.forms) {
    if (!form.word.empty()) {
      if (command.positionals.empty()) command.positionals = form.positionals;
      command.positionals.front().value += "|" + form.word;
    }
    for (FlagDoc flag : form.flags) {
      if (has_flag(command, flag)) continue;
      flag.required = false;
      command.flags.push_back(std::move(flag));
    }
  }
  for (CommandDoc& child : command.children) take_in_forms(child);
}

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
  for (const FlagDoc& flag : command.positionals)
    line += flag.required ? " " + flag.names[0] : " [" + flag.names[0] + "]";
  for (const FlagDoc& flag : command.flags) {
    if (!flag.required) continue;
    line += " " + flag.names.back() + (flag.value.empty() ? "" : " " + flag.value);
  }
  return line + " [options]";
}

std::string older_name(const VerbForm& form) {
  return wrapped(
      fmt::format("partita {} is an older name of `partita {}`.", form.was, said_now(form)), 0);
}

std::string help_of(const CLI::App& command) {
  std::vector<std::string> parents;
  for (const CLI::App* up = command.get_parent(); up != nullptr; up = up->get_parent())
    parents.insert(parents.begin(), up->get_name());
  const CommandDoc told = describe_below(command, parents);
  const std::string path = path_below(command);
  if (const VerbForm* form = form_called(path)) return older_name(*form) + "\n" + help_text(told);
  return help_text(told) + older_names_below(command, path);
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

CommandDocs docs_of(const CLI::App& app, const Program& program) {
  CommandDocs docs{describe(app), {}};
  for (const DocumentKind& kind : program.kinds())
    docs.kinds.push_back({std::string(kind.name), std::string(kind.about)});
  return program.whole ? with_others(std::move(docs)) : docs;
}

std::vector<Command> add_help_commands(CLI::App& app, const Program& program) {
  std::vector<Command> all = {add_schema(app, program), add_help(app, program)};
  if (program.whole) {
    all.push_back(add_completion(app, program));
    all.push_back(add_man(app, program));
  }
  all.push_back(add_docs(app, program));
  return all;
}

}  // namespace partita::cli
