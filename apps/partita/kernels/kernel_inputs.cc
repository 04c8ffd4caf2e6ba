#include "kernels/kernel_inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>

#include "flags.h"
#include "kernels/kernel_planning.h"
#include "plan/kernels.h"
#include "planners/mask/masks.h"

namespace partita::cli {
namespace {

Result<profile::ModelKernels> load_reef(Context& context, const std::string& stem,
                                        const std::string& name, const hw::Topology& topology) {
  if (topology.name != "MI50" && topology.source != hw::kGenericSource)
    return bad_input("--gpu",
                     fmt::format("{0}.profile.json holds times of an MI50, not of {1}: "
                                 "give {0}.csv with kernel,units,time_us measured on {1}, "
                                 "on all {2} {3}s and the numbers to plan with",
                                 stem, topology.name, topology.units(), topology.unit_name));
  const Result<std::string> sequence = read_input(context, "--profiles", stem + ".json");
  if (!sequence) return failed(sequence.error());
  const Result<std::string> table = read_input(context, "--profiles", stem + ".profile.json");
  if (!table) return failed(table.error());
  return profile::parse_reef({stem + ".json", *sequence, stem + ".profile.json", *table}, name,
                             topology.units());
}

Result<profile::ModelKernels> load_model(Context& context, const std::string& directory,
                                         const std::string& name, const hw::Topology& topology) {
  const std::string stem = directory + "/" + name;
  if (context.files.exists(stem + ".csv")) {
    const Result<std::string> text = read_input(context, "--profiles", stem + ".csv");
    if (!text) return failed(text.error());
    return profile::parse_kernel_csv(stem + ".csv", *text, topology.units());
  }
  if (!context.files.exists(stem + ".profile.json"))
    return bad_input("--workers", fmt::format("no kernels of '{}': neither {}.csv nor "
                                              "{}.json with {}.profile.json is there",
                                              name, stem, stem, stem));
  return load_reef(context, stem, name, topology);
}

// Ascending whole numbers between commas, within [1, most].
Result<std::vector<int>> parse_counts(const std::string& flag, const std::string& text, int most) {
  std::vector<int> counts;
  for (const std::string& word : split(text, ',')) {
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool number = error == std::errc{} && end == word.data() + word.size();
    if (!number || value < 1 || value > most || (!counts.empty() && value <= counts.back()))
      return bad_input(flag, fmt::format("'{}': whole numbers from 1 to {} between commas, "
                                         "ascending, are wanted",
                                         text, most));
    counts.push_back(value);
  }
  return counts;
}

std::vector<int> quarters(const hw::Topology& topology, const std::vector<int>& sizes) {
  std::vector<int> counts;
  for (int i = 1; i <= 4; ++i) {
    const auto above = std::ranges::upper_bound(sizes, topology.units() * i / 4);
    const int units = above == sizes.begin() ? sizes.front() : *std::prev(above);
    if (counts.empty() || units > counts.back()) counts.push_back(units);
  }
  return counts;
}

}  // namespace

void add_profiles_flag(CLI::App& command, KernelFlags& flags) {
  command
      .add_option("--profiles", flags.profiles,
                  "Directory with NAME.csv (kernel,units,time_us and optional index), or REEF's "
                  "NAME.json and NAME.profile.json, per worker")
      ->required()
      ->type_name("DIR");
}

void add_kernel_flags(CLI::App& command, KernelFlags& flags) {
  command
      .add_option("--workers", flags.workers,
                  "The co-located models, between commas; one name several times: several workers")
      ->required()
      ->type_name("NAMES");
  add_profiles_flag(command, flags);
  command.add_option("--gpu", flags.gpu, kGpuHelp)->type_name("TOPOLOGY")->default_str(flags.gpu);
  add_atom_flag(command, flags.atom);
}

Result<hw::Topology> load_topology(const std::string& gpu) {
  Result<hw::Topology> topology = hw::topology_named(gpu);
  if (!topology) return bad_input("--gpu", topology.error().message);
  return topology;
}

std::vector<std::string> mask_policy_words() {
  std::vector<std::string> words;
  for (const auto policy : planners::mask::kPolicies) words.emplace_back(to_string(policy));
  return words;
}

void add_atom_flag(CLI::App& command, int& atom) {
  within(command.add_option("--atom", atom,
                            "Units that can only be masked together; default: the GPU's, 8 on H100 "
                            "and H200 (2 without co-scheduling), 2 on A100, 1 on AMD"),
         1, hw::kMaxUnits)
      ->type_name("N");
}

Result<int> load_atom(const hw::Topology& topology, int atom) {
  if (atom == 0) atom = topology.atoms.front();
  const int widest = *std::ranges::max_element(topology.units_in);
  if (atom <= widest) return atom;
  return bad_input("--atom",
                   fmt::format("{}: no {} of {} has more than {} {}s", atom, topology.cluster_name,
                               topology.name, widest, topology.unit_name));
}

void add_configs_flag(CLI::App& command, std::string& configs) {
  command
      .add_option("--configs", configs,
                  "Numbers of units that a kernel may have, ascending (default: a quarter, half, "
                  "three quarters and all of the GPU, in whole atoms)")
      ->type_name("N,N,...")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("numbers are needed") : std::string{};
      });
}

