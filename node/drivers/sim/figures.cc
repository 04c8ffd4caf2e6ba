#include "drivers/sim/figures.h"

#include <algorithm>
#include <string_view>

#include "base/parse_number.h"

namespace partita::drivers::sim {
namespace {

constexpr unsigned long long kMibPerGigabyte = 1024;  // as names count

struct Row {
  std::string_view name;  // what the name of the model or its architecture begins with
  Figures figures;
};
// Names of models before architectures, longer names before shorter: "blackwell-gb202" is no
// "blackwell".
constexpr Row kFigures[] = {
    {"A30-", {7, 8, 0, 64, 3072, 210, 1440, 1215, 30, 100, 165, 4, 14}},
    {"A100-40GB", {7, 8, 0, 64, 5120, 210, 1410, 1215, 55, 100, 400, 4, 14}},
    {"H100-80GB-PCIe", {9, 9, 0, 128, 5120, 345, 1755, 1593, 50, 200, 350, 5, 14}},
    {"H200-", {9, 9, 0, 128, 6144, 345, 1980, 3201, 75, 200, 700, 5, 16}},
    {"ampere", {7, 8, 0, 64, 5120, 210, 1410, 1593, 60, 100, 400, 4, 14}},
    {"hopper", {9, 9, 0, 128, 5120, 345, 1980, 2619, 75, 200, 700, 5, 16}},
    {"blackwell-gb202", {10, 12, 0, 128, 512, 180, 2430, 14001, 40, 150, 600, 5, 46}},
    {"blackwell-ultra", {10, 10, 3, 128, 8192, 120, 1965, 3996, 140, 200, 1100, 6, 18}},
    {"blackwell", {10, 10, 0, 128, 8192, 120, 1965, 3996, 140, 200, 1000, 5, 18}},
};
constexpr Figures kUnknown{0xFFFFFFFF, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0, 4, 16};

// `part` of `whole`, of `total`.
unsigned long long share(double total, int part, int whole) {
  return whole > 0 ? static_cast<unsigned long long>(total * part / whole) : 0;
}

// "3g.40gb+me" says 40; a name without a dot nothing.
unsigned long long gigabytes_of(std::string_view profile) {
  profile.remove_prefix(std::min(profile.find('.'), profile.size() - 1) + 1);
  return static_cast<unsigned long long>(take_number<int>(profile).value_or(0));
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
    most = std::max(most, gigabytes_of(profile.name) * kMibPerGigabyte);
  return most;
}

unsigned multiprocessors(const hw::GpuModel& model) {
  if (model.total_sms) return static_cast<unsigned>(*model.total_sms);
  return figures_of(model).sms_per_slice * static_cast<unsigned>(model.compute_slices);
}

unsigned long long memory_mib(const hw::GpuModel& model, const hw::MigProfile& profile) {
  if (profile.memory) return static_cast<unsigned long long>(profile.memory->value);
  return share(static_cast<double>(total_mib(model)), profile.size, model.memory_slices);
}

unsigned multiprocessors(const hw::GpuModel& model, const hw::MigProfile& profile) {
  if (profile.sms) return static_cast<unsigned>(*profile.sms);
  return static_cast<unsigned>(share(multiprocessors(model), profile.gpcs, model.compute_slices));
}

unsigned multiprocessors(const hw::GpuModel& model, const hw::MigProfile& profile, int gpcs) {
  const unsigned all = multiprocessors(model, profile);
  if (gpcs == profile.gpcs) return all;
  unsigned of_one = all;
  for (const hw::MigProfile& other : model.profiles)
    if (other.gpcs == 1) of_one = std::min(of_one, multiprocessors(model, other));
  return std::min(all, of_one * static_cast<unsigned>(gpcs));
}

}  // namespace partita::drivers::sim
