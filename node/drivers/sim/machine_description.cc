// The file that PARTITA_SIM names: parse_machine and make_machine of shared_machine.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/append.h"
#include "base/check.h"
#include "base/error_code.h"
#include "base/form.h"
#include "drivers/sim/shared_machine.h"

namespace partita::drivers::sim {
namespace {

using device::Fault;
using Present = MachineDescription::Present;
using Attached = MachineDescription::Attached;

constexpr double kMaxSpeed = 1000;
constexpr Range kHangs{.high = 1e6};  // seconds
constexpr Range kCalls{.low = 1, .high = 1e9};
constexpr Range kPids{.low = 1, .high = 2'147'483'647};
constexpr std::size_t kMaxFaults = 10'000;
constexpr std::size_t kMaxProcesses = 10'000;
const std::vector<std::string> kChanges{"set_mig_mode",   "create_instance", "destroy_instance",
                                        "create_compute", "destroy_compute", "set_power_settings"};

std::string names_of(const std::vector<hw::MigProfile>& profiles) {
  std::string names;
  for (const hw::MigProfile& profile : profiles)
    names += (names.empty() ? "" : ", ") + profile.name;
  return names.empty() ? "none" : names;
}

// A description while it is read.
struct Reading {
  const hw::Catalogue& catalogue;
  MachineDescription out = {};
  std::vector<Machine::Gpus> models = {};  // one per GPU
  std::map<int, hw::Layout> layouts = {};  // per GPU
};

void describe_gpus(Form& f, Machine::Gpus& gpus, Reading& reading) {
  f.closed();
  std::string name;
  f.text("model", name, "");
  Fields* const in = f.reading();
  const int left = kMaxSimGpus - static_cast<int>(reading.models.size());
  if (in && !in->error()) {
    const auto model = reading.catalogue.get(name);
    if (!model) return in->refuse("model", model.error().message);
    gpus.model = *model;
    if (left == 0) return in->refuse(in->node(), fmt::format("more than {} GPUs", kMaxSimGpus));
  }
  f.optional().integer("count", gpus.count, {.low = 1, .high = 1.0 * left}, "");
  f.optional().boolean("mig", gpus.mig, "");
  f.optional().integer("nvlink", gpus.nvlink, {.high = 1.0 * kMaxSimGpus}, "");
  if (in && !in->error())
    reading.models.insert(reading.models.end(), static_cast<std::size_t>(gpus.count), gpus);
}

void describe_fault(Form& f, Fault& fault) {
  f.closed();
  std::string error;
  double hang_s = 0;
  f.optional().text("method", fault.method, "");
  f.integer("call", fault.call, kCalls, "");
  f.optional().text("error", error, "");
  f.optional().number("hang_s", hang_s, kHangs, "");
  f.optional().boolean("after_effect", fault.after_effect, "");
  f.optional().boolean("dies", fault.dies, "");
  Fields* const in = f.reading();
  if (in == nullptr) return;
  if (!fault.method.empty() && std::ranges::count(kChanges, fault.method) == 0)
    in->refuse("method", fmt::format("'method' must be one of {}", joined(kChanges, ", ")));
  const auto code = parse_error_code(error);
  if (!error.empty() && !code)
    in->refuse("error", fmt::format("'error' must be one of {}", joined(error_code_words(), ", ")));
  fault.code = code.value_or(ErrorCode::environment);
  fault.hang_ns = static_cast<std::int64_t>(std::llround(hang_s * 1e9));
}

void gpu_field(Form& f, int& gpu, const Reading& reading) {
  f.integer("gpu", gpu, {.high = static_cast<double>(reading.models.size()) - 1}, "");
}

void describe_instance(Form& f, Present& present, Reading& reading) {
  f.closed();
  std::string profile;
  gpu_field(f, present.gpu, reading);
  f.text("profile", profile, "");
  f.integer("start", present.start, {.high = hw::kMaxSlices}, "");
  f.optional().boolean("whole", present.whole, "");
  Fields* const in = f.reading();
  if (in == nullptr || in->error()) return;
  const Machine::Gpus& gpu = reading.models[static_cast<std::size_t>(present.gpu)];
  present.profile = gpu.model->profile_index(profile);
  if (present.profile < 0)
    return in->refuse("profile", fmt::format("{} has no profile '{}', but {}", gpu.model->name,
                                             profile, names_of(gpu.model->profiles)));
  if (!gpu.mig) return in->refuse("gpu", fmt::format("MIG of GPU {} is off", present.gpu));
  const hw::MigProfile& shape = gpu.model->profiles[static_cast<std::size_t>(present.profile)];
  if (!std::ranges::binary_search(shape.starts, present.start))
    return in->refuse("start",
                      fmt::format("{} may start at {}", shape.name, joined(shape.starts, ", ")));
  hw::Layout& layout = reading.layouts[present.gpu];
  layout.push_back(present);
  if (const auto conflicts = hw::conflicts(*gpu.model, layout); !conflicts.empty())
    in->refuse(in->node(), fmt::format("cannot be there beside the instances above: {}",
                                       conflicts.front().constraint));
}

void describe_process(Form& f, Attached& process, const Reading& reading) {
  f.closed();
  long pid = 0;
  gpu_field(f, process.gpu, reading);
  f.optional().integer("start", process.start, {.high = hw::kMaxSlices}, "");
  f.whole("pid", pid, kPids, "");
  f.optional().name("name", process.name, "");
  f.number("activity", process.activity, {.high = 1}, "");
  Fields* const in = f.reading();
  if (in == nullptr) return;
  process.pid = pid;
  const bool on = std::ranges::any_of(reading.out.instances, [&](const Present& present) {
    return present.gpu == process.gpu && present.start == process.start && present.whole;
  });
  if (process.start >= 0 && !on)
    in->refuse("start", "no whole instance of 'instances' starts there");
}

void describe_machine(Form& f, Reading& reading) {
  MachineDescription& out = reading.out;
  f.closed();
  f.optional().document("Machine");
  f.list(
      "gpus", out.gpus, [&](Form& g, Machine::Gpus& one) { describe_gpus(g, one, reading); },
      {.most = kMaxSimGpus, .least = 1}, "");
  f.optional().text("state", out.state, "");
  f.optional().number("speed", out.speed, {.high = kMaxSpeed}, "");
  f.optional().list("faults", out.faults, describe_fault, {.most = kMaxFaults}, "");
  f.optional().list(
      "instances", out.instances,
      [&](Form& g, Present& one) { describe_instance(g, one, reading); },
      {.most = kMaxSimGpus * hw::kMaxSlices}, "");
  f.optional().list(
      "processes", out.processes,
      [&](Form& g, Attached& one) { describe_process(g, one, reading); }, {.most = kMaxProcesses},
      "");
  f.optional().number("ambient_c", out.ambient, {.low = -40, .high = 80}, "");
  f.optional().word("power_rights", out.power_rights, {"anybody", "root", "nobody"}, "");
}

}  // namespace

Result<MachineDescription> parse_machine(const std::string& file, std::string_view text,
                                         const hw::Catalogue& catalogue) {
  const auto document = TRY(parse_document(file, text));
  Fields fields(document);
  Reading reading{catalogue};
  form::read(fields, [&](Form& f, std::size_t) { describe_machine(f, reading); });
  if (fields.error()) return failed(*fields.error());
  return std::move(reading.out);
}

Machine make_machine(const MachineDescription& description, std::string_view identity) {
  Machine machine(description.gpus, identity);
  std::map<std::pair<int, int>, int> gi_ids;  // by GPU and start
  for (const Present& present : description.instances) {
    const auto made = machine.create_instance(present.gpu, present.profile, present.start);
    CHECK(made.has_value());
    gi_ids[{present.gpu, present.start}] = made->value;
    const hw::GpuModel& model = *machine.find(present.gpu)->model;
    const int gpcs = model.profiles[static_cast<std::size_t>(present.profile)].gpcs;
    if (present.whole) CHECK(machine.create_compute(present.gpu, made->value, gpcs, 0).has_value());
  }
  for (const Attached& process : description.processes) {
    const bool outside = process.start < 0;
    const int gi_id = outside ? -1 : gi_ids.at({process.gpu, process.start});
    CHECK(machine
              .attach(process.gpu,
                      {process.pid, process.name, gi_id, outside ? -1 : 0, false, process.activity})
              .has_value());
  }
  machine.set_ambient(description.ambient);
  return machine;
}

}  // namespace partita::drivers::sim
