#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/document.h"
#include "commands.h"
#include "decide/input.h"
#include "flags.h"
#include "interop/checkpoint.h"
#include "interop/device_plugin.h"
#include "interop/mig_parted.h"

namespace partita::cli {
namespace {

constexpr int kMaxGpus = 4096;

struct ImportFlags {
  std::string file, from, label, gpu, node, catalogue;
  int gpus = 0;  // 0: not said
  Output output;
};

struct Input {
  std::string file, text, form;
};

// The form of a file by the keys at its top.
Result<std::string> recognised(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  if (document->root.find("mig-configs")) return std::string("mig-parted");
  if (document->root.find("MigState")) return std::string("checkpoint");
  for (const char* key : {"sharing", "flags", "resources"})
    if (document->root.find(key)) return std::string("device-plugin");
  return bad_input(document->at(document->root),
                   "neither mig-parted's YAML or checkpoint nor a device plugin's configuration; "
                   "--from says which it should be");
}

// The GPUs that the file is for; `needed` is how many it names at least.
Result<std::vector<interop::Board>> load_boards(Context& context, const ImportFlags& flags,
                                                const hw::Catalogue& catalogue, int needed) {
  if (!flags.node.empty()) {
    if (!flags.gpu.empty() || flags.gpus > 0)
      return bad_input("--node", "says what GPUs there are; --gpu and --gpus cannot be given too");
    const Result<std::string> text = decide::read_input(context.files, "--node", flags.node);
    if (!text) return failed(text.error());
    const auto state = device::parse_state(flags.node, *text, catalogue);
    if (!state) return failed(state.error());
    return interop::boards_of(state->state, catalogue);
  }
  if (flags.gpu.empty())
    return bad_input("--gpu", "is needed, or --node: the file does not say what GPUs there are");
  const Result<const hw::GpuModel*> model = catalogue.get(flags.gpu);
  if (!model) return bad_input("--gpu", model.error().message);
  return interop::boards_of(**model, flags.gpus > 0 ? flags.gpus : needed);
}

Result<interop::Geometry> read_mig_parted(Context& context, const ImportFlags& flags,
                                          const Input& input, const hw::Catalogue& catalogue) {
  const auto parsed = interop::parse_mig_parted(input.file, input.text);
  if (!parsed) return failed(parsed.error());
  const auto label = interop::chosen_label(*parsed, flags.label);
  if (!label) return failed(label.error());
  int needed = 0;
  for (const interop::MigPartedEntry& entry : (*label)->entries) {
    if (entry.all && flags.gpus == 0 && flags.node.empty())
      return bad_input("--gpus", fmt::format("is needed, or --node: {}:{} is about all GPUs",
                                             input.file, entry.devices_line));
    for (const int index : entry.devices) needed = std::max(needed, index + 1);
  }
  if (needed > kMaxGpus && flags.node.empty() && flags.gpus == 0)
    return bad_input("--gpus", fmt::format("{} names GPU {}, at most {} are taken for granted",
                                           input.file, needed - 1, kMaxGpus));
  const auto boards = load_boards(context, flags, catalogue, needed);
  if (!boards) return failed(boards.error());
  return interop::geometry_of(*parsed, **label, *boards);
}

Result<interop::Geometry> read_checkpoint(Context& context, const ImportFlags& flags,
                                          const Input& input, const hw::Catalogue& catalogue) {
  if (!flags.label.empty()) return bad_input("--label", "a checkpoint has no labels");
  const auto boards = load_boards(context, flags, catalogue, kMaxGpus);
  if (!boards) return failed(boards.error());
  return interop::parse_checkpoint(input.file, input.text, *boards);
}

Result<std::string> geometry_form(Context& context, const ImportFlags& flags, const Input& input) {
  const Result<hw::Catalogue> catalogue = decide::load_catalogue(context.files, flags.catalogue);
  if (!catalogue) return failed(catalogue.error());
  const auto geometry = input.form == "mig-parted"
                            ? read_mig_parted(context, flags, input, *catalogue)
                            : read_checkpoint(context, flags, input, *catalogue);
  if (!geometry) return failed(geometry.error());
  if (geometry->gpus.empty())
    return bad_input(input.file, "it says nothing about the GPUs that there are");
  const device::StateDocument document = interop::to_state(*geometry);
  if (flags.output.format == "json") return device::state_json(document.state, document.occupants);
  const bool colour = context.colour && flags.output.file.empty();
  return device::state_text(document.state, document.occupants, *catalogue,
                            {.colour = colour, .width = context.width});
}

Result<std::string> sharing_form(const ImportFlags& flags, const Input& input) {
  const Result<interop::PluginConfig> config = interop::parse_plugin_config(input.file, input.text);
  if (!config) return failed(config.error());
  return flags.output.format == "json" ? interop::plugin_json(*config)
                                       : interop::plugin_text(*config);
}

Result<Exit> run_import(Context& context, const ImportFlags& flags) {
  Result<std::string> text = decide::read_input(context.files, "FILE", flags.file);
  if (!text) return failed(text.error());
  Input input{flags.file, *std::move(text), flags.from};
  if (input.form.empty()) {
    Result<std::string> form = recognised(input.file, input.text);
    if (!form) return failed(form.error());
    input.form = *std::move(form);
  }
  const Result<std::string> content = input.form == "device-plugin"
                                          ? sharing_form(flags, input)
                                          : geometry_form(context, flags, input);
  if (!content) return failed(content.error());
  if (auto written = deliver(context, flags.output, *content); !written)
    return failed(written.error());
  return Exit::done;
}

}  // namespace

Command add_import(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "import", "Read the form of another tool: as a layout that apply takes, or as text");
  auto flags = std::make_shared<ImportFlags>();
  command
      ->add_option("FILE", flags->file,
                   "mig-parted's YAML or checkpoint, or a device plugin's configuration")
      ->type_name("FILE")
      ->required();
  one_of(command->add_option("--from", flags->from, "The form; recognised when it is not given"),
         {"mig-parted", "checkpoint", "device-plugin"});
  command->add_option("--label", flags->label, "Which configuration of several (mig-parted)")
      ->type_name("LABEL");
  command->add_option("--gpu", flags->gpu, "Model of the GPUs that the file is for")
      ->type_name("GPU");
  within(command->add_option("--gpus", flags->gpus, "How many GPUs the node has"), 1, kMaxGpus)
      ->type_name("N");
  command
      ->add_option("--node", flags->node,
                   "The state of the node (partita status): its GPUs, instead of --gpu and --gpus")
      ->type_name("FILE");
  add_catalogue(*command, flags->catalogue);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita import config.yaml --label all-balanced --gpu A100-80GB --gpus 8\n"
      "partita import checkpoint.json --node state.json --format json -o wanted.json");
  return {command, [flags](Context& context) { return run_import(context, *flags); }};
}

}  // namespace partita::cli
