// The text form of a Machine: JSON, one line per GPU, instance and process.
#include <fmt/format.h>

#include <algorithm>

#include "base/form.h"
#include "base/parse_number.h"
#include "drivers/sim/machine.h"

namespace partita::drivers::sim {
namespace {

constexpr int kMaxGpus = 4096;
constexpr std::size_t kMaxStoredProcesses = 100'000;
constexpr Range kStoredCounts{.high = 2e9};  // room to count on
constexpr Range kStoredPids{.low = 1, .high = 2'147'483'647};

constexpr Range kInstanceIds{.low = -1, .high = 4.0 * hw::kMaxSlices};

// What does not fit the rest of the machine is refused where it stands.
void refuse_if(Fields* in, bool wrong, std::string_view key, const std::string& why) {
  if (in && wrong) in->refuse(key, why);
}

bool broken(Form& f) { return f.reading() && f.reading()->error(); }

void describe_seed(Form& f, std::uint64_t& seed) {
  std::string text = fmt::format("{:016x}", seed);
  f.text("seed", text, "16 hexadecimal digits");
  if (!f.reading()) return;
  const auto given = parse_number<std::uint64_t>(text, 16);
  refuse_if(f.reading(), !given || text.size() != 16, "seed",
            "'seed' must be 16 hexadecimal digits");
  seed = given.value_or(0);
}

void describe_load(Form& f, SimLoad& load) {
  f.closed();
  f.integer("gi_id", load.gi_id, kInstanceIds, "-1: outside any instance");
  describe_seed(f, load.seed);
  f.number("share", load.share, {.high = 1}, "of the board's compute slices");
  f.number("level", load.level, {.high = 1}, "mean activity");
  f.number("busy_s", load.busy_s, kNotNegative, "integral of the activity");
}

void describe_xid(Form& f, SimXid& one) {
  f.closed();
  f.whole("number", one.number, {.low = 1, .high = kStoredCounts.high}, "of all that it reported");
  f.integer("xid", one.xid, {.low = 1, .high = 1e6}, "NVIDIA's number");
  f.integer("gi_id", one.gi_id, kInstanceIds, "-1: the whole GPU");
  f.integer("ci_id", one.ci_id, {.low = -1, .high = hw::kMaxSlices}, "-1: the whole GPU");
}

void describe_health(Form& f, SimHealth& health) {
  f.closed();
  f.whole("reported", health.reported, kStoredCounts, "XIDs ever");
  f.whole("uncorrected_errors", health.uncorrected_errors, kStoredCounts, "until a reset");
  f.boolean("rows_pending", health.rows_pending, "wait to be remapped");
  f.boolean("rows_failed", health.rows_failed, "could not be remapped");
  f.integer("recovery", health.recovery, {.high = 1000}, "what the driver recommends");
  f.list("xids", health.xids, describe_xid, {.most = kMaxSimXids, .indent = "       "},
         "the newest");
  long last = 0;
  for (const SimXid& one : health.xids) {
    refuse_if(f.reading(), one.number <= last || one.number > health.reported, "xids",
              "XIDs must ascend, up to those that were reported");
    last = one.number;
  }
}

struct GpuText {
  const hw::Catalogue& catalogue;

  static void compute(Form& f, const SimInstance& on, int slices, SimComputeInstance& one) {
    f.closed();
    f.integer("ci_id", one.ci_id, {.high = hw::kMaxSlices}, "of the compute instance");
    f.integer("gpcs", one.gpcs, {.low = 1, .high = 1.0 * slices}, "compute slices");
    f.integer("start", one.start, {.high = 1.0 * slices - one.gpcs}, "first of them");
    f.name("uuid", one.uuid, "of the MIG device");
    for (const SimComputeInstance& other : on.compute) {
      if (&other == &one) break;
      refuse_if(f.reading(), other.ci_id >= one.ci_id, "ci_id", "'ci_id' must ascend");
      refuse_if(f.reading(),
                one.start < other.start + other.gpcs && other.start < one.start + one.gpcs, "start",
                "two compute instances share slices");
    }
  }

  static void instance(Form& f, const SimGpu& gpu, SimInstance& one) {
    Fields* const in = f.reading();
    f.closed();
    f.integer("gi_id", one.gi_id, {.high = kInstanceIds.high}, "of the GPU instance");
    const std::size_t at = gpu.instances.size() - 1;
    refuse_if(in, at > 0 && gpu.instances[at - 1].gi_id >= one.gi_id, "gi_id",
              "'gi_id' must ascend");
    const std::vector<hw::MigProfile>& known = gpu.model->profiles;
    const auto shape = [&] {
      const auto index = static_cast<std::size_t>(one.profile);
      return index < known.size() ? known[index] : hw::MigProfile{};
    };
    std::string profile = shape().name;
    f.text("profile", profile, "catalogue name");
    if (in) one.profile = gpu.model->profile_index(profile);
    refuse_if(in, one.profile < 0, "profile", "the GPU model has no such profile");
    f.integer("start", one.start, {.high = hw::kMaxSlices}, "first memory slice");
    if (broken(f)) return;
    const int slices = shape().gpcs;
    f.list(
        "compute", one.compute,
        [&](Form& item, SimComputeInstance& of) { compute(item, one, slices, of); },
        {.most = hw::kMaxSlices, .indent = "          "}, "by ci_id");
  }

  static void process(Form& f, const SimGpu& gpu, const std::vector<SimProcess>& all,
                      SimProcess& one) {
    Fields* const in = f.reading();
    f.closed();
    f.whole("pid", one.pid, kStoredPids, "of the process");
    f.integer("gi_id", one.gi_id, {.low = -1}, "-1: outside any instance");
    f.integer("ci_id", one.ci_id, {.low = -1}, "-1: outside any instance");
    f.optional(!one.name.empty()).name("name", one.name, "of the process");
    f.number("activity", one.activity, {.high = 1}, "how busy it keeps its instance");
    if (!in || in->error()) return;
    const SimInstance* on = gpu.find(one.gi_id);
    const bool outside = one.gi_id == -1 && one.ci_id == -1;
    const bool there =
        on && std::ranges::count(on->compute, one.ci_id, &SimComputeInstance::ci_id) > 0;
    refuse_if(in, !outside && !there, "ci_id",
              "the process holds a compute instance that is not there");
    const auto key = [](const SimProcess& p) { return std::tuple(p.pid, p.gi_id, p.ci_id); };
    refuse_if(in, all.size() > 1 && key(all[all.size() - 2]) >= key(one), "pid",
              "processes must ascend");
  }

  static void power(Form& f, const SimGpu& gpu, SimPower& power) {
    constexpr Range kDegrees{.low = -100, .high = 200};
    constexpr Range kSet{.high = 1e5};
    constexpr std::size_t kMaxLoads = hw::kMaxSlices + 1;
    f.closed();
    f.number("ambient_c", power.ambient_c, kDegrees, "air");
    f.number("limit_w", power.settings.limit, kSet, "set");
    if (f.given("low_mhz", power.settings.clocks.has_value())) {
      auto clocks = power.settings.clocks.value_or(device::ClockRange{});
      f.number("low_mhz", clocks.low, kSet, "locked");
      f.number("high_mhz", clocks.high, kSet, "locked");
      if (f.reading()) power.settings.clocks = clocks;
    }
    if (broken(f)) return;
    const std::string fault = settings_fault(power.settings, figures_of(*gpu.model));
    refuse_if(f.reading(), !fault.empty(), "ambient_c", fault);
    if (!f.given("at_ns", power.at_ns >= 0)) return;
    std::string text = fmt::to_string(power.at_ns);
    f.text("at_ns", text, "nanoseconds");
    const auto at = parse_number<long>(text);
    refuse_if(f.reading(), !at || *at < 0, "at_ns", "'at_ns' must be nanoseconds");
    power.at_ns = at.value_or(0);
    f.number("energy_j", power.energy_j, kNotNegative, "since somebody looked first");
    f.number("average_w", power.average_w, kSet, "at that time");
    f.number("chip_c", power.chip_c, kDegrees, "at that time");
    f.number("memory_c", power.memory_c, kDegrees, "at that time");
    f.list("loads", power.loads, describe_load, {.most = kMaxLoads, .indent = "       "},
           "in force since");
  }

  static void judge(Fields& fields, const SimGpu& gpu) {
    std::vector<int> all = gpu.free_gi_ids;
    for (const SimInstance& instance : gpu.instances) all.push_back(instance.gi_id);
    std::vector<int> expected = fresh_gi_ids(*gpu.model);
    std::ranges::sort(all);
    std::ranges::sort(expected);
    if (all != expected)
      fields.refuse("free_gi_ids", "used and free gi_ids together must be each id once");
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

  void operator()(Form& f, SimGpu& gpu) const {
    Fields* const in = f.reading();
    f.closed();
    std::string model = gpu.model ? gpu.model->name : "";
    f.text("model", model, "catalogue name");
    if (in) gpu.model = catalogue.find(model);
    refuse_if(in, !gpu.model || gpu.model->name != model, "model",
              "the catalogue has no GPU model of this name");
    f.name("uuid", gpu.uuid, "of the GPU");
    f.name("serial", gpu.serial, "of the board");
    f.name("pci_bus_id", gpu.pci_bus_id, "of the board");
    f.optional(!gpu.nvlink.empty()).name("nvlink", gpu.nvlink, "PCI address of its switch");
    f.line("     ").boolean("mig", gpu.mig, "in MIG mode");
    f.boolean("mig_pending", gpu.mig_pending, "the mode after the next reset");
    f.boolean("lost", gpu.lost, "fell off the bus");
    f.integers("free_gi_ids", gpu.free_gi_ids, {.high = kInstanceIds.high},
               {.most = 4 * hw::kMaxSlices}, "that no instance has, in order of use");
    f.line("     ").list(
        "instances", gpu.instances, [&](Form& item, SimInstance& one) { instance(item, gpu, one); },
        {.most = hw::kMaxSlices, .indent = "       "}, "by gi_id");
    std::vector<SimProcess> attached;
    std::ranges::remove_copy_if(gpu.processes, std::back_inserter(attached), &SimProcess::observed);
    f.line("     ").list(
        "processes", attached,
        [&](Form& item, SimProcess& one) { process(item, gpu, attached, one); },
        {.most = kMaxStoredProcesses, .indent = "       "}, "by pid, gi_id, ci_id");
    f.line("     ")
        .optional(gpu.power != SimPower{})
        .object(
            "power", gpu.power, [&](Form& of, SimPower& one) { power(of, gpu, one); }, "drawn");
    f.line("     ")
        .optional(gpu.health != SimHealth{})
        .object("health", gpu.health, describe_health, "errors");
    if (!in || in->error()) return;
    gpu.processes = std::move(attached);
    judge(*in, gpu);
  }
};

struct StoredCall {
  std::string method;
  int count = 0;
};

void describe_call(Form& f, StoredCall& call) {
  f.closed();
  f.name("method", call.method, "of the door");
  f.integer("count", call.count, kStoredCounts, "how often");
}

// The members of a Machine.
struct StoredMachine {
  std::uint64_t seed = 0;
  int created = 0, all_calls = 0;
  std::vector<StoredCall> calls;
  std::vector<SimGpu> gpus;
};

struct MachineText {
  const hw::Catalogue& catalogue;
  void operator()(Form& f, StoredMachine& machine) const {
    f.closed();
    f.lines("  ");
    f.document("SimulatedMachine");
    describe_seed(f, machine.seed);
    f.lines(std::nullopt);
    f.integer("created", machine.created, kStoredCounts, "compute instances, ever");
    f.integer("all_calls", machine.all_calls, kStoredCounts, "that changed something");
    f.lines("  ");
    f.list("calls", machine.calls, describe_call, {.most = 64, .indent = "    "}, "by method");
    f.list("gpus", machine.gpus, GpuText{catalogue}, {.most = kMaxGpus, .indent = "    "},
           "by index");
  }
};

}  // namespace

std::string Machine::text() const {
  StoredMachine stored{
      .seed = seed_, .created = created_, .all_calls = all_calls_, .calls = {}, .gpus = gpus_};
  for (const auto& [method, count] : calls_) stored.calls.push_back({method, count});
  return write_form(stored, MachineText{hw::builtin_catalogue()});
}

Result<Machine> Machine::from_text(const std::string& file, std::string_view text,
                                   const hw::Catalogue& catalogue) {
  auto stored = TRY(read_form<StoredMachine>(file, text, MachineText{catalogue}));
  Machine machine;
  machine.seed_ = stored.seed;
  machine.created_ = stored.created;
  machine.all_calls_ = stored.all_calls;
  for (const StoredCall& call : stored.calls) machine.calls_[call.method] = call.count;
  machine.gpus_ = std::move(stored.gpus);
  return machine;
}

}  // namespace partita::drivers::sim
