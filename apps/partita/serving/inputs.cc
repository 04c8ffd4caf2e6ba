#include "serving/inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>

#include "base/nearest.h"
#include "flags.h"
#include "forms/serving_forms.h"
#include "profile/law.h"
#include "profile/readers.h"

namespace partita::cli {
namespace {

constexpr char kServicesHelp[] =
    "The services: a YAML or JSON list of name, model, rate_rps, slo_ms and optional percentile, "
    "min_replicas, anti_affinity";
constexpr char kProfilesHelp[] =
    "Profiles of the models on the GPU: a native CSV, a directory of ParvaGPU CSVs (one per "
    "model), or performance laws (JSON)";

bool looks_like_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Result<profile::ProfileTable> load_parvagpu_directory(Context& context, const std::string& flag,
                                                      const std::string& path) {
  const Result<std::vector<std::string>> names = context.files.list(path);
  if (!names) return bad_input(flag + " " + path, names.error().message);
  profile::ProfileTable table;
  for (const std::string& name : *names) {
    if (!name.ends_with(".csv")) continue;
    const std::string file = path + "/" + name;
    const Result<std::string> text = read_input(context, flag, file);
    if (!text) return failed(text.error());
    const std::string model = name.substr(0, name.size() - 4);
    Result<profile::WorkloadProfile> profile = profile::parse_parvagpu_csv(file, model, *text);
    if (!profile) return failed(profile.error());
    table.emplace(model, std::move(*profile));
  }
  if (table.empty()) return bad_input(flag + " " + path, "there is no .csv file in it");
  return table;
}

Result<plan::FleetEntry> load_entry(Context& context, const hw::Catalogue& catalogue,
                                    const FleetLine& line, const std::string& flag) {
  const Result<const hw::GpuModel*> gpu = catalogue.get(line.gpu);
  if (!gpu) return bad_input(flag, gpu.error().message);
  Result<profile::ProfileTable> profiles =
      load_profiles(context, "--profiles", line.profiles, **gpu);
  if (!profiles) return failed(profiles.error());
  return plan::FleetEntry{**gpu, std::move(*profiles), line.count, line.price};
}

Result<std::vector<plan::FleetEntry>> load_fleet(Context& context, const ProblemFlags& flags) {
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.catalogue);
  if (!catalogue) return failed(catalogue.error());
  std::vector<FleetLine> lines{{flags.gpu, {}, 1, flags.profiles, 0}};
  if (!flags.fleet.empty()) {
    const Result<std::string> text = read_input(context, "--fleet", flags.fleet);
    if (!text) return failed(text.error());
    Result<std::vector<FleetLine>> parsed = parse_fleet(flags.fleet, *text);
    if (!parsed) return failed(parsed.error());
    lines = std::move(*parsed);
    const auto directory = std::filesystem::path(flags.fleet).parent_path();
    for (FleetLine& line : lines) line.profiles = (directory / line.profiles).string();
  }
  std::vector<plan::FleetEntry> fleet;
  for (const FleetLine& line : lines) {
    const std::string where =
        flags.fleet.empty() ? flags.gpu_source : fmt::format("{}:{}", flags.fleet, line.line);
    Result<plan::FleetEntry> entry = load_entry(context, *catalogue, line, where);
    if (!entry) return failed(entry.error());
    const auto same = [&entry](const plan::FleetEntry& other) {
      return other.gpu.name == entry->gpu.name;
    };
    if (std::any_of(fleet.begin(), fleet.end(), same)) {
      return bad_input(where, fmt::format("GPU model '{}' is there twice", entry->gpu.name));
    }
    fleet.push_back(std::move(*entry));
  }
  return fleet;
}

// Every service's model must have been measured somewhere: a misspelt model is bad input, not an
// infeasible plan.
Result<void> check_models(const plan::ServingProblem& problem, const std::string& file) {
  std::vector<std::string> models;
  for (const plan::FleetEntry& entry : problem.fleet) {
    for (const auto& [model, profile] : entry.profiles) models.push_back(model);
  }
  std::sort(models.begin(), models.end());
  for (const plan::Service& service : problem.services) {
    if (std::binary_search(models.begin(), models.end(), service.model)) continue;
    return bad_input(fmt::format("{}:{}", file, service.line),
                     fmt::format("service '{}': there is no profile of model '{}'{}", service.name,
                                 service.model, did_you_mean(service.model, models)));
  }
  return {};
}

Result<void> check_flags(const ProblemFlags& flags) {
  if (!flags.fleet.empty()) return {};
  if (flags.profiles.empty()) {
    return bad_input("--profiles", "it is needed, unless --fleet names profiles");
  }
  if (flags.gpu.empty()) return bad_input("--gpu", "it (or --fleet) is needed");
  return {};
}

}  // namespace

