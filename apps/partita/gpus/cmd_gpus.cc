#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/append.h"
#include "base/table.h"
#include "commands.h"
#include "decide/input.h"
#include "flags.h"

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
  Table table{{"GPU", "ARCHITECTURE", "SMs", "GiB", "COMPUTE", "MEMORY", "PROFILES"}, {}};
  for (const hw::GpuModel& gpu : catalogue.gpus) {
    std::vector<std::string> names;
    for (const hw::MigProfile& profile : gpu.profiles) {
      if (profile.plain()) names.push_back(profile.name);
    }
    table.rows.push_back({gpu.name, gpu.architecture, number(gpu.total_sms), gib(gpu.total_memory),
                          fmt::format("{}", gpu.compute_slices),
                          fmt::format("{}", gpu.memory_slices),
                          joined(names, " ")});
  }
  return to_string(table) +
         "\nCOMPUTE and MEMORY are counted in slices. `partita gpus NAME` shows one in detail.\n";
}

std::string gpu_text(const hw::GpuModel& gpu) {
  std::string text = fmt::format("{} ({}): {} SMs, {} GiB, {} compute slices, {} memory slices\n\n",
                                 gpu.name, gpu.architecture, number(gpu.total_sms),
                                 gib(gpu.total_memory), gpu.compute_slices, gpu.memory_slices);
  Table profiles{{"PROFILE", "GPCs", "SIZE", "STARTS", "MOST", "SMs", "GiB"}, {}};
  for (const hw::MigProfile& profile : gpu.profiles) {
    profiles.rows.push_back(
        {profile.name, fmt::format("{}", profile.gpcs), fmt::format("{}", profile.size),
         joined(profile.starts, ","),
         fmt::format("{}", profile.max_instances), number(profile.sms), gib(profile.memory)});
  }
  text += to_string(profiles) + "\nSIZE and STARTS are memory slices.\n";
  if (!gpu.reconfiguration.empty()) {
    Table times{{"GPCs", "CREATE s", "DESTROY s"}, {}};
    for (const hw::ReconfigurationTime& time : gpu.reconfiguration) {
      times.rows.push_back({fmt::format("{}", time.gpcs), fmt::format("{}", time.create.value),
                            fmt::format("{}", time.destroy.value)});
    }
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
  for (const hw::GpuModel& gpu : catalogue.gpus) {
    document["gpus"].push_back(nlohmann::ordered_json::parse(hw::gpu_model_json(gpu)));
  }
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

}  // namespace

Command add_gpus(CLI::App& app) {
  auto [command, flags] =
      adding<GpusFlags>(app, "gpus", "List the GPU models, or show one in detail");
  command->add_option("NAME", flags->name, "A GPU model of the catalogue")->type_name("GPU");
  add_catalogue(*command, flags->catalogue);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita gpus A100-80GB --format json");
  return {command, [flags](Context& context) { return run_gpus(context, *flags); }};
}

}  // namespace partita::cli
