#include "decide/kernel_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/document.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "decide/input.h"
#include "plan/kernels.h"
#include "planners/mask/masks.h"

namespace partita::decide {
namespace {

Result<profile::ModelKernels> load_reef(Files& files, const std::string& stem,
                                        const std::string& name, const hw::Topology& topology) {
  if (topology.name != "MI50" && topology.source != hw::kGenericSource)
    return bad_input("--topology",
                     fmt::format("{0}.profile.json holds times of an MI50, not of {1}: "
                                 "give {0}.csv with kernel,units,time_us measured on {1}, "
                                 "on all {2} {3}s and the numbers to plan with",
                                 stem, topology.name, topology.units(), topology.unit_name));
  const std::string sequence = TRY(read_input(files, "--kernel-profiles", stem + ".json"));
  const std::string table = TRY(read_input(files, "--kernel-profiles", stem + ".profile.json"));
  return profile::parse_reef({stem + ".json", sequence, stem + ".profile.json", table}, name,
                             topology.units());
}

Result<profile::ModelKernels> load_model(Files& files, const std::string& directory,
                                         const std::string& name, const hw::Topology& topology) {
  const std::string stem = directory + "/" + name;
  if (files.exists(stem + ".csv")) {
    return read_input(files, "--kernel-profiles", stem + ".csv", profile::parse_kernel_csv,
                      topology.units());
  }
  if (!files.exists(stem + ".profile.json"))
    return bad_input("--workers", fmt::format("no kernels of '{}': neither {}.csv nor "
                                              "{}.json with {}.profile.json is there",
                                              name, stem, stem, stem));
  return load_reef(files, stem, name, topology);
}

std::vector<int> quarters(const hw::Topology& topology, std::vector<int> sizes) {
  // On several dies the smallest share decides, so that the units of unequal ones would be lost.
  std::erase_if(sizes, [&](int units) { return units % topology.dies != 0; });
  std::vector<int> counts;
  for (int i = 1; i <= 4; ++i) {
    const auto above = std::ranges::upper_bound(sizes, topology.units() * i / 4);
    const int units = above == sizes.begin() ? sizes.front() : *std::prev(above);
    if (counts.empty() || units > counts.back()) counts.push_back(units);
  }
  return counts;
}

constexpr int kMaxBusyKernels = 1'000'000;  // per unit

Result<void> add_counts(const Document& document, const Node& node, planners::mask::Busy& busy) {
  if (node.kind == Node::Kind::list) {
    for (const Node& item : node.items) {
      if (auto added = add_counts(document, item, busy); !added) return added;
    }
    return {};
  }
  const bool whole = node.kind == Node::Kind::number && node.number >= 0 &&
                     node.number <= kMaxBusyKernels && node.number == static_cast<int>(node.number);
  if (!whole) return bad_input(document.at(node), "must be a number of running kernels");
  busy.push_back(static_cast<int>(node.number));
  return {};
}

}  // namespace

Result<hw::Topology> load_topology(const std::string& gpu) {
  Result<hw::Topology> topology = hw::topology_named(gpu);
  if (!topology) return bad_input("--topology", topology.error().message);
  return topology;
}

Result<void> check_mask_policy(const hw::Topology& topology, const std::string& policy,
                               const std::string& where) {
  if (!topology.assumed || policy == "fair") return {};
  return bad_input(where,
                   fmt::format("{} chooses {}s, and which {}s of a board of {} lie in which {} is "
                               "not known before it is probed; fair does not depend on it",
                               policy, topology.cluster_name, topology.unit_name, topology.name,
                               topology.cluster_name));
}

std::vector<std::string> mask_policy_words() {
  std::vector<std::string> words;
  for (const auto policy : planners::mask::kPolicies) words.emplace_back(to_string(policy));
  return words;
}

Result<int> load_atom(const hw::Topology& topology, int atom) {
  if (atom == 0) atom = topology.atoms.front();
  const int widest = *std::ranges::max_element(topology.units_in);
  if (atom <= widest) return atom;
  return bad_input("--atom",
                   fmt::format("{}: no {} of {} has more than {} {}s", atom, topology.cluster_name,
                               topology.name, widest, topology.unit_name));
}

Result<std::vector<int>> parse_counts(const std::string& flag, const std::string& text, int most) {
  std::vector<int> counts;
  for (const std::string& word : split(text, ',')) {
    const std::optional<int> value = parse_number<int>(word);
    if (!value || *value < 1 || *value > most || (!counts.empty() && *value <= counts.back()))
      return bad_input(
          flag,
          fmt::format(
              "'{}' is not a list of ascending whole numbers from 1 to {}, separated by commas",
              text, most));
    counts.push_back(*value);
  }
  return counts;
}

Result<std::vector<int>> load_configs(const std::string& text, const hw::Topology& topology,
                                      int atom) {
  const std::vector<int> sizes = hw::mask_sizes(topology, atom);
  if (text.empty()) return quarters(topology, sizes);
  const auto configs = TRY(parse_counts("--configs", text, topology.units()));
  if (configs.size() > plan::kMaxOptions)
    return bad_input("--configs", fmt::format("more than {} numbers", plan::kMaxOptions));
  for (const int units : configs) {
    const auto next = std::ranges::lower_bound(sizes, units);
    if (*next == units) continue;
    if (units < topology.dies)
      return bad_input("--configs", fmt::format("{} {}s leave an {} of {} without any, which then "
                                                "runs unmasked; {} are the fewest",
                                                units, topology.unit_name, topology.cluster_name,
                                                topology.name, sizes.front()));
    return bad_input(
        "--configs",
        fmt::format("{} {}s of {} are not whole atoms of {} (--atom); {}{}", units,
                    topology.unit_name, topology.name, atom,
                    next == sizes.begin() ? "" : fmt::format("{} or ", *std::prev(next)), *next));
  }
  return configs;
}

Result<std::vector<profile::ModelKernels>> load_kernels(Files& files, const KernelNames& names,
                                                        const hw::Topology& topology) {
  std::vector<profile::ModelKernels> models;
  std::map<std::string, std::vector<std::size_t>> seen;  // the workers of each name
  std::size_t times = 0;
  for (const std::string& name : split(names.workers, ',')) {
    if (name.empty()) return bad_input("--workers", "an empty name");
    if (name.find('#') != name.npos)
      return bad_input("--workers", fmt::format("'{}': a second worker of a model is the model's "
                                                "name again, without #",
                                                name));
    if (models.size() == plan::kMaxWorkers)
      return bad_input("--workers", fmt::format("more than {} workers", plan::kMaxWorkers));
    std::vector<std::size_t>& same = seen[name];
    profile::ModelKernels model = TRY(
        same.empty() ? load_model(files, names.profiles, name, topology) : models[same.front()]);
    times += model.kernels.size() * static_cast<std::size_t>(model.units);
    if (times > kMaxTimes)
      return bad_input("--workers",
                       fmt::format("more than {} times of kernels on units in all", kMaxTimes));
    same.push_back(models.size());
    model.model = same.size() == 1 ? name : fmt::format("{}#{}", name, same.size());
    models.push_back(std::move(model));
  }
  return models;
}

PlannedUnits planned_units(const forms::StatedKernelPlan& plan) {
  PlannedUnits planned{plan.gpu, plan.atom.value_or(0), {}, {}};
  if (!plan.atom) planned.atom = hw::topology_named(plan.gpu)->atoms.front();
  for (const forms::StatedWorker& worker : plan.workers) {
    planned.workers +=
        (planned.workers.empty() ? "" : ",") + worker.name.substr(0, worker.name.find('#'));
    planned.units.push_back(worker.units);
  }
  return planned;
}

Result<void> check_planned_units(const std::string& file, const PlannedUnits& plan,
                                 const std::vector<profile::ModelKernels>& models) {
  if (plan.units.size() != models.size())
    return bad_input(file, fmt::format("plans {} workers, --workers names {}", plan.units.size(),
                                       models.size()));
  for (std::size_t w = 0; w < models.size(); ++w)
    if (plan.units[w].size() != models[w].kernels.size())
      return bad_input(file,
                       fmt::format("plans {} kernels of {}, which has {}", plan.units[w].size(),
                                   models[w].model, models[w].kernels.size()));
  return {};
}

Result<planners::mask::Busy> load_busy(Files& files, const std::string& path,
                                       const hw::Topology& topology) {
  const int units = topology.units();
  if (path.empty()) return planners::mask::Busy(static_cast<std::size_t>(units));
  const Document document = TRY(read_document(files, "--busy", path));
  const Node* found = document.root.find("busy");
  const Node& list = found != nullptr ? *found : document.root;
  planners::mask::Busy busy;
  TRY(add_counts(document, list, busy));
  if (static_cast<int>(busy.size()) == units) return busy;
  return bad_input(document.at(list), fmt::format("{} numbers; {} has {} {}s", busy.size(),
                                                  topology.name, units, topology.unit_name));
}

}  // namespace partita::decide
