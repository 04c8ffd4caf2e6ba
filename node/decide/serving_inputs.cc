#include "decide/serving_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "base/nearest.h"
#include "decide/day.h"
#include "decide/doubts.h"
#include "decide/fleet.h"
#include "decide/traces.h"
#include "forms/clock_time.h"
#include "forms/serving_forms.h"
#include "plan/predictions.h"
#include "profile/law.h"
#include "profile/readers.h"

namespace partita::decide {
namespace {

bool looks_like_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Result<profile::ProfileTable> load_parvagpu_directory(Files& files, const std::string& flag,
                                                      const std::string& path) {
  const Result<std::vector<std::string>> names = files.list(path);
  if (!names) return bad_input(flag + " " + path, names.error().message);
  profile::ProfileTable table;
  for (const std::string& name : *names) {
    if (!name.ends_with(".csv")) continue;
    const std::string file = path + "/" + name;
    const Result<std::string> text = read_input(files, flag, file);
    if (!text) return failed(text.error());
    const std::string model = name.substr(0, name.size() - 4);
    Result<profile::WorkloadProfile> profile = profile::parse_parvagpu_csv(file, model, *text);
    if (!profile) return failed(profile.error());
    table.emplace(model, std::move(*profile));
  }
  if (table.empty()) return bad_input(flag + " " + path, "there is no .csv file in it");
  return table;
}

// The model of that name in a catalogue that was read, else in the compiled-in one.
Result<hw::GpuModel> model_named(const std::optional<hw::Catalogue>& read,
                                 const std::string& name) {
  if (!read) return hw::builtin_model(name);
  const Result<const hw::GpuModel*> gpu = read->get(name);
  if (!gpu) return failed(gpu.error());
  return **gpu;
}

Result<plan::FleetEntry> load_entry(Files& files, const std::optional<hw::Catalogue>& catalogue,
                                    const FleetLine& line, const std::string& flag) {
  Result<hw::GpuModel> gpu = model_named(catalogue, line.gpu);
  if (!gpu) return bad_input(flag, gpu.error().message);
  Result<profile::ProfileTable> profiles = load_profiles(files, "--profiles", line.profiles, *gpu);
  if (!profiles) return failed(profiles.error());
  return plan::FleetEntry{*std::move(gpu), std::move(*profiles), line.count, line.price};
}

// The fleet, and where each entry was read.
struct LoadedFleet {
  std::vector<plan::FleetEntry> entries;
  std::vector<FleetSource> sources;
};

Result<LoadedFleet> load_fleet(Files& files, const ProblemFiles& inputs) {
  std::optional<hw::Catalogue> catalogue;
  if (!inputs.catalogue.empty()) {
    Result<hw::Catalogue> read = load_catalogue(files, inputs.catalogue);
    if (!read) return failed(read.error());
    catalogue = *std::move(read);
  }
  std::vector<FleetLine> lines{{inputs.gpu, {}, 1, inputs.profiles, 0, false}};
  if (!inputs.fleet.empty()) {
    const Result<std::string> text = read_input(files, "--fleet", inputs.fleet);
    if (!text) return failed(text.error());
    Result<std::vector<FleetLine>> parsed = parse_fleet(inputs.fleet, *text);
    if (!parsed) return failed(parsed.error());
    lines = std::move(*parsed);
    for (FleetLine& line : lines) line.profiles = beside(inputs.fleet, line.profiles);
  }
  LoadedFleet fleet;
  for (const FleetLine& line : lines) {
    const std::string where =
        inputs.fleet.empty() ? inputs.gpu_source : fmt::format("{}:{}", inputs.fleet, line.line);
    Result<plan::FleetEntry> entry = load_entry(files, catalogue, line, where);
    if (!entry) return failed(entry.error());
    const auto same = [&entry](const plan::FleetEntry& other) {
      return other.gpu.name == entry->gpu.name;
    };
    if (std::ranges::any_of(fleet.entries, same)) {
      return bad_input(where, fmt::format("GPU model '{}' is listed twice", entry->gpu.name));
    }
    fleet.entries.push_back(std::move(*entry));
    fleet.sources.push_back({where, line.priced});
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
  models.erase(std::unique(models.begin(), models.end()), models.end());
  for (const plan::Service& service : problem.services) {
    if (std::binary_search(models.begin(), models.end(), service.model)) continue;
    return bad_input(fmt::format("{}:{}", file, service.line),
                     fmt::format("service '{}': there is no profile of model '{}'{} (there are {})",
                                 service.name, service.model, did_you_mean(service.model, models),
                                 nearest_first(service.model, models)));
  }
  return {};
}

Result<void> check_complete(const ProblemFiles& inputs) {
  if (!inputs.fleet.empty()) return {};
  if (inputs.profiles.empty()) {
    return bad_input("", "--profiles is required: a CSV or a directory of measured profiles");
  }
  if (inputs.gpu.empty())
    return bad_input("", "--gpu is required: a GPU model such as A100-80GB (or give --fleet)");
  return {};
}

}  // namespace

Result<plan::SloRule> load_rule(const std::string& flag, const std::string& text) {
  Result<plan::SloRule> rule = plan::parse_slo_rule(text);
  if (rule) return rule;
  return bad_input(flag, rule.error().message);
}

Result<profile::ProfileTable> load_profiles(Files& files, const std::string& flag,
                                            const std::string& path, const hw::GpuModel& gpu) {
  if (files.is_directory(path)) return load_parvagpu_directory(files, flag, path);
  const Result<std::string> text = read_input(files, flag, path);
  if (!text) return failed(text.error());
  if (!looks_like_json(*text)) return profile::parse_native_csv(path, *text);
  const auto laws = profile::parse_laws(path, *text);
  if (!laws) return failed(laws.error());
  return profile::table_from_laws(*laws, gpu);
}

namespace {

// Queues of their own are planned for Poisson arrivals; the execution rule ignores queues.
Result<void> check_arrivals(const plan::ServingProblem& problem, const std::string& file) {
  if (problem.rule.kind != plan::SloRule::Kind::queueing) return {};
  for (const plan::Service& service : problem.services)
    if (!plan::is_poisson(service.traffic.arrivals))
      return bad_input(
          fmt::format("{}:{}", file, service.line),
          fmt::format("service {} declares arrivals ({}); servers of the kind '{}' are planned for "
                      "Poisson arrivals only: leave out --slo-rule and --dispatch",
                      service.name, plan::to_string(service.traffic.arrivals),
                      plan::to_string(problem.rule.dispatch)));
  return {};
}

}  // namespace

Result<plan::ServingProblem> load_problem(Files& files, const ProblemFiles& inputs) {
  if (auto complete = check_complete(inputs); !complete) return failed(complete.error());
  plan::ServingProblem problem;
  if (!inputs.rule.empty()) {
    const Result<plan::SloRule> rule = load_rule("--slo-rule", inputs.rule);
    if (!rule) return failed(rule.error());
    problem.rule = *rule;
  }
  if (!inputs.dispatch.empty()) {
    const Result<plan::Dispatch> server = plan::parse_dispatch(inputs.dispatch);
    if (!server) return failed(server.error());
    if (inputs.rule.empty()) problem.rule = plan::rule_for(*server);
    problem.rule.dispatch = *server;
    if (!plan::fits_its_server(problem.rule))
      return bad_input("--dispatch", fmt::format("the rule '{}' is not for a server that is {}",
                                                 inputs.rule, inputs.dispatch));
  }
  if (inputs.max_processes > 0) problem.max_processes = inputs.max_processes;
  const Result<std::string> text = read_input(files, "--services", inputs.services);
  if (!text) return failed(text.error());
  auto file = forms::parse_services_file(inputs.services, *text);
  if (!file) return failed(file.error());
  problem.survive = inputs.survive >= 0 ? inputs.survive : file->survive;
  auto services = with_traces(files, inputs.services, std::move(file->services));
  if (!services) return failed(services.error());
  problem.services = std::move(*services);
  if (!inputs.at.empty()) {
    const auto minute = forms::minute_of(inputs.at);
    if (!minute)
      return bad_input("--at", fmt::format("'{}' is no time from 00:00 to 23:59", inputs.at));
    problem = at_minute(std::move(problem), *minute);
  }
  Result<LoadedFleet> fleet = load_fleet(files, inputs);
  if (!fleet) return failed(fleet.error());
  problem.fleet = std::move(fleet->entries);
  if (auto set = set_objective(files, inputs.objective, fleet->sources, problem); !set)
    return failed(set.error());
  if (auto fit = check_arrivals(problem, inputs.services); !fit) return failed(fit.error());
  if (auto known = check_models(problem, inputs.services); !known) return failed(known.error());
  if (auto meant = check_units(problem, inputs.services); !meant) return failed(meant.error());
  return problem;
}

hw::Catalogue catalogue_of(const plan::ServingProblem& problem) {
  hw::Catalogue models;
  for (const plan::FleetEntry& entry : problem.fleet) models.gpus.push_back(entry.gpu);
  std::ranges::sort(models.gpus, {}, &hw::GpuModel::name);
  return models;
}

Result<JudgedPlan> judge_plan(Files& files, const std::string& file, plan::ServingPlan plan,
                              ProblemFiles inputs) {
  if (inputs.fleet.empty()) inputs.gpu = plan.gpu_model;
  inputs.gpu_source = file;
  if (inputs.dispatch.empty()) {
    // Another rule than the plan's still asks for the plan's server, where it has a word on it.
    if (inputs.rule.empty()) inputs.rule = plan::to_string(plan.rule);
    Result<plan::SloRule> asked = plan::parse_slo_rule(inputs.rule);
    if (asked) asked->dispatch = plan.rule.dispatch;
    if (asked && plan::fits_its_server(*asked)) inputs.dispatch = plan::to_string(asked->dispatch);
  }
  if (inputs.max_processes == 0) inputs.max_processes = profile::kMaxProcesses;
  if (inputs.objective.objective.empty() && plan.objective.goal)
    inputs.objective.objective = plan::kGoalWords[static_cast<int>(*plan.objective.goal)];
  Result<plan::ServingProblem> problem = load_problem(files, inputs);
  if (!problem) return failed(problem.error());
  if (inputs.survive < 0) problem->survive = std::max(problem->survive, plan.survive);
  plan = plan::with_terms(std::move(plan), problem->services);
  verify::Verdict<plan::ServingPlan> verdict =
      verify::judge(*problem, plan::with_predictions(*problem, std::move(plan)));
  return JudgedPlan{*std::move(problem), std::move(verdict)};
}

Result<JudgedPlan> load_judged_plan(Files& files, const std::string& path,
                                    const ProblemFiles& inputs) {
  const Result<std::string> text = read_input(files, "PLAN", path);
  if (!text) return failed(text.error());
  Result<plan::ServingPlan> plan = forms::parse_plan(path, *text);
  if (!plan) return failed(plan.error());
  return judge_plan(files, path, *std::move(plan), inputs);
}

}  // namespace partita::decide
