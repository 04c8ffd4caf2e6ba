#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "flags.h"
#include "serve/demo_serve.h"
#include "serve/onnx/models.h"

namespace partita::cli {
namespace {

struct ModelsFlags {
  std::string folder;
  std::uint64_t seed = 1;
};

Result<Exit> write_models(Context& context, const ModelsFlags& flags) {
  TRY(context.files.make_directories(flags.folder));
  const std::pair<std::string, serve::OnnxGraph> models[] = {
      {"mlp", serve::onnx_mlp({}, flags.seed)},
      {"cnn", serve::onnx_cnn({}, flags.seed)},
      {"transformer", serve::onnx_transformer({}, flags.seed)}};
  for (const auto& [name, graph] : models) {
    const std::string path = fmt::format("{}/{}.onnx", flags.folder, name);
    const std::string bytes = graph.bytes();
    TRY(context.files.write_atomic(path, bytes));
    say(context, fmt::format("{}  {} KiB\n", path, (bytes.size() + 1023) / 1024));
  }
  return Exit::done;
}

}  // namespace

Command add_demo_models(CLI::App& demo) {
  auto [command, flags] = adding<ModelsFlags>(
      demo, "models", "Write small ONNX models (an MLP, a CNN, a transformer) with seeded weights");
  command->add_option("DIR", flags->folder, "Where to")->type_name("DIR")->required();
  add_seed(*command, flags->seed);
  command->footer("partita demo models build/models");
  return {command, [flags](Context& context) { return write_models(context, *flags); }};
}

}  // namespace partita::cli
