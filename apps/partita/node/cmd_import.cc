#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <variant>

#include "commands.h"
#include "decide/foreign_file.h"
#include "decide/input.h"
#include "device/node_forms.h"
#include "flags.h"

namespace partita::cli {
namespace {

struct ImportFlags {
  decide::ForeignFile source;
  std::string catalogue;
  Output output;
};

Result<std::string> layout_form(const Context& context, const ImportFlags& flags,
                                const interop::Geometry& geometry, const hw::Catalogue& catalogue) {
  const device::StateDocument document = interop::to_state(geometry);
  if (flags.output.format == "json") return device::state_json(document.state, document.occupants);
  const bool colour = context.colour && flags.output.file.empty();
  return device::state_text(document.state, document.occupants, catalogue,
                            {.colour = colour, .width = context.width});
}

Result<Exit> run_import(Context& context, const ImportFlags& flags) {
  const auto catalogue = decide::load_catalogue(context.files, flags.catalogue);
  if (!catalogue) return failed(catalogue.error());
  const auto read = decide::read_foreign(context.files, flags.source, *catalogue);
  if (!read) return failed(read.error());
  Result<std::string> content;
  if (const auto* config = std::get_if<interop::PluginConfig>(&*read)) {
    content = flags.output.format == "json" ? interop::plugin_json(*config)
                                            : interop::plugin_text(*config);
  } else {
    content = layout_form(context, flags, std::get<interop::Geometry>(*read), *catalogue);
  }
  if (!content) return failed(content.error());
  return finish(context, flags.output, *content);
}

}  // namespace

Command add_import(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "import", "Read a configuration of another tool and print it, or write a layout for apply");
  auto flags = std::make_shared<ImportFlags>();
  command
      ->add_option("FILE", flags->source.file,
                   "mig-parted's YAML or checkpoint, or a device plugin's configuration")
      ->type_name("FILE")
      ->required();
  one_of(flag(*command, "--from", flags->source.from),
         {"mig-parted", "checkpoint", "device-plugin"});
  flag(*command, "--label", flags->source.label);
  flag(*command, "--gpu", flags->source.gpu);
  within(flag(*command, "--gpus", flags->source.gpus), 1, decide::kMaxForeignGpus);
  flag(*command, "--node", flags->source.node);
  add_catalogue(*command, flags->catalogue);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita import config.yaml --label all-balanced --gpu A100-80GB --gpus 8\n"
      "partita import checkpoint.json --node state.json --format json -o wanted.json");
  return {command, [flags](Context& context) { return run_import(context, *flags); }};
}

}  // namespace partita::cli
