#include "figures.h"

#include <algorithm>
#include <string_view>

namespace partita::nvml_sim {
namespace {

struct Row {
  std::string_view name;  // what the name of the model or its architecture begins with
  Figures figures;
};
// Names of models before architectures, longer names before shorter: "blackwell-gb202" is no
// "blackwell".
constexpr Row kFigures[] = {
    {"A30-", {7, 8, 0, 64, 3072, 210, 1440, 1215, 30, 100, 165, 4}},
    {"A100-40GB", {7, 8, 0, 64, 5120, 210, 1410, 1215, 55, 100, 400, 4}},
    {"H100-80GB-PCIe", {9, 9, 0, 128, 5120, 345, 1755, 1593, 50, 200, 350, 5}},
    {"H200-", {9, 9, 0, 128, 6144, 345, 1980, 3201, 75, 200, 700, 5}},
    {"ampere", {7, 8, 0, 64, 5120, 210, 1410, 1593, 60, 100, 400, 4}},
    {"hopper", {9, 9, 0, 128, 5120, 345, 1980, 2619, 75, 200, 700, 5}},
    {"blackwell-gb202", {10, 12, 0, 128, 512, 180, 2430, 14001, 40, 150, 600, 5}},
    {"blackwell-ultra", {10, 10, 3, 128, 8192, 120, 1965, 3996, 140, 200, 1100, 6}},
    {"blackwell", {10, 10, 0, 128, 8192, 120, 1965, 3996, 140, 200, 1000, 5}},
};
constexpr Figures kUnknown{0xFFFFFFFF, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0, 4};

// `part` of `whole`, of `total`.
unsigned long long share(double total, int part, int whole) {
  return whole > 0 ? static_cast<unsigned long long>(total * part / whole) : 0;
}

}  // namespace

const Figures& figures_of(const hw::GpuModel& model) {
  const auto row = std::ranges::find_if(kFigures, [&](const Row& known) {
    return model.name.starts_with(known.name) || model.architecture.starts_with(known.name);
  });
  return row == std::end(kFigures) ? kUnknown : row->figures;
}

unsigned long long total_mib(const hw::GpuModel& model) {
  if (model.total_memory) return static_cast<unsigned long long>(model.total_memory->value);
  unsigned long long most = 0;
  for (const hw::MigProfile& profile : model.profiles)
    if (profile.memory)
      most = std::max(most, static_cast<unsigned long long>(profile.memory->value));
  return most;
}

unsigned long long memory_mib(const hw::GpuModel& model, const hw::MigProfile& profile) {
  if (profile.memory) return static_cast<unsigned long long>(profile.memory->value);
  return share(static_cast<double>(total_mib(model)), profile.size, model.memory_slices);
}

unsigned multiprocessors(const hw::GpuModel& model, const hw::MigProfile& profile) {
  if (profile.sms) return static_cast<unsigned>(*profile.sms);
  return static_cast<unsigned>(
      share(model.total_sms.value_or(0), profile.gpcs, model.compute_slices));
}

unsigned multiprocessors(const hw::GpuModel& model, const hw::MigProfile& profile, int gpcs) {
  const unsigned all = multiprocessors(model, profile);
  if (gpcs == profile.gpcs) return all;
  unsigned of_one = all;
  for (const hw::MigProfile& other : model.profiles)
    if (other.gpcs == 1) of_one = std::min(of_one, multiprocessors(model, other));
  return std::min(all, of_one * static_cast<unsigned>(gpcs));
}

}  // namespace partita::nvml_sim
