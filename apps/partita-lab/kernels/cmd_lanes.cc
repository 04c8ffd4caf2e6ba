#include <charconv>
#include <filesystem>
#include <thread>

#include "base/rng.h"
#include "decide/graph.h"
#include "decide/kernel_policies.h"
#include "device/lane_driver.h"
#include "device/probe_kernels.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "drivers/cpu_mask/host_kernels.h"
#include "drivers/green_ctx/cuda_kernels.h"
#include "drivers/green_ctx/green_ctx_driver.h"
#include "drivers/hip_mask/hip_kernels.h"
#include "drivers/hip_mask/hip_mask_driver.h"
#include "forms/graph_forms.h"
#include "forms/kernel_picture.h"
#include "hw/topology.h"
#include "kernels/kernel_inputs.h"
#include "kernels/lane_drivers.h"
#include "lab_commands.h"
#include "lanes/examples/strassen.h"
#include "lanes/graph_run.h"
#include "lanes/graph_work.h"
#include "lanes/kernels/graph_kernels.h"
#include "lanes/lane_probe.h"
#include "lanes/lane_runs.h"
#include "plan/graph.h"
#include "planners/mask/lanes.h"
#include "progress.h"
#include "sim/graph.h"

namespace partita::cli {
namespace {

// Task graphs that can be run: what a graph file says as work of that size, or the example; masks
// by the graph's policies; the runs on threads and in virtual time. Where plan, exec and sim meet.
// The example: matrices, their product, and what it is compared with.
struct StrassenFlags {
  int size = 1024, levels = 1;
  std::uint64_t seed = 1;
};

struct StrassenRun {
  examples::Matrix a, b, c;
};

struct GraphWork {
  plan::GraphProblem problem;
  exec::TaskGraph graph;                         // as the problem's tasks
  std::shared_ptr<StrassenRun> strassen;         // none of a file
  std::shared_ptr<carry::GraphKernels> kernels;  // of a file whose kernels run real code
};

// Strassen-Winograd of random matrices (zeros if it is not to be run for `real`); kernels ask for
// `units` units. The problem's times are those of a unit with kUnitGflops and kUnitGbps.
inline constexpr double kUnitGflops = 20, kUnitGbps = 10;

struct GraphRunSettings {
  hw::Topology topology;
  device::LaneDriver* driver = nullptr;  // null: virtual time
  int threads = 1;
  bool ahead = true;
  double copy_gbps = 10;  // of the simulator
};

Result<OpenLaneDriver> on_threads(const LaneDriverFlags& flags, bool) {
  if (flags.device != "0")
    return bad_input("--device", "only GPUs have it, not --lane-driver cpu_mask");
  if (!flags.vendor_library.empty())
    return bad_input("--library", "only GPUs have it, not --lane-driver cpu_mask");
  const int cores = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  const std::string name = flags.gpu.empty() ? fmt::format("1x{}", cores) : flags.gpu;
  const hw::Topology topology = TRY(decide::load_topology(name));
  OpenLaneDriver opened{std::make_unique<drivers::cpu_mask::HostKernels>(), nullptr};
  opened.driver = TRY(drivers::cpu_mask::CpuMaskDriver::open(topology));
  return opened;
}

template <class Driver, class Kernels>
Result<OpenLaneDriver> with_kernels(Result<std::unique_ptr<Driver>> driver, bool probes) {
  if (!driver) return failed(driver.error());
  OpenLaneDriver opened;
  if (probes) opened.kernels = TRY(Kernels::open(**driver));
  opened.driver = *std::move(driver);
  return opened;
}

Result<OpenLaneDriver> on_nvidia(const LaneDriverFlags& flags, bool probes) {
  drivers::green_ctx::Options options;
  options.gpu = flags.device;
  options.atom = flags.atom;
  if (!flags.vendor_library.empty()) options.vendor_library = flags.vendor_library;
  using Driver = drivers::green_ctx::GreenCtxDriver;
  return with_kernels<Driver, drivers::green_ctx::CudaKernels>(Driver::open(options), probes);
}

Result<OpenLaneDriver> on_amd(const LaneDriverFlags& flags, bool probes) {
  drivers::hip_mask::HipMaskOptions options;
  const char* const end = flags.device.data() + flags.device.size();
  const auto [rest, error] = std::from_chars(flags.device.data(), end, options.device);
  if (error != std::errc{} || rest != end || options.device < 0)
    return bad_input("--device", fmt::format("'{}': AMD's GPUs have numbers from 0", flags.device));
  options.vendor_library = flags.vendor_library;
  using Driver = drivers::hip_mask::HipMaskDriver;
  return with_kernels<Driver, drivers::hip_mask::HipKernels>(Driver::open(options), probes);
}

using Open = Result<OpenLaneDriver> (*)(const LaneDriverFlags&, bool probes);
struct Named {
  const char* name;
  Open open;
};
// In the order in which "auto" tries them; the last one always opens.
constexpr Named kDrivers[] = {
    {"green_ctx", on_nvidia}, {"hip_mask", on_amd}, {"cpu_mask", on_threads}};

using planners::mask::Busy;
using planners::mask::Grant;

struct MaskFlags {
  std::string gpu = "MI50", policy = "fair", busy;
  int units = 0, overlap_limit = 0, atom = 0;
  Output output;
};

// What was granted, in units.
struct Answer {
  hw::Topology topology;
  Busy busy;
  hw::UnitMask mask;
  int wanted = 0, granted = 0, overlapped = 0, atom = 1;
};

Answer answer_of(const MaskFlags& flags, const hw::Topology& topology, Busy busy) {
  const Grant grant = planners::mask::allocate_atoms(
      topology, flags.atom, busy,
      {flags.units, *planners::mask::policy_named(flags.policy), flags.overlap_limit});
  return {topology,      std::move(busy),  grant.mask, flags.units,
          grant.granted, grant.overlapped, flags.atom};
}

std::string json_of(const MaskFlags& flags, const Answer& answer) {
  std::vector<std::size_t> units;
  for (std::size_t unit = 0; unit < hw::kMaxUnits; ++unit)
    if (answer.mask[unit]) units.push_back(unit);
  return write_form([&](Form& f) {
    f.document("Mask");
    tell(f.line("  "), "gpu", answer.topology.name, "policy", flags.policy, "atom", answer.atom);
    tell(f.line("  "), "requested", answer.wanted, "granted", answer.granted, "overlapped",
         answer.overlapped, "effective",
         planners::mask::effective_units(answer.topology, answer.mask));
    tell(f.line("  "), "units_per_cluster", hw::units_per_cluster(answer.topology, answer.mask),
         "clusters", answer.topology.assumed ? "assumed" : "known");
    f.line("  ").told("units_per_die", hw::units_per_die(answer.topology, answer.mask));
    f.line("  ").told("mask_hex", hw::mask_hex(answer.mask));
    f.line("  ").told("unit_indices", units);
  });
}

// What the reader must know to understand the numbers; empty or a sentence after "; ".
std::string remark(const Answer& answer) {
  const hw::Topology& topology = answer.topology;
  if (answer.wanted < topology.dies)
    return fmt::format("; every {} needs one, because one without any runs unmasked",
                       topology.cluster_name);
  if (topology.assumed)
    return fmt::format("; which {}s lie in which {} is assumed", topology.unit_name,
                       topology.cluster_name);
  return "";
}

std::string summary(const Answer& answer) {
  const std::string atoms = answer.atom == 1 ? "" : fmt::format(" in atoms of {}", answer.atom);
  return fmt::format("{}: {} {}s{} for the {} asked for, {} of them shared, {} effective{}",
                     answer.topology.name, answer.granted, answer.topology.unit_name, atoms,
                     answer.wanted, answer.overlapped,
                     planners::mask::effective_units(answer.topology, answer.mask), remark(answer));
}

std::string svg_of(const MaskFlags& flags, const Answer& answer) {
  const hw::Topology& topology = answer.topology;
  const std::string title = fmt::format("{} of the {} {}s of {}", answer.granted, topology.units(),
                                        topology.unit_name, topology.name);
  const std::string below = fmt::format(
      "{} asked for, policy {}{}; {} run other kernels already ({} allowed); {} effective{}",
      answer.wanted, flags.policy,
      answer.atom == 1 ? "" : fmt::format(", atoms of {}", answer.atom), answer.overlapped,
      flags.overlap_limit, planners::mask::effective_units(topology, answer.mask), remark(answer));
  return forms::mask_svg({title, below, answer.atom, answer.mask, answer.busy}, topology);
}

std::string text_of(const Answer& answer) {
  const hw::Topology& topology = answer.topology;
  std::string text = summary(answer) + "\n\n";
  const auto shares = hw::units_per_cluster(topology, answer.mask);
  std::size_t unit = 0;
  for (std::size_t cluster = 0; cluster < topology.units_in.size(); ++cluster) {
    text += fmt::format("{} {:<2} {:>3}  ", topology.cluster_name, cluster, shares[cluster]);
    for (int i = 0; i < topology.units_in[cluster]; ++i, ++unit) {
      const bool busy = answer.busy[unit] > 0;
      text += answer.mask[unit] ? (busy ? "▓" : "█") : (busy ? "▒" : "·");
    }
    text += "\n";
  }
  text += "\n█ granted  ▓ granted and shared  ▒ busy  · idle\n";
  return text + fmt::format("mask {}\n", hw::mask_hex(answer.mask));
}

Result<Exit> run_mask(Context& context, MaskFlags flags) {
  const hw::Topology topology = TRY(decide::load_topology(flags.gpu));
  if (flags.units > topology.units())
    return bad_input("--units", fmt::format("{} has {} {}s", topology.name, topology.units(),
                                            topology.unit_name));
  TRY(decide::check_mask_policy(topology, flags.policy, "--policy"));
  flags.atom = TRY(decide::load_atom(topology, flags.atom));
  Busy busy = TRY(decide::load_busy(context.files, flags.busy, topology));
  const Answer answer = answer_of(flags, topology, std::move(busy));
  const std::string content = flags.output.json()  ? json_of(flags, answer)
                              : flags.output.svg() ? svg_of(flags, answer)
                                                   : text_of(answer);
  TRY(deliver(context, flags.output, content));
  if (answer.granted > 0) return Exit::done;
  complain(context, fmt::format("nothing granted: every unit that the policy may give{} runs a "
                                "kernel; wait for one to end, or allow sharing with "
                                "--overlap-limit",
                                topology.dies > 1 ? " on some die" : ""));
  return Exit::no;
}

using exec::LaneProbe;
using exec::MedianTime;

struct ProbeFlags {
  LaneDriverFlags driver;
  int rounds = 30, lanes = 16;
  Output output;
};

hw::UnitMask range(int first, int last) {
  hw::UnitMask mask;
  for (int i = first; i < last; ++i) mask.set(static_cast<std::size_t>(i));
  return mask;
}

// Different masks of grains, few where there are no more.
std::vector<hw::UnitMask> different_masks(int grains, int wanted) {
  std::vector<hw::UnitMask> masks;
  Rng rng(1);
  const int most = grains < 20 ? std::min(wanted, (1 << grains) - 1) : wanted;
  while (static_cast<int>(masks.size()) < most) {
    hw::UnitMask mask;
    for (int i = 0; i < grains; ++i) mask[static_cast<std::size_t>(i)] = rng.below(2) == 0;
    if (mask.any() && std::ranges::find(masks, mask) == masks.end()) masks.push_back(mask);
  }
  return masks;
}

exec::LaneProbeSettings settings_of(const ProbeFlags& flags, const device::LaneDriverInfo& info) {
  // On several dies masks grow on all of them at once.
  const auto units = [&](const hw::UnitMask& grains) {
    return hw::units_of_grains(info.topology, info.atom, grains);
  };
  exec::LaneProbeSettings settings;
  settings.rounds = flags.rounds;
  const int count = hw::grains(info.topology, info.atom);
  for (const hw::UnitMask& mask : different_masks(count, flags.lanes))
    settings.masks.push_back(units(mask));
  settings.all = hw::all_units(info.topology);
  // One unit alone is both parts: nothing is left for the other.
  settings.half = units(range(0, std::max(1, count / 2)));
  settings.rest = count > 1 ? units(range(count / 2, count)) : hw::UnitMask{};
  using planners::mask::Policy;
  for (const auto policy : {Policy::packed, Policy::distributed, Policy::conserved}) {
    // Without clusters that are known to be there, or can be left out, policies do not differ.
    const hw::Topology& gpu = info.topology;
    if (policy != Policy::packed && (gpu.clusters() == 1 || gpu.dies > 1 || gpu.assumed)) continue;
    exec::MaskFamily family{to_string(policy), {}};
    const planners::mask::Busy idle(static_cast<std::size_t>(gpu.units()));
    for (int n = 1; n <= count; ++n) {
      const planners::mask::Request request{n * gpu.dies * info.atom, policy, 0};
      family.masks.push_back(planners::mask::allocate_atoms(gpu, info.atom, idle, request).mask);
    }
    settings.families.push_back(std::move(family));
  }
  return settings;
}

void tell_time(Form& f, const char* name, const MedianTime& value) {
  f.told_object(name, [&](Form& time) {
    tell(time, "median_us", value.median_us, "most_us", value.most_us);
  });
}

std::string json_of(const ProbeFlags& flags, const LaneProbe& probe) {
  const hw::Topology& topology = probe.info.topology;
  const auto point = [&](Form& f, const exec::ScalingPoint& one) {
    tell(f, "masks", one.family, "units", one.units, "units_per_die",
         std::vector<int>(static_cast<std::size_t>(topology.dies), one.units / topology.dies), "us",
         one.us);
  };
  const auto disturbance = [](Form& f, const exec::Disturbance& found) {
    f.told("other", found.other);
    tell_time(f, "alone", found.alone);
    tell_time(f, "alone_on_half", found.alone_on_half);
    tell_time(f, "sharing_all", found.sharing_all);
    tell_time(f, "on_halves", found.on_halves);
  };
  return write_form([&](Form& f) {
    f.document("LaneProbe");
    tell(f, "driver", probe.info.name, "gpu", topology.name);
    tell(f.line("  "), "units", topology.units(), "clusters", topology.clusters(), "atom",
         probe.info.atom, "rounds", flags.rounds, "units_per_die",
         hw::units_per_die(topology, hw::all_units(topology)));
    tell_time(f.line("  "), "create_new", probe.create_new);
    tell_time(f.line("  "), "create_again", probe.create_again);
    tell_time(f.line("  "), "destroy", probe.destroy);
    tell_time(f.line("  "), "launch", probe.launch);
    tell_time(f.line("  "), "round_trip", probe.round_trip);
    f.line("  ").told("lanes", probe.lanes);
    f.line("  ").told("bytes_per_lane", probe.bytes_per_lane);
    f.line("  ").told("queued_us", probe.queued_us);
    f.line("  ").told("event_switch_us", probe.event_switch_us);
    f.line("  ").told("host_switch_us", probe.host_switch_us);
    f.line("  ").told("graph_us", probe.graph_us);
    f.line("  ").told("graph_switch_us", probe.graph_switch_us);
    tell(f.line("  "), "groups", probe.groups, "groups_outside", probe.groups_outside);
    f.line("  ").rows("scaling", probe.scaling, point, {.indent = "    "});
    f.line("  ").rows("disturbances", probe.disturbances, disturbance, {.indent = "    "});
  });
}

std::string us(double value) { return fmt::format("{:.2f}", value); }

Table costs(const LaneProbe& probe) {
  Table table = headed("WHAT|us|MOST");
  const auto row = [&](std::string what, const MedianTime& time) {
    table.rows.push_back({std::move(what), us(time.median_us), us(time.most_us)});
  };
  const auto each = [&](std::string what, std::optional<double> time) {
    if (time) table.rows.push_back({std::move(what), us(*time), "-"});
  };
  row("create a lane of a new mask", probe.create_new);
  row("create a lane of a mask seen before", probe.create_again);
  row("destroy a lane", probe.destroy);
  row("launch a kernel (the call)", probe.launch);
  row("launch an empty kernel and wait for it", probe.round_trip);
  each("an empty kernel of many on one lane", probe.queued_us);
  each("the same, alternating between two lanes by events", probe.event_switch_us);
  each("the same, alternating, each waited for", probe.host_switch_us);
  each("an empty kernel of a graph on one lane", probe.graph_us);
  each("the same, alternating between two lanes", probe.graph_switch_us);
  return table;
}

// A bar per number of units: the speed that each of them gives, as a share of what the fewest give.
std::string scaling_text(const LaneProbe& probe) {
  std::string text, family;
  for (const exec::ScalingPoint& point : probe.scaling) {
    if (point.family != family) text += fmt::format("\n{}\n", point.family);
    family = point.family;
    const exec::ScalingPoint& least = probe.scaling.front();
    const double share = point.us > 0 ? least.units * least.us / (point.units * point.us) : 0;
    std::string bar;
    for (int i = 0; i < std::clamp(static_cast<int>(share * 40 + 0.5), 0, 60); ++i) bar += "█";
    text +=
        fmt::format("{:>4} {:>10.1f} us {:>4.0f} %  {}\n", point.units, point.us, share * 100, bar);
  }
  return text;
}

std::string text_of(const ProbeFlags& flags, const LaneProbe& probe) {
  const hw::Topology& topology = probe.info.topology;
  std::string text =
      fmt::format("{}: {}, {} in {}, masked in atoms of {}\n", probe.info.name, topology.name,
                  count_text(topology.units(), topology.unit_name),
                  count_text(topology.clusters(), topology.cluster_name), probe.info.atom);
  if (topology.dies > 1)
    text += fmt::format("{} on each of {} dies; every mask below has equal shares of all of them\n",
                        count_text(topology.units_in.front(), topology.unit_name), topology.dies);
  text += "\n";
  text += to_string(costs(probe));
  text += fmt::format("\nMedians of {}. {} lanes at the same time", flags.rounds, probe.lanes);
  if (probe.bytes_per_lane)
    text += fmt::format(", {:.1f} KiB of device memory each", *probe.bytes_per_lane / 1024);
  text += fmt::format(".\n{} of {} work-groups ran outside their mask.\n", probe.groups_outside,
                      probe.groups);
  text += fmt::format(
      "\nA computing kernel by {0}s: its time, and its speed per {0} against that on the fewest:\n",
      topology.unit_name);
  text += scaling_text(probe);
  if (probe.disturbances.empty()) return text;
  Table table = headed("OTHER LANE|ALONE|ALONE ON HALF|BOTH ON ALL|A HALF EACH");
  for (const exec::Disturbance& found : probe.disturbances)
    table.rows.push_back({found.other, us(found.alone.median_us), us(found.alone_on_half.median_us),
                          us(found.sharing_all.median_us), us(found.on_halves.median_us)});
  return text + "\nA short kernel, us, while another lane is full of long ones:\n\n" +
         to_string(table);
}

// What the drivers' own flags cannot have together; --topology is for threads.
Result<void> settle(LaneDriverFlags& flags) {
  if (!flags.gpu.empty()) {
    if (flags.driver == "auto") flags.driver = "cpu_mask";
    if (flags.driver != "cpu_mask")
      return bad_input("--topology", "only --lane-driver cpu_mask can imitate another GPU");
  }
  if (flags.atom > 0 && flags.driver != "green_ctx" && flags.driver != "auto")
    return bad_input("--atom", "only --lane-driver green_ctx has a choice");
  return {};
}

Result<Exit> run_probe(Context& context, ProbeFlags flags) {
  TRY(settle(flags.driver));
  const OpenLaneDriver opened = TRY(open_lane_driver(flags.driver));
  const auto info = TRY(opened.driver->info());
  Progress progress(context);
  exec::LaneProbeSettings settings = settings_of(flags, info);
  settings.progress = [&progress](const std::string& what) { progress.show(what + " ..."); };
  const LaneProbe probe =
      TRY(exec::probe_lanes(*opened.driver, *opened.kernels, context.clock, settings));
  const std::string content = flags.output.json() ? json_of(flags, probe) : text_of(flags, probe);
  TRY(deliver(context, flags.output, content));
  if (probe.groups_outside == 0) return Exit::done;
  complain(context, "work-groups ran outside their masks: this device's lanes do not separate");
  return Exit::no;
}

using carry::LaneOutcome;
using profile::ModelKernels;

struct LaneRunFlags {
  decide::KernelNames kernels;
  LaneDriverFlags driver;
  std::string policies = "mps,static,eclip", configs;
  int requests = 20, repeats = 3, switches = 14;
  double scale = 1, tolerance = 0.05;
  Output output;
};

Result<std::vector<LaneOutcome>> run_all(Context& context, const LaneRunFlags& flags,
                                         const decide::PolicyInputs& inputs,
                                         OpenLaneDriver& device) {
  const auto kernels = TRY(carry::stand_ins(*device.driver, *device.kernels, context.clock,
                                            inputs.workers, {flags.tolerance, flags.scale}));
  const std::vector<std::string> policies = split(flags.policies, ',');
  std::vector<std::vector<exec::LaneWorker>> workers;
  for (const std::string& policy : policies) {
    const auto masks = TRY(decide::kernel_policy(policy, inputs));
    workers.push_back(TRY(carry::on_lanes(policy, masks, inputs.topology.units(), kernels)));
  }
  Progress progress(context);
  std::vector<std::vector<exec::LaneWorkersRun>> runs(policies.size());
  for (int repeat = 0; repeat < flags.repeats; ++repeat) {
    for (std::size_t p = 0; p < policies.size(); ++p) {  // in turns, so that all see the same noise
      progress.show(fmt::format("{} ({} of {}) ...", policies[p], repeat + 1, flags.repeats));
      runs[p].push_back(
          TRY(exec::run_workers(workers[p], *device.driver, context.clock, flags.requests)));
    }
  }
  std::vector<LaneOutcome> outcomes;
  for (std::size_t p = 0; p < policies.size(); ++p)
    outcomes.push_back(carry::outcome_of(policies[p], runs[p]));
  return outcomes;
}

std::string text_of(const std::vector<LaneOutcome>& outcomes, const decide::PolicyInputs& inputs,
                    const LaneRunFlags& flags, const device::LaneDriverInfo& info) {
  Table table = headed("POLICY|RPS|x FIRST|WORST p95 ms|LANES|SWITCHES|WAITED %");
  for (const ModelKernels& worker : inputs.workers) table.header.push_back(worker.model);
  for (const LaneOutcome& one : outcomes) {
    table.add("{}|{:.1f}|{:.2f}|{:.2f}|{}|{:.1f}|{:.0f}", one.policy, one.total(),
              one.total() / outcomes.front().total(), *std::ranges::max_element(one.p95_ms),
              one.lanes, one.switches, 100 * one.waits);
    for (const double rps : one.rps) table.rows.back().push_back(fmt::format("{:.1f}", rps));
  }
  return fmt::format(
             "{} on {} ({}): {} each, medians of {}\nKernels are stand-ins "
             "that take the profiled times, x {:g}; columns of workers: requests per second\n\n",
             count_text(std::ssize(inputs.workers), "worker"), info.topology.name, info.name,
             count_text(flags.requests, "request"), count_text(flags.repeats, "run"), flags.scale) +
         to_string(table);
}

std::string json_of(const std::vector<LaneOutcome>& outcomes, const decide::PolicyInputs& inputs,
                    const LaneRunFlags& flags, const device::LaneDriverInfo& info) {
  const auto outcome = [&](Form& f, const LaneOutcome& one) {
    const auto worker = [&](Form& row, std::size_t w) {
      tell(row, "name", inputs.workers[w].model, "rps", one.rps[w], "p95_ms", one.p95_ms[w]);
    };
    tell(f, "policy", one.policy, "rps", one.total(), "lanes", one.lanes, "switches", one.switches,
         "waited", one.waits);
    f.line("     ").rows("workers", one.rps.size(), worker, {});
  };
  return write_form([&](Form& f) {
    f.document("KernelRun");
    tell(f, "driver", info.name, "gpu", info.topology.name);
    tell(f.line("  "), "requests", flags.requests, "repeats", flags.repeats, "scale", flags.scale);
    f.line("  ").rows("policies", outcomes, outcome, {.indent = "    "});
  });
}

// Live policies choose a mask when a kernel starts; lanes are made before.
Result<void> check_lane_policies(const std::string& policies) {
  static const std::vector<std::string> kFixed{"mps", "static", "model", "eclip"};
  for (const std::string& policy : split(policies, ','))
    if (std::ranges::find(kFixed, policy) == kFixed.end() && !decide::switches_of(policy))
      return bad_input("--policies", fmt::format("'{}': mps, static, model, eclip and eclip:N have "
                                                 "masks that can be made beforehand",
                                                 policy));
  return {};
}

Result<Exit> run_kernels_run(Context& context, LaneRunFlags flags) {
  TRY(check_lane_policies(flags.policies));
  const hw::Topology topology = TRY(decide::load_topology(flags.kernels.gpu));
  const int atom = TRY(decide::load_atom(topology, flags.kernels.atom));
  const auto configs = TRY(decide::load_configs(flags.configs, topology, atom));
  const auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  flags.driver.gpu = flags.kernels.gpu;
  flags.driver.atom = atom;
  OpenLaneDriver device = TRY(open_lane_driver(flags.driver));
  const auto info = TRY(device.driver->info());
  if (info.topology.units() != topology.units())
    return bad_input("--topology",
                     fmt::format("{} has {} units, the device {}; cpu_mask imitates any",
                                 topology.name, topology.units(), info.topology.units()));
  const decide::PolicyInputs inputs{
      topology,        models, atom,    hw::mask_sizes(topology, atom),
      flags.tolerance, {},     configs, flags.switches};
  const auto outcomes = TRY(run_all(context, flags, inputs, device));
  return finish(context, flags.output,
                flags.output.json() ? json_of(outcomes, inputs, flags, info)
                                    : text_of(outcomes, inputs, flags, info));
}

using plan::GraphTask;
using plan::GraphTaskKind;

GraphWork strassen_work(const StrassenFlags& flags, int units, bool real) {
  const int size = flags.size;
  const auto matrix = [&](std::uint64_t seed) {
    return real ? examples::random_matrix(size, size, seed) : examples::Matrix(size, size);
  };
  GraphWork work;
  work.strassen = std::make_shared<StrassenRun>(
      StrassenRun{matrix(flags.seed), matrix(flags.seed + 1), {size, size}});
  auto example = examples::strassen_winograd(work.strassen->a, work.strassen->b, work.strassen->c,
                                             {flags.levels, units});
  work.problem.name =
      fmt::format("Strassen-Winograd {0} x {0}, {1}", size, count_text(flags.levels, "level"));
  for (std::size_t i = 0; i < example.costs.size(); ++i) {
    const exec::GraphTask& its = example.graph.tasks()[i];
    const examples::Cost& cost = example.costs[i];
    GraphTask& task = work.problem.tasks.emplace_back();
    task.name = its.name;
    task.after = its.after;
    if (const auto* kernel = std::get_if<exec::LaneWork>(&its.work)) {
      task.units = units;
      task.groups = static_cast<int>(kernel->groups);
      task.work_us = std::max(cost.flops / (1e3 * kUnitGflops), cost.bytes / (1e3 * kUnitGbps));
    } else {
      task.kind = GraphTaskKind::copy;
      task.bytes = std::max(1.0, cost.bytes);
    }
  }
  work.graph = std::move(example.graph);
  return work;
}

// Runs the graph on the driver, or in virtual time without one.
Result<plan::GraphRun> run_graph(Context& context, const GraphWork& work,
                                 const GraphRunSettings& settings) {
  const exec::GraphSettings how{
      settings.threads, decide::graph_masks(work.problem, settings.topology), settings.ahead};
  if (settings.driver != nullptr) {
    if (work.kernels) TRY(work.kernels->arm());
    const auto run = TRY(exec::run_graph(work.graph, *settings.driver, context.clock, how));
    return carry::told(run, TRY(settings.driver->info()).name, settings.topology, settings.threads);
  }
  TRY(decide::check_virtual_time(work.problem, settings.copy_gbps));
  sim::GraphMachine machine(settings.topology, work.problem, settings.copy_gbps);
  const exec::VirtualTime time{
      .units = settings.topology.units(),
      .begin = [&](int task, const hw::UnitMask& mask) { machine.begin(task, mask); },
      .next =
          [&] {
            std::vector<int> tasks = machine.next();
            return exec::Ends{machine.now_ns(), std::move(tasks)};
          }};
  const auto run = TRY(exec::simulate_graph(work.graph, time, how));
  return carry::told(run, "sim", settings.topology, settings.threads);
}

// One task after another: on the calling thread, or in virtual time.
Result<plan::GraphRun> run_sequentially(Context& context, const GraphWork& work,
                                        const GraphRunSettings& settings) {
  if (settings.driver != nullptr) {
    if (work.kernels) TRY(work.kernels->arm());
    device::LaneDriver* const gpu = settings.driver->memory() ? settings.driver : nullptr;
    const auto run = TRY(exec::run_sequentially(work.graph, context.clock, gpu));
    return carry::told(run, "sequential", settings.topology, settings.threads);
  }
  TRY(decide::check_virtual_time(work.problem, settings.copy_gbps));
  const auto order = TRY(work.graph.order());
  plan::GraphRun out = carry::told({}, "sequential", settings.topology, settings.threads);
  out.tasks = decide::one_after_another(work.problem, order, settings.copy_gbps);
  return out;
}

constexpr double kMostError = 1e-4;  // of the example's product, relative
constexpr int kMaxExampleSize = 4096;
constexpr int kMaxThreads = 256;
constexpr int kSimulatedThreads = 2;

int cores() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

void add_example_flags(CLI::App& command, StrassenFlags& flags) {
  takes(command, "--size", within(flags.size, 1, kMaxExampleSize), "--levels",
        within(flags.levels, 0, examples::kMaxLevels));
}

struct ExampleFlags {
  std::string name;
  StrassenFlags strassen;
  int units = 1;
  Output output;
};

Result<Exit> run_example(Context& context, const ExampleFlags& flags) {
  const GraphWork work = strassen_work(flags.strassen, flags.units, false);
  return finish(context, flags.output, forms::graph_json(work.problem));
}

Command add_graph_example(CLI::App& graph) {
  auto [command, flags] =
      adding<ExampleFlags>(graph, "example", "Write an example as a task graph file");
  one_of(command->add_option("NAME", flags->name,
                             "strassen: matrix multiplication, Winograd's variant of Strassen's"),
         {"strassen"})
      ->required();
  add_example_flags(*command, flags->strassen);
  within(*command, "--units", flags->units, 1, hw::kMaxUnits);
  return runs(command, flags, run_example, {"json"},
              "partita graph example strassen --size 2048 --units 8 -o strassen.json");
}

struct RunFlags {
  std::string file, example, policy, waits = "device";
  LaneDriverFlags lanes{.driver = "cpu_mask"};
  std::vector<std::string> fills, saves;
  StrassenFlags strassen;
  int units = 1, threads = 0, overlap_limit = 0;
  bool limit_given = false, sequential = false, compare = false;
  double copy_gbps = 10;
  Output output;
};

// The kernels of a file that has any with code.
Result<void> load_kernels(Context& context, const std::string& file, GraphWork& work,
                          device::LaneMemory* gpu) {
  const auto real = [](const plan::GraphTask& task) { return task.code.has_value(); };
  if (!gpu && std::ranges::none_of(work.problem.tasks, real)) return {};
  work.kernels = TRY(carry::GraphKernels::open(context.files, file, work.problem, gpu));
  return {};
}

// --fill and --save, BUFFER=FILE: where buffers come from and go to, by paths from the working
// folder.
Result<void> set_files(const RunFlags& flags, plan::GraphProblem& problem) {
  const auto set = [&](const std::string& flag, const std::string& word,
                       auto&& put) -> Result<void> {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto buffer = std::ranges::find(problem.buffers, name, &plan::GraphBuffer::name);
    if (equals == word.npos || equals + 1 == word.size() || buffer == problem.buffers.end())
      return bad_input(flag,
                       fmt::format("'{}': expects BUFFER=FILE, with a buffer of the graph", word));
    put(*buffer, std::filesystem::absolute(word.substr(equals + 1)).string());
    return {};
  };
  for (const std::string& word : flags.fills)
    TRY(set("--fill", word,
            [](plan::GraphBuffer& to, const std::string& path) { to.fill = "@" + path; }));
  for (const std::string& word : flags.saves)
    TRY(set("--save", word,
            [](plan::GraphBuffer& to, const std::string& path) { to.save = path; }));
  return {};
}

Result<GraphWork> load_work(Context& context, const RunFlags& flags, const hw::Topology& topology,
                            device::LaneDriver* driver) {
  if (flags.file.empty() == flags.example.empty())
    return bad_input("graph run", "give either FILE or --example");
  const bool real = driver != nullptr;
  device::LaneMemory* const gpu = real ? driver->memory() : nullptr;
  GraphWork work;
  if (!flags.example.empty()) {
    if (gpu) return bad_input("--example", "runs on threads, not on a GPU");
    if (flags.units > topology.units())
      return bad_input("--units", fmt::format("{} has {}", topology.name, topology.units()));
    work = strassen_work(flags.strassen, flags.units, real);
    TRY(set_files(flags, work.problem));
  } else {
    work.problem = TRY(decide::load_graph(context.files, flags.file));
    TRY(set_files(flags, work.problem));
    TRY(decide::check_units(flags.file, work.problem, topology));
    TRY(real ? decide::check_copies(flags.file, work.problem)
             : decide::check_work(flags.file, work.problem));
    if (real) TRY(load_kernels(context, flags.file, work, gpu));
    const carry::CodeOf code = [&work](int task, exec::LaneWork& its) {
      work.kernels->put(task, its);
    };
    work.graph = carry::graph_of(work.problem, topology, real ? &context.clock : nullptr,
                                 work.kernels ? code : nullptr);
  }
  // What flags say holds for every task.
  if (!flags.policy.empty()) work.problem.policy = flags.policy;
  if (flags.limit_given) work.problem.overlap_limit = flags.overlap_limit;
  for (plan::GraphTask& task : work.problem.tasks) {
    if (!flags.policy.empty()) task.policy.clear();
    if (flags.limit_given) task.overlap_limit.reset();
    const std::string& policy = task.policy.empty() ? work.problem.policy : task.policy;
    const std::string where = flags.policy.empty() ? flags.file : "--policy";
    const auto fits = decide::check_mask_policy(topology, policy, where);
    if (!fits && task.kind == plan::GraphTaskKind::lane) return failed(fits.error());
  }
  return work;
}

std::string content_of(const RunFlags& flags, const forms::GraphResult& result,
                       const Context& context) {
  if (flags.output.json()) return forms::graph_run_json(result);
  if (flags.output.svg()) return forms::graph_run_svg(result);
  const bool colour = context.colour && flags.output.file.empty();
  return forms::graph_run_text(result, {colour, context.width});
}

Result<Exit> run_graph(Context& context, RunFlags& flags) {
  const bool sim = flags.lanes.driver == "sim";
  OpenLaneDriver lanes;
  hw::Topology topology;
  if (sim) {
    topology = TRY(decide::load_topology(flags.lanes.gpu.empty() ? "MI50" : flags.lanes.gpu));
  } else {
    TRY(settle(flags.lanes));
    lanes = TRY(open_lane_driver(flags.lanes, false));
    const auto info = TRY(lanes.driver->info());
    topology = info.topology;
    topology.atoms = {info.atom};
  }
  auto work = TRY(load_work(context, flags, topology, lanes.driver.get()));
  const int standard = sim ? kSimulatedThreads : cores();
  const int threads = flags.threads > 0 ? flags.threads : standard;
  const GraphRunSettings settings{topology, lanes.driver.get(), threads, flags.waits == "device",
                                  flags.copy_gbps};
  // Compared are runs on memory that another one has touched before.
  const bool compare = flags.compare && !flags.sequential;
  if (compare && !sim) {
    TRY(run_sequentially(context, work, settings));
  }
  const auto outcome = flags.sequential ? run_sequentially(context, work, settings)
                                        : run_graph(context, work, settings);
  if (!outcome && outcome.error().code == ErrorCode::lost) {
    refusal(context, to_string(outcome.error()));
    return Exit::no;
  }
  const auto ran = TRY(outcome);
  if (work.kernels && !sim) {
    note(context, work.kernels->printed());
    if (const std::string fault = work.kernels->fault(); !fault.empty()) {
      refusal(context, fault);
      return Exit::no;
    }
    TRY(work.kernels->save());
  }
  forms::GraphResult result{work.problem, ran};
  if (const StrassenRun* its = work.strassen.get(); its != nullptr && !sim)
    result.relative_error = examples::relative_error(its->a, its->b, its->c);
  if (compare) result.sequential = TRY(run_sequentially(context, work, settings));
  const std::string content = content_of(flags, result, context);
  TRY(deliver(context, flags.output, content));
  if (result.relative_error.value_or(0) <= kMostError) return Exit::done;
  complain(context, fmt::format("the relative error is above {:g}", kMostError));
  return Exit::no;
}

Command add_graph_run(CLI::App& graph) {
  auto [command, flags] = adding<RunFlags>(
      graph, "run", "Run a task graph on lanes of threads, or in virtual time, and draw it");
  file_argument(*command, "FILE", flags->file, "The task graph (YAML or JSON)");
  one_of(flag(*command, "--example", flags->example), {"strassen"});
  add_example_flags(*command, flags->strassen);
  takes(*command, "--units", within(flags->units, 1, hw::kMaxUnits), "--seed",
        seeded(flags->strassen.seed));
  add_lane_driver_flags(*command, flags->lanes, {"sim"});
  flag(*command, "--topology", flags->lanes.gpu);
  add_atom_flag(*command, flags->lanes.atom);
  takes(*command, "--policy",
        word_from(flags->policy, decide::mask_policy_words(),
                  "How kernels get their units, overriding the graph; see partita help mask"),
        "--overlap-limit", limited(flags->overlap_limit, 0, hw::kMaxUnits), "--threads",
        limited(flags->threads, 1, kMaxThreads), "--waits",
        one_of(flags->waits, {"device", "host"}), "--copy-gbps",
        within(flags->copy_gbps, 1e-3, 1e6), "--sequential", flags->sequential, "--compare",
        flags->compare, "--fill", flags->fills, "--save", flags->saves);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita graph run --example strassen --size 1024 --compare\n"
      "partita graph run graph.yaml --lane-driver sim --topology MI50 --policy conserved --format "
      "svg -o graph.svg");
  return {command, [flags, command](Context& context) {
            flags->limit_given = command->count("--overlap-limit") > 0;
            return run_graph(context, *flags);
          }};
}

struct CheckFlags {
  std::string file, gpu;
};

Result<Exit> run_check(Context& context, const CheckFlags& flags) {
  const auto problem = TRY(decide::load_graph(context.files, flags.file));
  TRY(carry::GraphKernels::open(context.files, flags.file, problem));
  if (!flags.gpu.empty()) {
    const hw::Topology topology = TRY(decide::load_topology(flags.gpu));
    TRY(decide::check_units(flags.file, problem, topology));
  }
  std::size_t edges = 0;
  for (const plan::GraphTask& task : problem.tasks) edges += task.after.size();
  return finish(context, {},
                fmt::format("ok: {} tasks, {} dependencies\n", problem.tasks.size(), edges));
}

Command add_graph_check(CLI::App& graph) {
  auto [command, flags] = adding<CheckFlags>(graph, "check", "Check a task graph");
  file_argument(*command, "FILE", flags->file, "The task graph (YAML or JSON)")->required();
  flag(*command, "--topology", flags->gpu);
  return runs(command, flags, run_check, "partita graph check graph.yaml --topology MI50");
}

}  // namespace

