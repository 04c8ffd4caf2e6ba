// The text form of a Machine: JSON, one line per GPU, instance and process.
#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/fields.h"
#include "base/json_writer.h"
#include "base/parse_number.h"
#include "drivers/sim/machine.h"

namespace partita::drivers::sim {
namespace {

constexpr int kMaxGpus = 4096;
constexpr int kMaxStoredProcesses = 100'000;
constexpr Range kStoredCounts{.high = 2e9};  // room to count on
constexpr Range kStoredPids{.low = 1, .high = 2'147'483'647};

void write(JsonWriter& out, const SimComputeInstance& compute) {
  out.raw(fmt::format(R"({{"ci_id": {}, "gpcs": {}, "start": {}, "uuid": )", compute.ci_id,
                      compute.gpcs, compute.start));
  out.string(compute.uuid).raw("}");
}

void write(JsonWriter& out, const SimGpu& gpu, const SimInstance& instance) {
  const hw::MigProfile& shape = gpu.model->profiles[static_cast<std::size_t>(instance.profile)];
  out.raw(fmt::format(R"({{"gi_id": {}, "profile": )", instance.gi_id)).string(shape.name);
  out.raw(fmt::format(R"(, "start": {}, "compute": )", instance.start));
  out.list(instance.compute, "          ", [&](const auto& compute) { write(out, compute); });
  out.raw("}");
}

void write(JsonWriter& out, const SimProcess& process) {
  out.raw(fmt::format(R"({{"pid": {}, "gi_id": {}, "ci_id": {})", process.pid, process.gi_id,
                      process.ci_id));
  if (!process.name.empty()) out.raw(R"(, "name": )").string(process.name);
  if (process.activity) out.raw(R"(, "activity": )").number(*process.activity);
  out.raw("}");
}

void write(JsonWriter& out, const SimLoad& load) {
  out.raw(fmt::format(R"({{"gi_id": {}, "seed": "{:016x}", "share": )", load.gi_id, load.seed));
  out.number(load.share).raw(R"(, "level": )").number(load.level);
  out.raw(R"(, "busy_s": )").number(load.busy_s).raw("}");
}

void write(JsonWriter& out, const SimPower& power) {
  out.raw(R"({"ambient_c": )").number(power.ambient_c);
  if (power.settings.limit) out.raw(R"(, "limit_w": )").number(power.settings.limit->value);
  if (power.settings.clocks) {
    out.raw(R"(, "low_mhz": )").number(power.settings.clocks->low.value);
    out.raw(R"(, "high_mhz": )").number(power.settings.clocks->high.value);
  }
  if (power.at_ns >= 0) {
    out.raw(fmt::format(R"(, "at_ns": "{}", "energy_j": )", power.at_ns)).number(power.energy_j);
    out.raw(R"(, "average_w": )").number(power.average_w);
    out.raw(R"(, "chip_c": )").number(power.chip_c);
    out.raw(R"(, "memory_c": )").number(power.memory_c).raw(R"(, "loads": )");
    out.list(power.loads, "       ", [&](const SimLoad& load) { write(out, load); });
  }
  out.raw("}");
}

void write(JsonWriter& out, const SimHealth& health) {
  out.raw(fmt::format(R"({{"reported": {}, "uncorrected_errors": {}, "rows_pending": {}, )"
                      R"("rows_failed": {}, "recovery": {}, "xids": )",
                      health.reported, health.uncorrected_errors, health.rows_pending,
                      health.rows_failed, health.recovery));
  out.list(health.xids, "       ", [&](const SimXid& one) {
    out.raw(fmt::format(R"({{"number": {}, "xid": {}, "gi_id": {}, "ci_id": {}}})", one.number,
                        one.xid, one.gi_id, one.ci_id));
  });
  out.raw("}");
}

void write(JsonWriter& out, const SimGpu& gpu) {
  std::vector<SimProcess> attached;
  std::ranges::remove_copy_if(gpu.processes, std::back_inserter(attached),
                              [](const SimProcess& process) { return process.observed; });
  out.raw(R"({"model": )").string(gpu.model->name).raw(R"(, "uuid": )").string(gpu.uuid);
  out.raw(R"(, "serial": )").string(gpu.serial).raw(R"(, "pci_bus_id": )").string(gpu.pci_bus_id);
  out.raw(fmt::format(",\n     \"mig\": {}, \"mig_pending\": {}, \"lost\": {}, ", gpu.mig,
                      gpu.mig_pending, gpu.lost));
  out.raw(fmt::format("\"free_gi_ids\": [{}],\n     \"instances\": ",
                      joined(gpu.free_gi_ids, ", ")));
  out.list(gpu.instances, "       ", [&](const auto& instance) { write(out, gpu, instance); });
  out.raw(",\n     \"processes\": ");
  out.list(attached, "       ", [&](const auto& process) { write(out, process); });
  if (gpu.power != SimPower{}) {
    out.raw(",\n     \"power\": ");
    write(out, gpu.power);
  }
  if (gpu.health != SimHealth{}) {
    out.raw(",\n     \"health\": ");
    write(out, gpu.health);
  }
  out.raw("}");
}

}  // namespace

std::string Machine::text() const {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"SimulatedMachine\",\n");
  out.raw(fmt::format("  \"seed\": \"{:016x}\", \"created\": {}, \"all_calls\": {},\n", seed_,
                      created_, all_calls_));
  out.raw("  \"calls\": ");
  out.list(calls_, "    ", [&](const auto& call) {
    out.raw(R"({"method": )").string(call.first);
    out.raw(fmt::format(R"(, "count": {}}})", call.second));
  });
  out.raw(",\n  \"gpus\": ");
  out.list(gpus_, "    ", [&](const SimGpu& gpu) { write(out, gpu); });
  out.raw("\n}\n");
  return out.take();
}

// Reads a Machine; whatever text() cannot have written is refused.
struct MachineReader {
  Fields& in;
  const hw::Catalogue& catalogue;