void add_switches_flag(CLI::App& command, int& switches) {
  within(command.add_option("--switches", switches,
                            "How often the number of units may change within a request of a "
                            "worker"),
         0, kMaxSwitches)
      ->type_name("N")
      ->default_str(fmt::format("{}", switches));
}

Result<std::vector<int>> load_configs(const std::string& text, const hw::Topology& topology,
                                      int atom) {
  const std::vector<int> sizes = hw::mask_sizes(topology, atom);
  if (text.empty()) return quarters(topology, sizes);
  const auto configs = parse_counts("--configs", text, topology.units());
  if (!configs) return failed(configs.error());
  if (configs->size() > plan::kMaxOptions)
    return bad_input("--configs", fmt::format("more than {} numbers", plan::kMaxOptions));
  for (const int units : *configs) {
    const auto next = std::ranges::lower_bound(sizes, units);
    if (*next == units) continue;
    return bad_input(
        "--configs",
        fmt::format("{} {}s of {} are no whole atoms of {} (--atom); {}{}", units,
                    topology.unit_name, topology.name, atom,
                    next == sizes.begin() ? "" : fmt::format("{} or ", *std::prev(next)), *next));
  }
  return *configs;
}

Result<std::vector<profile::ModelKernels>> load_kernels(Context& context, const KernelFlags& flags,
                                                        const hw::Topology& topology) {
  std::vector<profile::ModelKernels> models;
  std::map<std::string, std::vector<std::size_t>> seen;  // the workers of each name
  std::size_t times = 0;
  for (const std::string& name : split(flags.workers, ',')) {
    if (name.empty()) return bad_input("--workers", "an empty name");
    if (name.find('#') != name.npos)
      return bad_input("--workers", fmt::format("'{}': a second worker of a model is the model's "
                                                "name again, without #",
                                                name));
    if (models.size() == plan::kMaxWorkers)
      return bad_input("--workers", fmt::format("more than {} workers", plan::kMaxWorkers));
    std::vector<std::size_t>& same = seen[name];
    Result<profile::ModelKernels> model =
        same.empty() ? load_model(context, flags.profiles, name, topology) : models[same.front()];
    if (!model) return failed(model.error());
    times += model->kernels.size() * static_cast<std::size_t>(model->units);
    if (times > kMaxTimes)
      return bad_input("--workers",
                       fmt::format("more than {} times of kernels on units in all", kMaxTimes));
    same.push_back(models.size());
    model->model = same.size() == 1 ? name : fmt::format("{}#{}", name, same.size());
    models.push_back(*std::move(model));
  }
  return models;
}

Result<PlannedUnits> parse_kernel_plan(const std::string& file, std::string_view text) {
  const auto stated = forms::parse_kernel_plan(file, text);
  if (!stated) return failed(stated.error());
  const Result<int> atom = load_atom(*hw::topology_named(stated->gpu), stated->atom.value_or(0));
  if (!atom) return failed(atom.error());
  PlannedUnits plan{stated->gpu, *atom, worker_names(*stated), {}};
  for (const forms::StatedWorker& worker : stated->workers) plan.units.push_back(worker.units);
  return plan;
}

std::string worker_names(const forms::StatedKernelPlan& plan) {
  std::string names;
  for (const forms::StatedWorker& worker : plan.workers)
    names += (names.empty() ? "" : ",") + worker.name.substr(0, worker.name.find('#'));
  return names;
}

}  // namespace partita::cli
