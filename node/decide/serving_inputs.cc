#include "decide/serving_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "base/append.h"
#include "base/document.h"
#include "base/nearest.h"
#include "decide/day.h"
#include "decide/doubts.h"
#include "decide/fleet.h"
#include "decide/traces.h"
#include "forms/clock_time.h"
#include "forms/day_forms.h"
#include "forms/serving_forms.h"
#include "llm/engine/engines.h"
#include "llm/engine/learned.h"
#include "plan/predictions.h"
#include "profile/buckets.h"
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
    const std::string text = TRY(read_input(files, flag, file));
    const std::string model = name.substr(0, name.size() - 4);
    auto profile = profile::parse_parvagpu_csv(file, model, text);
    if (!profile)
      return bad_input(profile.error().context,
                       profile.error().message + " (a folder is read as ParvaGPU's profiles)");
    table.emplace(model, *std::move(profile));
  }
  if (table.empty()) return bad_input(flag + " " + path, "there is no .csv file in it");
  return table;
}

// The model of that name in a catalogue that was read, else in the compiled-in one.
Result<hw::GpuModel> model_named(const std::optional<hw::Catalogue>& read,
                                 const std::string& name) {
  if (!read) return hw::builtin_model(name);
  const hw::GpuModel* gpu = TRY(read->get(name));
  return *gpu;
}

Result<profile::ProfileTable> profiles_in(const std::string& path, const std::string& text,
                                          const hw::GpuModel& gpu) {
  if (!looks_like_json(text)) return profile::parse_native_csv(path, text);
  const auto laws = TRY(profile::parse_laws(path, text));
  return profile::table_from_laws(laws, gpu);
}

// Whether a file holds points of language models.
bool has_points(std::string_view text) {
  return text.substr(0, text.find('\n')).find("ttft_ms") != std::string_view::npos;
}

std::set<std::string> models_of(const std::vector<llm::Measured>& points) {
  std::set<std::string> names;
  for (const llm::Measured& one : points) names.insert(one.configuration.model);
  return names;
}

// SMs of the instance that has all of a GPU: on some models fewer than the GPU has without MIG.
int whole_units(const hw::GpuModel& gpu) {
  const auto whole = std::ranges::max_element(gpu.profiles, {}, &hw::MigProfile::gpcs);
  const std::optional<int> sms = whole == gpu.profiles.end() ? std::nullopt : whole->sms;
  return sms ? *sms : gpu.total_sms.value_or(0);
}

llm::OfGpu of_gpu(const hw::GpuModel& gpu) {
  llm::OfGpu of{gpu.name, whole_units(gpu), {}, {}};
  if (gpu.total_memory) of.memory_mib = gpu.total_memory->value;
  for (const hw::MigProfile& profile : gpu.profiles)
    if (profile.memory) of.slices_mib[profile.name] = profile.memory->value;
  return of;
}

// What was measured of language models and is not planned with; what nobody knows of the others.
struct TokenNotes {
  llm::ByModel left_out = {}, unsaid = {};
};

// Adds what a file says of the GPU model of `entry`; of language models, those of `models`, or all.
struct ProfilesFile {
  std::string flag, path;
  std::optional<std::set<std::string>> models;
  TokenNotes* notes = nullptr;  // null: nobody asks
};
Result<void> add_profiles(Files& files, const ProfilesFile& file, plan::FleetEntry& entry) {
  const bool folder = files.is_directory(file.path);
  std::string text;  // read once: it may be standard input
  if (!folder) text = TRY(read_input(files, file.flag, file.path));
  if (has_points(text)) {
    const auto points = TRY(llm::parse_points(file.path, text));
    auto engines = TRY(
        llm::engines_of(points, of_gpu(entry.gpu), file.models ? *file.models : models_of(points)));
    for (auto& [model, found] : engines.engines)
      entry.engines[model].insert(entry.engines[model].end(), found.begin(), found.end());
    if (file.notes) {
      file.notes->left_out.merge(engines.left_out);
      file.notes->unsaid.merge(engines.unsaid);
    }
    return {};
  }
  profile::ProfileTable profiles = TRY(folder ? load_parvagpu_directory(files, file.flag, file.path)
                                              : profiles_in(file.path, text, entry.gpu));
  for (auto& [model, workload] : profiles)
    if (!entry.profiles.emplace(model, std::move(workload)).second)
      return bad_input(file.flag + " " + file.path,
                       fmt::format("model '{}' is in another of the files too", model));
  return {};
}

