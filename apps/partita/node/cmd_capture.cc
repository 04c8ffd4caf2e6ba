#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "device/adaptors.h"
#include "flags.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

struct CaptureFlags {
  DeviceFlags device;
  Output output;
};

// Refusals about one GPU are part of the recording; they are said, and the others still recorded.
Result<Exit> run_capture(Context& context, const CaptureFlags& flags) {
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  device::LimitedDriver reading(*opened.driver, {.read_only = true, .gpus = {}});
  device::RecordingDriver recording(reading);
  const device::DriverInfo info = TRY(recording.info());
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    if (const auto state = recording.read(gpu); !state) complain(context, to_string(state.error()));
    if (const auto profiles = recording.profiles(gpu); !profiles)
      complain(context, to_string(profiles.error()));
  }
  return finish(context, flags.output, recording.json());
}

}  // namespace

Command add_capture(CLI::App& app) {
  auto [command, flags] = adding<CaptureFlags>(
      app, "capture",
      "Record what the driver reports about the GPUs, for bug reports; changes nothing");
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"json"});
  command->footer("partita capture -o node.json\npartita show node.json");
  return {command, [flags](Context& context) { return run_capture(context, *flags); }};
}

}  // namespace partita::cli
