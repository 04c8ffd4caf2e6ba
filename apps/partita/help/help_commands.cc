#include "help/help_commands.h"

#include <CLI/CLI.hpp>

#include "elsewhere.h"

namespace partita::cli {

CommandDocs docs_of(const CLI::App& app, const Program& program) {
  CommandDocs docs{describe(app), {}};
  for (const DocumentKind& kind : program.kinds())
    docs.kinds.push_back({std::string(kind.name), std::string(kind.about)});
  return program.whole ? with_others(std::move(docs)) : docs;
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