// A model that was measured with one shape has it as its bucket, where a service asks for that.
void name_buckets(const std::vector<plan::Service>& services, plan::FleetEntry& entry) {
  for (const plan::Service& service : services) {
    const profile::BucketName asked = profile::bucket_name(service.model);
    const auto found = entry.profiles.find(asked.name);
    if (asked.bucket > 0 && found != entry.profiles.end() &&
        profile::length_of(found->second.shape) == asked.bucket)
      entry.profiles.emplace(service.model, found->second);
  }
}

// `models`: of language models, those that services use.
Result<plan::FleetEntry> load_entry(Files& files, const std::optional<hw::Catalogue>& catalogue,
                                    const FleetLine& line, const std::set<std::string>& models,
                                    const std::string& flag, TokenNotes& notes) {
  Result<hw::GpuModel> gpu = model_named(catalogue, line.gpu);
  if (!gpu) return bad_input(flag, gpu.error().message);
  plan::FleetEntry entry{*std::move(gpu), {}, line.count, line.price};
  entry.node_gpus = line.node_gpus;
  entry.nvlink = line.nvlink;
  for (int node = 0; !line.domains.empty() && node < *line.count; node += line.node_gpus)
    for (std::vector<int> domain : line.domains) {
      for (int& index : domain) index += node;
      std::erase_if(domain, [&](int index) { return index >= *line.count; });
      if (!domain.empty()) entry.domains.push_back(std::move(domain));
    }
  for (const std::string& path : paths_in(line.profiles))
    TRY(add_profiles(files, {"--profiles", path, models, &notes}, entry));
  return entry;
}

// The fleet, and where each entry was read.
struct LoadedFleet {
  std::vector<plan::FleetEntry> entries;
  std::vector<FleetSource> sources;
  std::set<std::string> profiles;  // files of all of them
  TokenNotes notes;
};

std::set<std::string> language_models(const std::vector<plan::Service>& services) {
  std::set<std::string> models;
  for (const plan::Service& service : services)
    if (service.tokens) models.insert(service.model);
  return models;
}

Result<LoadedFleet> load_fleet(Files& files, const ProblemFiles& inputs,
                               const std::vector<plan::Service>& services) {
  const std::set<std::string> models = language_models(services);
  std::optional<hw::Catalogue> catalogue;
  if (!inputs.catalogue.empty()) {
    catalogue = TRY(load_catalogue(files, inputs.catalogue));
  }
  std::vector<FleetLine> lines{{inputs.gpu, {}, 1, inputs.profiles, 0, false}};
  if (!inputs.fleet.empty()) {
    lines = TRY(read_input(files, "--fleet", inputs.fleet, parse_fleet));
    for (FleetLine& line : lines) line.profiles = all_beside(inputs.fleet, line.profiles);
  }
  LoadedFleet fleet;
  for (const FleetLine& line : lines) {
    const std::string where =
        inputs.fleet.empty() ? inputs.gpu_source : fmt::format("{}:{}", inputs.fleet, line.line);
    Result<plan::FleetEntry> entry = load_entry(files, catalogue, line, models, where, fleet.notes);
    if (!entry) return failed(entry.error());
    const auto same = [&entry](const plan::FleetEntry& other) {
      return other.gpu.name == entry->gpu.name;
    };
    if (std::ranges::any_of(fleet.entries, same)) {
      return bad_input(where, fmt::format("GPU model '{}' is listed twice", entry->gpu.name));
    }
    for (const std::string& path : paths_in(line.profiles)) fleet.profiles.insert(path);
    name_buckets(services, *entry);
    fleet.entries.push_back(std::move(*entry));
    fleet.sources.push_back({where, line.priced});
  }
  return fleet;
}

// Models that were measured, of one kind of service.
std::vector<std::string> measured_models(const plan::ServingProblem& problem, bool language) {
  std::set<std::string> models;
  for (const plan::FleetEntry& entry : problem.fleet) {
    if (language)
      for (const auto& [model, engines] : entry.engines) models.insert(model);
    else
      for (const auto& [model, profile] : entry.profiles) models.insert(model);
  }
  return {models.begin(), models.end()};
}

// What the files say of a language model of which no engine is known: where it was measured, with
// how many points; else which models were.
std::string measured_elsewhere(Files& files, const std::set<std::string>& paths,
                               const std::string& model) {
  std::map<std::string, std::size_t> systems;  // most points of a configuration
  std::set<std::string> models;
  for (const std::string& path : paths) {
    const auto text = files.is_directory(path) ? std::string() : files.read(path).value_or("");
    if (!has_points(text)) continue;
    const auto points = llm::parse_points(path, text);
    if (!points) continue;
    models.merge(models_of(*points));
    for (const llm::Measured& one : *points)
      if (one.configuration.model == model) {
        std::size_t& most = systems[one.configuration.system];
        most = std::max(most, one.points.size());
      }
  }
  const std::vector<std::string> names(models.begin(), models.end());
  if (names.empty()) return " (there are no language models in --profiles)";
  if (systems.empty())
    return fmt::format("{} (there are {})", did_you_mean(model, names),
                       nearest_first(model, names));
  std::vector<std::string> there;
  for (const auto& [system, most] : systems)
    there.push_back(fmt::format("{}: {} at most", system.empty() ? "no system" : system, most));
  return fmt::format(" (points of one configuration are there on {})", joined(there, ", "));
}