  static SimComputeInstance compute(Fields fields, const SimInstance& instance, int slices) {
    fields.only({"ci_id", "gpcs", "start", "uuid"});
    SimComputeInstance compute;
    const int last = instance.compute.empty() ? -1 : instance.compute.back().ci_id;
    compute.ci_id = fields.integer("ci_id", {.low = last + 1.0, .high = hw::kMaxSlices});
    compute.gpcs = fields.integer("gpcs", {.low = 1, .high = 1.0 * slices});
    compute.start = fields.integer("start", {.high = 1.0 * slices - compute.gpcs});
    compute.uuid = fields.name("uuid");
    for (const SimComputeInstance& other : instance.compute)
      if (compute.start < other.start + other.gpcs && other.start < compute.start + compute.gpcs)
        fields.refuse("start", "two compute instances share slices");
    return compute;
  }

  static SimInstance instance(Fields fields, const SimGpu& gpu) {
    fields.only({"gi_id", "profile", "start", "compute"});
    SimInstance instance;
    const int last = gpu.instances.empty() ? -1 : gpu.instances.back().gi_id;
    instance.gi_id = fields.integer("gi_id", {.low = last + 1.0, .high = 4.0 * hw::kMaxSlices});
    instance.profile = gpu.model->profile_index(fields.text("profile"));
    if (instance.profile < 0) fields.refuse("profile", "the GPU model has no such profile");
    instance.start = fields.integer("start", {.high = hw::kMaxSlices});
    if (fields.error()) return instance;
    const int slices = gpu.model->profiles[static_cast<std::size_t>(instance.profile)].gpcs;
    for (const Node& node : fields.list("compute", hw::kMaxSlices)) {
      instance.compute.push_back(compute({fields, node}, instance, slices));
      if (fields.error()) break;
    }
    return instance;
  }

  static SimProcess process(Fields fields, const SimGpu& gpu) {
    fields.only({"pid", "name", "gi_id", "ci_id", "activity"});
    SimProcess process;
    process.pid = fields.integer("pid", kStoredPids);
    if (fields.has("name")) process.name = fields.name("name");
    if (fields.has("activity")) process.activity = fields.number("activity", {.high = 1});
    process.gi_id = fields.integer("gi_id", {.low = -1});
    process.ci_id = fields.integer("ci_id", {.low = -1});
    const SimInstance* on = gpu.find(process.gi_id);
    const bool outside = process.gi_id == -1 && process.ci_id == -1;
    if (!outside && (!on || std::ranges::find(on->compute, process.ci_id,
                                              &SimComputeInstance::ci_id) == on->compute.end()))
      fields.refuse("ci_id", "the process holds a compute instance that is not there");
    const auto key = [](const SimProcess& p) { return std::tuple(p.pid, p.gi_id, p.ci_id); };
    if (!gpu.processes.empty() && key(gpu.processes.back()) >= key(process))
      fields.refuse("pid", "processes must ascend");
    return process;
  }

