// The file that PARTITA_SIM names: parse_machine and make_machine of shared_machine.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/append.h"
#include "base/check.h"
#include "base/error_code.h"
#include "base/fields.h"
#include "base/nearest.h"
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

class DescriptionReader {
 public:
  DescriptionReader(Fields& in, const hw::Catalogue& catalogue) : in_(in), catalogue_(catalogue) {}

  MachineDescription read() {
    in_.only({"api_version", "kind", "gpus", "state", "speed", "faults", "instances", "processes",
              "ambient_c", "power_rights"});
    if (in_.has("api_version")) in_.exactly("api_version", "partita/v1");
    if (in_.has("kind")) in_.exactly("kind", "Machine");
    each("gpus", kMaxSimGpus, [&](Fields& fields) { read_gpus(fields); });
    if (models_.empty()) in_.refuse("gpus", "'gpus' is empty");
    if (in_.has("state")) out_.state = in_.text("state");
    if (in_.has("speed")) out_.speed = in_.number("speed", {.high = kMaxSpeed});
    if (in_.has("faults"))
      each("faults", kMaxFaults, [&](Fields& fields) { out_.faults.push_back(fault(fields)); });
    if (in_.has("instances"))
      each("instances", kMaxSimGpus * hw::kMaxSlices,
           [&](Fields& fields) { read_instance(fields); });
    if (in_.has("processes"))
      each("processes", kMaxProcesses, [&](Fields& fields) { read_process(fields); });
    if (in_.has("ambient_c"))
      out_.ambient = Celsius{in_.number("ambient_c", {.low = -40, .high = 80})};
    if (in_.has("power_rights")) out_.power_rights = rights();
    return std::move(out_);
  }

 private:
  PowerRights rights() {
    const std::string word = in_.text("power_rights");
    if (word == "root") return PowerRights::root;
    if (word == "nobody") return PowerRights::nobody;
    if (word != "anybody")
      in_.refuse("power_rights", "'power_rights' must be anybody, root or nobody");
    return PowerRights::anybody;
  }

  template <class Read>
  void each(std::string_view key, std::size_t most, Read read_one) {
    for (const Node& node : in_.list(key, most)) {
      if (in_.error()) return;
      Fields fields(in_, node);
      read_one(fields);
    }
  }

  void read_gpus(Fields& fields) {
    fields.only({"model", "count", "mig"});
    Machine::Gpus gpus;
    const std::string name = fields.text("model");
    if (fields.error()) return;
    const auto model = catalogue_.get(name);
    if (!model) return fields.refuse("model", model.error().message);
    gpus.model = *model;
    const int left = kMaxSimGpus - static_cast<int>(models_.size());
    if (left == 0)
      return fields.refuse(fields.node(), fmt::format("more than {} GPUs", kMaxSimGpus));
    if (fields.has("count")) gpus.count = fields.integer("count", {.low = 1, .high = 1.0 * left});
    if (fields.has("mig")) gpus.mig = fields.boolean("mig");
    if (fields.error()) return;
    out_.gpus.push_back(gpus);
    models_.insert(models_.end(), static_cast<std::size_t>(gpus.count), gpus);
  }

  static Fault fault(Fields& fields) {
    fields.only({"method", "call", "error", "hang_s", "after_effect", "dies"});
    Fault fault;
    if (fields.has("method")) fault.method = fields.text("method");
    if (!fault.method.empty() && std::ranges::count(kChanges, fault.method) == 0)
      fields.refuse("method", fmt::format("'method' must be one of {}", joined(kChanges, ", ")));
    fault.call = fields.integer("call", kCalls);
    if (fields.has("error")) {
      const auto code = parse_error_code(fields.text("error"));
      if (!code)
        fields.refuse(
            "error", fmt::format("'error' must be one of {}", joined(error_code_words(), ", ")));
      fault.code = code.value_or(ErrorCode::environment);
    }
    if (fields.has("hang_s"))
      fault.hang_ns =
          static_cast<std::int64_t>(std::llround(fields.number("hang_s", kHangs) * 1e9));
    if (fields.has("after_effect")) fault.after_effect = fields.boolean("after_effect");
    if (fields.has("dies")) fault.dies = fields.boolean("dies");
    return fault;
  }

  int gpu_index(Fields& fields) {
    return fields.integer("gpu", {.high = static_cast<double>(models_.size()) - 1});
  }

  void read_instance(Fields& fields) {
    fields.only({"gpu", "profile", "start", "whole"});
    Present present;
    present.gpu = gpu_index(fields);
    const std::string profile = fields.text("profile");
    present.start = fields.integer("start", {.high = hw::kMaxSlices});
    if (fields.has("whole")) present.whole = fields.boolean("whole");
    if (fields.error()) return;
    const Machine::Gpus& gpu = models_[static_cast<std::size_t>(present.gpu)];
    present.profile = gpu.model->profile_index(profile);
    if (present.profile < 0)
      return fields.refuse("profile", fmt::format("{} has no profile '{}', but {}", gpu.model->name,
                                                  profile, names_of(gpu.model->profiles)));
    if (!gpu.mig) return fields.refuse("gpu", fmt::format("MIG of GPU {} is off", present.gpu));
    const hw::MigProfile& shape = gpu.model->profiles[static_cast<std::size_t>(present.profile)];
    if (!std::ranges::binary_search(shape.starts, present.start))
      return fields.refuse(
          "start", fmt::format("{} may start at {}", shape.name, joined(shape.starts, ", ")));
    hw::Layout& layout = layouts_[present.gpu];
    layout.push_back(present);
    if (const auto conflicts = hw::conflicts(*gpu.model, layout); !conflicts.empty())
      return fields.refuse(fields.node(),
                           fmt::format("cannot be there beside the instances above: {}",
                                       conflicts.front().constraint));
    out_.instances.push_back(present);
  }

  void read_process(Fields& fields) {
    fields.only({"gpu", "start", "pid", "name", "activity"});
    Attached process;
    process.gpu = gpu_index(fields);
    if (fields.has("start")) process.start = fields.integer("start", {.high = hw::kMaxSlices});
    process.pid = fields.integer("pid", kPids);
    if (fields.has("name")) process.name = fields.name("name");
    if (fields.has("activity")) process.activity = fields.number("activity", {.high = 1});
    const auto on = std::ranges::find_if(out_.instances, [&](const Present& present) {
      return present.gpu == process.gpu && present.start == process.start && present.whole;
    });
    if (process.start >= 0 && on == out_.instances.end())
      fields.refuse("start", "no whole instance of 'instances' starts there");
    out_.processes.push_back(std::move(process));
  }

  Fields& in_;
  const hw::Catalogue& catalogue_;
  MachineDescription out_;
  std::vector<Machine::Gpus> models_;  // one per GPU
  std::map<int, hw::Layout> layouts_;  // per GPU
};

}  // namespace

Result<MachineDescription> parse_machine(const std::string& file, std::string_view text,
                                         const hw::Catalogue& catalogue) {
  const auto document = TRY(parse_document(file, text));
  Fields fields(document);
  MachineDescription description = DescriptionReader(fields, catalogue).read();
  if (fields.error()) return failed(*fields.error());
  return description;
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
