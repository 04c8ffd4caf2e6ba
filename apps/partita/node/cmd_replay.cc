#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "decide/input.h"
#include "device/adaptors.h"
#include "device/node_forms.h"
#include "device/recognise.h"
#include "flags.h"

namespace partita::cli {
namespace {

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
  const std::string text = TRY(read_input(context.files, "FILE", flags.file));
  const auto recorded = TRY(device::replay(flags.file, text));
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

Command add_replay(CLI::App& app) {
  auto [command, flags] = adding<ReplayFlags>(
      app, "replay",
      "Show a node recorded by `partita capture`, and where it differs from the catalogue");
  command->add_option("FILE", flags->file, "The recording")->type_name("FILE")->required();
  within(flag(*command, "--draft", flags->draft), 0, static_cast<double>(device::kMaxNodeGpus));
  add_catalogue(*command, flags->catalogue);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita show node.json\npartita show node.json --draft 0 -o board.json");
  return {command, [flags](Context& context) { return run_replay(context, *flags); }};
}

}  // namespace partita::cli
