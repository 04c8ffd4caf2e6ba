#include <nlohmann/json.hpp>

#include "act/node_picture.h"
#include "base/processes.h"
#include "commands.h"
#include "control/host/servers.h"
#include "device/adaptors.h"
#include "device/node_forms.h"
#include "device/recognise.h"
#include "node/devices.h"
#include "node/local_verdicts.h"
#include "screen.h"

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
    if (taken > 0 && stop.within(interval)) break;
    const Seen seen = TRY(look(context, flags, opened));
    const std::string content = content_of(context, flags, seen, *opened.catalogue);
    if (screen)
      screen->draw(first_lines(content, screen->height()));
    else if (auto written = deliver(context, flags.output, content); !written)
      return failed(written.error());
  }
  return Exit::done;
}

Result<Exit> run_status(Context& context, const StatusFlags& flags) {
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  if (flags.watch) return watch(context, flags, opened);
  const Seen seen = TRY(look(context, flags, opened));
  return finish(context, flags.output, content_of(context, flags, seen, *opened.catalogue));
}

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

struct ReplayFlags {
  std::string file, catalogue;
  int draft = -1;  // a GPU; -1: none
  Output output;
};

// One GPU of the recording, with what is known about its board.
struct Board {
  int gpu = 0;
  const hw::GpuModel* model = nullptr;  // null when the catalogue has no such board
  Result<std::vector<device::ProfileInfo>> profiles;
  std::vector<std::string> differences = {};  // to the model, when there are profiles
};

// The recorded state with the names of the present catalogue.
void rename(device::GpuState& gpu, const hw::GpuModel& model) {
  gpu.model = model.name;
  for (device::Instance& instance : gpu.instances) {
    const std::string name = device::profile_name(model, instance.profile_id);
    if (!name.empty()) instance.profile = name;
  }
}

std::vector<Board> compare(device::NodeDriver& recorded, device::NodeState& state,
                           const hw::Catalogue& catalogue) {
  std::vector<Board> boards;
  for (device::GpuState& gpu : state.gpus) {
    Board board{gpu.index, device::recognise(catalogue, gpu), recorded.profiles(gpu.index)};
    if (board.model) rename(gpu, *board.model);
    if (board.model && board.profiles && !board.profiles->empty())
      board.differences = device::differences(*board.model, *board.profiles);
    boards.push_back(std::move(board));
  }
  return boards;
}

std::string board_text(const Board& board) {
  std::string text = fmt::format("GPU {}: ", board.gpu);
  if (!board.profiles) return text + to_string(board.profiles.error()) + "\n";
  if (board.profiles->empty()) return text + "the board reported no profiles\n";
  if (!board.model)
    return text +
           fmt::format("not in the catalogue; --draft {} prints an entry to complete\n", board.gpu);
  if (board.differences.empty())
    return text + fmt::format("as {} of the catalogue\n", board.model->name);
  text += fmt::format("not as {} of the catalogue:\n", board.model->name);
  for (const std::string& difference : board.differences) text += "  " + difference + "\n";
  return text;
}

// The state of the node, with what was found about its boards.
std::string replay_json(const device::NodeState& state, const std::vector<Board>& boards) {
  auto document = nlohmann::ordered_json::parse(device::state_json(state));
  document["boards"] = nlohmann::ordered_json::array();
  for (const Board& board : boards) {
    nlohmann::ordered_json item{{"gpu", board.gpu}};
    item["model"] = board.model ? nlohmann::ordered_json(board.model->name) : nullptr;
    const bool compared = board.model && board.profiles && !board.profiles->empty();
    item["differences"] = compared ? nlohmann::ordered_json(board.differences) : nullptr;
    document["boards"].push_back(std::move(item));
  }
  return document.dump(2) + "\n";
}

Result<std::string> draft(const device::NodeState& state, const std::vector<Board>& boards,
                          int gpu) {
  for (std::size_t i = 0; i < boards.size(); ++i) {
    if (boards[i].gpu != gpu) continue;
    if (!boards[i].profiles) return failed(boards[i].profiles.error());
    if (boards[i].profiles->empty()) return bad_input("--draft", "the board reported no profiles");
    return hw::gpu_model_json(device::drafted(state.gpus[i], *boards[i].profiles));
  }
  return bad_input("--draft", fmt::format("the recording has no GPU {}", gpu));
}

