#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "commands.h"
#include "hw/layout.h"

namespace partita::cli {
namespace {

struct GpusFlags {
  std::string name, catalogue;
  Output output;
};

std::string number(const std::optional<int>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string gib(const std::optional<Mib>& memory) {
  return memory ? fmt::format("{:.1f}", memory->value / 1024) : "-";
}

std::string list_text(const hw::Catalogue& catalogue) {
  Table table = headed("GPU|ARCHITECTURE|SMs|GiB|COMPUTE|MEMORY|PROFILES");
  for (const hw::GpuModel& gpu : catalogue.gpus) {
    std::vector<std::string> names;
    for (const hw::MigProfile& profile : gpu.profiles)
      if (profile.plain()) names.push_back(profile.name);
    table.add("{}|{}|{}|{}|{}|{}|{}", gpu.name, gpu.architecture, number(gpu.total_sms),
              gib(gpu.total_memory), gpu.compute_slices, gpu.memory_slices, joined(names, " "));
  }
  return to_string(table) +
         "\nCOMPUTE and MEMORY are counted in slices. `partita gpus NAME` shows one in detail.\n";
}

std::string gpu_text(const hw::GpuModel& gpu) {
  std::string text = fmt::format("{} ({}): {} SMs, {} GiB, {} compute slices, {} memory slices\n\n",
                                 gpu.name, gpu.architecture, number(gpu.total_sms),
                                 gib(gpu.total_memory), gpu.compute_slices, gpu.memory_slices);
  Table profiles = headed("PROFILE|GPCs|SIZE|STARTS|MOST|SMs|GiB");
  for (const hw::MigProfile& profile : gpu.profiles)
    profiles.add("{}|{}|{}|{}|{}|{}|{}", profile.name, profile.gpcs, profile.size,
                 joined(profile.starts, ","), profile.max_instances, number(profile.sms),
                 gib(profile.memory));
  text += to_string(profiles) + "\nSIZE and STARTS are memory slices.\n";
  if (!gpu.reconfiguration.empty()) {
    Table times = headed("GPCs|CREATE s|DESTROY s");
    for (const hw::ReconfigurationTime& time : gpu.reconfiguration)
      times.add("{}|{}|{}", time.gpcs, time.create.value, time.destroy.value);
    text +=
        fmt::format("\nReconfiguration ({}):\n{}", gpu.reconfiguration_source, to_string(times));
  }
  for (const std::string& note : gpu.notes) text += fmt::format("\nNote: {}\n", note);
  if (!gpu.sources.empty()) text += "\nSources:\n";
  for (const std::string& source : gpu.sources) text += fmt::format("  {}\n", source);
  return text;
}

std::string list_json(const hw::Catalogue& catalogue) {
  nlohmann::ordered_json document{{"api_version", "partita/v1"}, {"kind", "Catalogue"}};
  document["gpus"] = nlohmann::ordered_json::array();
  for (const hw::GpuModel& gpu : catalogue.gpus)
    document["gpus"].push_back(nlohmann::ordered_json::parse(hw::gpu_model_json(gpu)));
  return document.dump(2) + "\n";
}

Result<Exit> run_gpus(Context& context, const GpusFlags& flags) {
  const hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const bool json = flags.output.json();
  std::string content;
  if (flags.name.empty()) {
    content = json ? list_json(catalogue) : list_text(catalogue);
  } else {
    const Result<const hw::GpuModel*> gpu = catalogue.get(flags.name);
    if (!gpu) return bad_input("NAME", gpu.error().message);
    content = json ? hw::gpu_model_json(**gpu) : gpu_text(**gpu);
  }
  return finish(context, flags.output, content);
}

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
        (word == "me" && profile.name.ends_with("+me")) || word == profile.name)
      extra.push_back(i);
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
  for (const int i : profiles)
    document["profiles"].push_back(gpu.profiles[static_cast<std::size_t>(i)].name);
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

Command add_gpus(CLI::App& app) {
  auto [command, flags] =
      adding<GpusFlags>(app, "gpus", "List the GPU models, or show one in detail");
  command->add_option("NAME", flags->name, "A GPU model of the catalogue")->type_name("GPU");
  flag(*command, "--catalogue", flags->catalogue);
  return runs(command, flags, run_gpus, {"text", "json"}, "partita gpus A100-80GB --format json");
}

Command add_layouts(CLI::App& app) {
  auto [command, flags] = adding<LayoutsFlags>(
      app, "layouts", "List the layouts of a GPU model to which no further instance can be added");
  command->add_option("NAME", flags->name, "A GPU model of the catalogue")
      ->type_name("GPU")
      ->required();
  takes(*command, "--with", flags->with, "--catalogue", flags->catalogue);
  return runs(command, flags, run_layouts, {"text", "json"},
              "partita gpus A100-80GB --layouts\npartita gpus H200-141GB --with double-memory,me");
}

}  // namespace partita::cli
