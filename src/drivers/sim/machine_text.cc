// The text form of a Machine: JSON, one line per GPU, instance and process.
#include <fmt/format.h>

#include <algorithm>

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
                      fmt::join(gpu.free_gi_ids, ", ")));
  out.list(gpu.instances, "       ", [&](const auto& instance) { write(out, gpu, instance); });
  out.raw(",\n     \"processes\": ");
  out.list(attached, "       ", [&](const auto& process) { write(out, process); });
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
    fields.only({"pid", "name", "gi_id", "ci_id"});
    SimProcess process;
    process.pid = fields.integer("pid", kStoredPids);
    if (fields.has("name")) process.name = fields.name("name");
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
                 "free_gi_ids", "instances", "processes"});
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
    judge(fields, gpu);
    return gpu;
  }

  static std::uint64_t seed(Fields& fields) {
    const std::string text = fields.text("seed");
    const auto seed = parse_number<std::uint64_t>(text, 16);
    if (!seed || text.size() != 16)
      fields.refuse("seed", "'seed' must be 16 hexadecimal digits");
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
