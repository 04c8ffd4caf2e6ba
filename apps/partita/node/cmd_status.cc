#include <CLI/CLI.hpp>

#include <optional>
#include <vector>

#include "act/node_picture.h"
#include "commands.h"
#include "flags.h"
#include "node/devices.h"
#include "node/local_verdicts.h"
#include "node/state_dir.h"
#include "screen.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

struct StatusFlags {
  DeviceFlags device;
  std::string state_directory, interval = "2s";
  bool watch = false;
  int count = 0;
  Output output;
};

struct Seen {
  device::NodeState state;
  device::Occupants occupants;
  std::optional<device::Unfinished> unfinished;
  std::vector<control::ServiceVerdict> verdicts;
};

Result<Seen> look(Context& context, const StatusFlags& flags, const OpenDriver& opened) {
  device::NodeState state = TRY(device::read_node(*opened.driver));
  const std::string directory = state_directory(flags.state_directory, state);
  device::Occupants occupants = load_occupants(context, directory);
  return Seen{std::move(state), std::move(occupants), load_unfinished(context, directory),
              local_verdicts(context, directory)};
}

std::string content_of(const Context& context, const StatusFlags& flags, const Seen& seen,
                       const hw::Catalogue& catalogue) {
  if (flags.output.json())
    return device::state_json(seen.state, seen.occupants, seen.unfinished, [&](Form& f) {
      auto verdicts = seen.verdicts;
      control::describe_verdicts(f, verdicts);
    });
  if (flags.output.svg()) return actuate::node_svg(seen.state, seen.occupants, catalogue);
  return device::state_text(seen.state, seen.occupants, catalogue,
                            {.colour = context.colour && flags.output.file.empty(),
                             .width = context.width,
                             .unfinished = seen.unfinished}) +
         verdicts_text(seen.verdicts, context.width);
}

// Again and again: on a terminal a picture in place, else one after another; a file always has the
// last.
Result<Exit> watch(Context& context, const StatusFlags& flags, const OpenDriver& opened) {
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  StopRequest stop;
  std::optional<Screen> screen;
  if (flags.output.file.empty() && flags.output.format == "text" && is_terminal(context))
    screen.emplace(context.out);
  for (int taken = 0; flags.count == 0 || taken < flags.count; ++taken) {
    if (taken > 0 && stop.within(static_cast<std::int64_t>(interval.value * 1e9))) break;
    const Seen seen = TRY(look(context, flags, opened));
    const std::string content = content_of(context, flags, seen, *opened.catalogue);
    if (screen) {
      screen->draw(first_lines(content, screen->height()));
    } else if (auto written = deliver(context, flags.output, content); !written) {
      return failed(written.error());
    }
  }
  return Exit::done;
}

Result<Exit> run_status(Context& context, const StatusFlags& flags) {
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  if (flags.watch) return watch(context, flags, opened);
  const Seen seen = TRY(look(context, flags, opened));
  return finish(context, flags.output, content_of(context, flags, seen, *opened.catalogue));
}

}  // namespace

Command add_status(CLI::App& app) {
  auto [command, flags] = adding<StatusFlags>(
      app, "status", "Show this node's GPUs: instances, what runs on them, what is wrong");
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  flag(*command, "--watch", flags->watch);
  flag(*command, "--interval", flags->interval)->default_str(flags->interval);
  within(flag(*command, "--count", flags->count), 1, 1e9);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita status\n"
      "partita status --watch\n"
      "partita status --format svg -o node.svg\n"
      "partita status --driver sim --machine machine.yaml --format json -o state.json");
  return {command, [flags](Context& context) { return run_status(context, *flags); }};
}

}  // namespace partita::cli