// Why configurations of a model are not planned with, one sentence each.
std::string text_of(const llm::ByModel& left_out, const std::string& model) {
  std::string text;
  const auto [begin, end] = left_out.equal_range(model);
  for (auto one = begin; one != end; ++one) text += (text.empty() ? "" : "; ") + one->second;
  return text;
}

// Every service's model must have been measured somewhere: a misspelt model is bad input, not an
// infeasible plan.
Result<void> check_models(Files& files, const LoadedFleet& fleet,
                          const plan::ServingProblem& problem, const std::string& file) {
  const std::vector<std::string> models = measured_models(problem, false);
  const std::vector<std::string> language = measured_models(problem, true);
  for (const plan::Service& service : problem.services) {
    if (service.pipeline) continue;
    const std::vector<std::string>& known = service.tokens ? language : models;
    if (std::ranges::binary_search(known, service.model)) continue;
    const std::string where = fmt::format("{}:{}", file, service.line);
    if (const std::string why = text_of(fleet.notes.left_out, service.model);
        service.tokens && !why.empty())
      return bad_input(where, fmt::format("service '{}': nothing is known of the rates that '{}' "
                                          "carries: {}",
                                          service.name, service.model, why));
    if (service.tokens)
      return bad_input(
          where, fmt::format("service '{}': no points of the language model '{}' were measured on "
                             "{}: --profiles needs a CSV of TTFT and TPOT with at least {} points "
                             "of one configuration of it{} (docs/llm.md)",
                             service.name, service.model, problem.fleet.front().gpu.name,
                             llm::kLeastEnginePoints,
                             measured_elsewhere(files, fleet.profiles, service.model)));
    if (models.empty())
      return bad_input(where, fmt::format("service '{}': there is no profile of model '{}', nor of "
                                          "any other that is no language model",
                                          service.name, service.model));
    const auto bucket = profile::bucket_name(service.model).bucket;
    return bad_input(
        where,
        fmt::format("service '{}': there is no profile of model '{}'{} (there are {}){}",
                    service.name, service.model, did_you_mean(service.model, models),
                    nearest_first(service.model, models),
                    bucket == 0 ? ""
                                : fmt::format("; `profile measure --input-shape` with {} as the "
                                              "greatest size measures it",
                                              bucket)));
  }
  return {};
}

// What is not planned with pipelines yet.
Result<void> check_pipelines(const plan::ServingProblem& problem, const std::string& file) {
  for (const plan::Service& service : problem.services) {
    if (!service.pipeline) continue;
    const char* const what = problem.rule.kind != plan::SloRule::Kind::pooled
                                 ? "another rule than pooled"
                             : problem.survive > 0 ? "the loss of a GPU (survive)"
                             : problem.goal        ? "--objective"
                                                   : nullptr;
    if (what)
      return bad_input(fmt::format("{}:{}", file, service.line),
                       fmt::format("service '{}' is a pipeline, which is not planned with {}",
                                   service.name, what));
  }
  return {};
}

