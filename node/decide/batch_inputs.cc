#include "decide/batch_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/index.h"
#include "base/split.h"
#include "decide/input.h"
#include "forms/batch_forms.h"

namespace partita::decide {
namespace {

// One entry of --gpu.
struct GpuEntry {
  std::string name;
  int count = 1;
  bool counted = false;  // the number was given
};

Result<GpuEntry> parse_entry(const std::string& text) {
  GpuEntry entry;
  const std::size_t colon = text.find(':');
  entry.name = text.substr(0, colon);
  if (colon == std::string::npos) return entry;
  entry.counted = true;
  const std::string count = text.substr(colon + 1);
  const char* const end = count.data() + count.size();
  const auto [rest, error] = std::from_chars(count.data(), end, entry.count);
  if (error != std::errc{} || rest != end || entry.count < 1 || entry.count > plan::kMaxBatchGpus) {
    return bad_input("--gpu", fmt::format("'{}': '{}' is not a number of GPUs from 1 to {}", text,
                                          count, plan::kMaxBatchGpus));
  }
  return entry;
}

Result<std::vector<GpuEntry>> parse_entries(const GpuNames& names) {
  std::vector<GpuEntry> entries;
  for (const std::string& part : split(names.gpu, ',')) {
    GpuEntry entry = TRY(parse_entry(part));
    entries.push_back(std::move(entry));
  }
  if (names.gpus == 1) return entries;
  if (entries.size() > 1 || entries.front().counted) {
    return bad_input("--gpus", "--gpu already gives the number of GPUs of each model");
  }
  entries.front().count = names.gpus;
  return entries;
}

// The list with `count` more GPUs of a model.
Result<void> add_gpus(GpuList& list, const hw::GpuModel& model, int count) {
  const auto same = std::ranges::find(list.models, model.name, &hw::GpuModel::name);
  const auto index = static_cast<int>(same - list.models.begin());
  if (same == list.models.end()) list.models.push_back(model);
  if (list.gpus.size() + at(count) > plan::kMaxBatchGpus) {
    return bad_input("--gpu", fmt::format("there are at most {} GPUs", plan::kMaxBatchGpus));
  }
  list.gpus.insert(list.gpus.end(), at(count), index);
  return {};
}

Result<plan::Reconfigurer> reconfigurer_of(const std::string& name, int gpus_per_node) {
  using Of = plan::Reconfigurer::Of;
  if (name != "node" && name != "gpu") {
    return bad_input("--reconfigurer", fmt::format("'{}' is neither node nor gpu", name));
  }
  if (gpus_per_node < 1 || gpus_per_node > plan::kMaxBatchGpus) {
    return bad_input("--gpus-per-node",
                     fmt::format("{} is not from 1 to {}", gpus_per_node, plan::kMaxBatchGpus));
  }
  return plan::Reconfigurer{name == "node" ? Of::node : Of::gpu, gpus_per_node};
}

// The GPUs of a schedule; its model names become the catalogue's.
Result<GpuList> gpus_of(plan::BatchSchedule& schedule, const hw::Catalogue& catalogue,
                        const std::string& file) {
  GpuList list{.models = {}, .gpus = {}, .reconfigurer = schedule.reconfigurer};
  for (std::string& name : schedule.gpu_models) {
    const Result<const hw::GpuModel*> model = catalogue.get(name);
    if (!model) return bad_input(file, model.error().message);
    name = (*model)->name;
    if (auto added = add_gpus(list, **model, 1); !added) {
      return bad_input(file, added.error().message);
    }
  }
  return list;
}

}  // namespace

Result<GpuList> load_gpus(Files& files, const GpuNames& names) {
  const std::vector<GpuEntry> entries = TRY(parse_entries(names));
  const hw::Catalogue catalogue = TRY(load_catalogue(files, names.catalogue));
  const auto reconfigurer = TRY(reconfigurer_of(names.reconfigurer, names.gpus_per_node));
  GpuList list{.models = {}, .gpus = {}, .reconfigurer = reconfigurer};
  for (const GpuEntry& entry : entries) {
    const Result<const hw::GpuModel*> model = catalogue.get(entry.name);
    if (!model) return bad_input("--gpu", model.error().message);
    if (auto added = add_gpus(list, **model, entry.count); !added) return failed(added.error());
  }
  return list;
}

Result<plan::BatchProblem> load_batch(Files& files, const std::string& tasks, const GpuList& gpus) {
  const std::string text = TRY(read_input(files, "--tasks", tasks));
  Result<plan::BatchProblem> problem = forms::parse_tasks(tasks, text, gpus.models, gpus.gpus);
  if (problem) problem->reconfigurer = gpus.reconfigurer;
  return problem;
}

Result<JudgedSchedule> load_schedule(Files& files, const ScheduleFiles& inputs) {
  plan::BatchSchedule schedule =
      TRY(read_input(files, "SCHEDULE", inputs.schedule, forms::parse_schedule));
  const hw::Catalogue catalogue = TRY(load_catalogue(files, inputs.catalogue));
  GpuList gpus = TRY(gpus_of(schedule, catalogue, inputs.schedule));
  if (!inputs.reconfigurer.empty()) {
    gpus.reconfigurer = TRY(reconfigurer_of(inputs.reconfigurer, gpus.reconfigurer.gpus_per_node));
  }
  plan::BatchProblem problem = TRY(load_batch(files, inputs.tasks, gpus));
  auto verdict = verify::judge(problem, std::move(schedule));
  return JudgedSchedule{std::move(problem), std::move(verdict)};
}

}  // namespace partita::decide