void add_problem_flags(CLI::App& command, ProblemFlags& flags) {
  command.add_option("--services", flags.services, kServicesHelp)->type_name("FILE")->required();
  auto* profiles =
      command.add_option("--profiles", flags.profiles, kProfilesHelp)->type_name("PATH");
  command
      .add_option("--fleet", flags.fleet,
                  "A fleet of several GPU models: a YAML or JSON list under `gpus` of gpu, "
                  "profiles, and optional count and price; minimises the summed price")
      ->type_name("FILE")
      ->excludes(profiles);
  command
      .add_option("--slo-rule", flags.rule,
                  "When a latency objective holds. queueing: the predicted end-to-end percentile "
                  "latency is <= SLO; execution:F: the execution latency is < F x SLO")
      ->type_name("RULE");
  within(command.add_option("--max-processes", flags.max_processes,
                            "Most MPS processes on one instance"),
         1, profile::kMaxProcesses)
      ->type_name("N");
  add_catalogue(command, flags.catalogue);
}

void add_gpu_flag(CLI::App& command, ProblemFlags& flags) {
  command.add_option("--gpu", flags.gpu, "The GPU model; `partita gpus` lists the names")
      ->type_name("GPU")
      ->excludes("--fleet");
}

Result<plan::SloRule> load_rule(const std::string& flag, const std::string& text) {
  Result<plan::SloRule> rule = plan::parse_slo_rule(text);
  if (rule) return rule;
  return bad_input(flag, rule.error().message);
}

Result<profile::ProfileTable> load_profiles(Context& context, const std::string& flag,
                                            const std::string& path, const hw::GpuModel& gpu) {
  if (context.files.is_directory(path)) return load_parvagpu_directory(context, flag, path);
  const Result<std::string> text = read_input(context, flag, path);
  if (!text) return failed(text.error());
  if (!looks_like_json(*text)) return profile::parse_native_csv(path, *text);
  const auto laws = profile::parse_laws(path, *text);
  if (!laws) return failed(laws.error());
  return profile::table_from_laws(*laws, gpu);
}

Result<plan::ServingPlan> load_plan(Context& context, const std::string& path) {
  const Result<std::string> text = read_input(context, "PLAN", path);
  if (!text) return failed(text.error());
  return forms::parse_plan(path, *text);
}

Result<plan::ServingProblem> load_problem(Context& context, const ProblemFlags& flags) {
  if (auto complete = check_flags(flags); !complete) return failed(complete.error());
  plan::ServingProblem problem;
  if (!flags.rule.empty()) {
    const Result<plan::SloRule> rule = load_rule("--slo-rule", flags.rule);
    if (!rule) return failed(rule.error());
    problem.rule = *rule;
  }
  if (flags.max_processes > 0) problem.max_processes = flags.max_processes;
  const Result<std::string> text = read_input(context, "--services", flags.services);
  if (!text) return failed(text.error());
  Result<std::vector<plan::Service>> services = forms::parse_services(flags.services, *text);
  if (!services) return failed(services.error());
  problem.services = std::move(*services);
  Result<std::vector<plan::FleetEntry>> fleet = load_fleet(context, flags);
  if (!fleet) return failed(fleet.error());
  problem.fleet = std::move(*fleet);
  if (auto known = check_models(problem, flags.services); !known) return failed(known.error());
  return problem;
}

}  // namespace partita::cli
