#include "agent/agent_weeks.h"

#include "agent/agent_world.h"
#include "decide/input.h"

namespace partita::cli {
namespace {

constexpr int kStandardGpus = 8;
constexpr const char* kStandardModel = "A100-80GB";

// By its description, else kStandardGpus of kStandardModel. The catalogue must outlive it.
Result<drivers::sim::Machine> weeks_machine(const std::string& path, const std::string& text,
                                            const hw::Catalogue& catalogue) {
  drivers::sim::MachineDescription description;
  if (path.empty()) {
    const auto model = catalogue.get(kStandardModel);
    if (!model) return failed(model.error());
    description.gpus.push_back({*model, kStandardGpus, true});
  } else {
    auto parsed = drivers::sim::parse_machine(path, text, catalogue);
    if (!parsed) return failed(parsed.error());
    description = *std::move(parsed);
    description.processes.clear();
  }
  return drivers::sim::make_machine(description, "agent --simulate");
}

std::vector<std::string> models_in(const drivers::sim::Machine& machine) {
  device::NodeState node;
  for (const drivers::sim::SimGpu& gpu : machine.gpus())
    node.gpus.emplace_back().model = gpu.model->name;
  return models_of(node);
}

Result<control::WeeksOptions> weeks_options(Context& context, const WeeksFlags& flags) {
  Result<control::AgentFile> file = load_agent_file(context, flags.live.config);
  if (!file) return failed(file.error());
  if (!flags.live.services.empty()) file->services = flags.live.services;
  if (!flags.live.profiles.empty()) file->profiles = flags.live.profiles;
  if (file->services.empty()) return bad_input("--services", "is required: a services file");
  if (file->profiles.empty() && file->profiles_of.empty())
    return bad_input("--profiles", "is required: profiles of the node's GPU models");
  file->policy.mode = control::Mode::automatic;
  file->policy.hooks_before.clear();
  file->policy.hooks_after.clear();
  auto catalogue = decide::load_catalogue(context.files, flags.live.device.catalogue);
  if (!catalogue) return failed(catalogue.error());
  const std::string node = !flags.machine.empty()               ? flags.machine
                           : !flags.live.device.machine.empty() ? flags.live.device.machine
                                                                : file->node.machine;
  const Result<std::string> described =
      node.empty() ? "" : decide::read_input(context.files, "--node", node);
  if (!described) return failed(described.error());
  const auto first = weeks_machine(node, *described, *catalogue);
  if (!first) return failed(first.error());
  auto world = agent_world(context, *file, *catalogue, models_in(*first));
  if (!world) return failed(world.error());
  auto machine = weeks_machine(node, *described, world->catalogue);  // which stays where it is
  if (!machine) return failed(machine.error());
  const auto services = decide::read_input(context.files, "--services", file->services);
  if (!services) return failed(services.error());
  return control::WeeksOptions{
      .world = *std::move(world),
      .services_file = file->services,
      .services_text = *services,
      .machine = *std::move(machine),
      .days = flags.days,
      .seed = flags.seed,
      .troubles = flags.calm ? control::SimTroubles{} : control::usual_troubles()};
}

}  // namespace

Result<Exit> run_agent_weeks(Context& context, const WeeksFlags& flags) {
  Result<control::WeeksOptions> options = weeks_options(context, flags);
  if (!options) return failed(options.error());
  auto weeks = control::SimWeeks::begin(*std::move(options));
  if (!weeks) return failed(weeks.error());
  while ((*weeks)->step()) continue;
  const auto report = (*weeks)->report();
  if (!report) return failed(report.error());
  const std::string& format = flags.live.output.format;
  const std::string content = format == "json"  ? control::weeks_json(*report)
                              : format == "svg" ? control::weeks_svg(*report)
                                                : control::weeks_text(*report);
  if (auto written = deliver(context, flags.live.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

}  // namespace partita::cli
