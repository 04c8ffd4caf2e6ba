#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "commands.h"
#include "decide/input.h"
#include "flags.h"
#include "hw/layout.h"

namespace partita::cli {
namespace {

struct LayoutsFlags {
  std::string name, with, catalogue;
  Output output;
};

// The profiles of the GPU that `word` of --with names: a group (double-memory, me) or one profile.
Result<std::vector<int>> extra_profiles(const hw::GpuModel& gpu, const std::string& word) {
  std::vector<int> extra;
  for (int i = 0; i < static_cast<int>(gpu.profiles.size()); ++i) {
    const hw::MigProfile& profile = gpu.profiles[static_cast<std::size_t>(i)];
    if ((word == "double-memory" && profile.double_memory()) ||
        (word == "me" && profile.name.ends_with("+me")) || word == profile.name) {
      extra.push_back(i);
    }
  }
  if (!extra.empty()) return extra;
  std::vector<std::string> words{"double-memory", "me"};
  for (const hw::MigProfile& profile : gpu.profiles) words.push_back(profile.name);
  return bad_input(
      "--with", fmt::format("{} has no profile '{}'{}", gpu.name, word, did_you_mean(word, words)));
}

Result<std::vector<int>> chosen_profiles(const hw::GpuModel& gpu, const std::string& with) {
  std::vector<int> profiles = hw::plain_profiles(gpu);
  if (with.empty()) return profiles;
  for (const std::string& word : split(with, ',')) {
    const std::vector<int> extra = TRY(extra_profiles(gpu, word));
    profiles.insert(profiles.end(), extra.begin(), extra.end());
  }
  std::sort(profiles.begin(), profiles.end());
  profiles.erase(std::unique(profiles.begin(), profiles.end()), profiles.end());
  return profiles;
}

const hw::MigProfile& profile_of(const hw::GpuModel& gpu, const hw::PlacedProfile& placed) {
  return gpu.profiles[static_cast<std::size_t>(placed.profile)];
}

// One line: every instance as wide as its memory slices, unused slices as dots.
std::string layout_text(const hw::GpuModel& gpu, const hw::Layout& layout) {
  std::size_t cell = 0;  // characters per memory slice, so that the longest name fits its box
  for (const hw::MigProfile& profile : gpu.profiles) {
    const auto size = static_cast<std::size_t>(profile.size);
    cell = std::max(cell, (profile.name.size() + 2 + size - 1) / size);
  }
  std::string line;
  int at = 0;
  const auto unused = [&](int until) {
    for (; at < until; ++at) line += fmt::format("{:^{}}", ".", cell);
  };
  for (const hw::PlacedProfile& placed : layout) {
    const hw::MigProfile& profile = profile_of(gpu, placed);
    unused(placed.start);
    line +=
        fmt::format("[{:^{}}]", profile.name, cell * static_cast<std::size_t>(profile.size) - 2);
    at = placed.start + profile.size;
  }
  unused(gpu.memory_slices);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string layouts_json(const hw::GpuModel& gpu, const std::vector<int>& profiles,
                         const std::vector<hw::Layout>& layouts) {
  using Json = nlohmann::ordered_json;
  Json document{{"api_version", "partita/v1"}, {"kind", "Layouts"},
                {"gpu_model", gpu.name},       {"count", layouts.size()},
                {"profiles", Json::array()},   {"layouts", Json::array()}};
  for (const int i : profiles) {
    document["profiles"].push_back(gpu.profiles[static_cast<std::size_t>(i)].name);
  }
  for (const hw::Layout& layout : layouts) {
    Json instances = Json::array();
    for (const hw::PlacedProfile& placed : layout) {
      const hw::MigProfile& profile = profile_of(gpu, placed);
      instances.push_back(
          {{"profile", profile.name}, {"start", placed.start}, {"size", profile.size}});
    }
    document["layouts"].push_back(std::move(instances));
  }
  return document.dump(2) + "\n";
}

Result<Exit> run_layouts(Context& context, const LayoutsFlags& flags) {
  const hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const Result<const hw::GpuModel*> gpu = catalogue.get(flags.name);
  if (!gpu) return bad_input("NAME", gpu.error().message);
  const std::vector<int> profiles = TRY(chosen_profiles(**gpu, flags.with));
  const std::vector<hw::Layout> layouts = hw::maximal_layouts(**gpu, profiles);
  std::string content;
  if (flags.output.json()) {
    content = layouts_json(**gpu, profiles, layouts);
  } else {
    content = fmt::format("{}: {} maximal partitions\n", (*gpu)->name, layouts.size());
    for (const hw::Layout& layout : layouts) content += layout_text(**gpu, layout);
  }
  return finish(context, flags.output, content);
}

}  // namespace

Command add_layouts(CLI::App& app) {
  auto [command, flags] = adding<LayoutsFlags>(
      app, "layouts", "List the layouts of a GPU model to which no further instance can be added");
  command->add_option("NAME", flags->name, "A GPU model of the catalogue")
      ->type_name("GPU")
      ->required();
  flag(*command, "--with", flags->with);
  add_catalogue(*command, flags->catalogue);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita gpus A100-80GB --layouts\npartita gpus H200-141GB --with double-memory,me");
  return {command, [flags](Context& context) { return run_layouts(context, *flags); }};
}

}  // namespace partita::cli
