#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "device/adaptors.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

struct CaptureFlags {
  DeviceFlags device;
  Output output;
};

// Refusals about one GPU are part of the recording; they are said, and the others still recorded.
Result<Exit> run_capture(Context& context, const CaptureFlags& flags) {
  const Result<OpenDriver> opened = open_driver(context, flags.device);
  if (!opened) return failed(opened.error());
  device::LimitedDriver reading(*opened->driver, {.read_only = true, .gpus = {}});
  device::RecordingDriver recording(reading);
  const Result<device::DriverInfo> info = recording.info();
  if (!info) return failed(info.error());
  for (int gpu = 0; gpu < info->gpus; ++gpu) {
    if (const auto state = recording.read(gpu); !state) complain(context, to_string(state.error()));
    if (const auto profiles = recording.profiles(gpu); !profiles)
      complain(context, to_string(profiles.error()));
  }
  return finish(context, flags.output, recording.json());
}

}  // namespace

Command add_capture(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "capture", "Record what the driver reports about the GPUs, for bug reports; changes nothing");
  auto flags = std::make_shared<CaptureFlags>();
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"json"});
  command->footer("partita capture -o node.json\npartita show node.json");
  return {command, [flags](Context& context) { return run_capture(context, *flags); }};
}

}  // namespace partita::cli