  // The ids that no instance has, in some order.
  static std::vector<int> free_ids(Fields& fields, const SimGpu& gpu) {
    std::vector<int> ids;
    for (const Node& node : fields.list("free_gi_ids", 4 * hw::kMaxSlices))
      ids.push_back(node.kind == Node::Kind::number && node.number <= 4 * hw::kMaxSlices
                        ? static_cast<int>(std::max(node.number, -1.0))
                        : -1);
    std::vector<int> all = ids;
    for (const SimInstance& instance : gpu.instances) all.push_back(instance.gi_id);
    std::vector<int> expected = fresh_gi_ids(*gpu.model);
    std::ranges::sort(all);
    std::ranges::sort(expected);
    if (all != expected)
      fields.refuse("free_gi_ids", "used and free gi_ids together must be each id once");
    return ids;
  }

  void judge(Fields& fields, const SimGpu& gpu) const {
    if (gpu.lost && !(gpu.instances.empty() && gpu.processes.empty()))
      fields.refuse("lost", "a lost GPU has neither instances nor processes");
    if (!gpu.mig && !gpu.instances.empty())
      fields.refuse("mig", "a GPU whose MIG is off has no instances");
    if ((gpu.mig || gpu.mig_pending) && gpu.model->profiles.empty())
      fields.refuse("mig", "this GPU model has no MIG");
    const auto conflicts = hw::conflicts(*gpu.model, gpu.placed());
    if (!conflicts.empty())
      fields.refuse("instances", fmt::format("these instances cannot exist together: {}",
                                             conflicts.front().constraint));
  }

  SimGpu gpu(Fields fields) const {
    fields.only({"model", "uuid", "serial", "pci_bus_id", "mig", "mig_pending", "lost",
                 "free_gi_ids", "instances", "processes", "power", "health"});
    SimGpu gpu;
    const std::string model = fields.text("model");
    gpu.model = catalogue.find(model);
    if (!gpu.model || gpu.model->name != model)
      fields.refuse("model", "the catalogue has no GPU model of this name");
    gpu.uuid = fields.name("uuid");
    gpu.serial = fields.name("serial");
    gpu.pci_bus_id = fields.name("pci_bus_id");
    gpu.mig = fields.boolean("mig");
    gpu.mig_pending = fields.boolean("mig_pending");
    gpu.lost = fields.boolean("lost");
    if (fields.error()) return gpu;
    for (const Node& node : fields.list("instances", hw::kMaxSlices)) {
      gpu.instances.push_back(instance({fields, node}, gpu));
      if (fields.error()) return gpu;
    }
    gpu.free_gi_ids = free_ids(fields, gpu);
    for (const Node& node : fields.list("processes", kMaxStoredProcesses)) {
      gpu.processes.push_back(process({fields, node}, gpu));
      if (fields.error()) return gpu;
    }
    if (fields.has("power")) gpu.power = power(fields.object("power"), gpu);
    if (fields.has("health")) gpu.health = health(fields.object("health"));
    judge(fields, gpu);
    return gpu;
  }

  static SimHealth health(Fields fields) {
    fields.only(
        {"reported", "uncorrected_errors", "rows_pending", "rows_failed", "recovery", "xids"});
    SimHealth health;
    health.reported = fields.integer("reported", kStoredCounts);
    health.uncorrected_errors = fields.integer("uncorrected_errors", kStoredCounts);
    health.rows_pending = fields.boolean("rows_pending");
    health.rows_failed = fields.boolean("rows_failed");
    health.recovery = fields.integer("recovery", {.high = 1000});
    for (const Node& node : fields.list("xids", kMaxSimXids)) {
      if (fields.error()) break;
      Fields in(fields, node);
      in.only({"number", "xid", "gi_id", "ci_id"});
      const double last = health.xids.empty() ? 0 : static_cast<double>(health.xids.back().number);
      SimXid one;
      one.number =
          in.integer("number", {.low = last + 1, .high = static_cast<double>(health.reported)});
      one.xid = in.integer("xid", {.low = 1, .high = 1e6});
      one.gi_id = in.integer("gi_id", {.low = -1, .high = 4.0 * hw::kMaxSlices});
      one.ci_id = in.integer("ci_id", {.low = -1, .high = hw::kMaxSlices});
      health.xids.push_back(one);
    }
    return health;
  }

