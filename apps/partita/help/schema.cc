#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/append.h"
#include "base/nearest.h"
#include "base/table.h"
#include "elsewhere.h"
#include "help/help_commands.h"

namespace partita::cli {
namespace {

Result<Exit> run_schema(Context& context, const Program& program, const std::string& name,
                        const Output& output) {
  Table table{{"KIND", "WHAT IT SAYS"}, {}};
  std::vector<std::string> names;
  std::vector<KindDoc> known;
  for (const DocumentKind& kind : program.kinds()) {
    if (kind.name == name) {
      return finish(context, output, kind.schema());
    }
    known.push_back({std::string(kind.name), std::string(kind.about)});
  }
  if (program.whole) {
    for (const std::string_view other : kOtherPrograms)
      if (const std::string said = name.empty() ? "" : said_by(other, "schema " + name);
          !said.empty()) {
        return finish(context, output, said);
      }
    known = with_others({{}, std::move(known)}).kinds;
    std::ranges::sort(known, {}, &KindDoc::name);
  }
  for (const KindDoc& kind : known) {
    names.push_back(kind.name);
    table.rows.push_back({kind.name, kind.about});
  }
  if (!name.empty())
    return bad_input("KIND", fmt::format("unknown kind '{}'{} (there are {})", name,
                                         did_you_mean(name, names), joined(names, ", ")));
  return finish(context, output, to_string(table));
}

}  // namespace

Command add_schema(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "schema", "Print the JSON Schema of a kind of document; without a kind list them");
  auto kind = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  command->add_option("KIND", *kind, "The kind, as in the document's `kind`")->type_name("KIND");
  add_output_file(*command, output->file);
  command->footer("partita schema ServingPlan");
  return {command, [&program, kind, output](Context& context) {
            return run_schema(context, program, *kind, *output);
          }};
}

}  // namespace partita::cli