// What is not planned with language models, and with sets of models.
Result<void> check_tokens(const plan::ServingProblem& problem, const std::string& file) {
  for (const plan::Service& service : problem.services) {
    if (!plan::adds_up(service)) continue;
    const char* const what = problem.rule.kind != plan::SloRule::Kind::pooled
                                 ? "another rule than pooled"
                             : service.tokens                     ? nullptr
                             : problem.survive > 0                ? "the loss of a GPU (survive)"
                             : problem.goal == plan::Goal::energy ? "--objective energy"
                                                                  : nullptr;
    if (what)
      return bad_input(fmt::format("{}:{}", file, service.line),
                       fmt::format("service '{}' {}, which is not planned with {}", service.name,
                                   service.tokens ? "is of kind llm" : "has 'models'", what));
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

std::vector<std::string> paths_in(const std::string& list) {
  std::vector<std::string> paths(1);
  for (const char c : list) c == ',' ? void(paths.emplace_back()) : paths.back().push_back(c);
  return paths;
}

std::string all_beside(const std::string& file, const std::string& list) {
  std::string all;
  for (const std::string& path : paths_in(list))
    all += (all.empty() ? "" : ",") + beside(file, path);
  return all;
}

Result<plan::SloRule> load_rule(const std::string& flag, const std::string& text) {
  Result<plan::SloRule> rule = plan::parse_slo_rule(text);
  if (rule) return rule;
  return bad_input(flag, rule.error().message);
}

Result<profile::ProfileTable> load_profiles(Files& files, const std::string& flag,
                                            const std::string& path, const hw::GpuModel& gpu) {
  if (files.is_directory(path)) return load_parvagpu_directory(files, flag, path);
  const std::string text = TRY(read_input(files, flag, path));
  return profiles_in(path, text, gpu);
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

Result<plan::ServingProblem> load_problem(Files& files, const ProblemFiles& inputs,
                                          std::vector<std::string>* left_out) {
  TRY(check_complete(inputs));
  plan::ServingProblem problem;
  if (!inputs.rule.empty()) {
    problem.rule = TRY(load_rule("--slo-rule", inputs.rule));
  }
  if (!inputs.dispatch.empty()) {
    const plan::Dispatch server = TRY(plan::parse_dispatch(inputs.dispatch));
    if (inputs.rule.empty()) problem.rule = plan::rule_for(server);
    problem.rule.dispatch = server;
    if (!plan::fits_its_server(problem.rule))
      return bad_input("--dispatch", fmt::format("the rule '{}' is not for a server that is {}",
                                                 inputs.rule, inputs.dispatch));
  }
  if (inputs.max_processes > 0) problem.max_processes = inputs.max_processes;
  auto file = TRY(read_input(files, "--services", inputs.services, forms::parse_services_file,
                             files_beside(files, inputs.services)));
  problem.survive = inputs.survive >= 0 ? inputs.survive : file.survive;
  problem.services = TRY(with_traces(files, inputs.services, std::move(file.services)));
  if (!inputs.at.empty()) {
    const auto minute = forms::minute_of(inputs.at);
    if (!minute)
      return bad_input("--at", fmt::format("'{}' is no time from 00:00 to 23:59", inputs.at));
    problem = at_minute(std::move(problem), *minute);
  }
  LoadedFleet fleet = TRY(load_fleet(files, inputs, problem.services));
  problem.fleet = std::move(fleet.entries);
  TRY(set_objective(files, inputs.objective, fleet.sources, problem));
  TRY(check_arrivals(problem, inputs.services));
  TRY(check_models(files, fleet, problem, inputs.services));
  TRY(check_tokens(problem, inputs.services));
  TRY(check_pipelines(problem, inputs.services));
  TRY(check_units(problem, inputs.services));
  if (left_out)
    for (const llm::ByModel* notes : {&fleet.notes.left_out, &fleet.notes.unsaid})
      for (const auto& [model, why] : *notes) left_out->push_back(why);
  return problem;
}

Result<plan::FleetEntry> load_measured(Files& files, const std::string& flag,
                                       const std::string& paths, const hw::GpuModel& gpu) {
  plan::FleetEntry entry{gpu, {}, {}, 1};
  for (const std::string& path : paths_in(paths)) TRY(add_profiles(files, {flag, path, {}}, entry));
  return entry;
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
  plan::ServingProblem problem = TRY(load_problem(files, inputs));
  if (inputs.survive < 0) problem.survive = std::max(problem.survive, plan.survive);
  plan = plan::with_terms(std::move(plan), problem.services);
  verify::Verdict<plan::ServingPlan> verdict =
      verify::judge(problem, plan::with_predictions(problem, std::move(plan)));
  return JudgedPlan{std::move(problem), std::move(verdict)};
}

Result<plan::ServingPlan> parse_plan_at(const std::string& file, std::string_view text,
                                        const std::string& at) {
  const auto document = parse_document(file, text);
  const Node* const kind = document ? document->root.find("kind") : nullptr;
  if (kind == nullptr || kind->text != forms::day_kind().name) return forms::parse_plan(file, text);
  auto day = TRY(forms::parse_day(file, text));
  if (at.empty())
    return bad_input(file, "this is a plan for a day: --at HH:MM says whose plan is meant");
  const auto minute = forms::minute_of(at);
  for (plan::DayPeriod& period : day.periods)
    if (minute && plan::within(period, *minute)) return std::move(period.plan);
  return bad_input("--at", minute ? fmt::format("no period of {} is at {}", file, at)
                                  : fmt::format("'{}' is no time from 00:00 to 23:59", at));
}

Result<JudgedPlan> load_judged_plan(Files& files, const std::string& path,
                                    const ProblemFiles& inputs) {
  plan::ServingPlan plan = TRY(read_input(files, "PLAN", path, parse_plan_at, inputs.at));
  return judge_plan(files, path, std::move(plan), inputs);
}

}  // namespace partita::decide
