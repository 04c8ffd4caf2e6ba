#include <CLI/CLI.hpp>

#include <memory>

#include "commands.h"
#include "node/devices.h"
#include "node/state_dir.h"

namespace partita::cli {
namespace {

struct StatusFlags {
  DeviceFlags device;
  std::string state_directory;
  Output output;
};

Result<Exit> run_status(Context& context, const StatusFlags& flags) {
  const Result<OpenDriver> opened = open_driver(context, flags.device);
  if (!opened) return failed(opened.error());
  const Result<device::NodeState> state = device::read_node(*opened->driver);
  if (!state) return failed(state.error());
  const std::string directory = state_directory(flags.state_directory, *state);
  const device::Occupants occupants = load_occupants(context, directory);
  const std::optional<device::Unfinished> unfinished = load_unfinished(context, directory);
  const std::string content =
      flags.output.format == "json"
          ? device::state_json(*state, occupants, unfinished)
          : device::state_text(
                *state, occupants, *opened->catalogue,
                {.colour = context.colour && flags.output.file.empty(),
                 .width = context.width,
                 .unfinished = unfinished});
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

}  // namespace

Command add_status(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "status", "Show this node's GPUs: instances, what runs on them, what is wrong");
  auto flags = std::make_shared<StatusFlags>();
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita status\n"
      "partita status --driver sim --machine machine.yaml --format json -o state.json");
  return {command, [flags](Context& context) { return run_status(context, *flags); }};
}

}  // namespace partita::cli