void add_lane_driver_flags(CLI::App& command, LaneDriverFlags& flags,
                           const std::vector<std::string>& more) {
  std::vector<std::string> words{"auto"};
  for (const Named& driver : kDrivers) words.emplace_back(driver.name);
  words.insert(words.end(), more.begin(), more.end());
  takes(command, "--lane-driver", one_of(flags.driver, words), "--device", preset(flags.device),
        "--library", flags.vendor_library);
}

// Opens the driver that the flags name; with "auto" the first of green_ctx and hip_mask that opens,
// else cpu_mask.
Result<OpenLaneDriver> open_lane_driver(const LaneDriverFlags& flags, bool probes) {
  const bool any = flags.driver == "auto";
  for (const Named& driver : kDrivers) {
    if (!any && flags.driver != driver.name) continue;
    auto opened = driver.open(flags, probes);
    if (opened || !any || &driver == std::end(kDrivers) - 1) return opened;
  }
  return bad_input("--lane-driver", "unknown");
}

Command add_mask(CLI::App& app) {
  auto [command, flags] = adding<MaskFlags>(
      app, "mask", "Choose the SMs or CUs of one kernel on a GPU where others run");
  takes(*command, "--topology", preset(flags->gpu), "--units",
        needed(limited(flags->units, 1, hw::kMaxUnits)), "--policy",
        one_of(flags->policy, decide::mask_policy_words(),
               "packed: cluster after cluster; distributed: all clusters equally; conserved: the "
               "fewest clusters, equally; fair: as many clusters as give the most effective units, "
               "refuses no idle one; balanced: never more units than help; krisp: KRISP's "
               "algorithm as printed. On a GPU of several dies all of them share equally"),
        "--busy", flags->busy, "--overlap-limit", within(flags->overlap_limit, 0, hw::kMaxUnits));
  add_atom_flag(*command, flags->atom);
  return runs(command, flags, run_mask, {"text", "json", "svg"},
              "partita mask --topology MI50 --units 19 --policy conserved\n"
              "partita mask --topology H200 --units 40 --atom 2 --format json");
}

