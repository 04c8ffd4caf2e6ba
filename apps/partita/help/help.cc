#include <fmt/format.h>

#include <memory>

#include "base/append.h"
#include "base/nearest.h"
#include "base/split.h"
#include "elsewhere.h"
#include "help/help_commands.h"
#include "verbs.h"

namespace partita::cli {
namespace {

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
    const CLI::App* found = nullptr;
    for (const CLI::App* child : command->get_subcommands({}))
      if (child->get_name() == name) found = child;
    if (found == nullptr) {
      return bad_input("", names.empty() ? fmt::format("'{}': unexpected argument", name)
                                         : fmt::format("unknown command '{}'{}", name,
                                                       did_you_mean(name, names)));
    }
    command = found;
  }
  return finish(context, {}, before + help_of(*command));
}

}  // namespace

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

}  // namespace partita::cli