Result<std::string> content_of(Context& context, const ReplayFlags& flags,
                               const hw::Catalogue& catalogue) {
  const auto recorded = TRY(read_input(context.files, "FILE", flags.file, device::replay));
  device::NodeState state = TRY(device::read_node(*recorded));
  const std::vector<Board> boards = compare(*recorded, state, catalogue);
  if (flags.draft >= 0) return draft(state, boards, flags.draft);
  if (flags.output.json()) return replay_json(state, boards);
  std::string shown = device::state_text(
      state, {}, catalogue,
      {.colour = context.colour && flags.output.file.empty(), .width = context.width});
  shown += "\n";
  for (const Board& board : boards) shown += board_text(board);
  return shown;
}

Result<Exit> run_replay(Context& context, const ReplayFlags& flags) {
  const hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const std::string content = TRY(content_of(context, flags, catalogue));
  return finish(context, flags.output, content);
}

}  // namespace

std::vector<control::ServiceVerdict> local_verdicts(Context& context,
                                                    const std::string& state_directory) {
  RealProcesses processes;
  auto verdicts = control::verdicts_of_node({.files = context.files,
                                             .processes = processes,
                                             .state_dir = state_directory,
                                             .now_ns = context.clock.now_ns(),
                                             .wall_ms = wall_clock_ms()});
  if (verdicts) return *std::move(verdicts);
  complain(context, "how services do is not known: " + to_string(verdicts.error()));
  return {};
}

std::string verdicts_text(const std::vector<control::ServiceVerdict>& verdicts, int width) {
  if (verdicts.empty()) return {};
  constexpr std::size_t kToTheSecond = 19;
  Table table = headed("SERVICE|VERDICT|SINCE|ASKED /s|IN TIME /s|CAN CARRY /s");
  std::string reasons;
  for (const control::ServiceVerdict& one : verdicts) {
    const auto counted = [&](double rps) {
      return one.as_of_ms > 0 ? number_text(rps) : std::string("-");
    };
    table.rows.push_back(
        {one.service, control::to_string(one.verdict),
         one.since_ms > 0 ? control::utc_text(one.since_ms).substr(0, kToTheSecond) + "Z" : "-",
         counted(one.asked_rps), counted(one.answered_rps), number_text(one.can_carry_rps)});
    if (one.cold) reasons += folded(one.service + ": " + actuate::to_string(*one.cold), width, 2);
    if (!one.why.empty()) reasons += folded(one.service + ": " + one.why, width, 2);
  }
  return "\n" + to_string(table) + reasons;
}

std::string lost_text(const device::NodeState& state) {
  std::string text;
  for (const device::GpuState& gpu : state.gpus)
    if (gpu.lost) text += fmt::format("gpu {} fell off the bus\n", gpu.index);
  return text;
}

Command add_status(CLI::App& app) {
  auto [command, flags] = adding<StatusFlags>(
      app, "status", "Show this node's GPUs: instances, what runs on them, what is wrong");
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_directory, "--watch", flags->watch, "--interval",
        preset(flags->interval), "--count", limited(flags->count, 1, 1e9));
  return runs(command, flags, run_status, {"text", "json", "svg"},
              "partita status\n"
              "partita status --watch\n"
              "partita status --format svg -o node.svg\n"
              "partita status --driver sim --machine machine.yaml --format json -o state.json");
}

Command add_capture(CLI::App& app) {
  auto [command, flags] = adding<CaptureFlags>(
      app, "capture",
      "Record what the driver reports about the GPUs, for bug reports; changes nothing");
  add_device_flags(*command, flags->device);
  add_output(*command, flags->output, {"json"});
  return runs(command, flags, run_capture, "partita capture -o node.json\npartita show node.json");
}

Command add_replay(CLI::App& app) {
  auto [command, flags] = adding<ReplayFlags>(
      app, "replay",
      "Show a node recorded by `partita capture`, and where it differs from the catalogue");
  file_argument(*command, "FILE", flags->file, "The recording")->required();
  takes(*command, "--draft", limited(flags->draft, 0, static_cast<double>(device::kMaxNodeGpus)),
        "--catalogue", flags->catalogue);
  return runs(command, flags, run_replay, {"text", "json"},
              "partita show node.json\npartita show node.json --draft 0 -o board.json");
}

}  // namespace partita::cli
