#include "decide/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "decide/input.h"
#include "device/node_forms.h"

namespace partita::decide {
namespace {

// The form of a file by the keys at its top.
Result<std::string> recognised(const std::string& file, std::string_view text) {
  const Document document = TRY(parse_document(file, text));
  if (document.root.find("mig-configs")) return std::string("mig-parted");
  if (document.root.find("MigState")) return std::string("checkpoint");
  for (const char* key : {"sharing", "flags", "resources"})
    if (document.root.find(key)) return std::string("device-plugin");
  return bad_input(document.at(document.root),
                   "neither mig-parted's YAML or checkpoint nor a device plugin's configuration; "
                   "say which with --from");
}

// The GPUs that the file is for; `needed` is how many it names at least.
Result<std::vector<interop::Board>> load_boards(Files& files, const ForeignFile& source,
                                                const hw::Catalogue& catalogue, int needed) {
  if (!source.node.empty()) {
    if (!source.gpu.empty() || source.gpus > 0)
      return bad_input("--node", "describes the GPUs, so do not give --gpu or --gpus");
    const auto state =
        TRY(read_input(files, "--node", source.node, device::parse_state, catalogue));
    return interop::boards_of(state.state, catalogue);
  }
  if (source.gpu.empty())
    return bad_input("",
                     "--gpu or --node is required: the file does not say which GPUs the node has");
  const Result<const hw::GpuModel*> model = catalogue.get(source.gpu);
  if (!model) return bad_input("--gpu", model.error().message);
  return interop::boards_of(**model, source.gpus > 0 ? source.gpus : needed);
}

Result<interop::Geometry> read_mig_parted(Files& files, const ForeignFile& source,
                                          const std::string& text, const hw::Catalogue& catalogue) {
  const auto parsed = TRY(interop::parse_mig_parted(source.file, text));
  const auto label = TRY(interop::chosen_label(parsed, source.label));
  int needed = 0;
  for (const interop::MigPartedEntry& entry : label->entries) {
    if (entry.all && source.gpus == 0 && source.node.empty())
      return bad_input("", fmt::format("--gpus or --node is required: {}:{} is about all GPUs",
                                       source.file, entry.devices_line));
    for (const int index : entry.devices) needed = std::max(needed, index + 1);
  }
  if (needed > kMaxForeignGpus && source.node.empty() && source.gpus == 0)
    return bad_input("--gpus", fmt::format("{} names GPU {}; without --gpus at most {} are assumed",
                                           source.file, needed - 1, kMaxForeignGpus));
  const auto boards = TRY(load_boards(files, source, catalogue, needed));
  return interop::geometry_of(parsed, *label, boards);
}

Result<interop::Geometry> read_checkpoint(Files& files, const ForeignFile& source,
                                          const std::string& text, const hw::Catalogue& catalogue) {
  if (!source.label.empty()) return bad_input("--label", "a checkpoint has no labels");
  const auto boards = TRY(load_boards(files, source, catalogue, kMaxForeignGpus));
  return interop::parse_checkpoint(source.file, text, boards);
}

}  // namespace

Result<Foreign> read_foreign(Files& files, const ForeignFile& source,
                             const hw::Catalogue& catalogue) {
  const std::string text = TRY(read_input(files, "FILE", source.file));
  const std::string form =
      TRY(source.from.empty() ? recognised(source.file, text) : Result<std::string>(source.from));
  if (form == "device-plugin") {
    auto config = TRY(interop::parse_plugin_config(source.file, text));
    return config;
  }
  auto geometry = TRY(form == "mig-parted" ? read_mig_parted(files, source, text, catalogue)
                                           : read_checkpoint(files, source, text, catalogue));
  if (geometry.gpus.empty())
    return bad_input(source.file, "it says nothing about the GPUs of this node");
  return geometry;
}

}  // namespace partita::decide