  static SimLoad load(Fields fields) {
    fields.only({"gi_id", "seed", "share", "level", "busy_s"});
    SimLoad load;
    load.gi_id = fields.integer("gi_id", {.low = -1, .high = 4.0 * hw::kMaxSlices});
    load.seed = seed(fields);
    load.share = fields.number("share", {.high = 1});
    load.level = fields.number("level", {.high = 1});
    load.busy_s = fields.number("busy_s", kNotNegative);
    return load;
  }

  static SimPower power(Fields fields, const SimGpu& gpu) {
    constexpr Range kDegrees{.low = -100, .high = 200};
    constexpr Range kSet{.high = 1e5};
    constexpr std::size_t kMaxLoads = hw::kMaxSlices + 1;
    fields.only({"ambient_c", "limit_w", "low_mhz", "high_mhz", "at_ns", "energy_j", "average_w",
                 "chip_c", "memory_c", "loads"});
    SimPower power;
    power.ambient_c = fields.number("ambient_c", kDegrees);
    if (fields.has("limit_w")) power.settings.limit = Watts{fields.number("limit_w", kSet)};
    if (fields.has("low_mhz"))
      power.settings.clocks = {Mhz{fields.number("low_mhz", kSet)},
                               Mhz{fields.number("high_mhz", kSet)}};
    if (fields.error()) return power;
    if (const std::string fault = settings_fault(power.settings, figures_of(*gpu.model));
        !fault.empty())
      fields.refuse("ambient_c", fault);
    if (!fields.has("at_ns")) return power;
    const auto at = parse_number<long>(fields.text("at_ns"));
    if (!at || *at < 0) fields.refuse("at_ns", "'at_ns' must be nanoseconds");
    power.at_ns = at.value_or(0);
    power.energy_j = fields.number("energy_j", kNotNegative);
    power.average_w = fields.number("average_w", kSet);
    power.chip_c = fields.number("chip_c", kDegrees);
    power.memory_c = fields.number("memory_c", kDegrees);
    for (const Node& node : fields.list("loads", kMaxLoads)) {
      if (fields.error()) break;
      power.loads.push_back(load({fields, node}));
    }
    return power;
  }

  static std::uint64_t seed(Fields& fields) {
    const std::string text = fields.text("seed");
    const auto seed = parse_number<std::uint64_t>(text, 16);
    if (!seed || text.size() != 16) fields.refuse("seed", "'seed' must be 16 hexadecimal digits");
    return seed.value_or(0);
  }

  Machine read() {
    in.only({"api_version", "kind", "seed", "created", "all_calls", "calls", "gpus"});
    in.exactly("api_version", "partita/v1");
    in.exactly("kind", "SimulatedMachine");
    Machine machine;
    machine.seed_ = seed(in);
    machine.created_ = in.integer("created", kStoredCounts);
    machine.all_calls_ = in.integer("all_calls", kStoredCounts);
    for (const Node& node : in.list("calls", 64)) {
      Fields call(in, node);
      call.only({"method", "count"});
      machine.calls_[call.name("method")] = call.integer("count", kStoredCounts);
    }
    for (const Node& node : in.list("gpus", kMaxGpus)) {
      if (in.error()) break;
      machine.gpus_.push_back(gpu({in, node}));
    }
    return machine;
  }
};

Result<Machine> Machine::from_text(const std::string& file, std::string_view text,
                                   const hw::Catalogue& catalogue) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  Machine machine = MachineReader{fields, catalogue}.read();
  if (fields.error()) return failed(*fields.error());
  return machine;
}

}  // namespace partita::drivers::sim