Command add_probe(CLI::App& app) {
  CLI::App* probe = app.add_subcommand("probe", "Measure what the devices of this machine can do");
  probe->require_subcommand(1);
  auto [command, flags] = adding<ProbeFlags>(
      *probe, "lanes",
      "Measure the cost of lanes, whether work stays on its mask, scaling and interference");
  add_lane_driver_flags(*command, flags->driver);
  flag(*command, "--topology", flags->driver.gpu);
  add_atom_flag(*command, flags->driver.atom);
  takes(*command, "--rounds", within(flags->rounds, 1, 10'000), "--lanes",
        within(flags->lanes, 1, 1'000));
  probe->footer("partita probe lanes");
  return runs(command, flags, run_probe, {"text", "json"},
              "partita probe lanes\n"
              "partita probe lanes --lane-driver cpu_mask --topology 2x2 --rounds 5 --format json");
}

Command add_kernels_run(CLI::App& kernels) {
  auto [command, flags] = adding<LaneRunFlags>(
      kernels, "run",
      "Run co-located workers on real lanes, stand-ins for their kernels; compare policies");
  add_kernel_flags(*command, flags->kernels);
  add_lane_driver_flags(*command, flags->driver);
  takes(
      *command, "--policies",
      preset(
          flags->policies,
          "The policies, separated by commas: mps, static, model, eclip, eclip:N; RPS are compared "
          "with the first"),
      "--requests", within(flags->requests, 1, 1'000'000), "--repeats",
      within(flags->repeats, 1, 1000));
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  takes(*command, "--scale", within(flags->scale, 1e-3, 1e6), "--tolerance",
        within(flags->tolerance, 0, 10));
  return runs(command, flags, run_kernels_run, {"text", "json"},
              "partita kernels run --workers vgg,resnet --kernel-profiles kernels/ --topology 4x15 "
              "--lane-driver cpu_mask");
}

Command add_graph(CLI::App& app) {
  CLI::App* graph =
      app.add_subcommand("graph", "Run graphs of CPU tasks, kernels on lanes of units, and copies");
  const std::vector<Command> commands = {add_graph_run(*graph), add_graph_check(*graph),
                                         add_graph_example(*graph)};
  graph->footer("partita graph run --example strassen --size 1024 --compare");
  return group_of(graph, commands);
}

}  // namespace partita::cli
