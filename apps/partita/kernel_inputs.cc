#include "kernel_inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <map>

#include "base/document.h"
#include "base/fields.h"
#include "flags.h"
#include "plan/kernels.h"

namespace partita::cli {
namespace {

Result<profile::ModelKernels> load_model(Context& context, const std::string& directory,
                                         const std::string& name, int units) {
  const std::string stem = directory + "/" + name;
  if (context.files.exists(stem + ".csv")) {
    const Result<std::string> text = read_input(context, "--profiles", stem + ".csv");
    if (!text) return failed(text.error());
    return profile::parse_kernel_csv(stem + ".csv", *text, units);
  }
  if (!context.files.exists(stem + ".profile.json"))
    return bad_input("--workers", fmt::format("no kernels of '{}': neither {}.csv nor "
                                              "{}.json with {}.profile.json is there",
                                              name, stem, stem, stem));
  const Result<std::string> sequence = read_input(context, "--profiles", stem + ".json");
  if (!sequence) return failed(sequence.error());
  const Result<std::string> table = read_input(context, "--profiles", stem + ".profile.json");
  if (!table) return failed(table.error());
  return profile::parse_reef({stem + ".json", *sequence, stem + ".profile.json", *table}, name,
                             units);
}

Result<std::vector<int>> units_in(const Document& document, const Node& worker, int most) {
  const Result<const Node*> list = list_member(document, worker, "units");
  if (!list) return failed(list.error());
  std::vector<int> units;
  for (const Node& item : (*list)->items) {
    const bool whole = item.kind == Node::Kind::number && item.number >= 1 && item.number <= most &&
                       item.number == static_cast<int>(item.number);
    if (!whole)
      return bad_input(document.at(item),
                       fmt::format("a number of units from 1 to {} is wanted", most));
    units.push_back(static_cast<int>(item.number));
  }
  return units;
}

}  // namespace

void add_kernel_flags(CLI::App& command, KernelFlags& flags) {
  command
      .add_option("--workers", flags.workers,
                  "The co-located models, between commas; one name several times: several workers")
      ->required()
      ->type_name("NAMES");
  command
      .add_option("--profiles", flags.profiles,
                  "Directory with NAME.csv (kernel,units,time_us and optional index), or REEF's "
                  "NAME.json and NAME.profile.json, per worker")
      ->required()
      ->type_name("DIR");
  command
      .add_option("--gpu", flags.gpu,
                  "MI50, MI100, MI210, MI250, MI300X, A100, H100, H200, or CLUSTERSxUNITS")
      ->type_name("TOPOLOGY")
      ->default_str(flags.gpu);
}

Result<hw::Topology> load_topology(const std::string& gpu) {
  Result<hw::Topology> topology = hw::topology_named(gpu);
  if (!topology) return bad_input("--gpu", topology.error().message);
  return topology;
}

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

std::vector<int> quarters(const hw::Topology& topology) {
  std::vector<int> counts;
  for (int i = 1; i <= 4; ++i) {
    const int units = topology.units() * i / 4;
    if (units >= 1 && (counts.empty() || units > counts.back())) counts.push_back(units);
  }
  return counts;
}

Result<std::vector<profile::ModelKernels>> load_kernels(Context& context, const KernelFlags& flags,
                                                        const hw::Topology& topology) {
  std::vector<profile::ModelKernels> models;
  std::map<std::string, int> seen;
  for (const std::string& name : split(flags.workers, ',')) {
    if (name.empty()) return bad_input("--workers", "an empty name");
    if (models.size() == plan::kMaxWorkers)
      return bad_input("--workers", fmt::format("more than {} workers", plan::kMaxWorkers));
    auto model = load_model(context, flags.profiles, name, topology.units());
    if (!model) return failed(model.error());
    const int number = ++seen[name];
    model->model = number == 1 ? name : fmt::format("{}#{}", name, number);
    models.push_back(*std::move(model));
  }
  return models;
}

Result<PlannedUnits> parse_kernel_plan(const std::string& file, std::string_view text, int most) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.exactly("kind", "KernelPlan");
  if (fields.error()) return failed(*fields.error());
  const Result<const Node*> workers = list_member(*document, document->root, "workers");
  if (!workers) return failed(workers.error());
  PlannedUnits plan;
  for (const Node& worker : (*workers)->items) {
    const Result<std::string> name = string_member(*document, worker, "name");
    if (!name) return failed(name.error());
    auto units = units_in(*document, worker, most);
    if (!units) return failed(units.error());
    plan.workers += (plan.workers.empty() ? "" : ",") + name->substr(0, name->find('#'));
    plan.units.push_back(*std::move(units));
  }
  return plan;
}

}  // namespace partita::cli
