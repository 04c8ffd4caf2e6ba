#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/append.h"
#include "base/form.h"
#include "base/rng.h"
#include "base/table.h"
#include "base/terminal.h"
#include "lanes/lane_probe.h"
#include "flags.h"
#include "kernels/kernel_inputs.h"
#include "kernels/lane_drivers.h"
#include "lab_commands.h"
#include "planners/mask/lanes.h"
#include "progress.h"

namespace partita::cli {
namespace {

using exec::LaneProbe;
using exec::MedianTime;

struct ProbeFlags {
  LaneDriverFlags driver;
  int rounds = 30, lanes = 16;
  Output output;
};

// ----------------------------------------------------------------------------- what is measured

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

// --------------------------------------------------------------------------------------- output

void tell_time(Form& f, const char* name, const MedianTime& value) {
  f.told_object(name, [&](Form& time) {
    time.told("median_us", value.median_us);
    time.told("most_us", value.most_us);
  });
}

std::string json_of(const ProbeFlags& flags, const LaneProbe& probe) {
  const hw::Topology& topology = probe.info.topology;
  const auto point = [&](Form& f, const exec::ScalingPoint& one) {
    f.told("masks", one.family);
    f.told("units", one.units);
    f.told("units_per_die", std::vector<int>(static_cast<std::size_t>(topology.dies),
                                             one.units / topology.dies));
    f.told("us", one.us);
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
    f.told("driver", probe.info.name);
    f.told("gpu", topology.name);
    f.line("  ").told("units", topology.units());
    f.told("clusters", topology.clusters());
    f.told("atom", probe.info.atom);
    f.told("rounds", flags.rounds);
    f.told("units_per_die", hw::units_per_die(topology, hw::all_units(topology)));
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
    f.line("  ").told("groups", probe.groups);
    f.told("groups_outside", probe.groups_outside);
    f.line("  ").rows("scaling", probe.scaling, point, {.indent = "    "});
    f.line("  ").rows("disturbances", probe.disturbances, disturbance, {.indent = "    "});
  });
}

std::string us(double value) { return fmt::format("{:.2f}", value); }

Table costs(const LaneProbe& probe) {
  Table table{{"WHAT", "us", "MOST"}, {}};
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
  Table table{{"OTHER LANE", "ALONE", "ALONE ON HALF", "BOTH ON ALL", "A HALF EACH"}, {}};
  for (const exec::Disturbance& found : probe.disturbances)
    table.rows.push_back({found.other, us(found.alone.median_us), us(found.alone_on_half.median_us),
                          us(found.sharing_all.median_us), us(found.on_halves.median_us)});
  return text + "\nA short kernel, us, while another lane is full of long ones:\n\n" +
         to_string(table);
}

Result<Exit> run_probe(Context& context, ProbeFlags flags) {
  if (!flags.driver.gpu.empty()) {
    if (flags.driver.driver == "auto") flags.driver.driver = "cpu_mask";
    if (flags.driver.driver != "cpu_mask")
      return bad_input("--gpu", "only --driver cpu_mask can imitate another GPU");
  }
  if (flags.driver.atom > 0 && flags.driver.driver != "green_ctx" && flags.driver.driver != "auto")
    return bad_input("--atom", "only --driver green_ctx has a choice");
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

}  // namespace

Command add_probe(CLI::App& app) {
  CLI::App* probe = app.add_subcommand("probe", "Measure what the devices of this machine can do");
  probe->require_subcommand(1);
  CLI::App* command = probe->add_subcommand(
      "lanes",
      "Measure the cost of lanes, whether work stays on its mask, scaling and interference");
  auto flags = std::make_shared<ProbeFlags>();
  add_lane_driver_flags(*command, flags->driver);
  flag(*command, "--topology", flags->driver.gpu);
  add_atom_flag(*command, flags->driver.atom);
  within(flag(*command, "--rounds", flags->rounds), 1, 10'000)->default_str("30");
  within(flag(*command, "--lanes", flags->lanes), 1, 1'000)->default_str("16");
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita probe lanes\n"
      "partita probe lanes --driver cpu_mask --gpu 2x2 --rounds 5 --format json");
  probe->footer("partita probe lanes");
  return {command, [flags](Context& context) { return run_probe(context, *flags); }};
}

}  // namespace partita::cli
