#include <fmt/format.h>


#include "base/append.h"
#include "base/form.h"
#include "flags.h"
#include "forms/kernel_picture.h"
#include "kernels/kernel_inputs.h"
#include "lab_commands.h"
#include "planners/mask/lanes.h"

namespace partita::cli {
namespace {

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
    f.line("  ").told("gpu", answer.topology.name);
    f.told("policy", flags.policy);
    f.told("atom", answer.atom);
    f.line("  ").told("requested", answer.wanted);
    f.told("granted", answer.granted);
    f.told("overlapped", answer.overlapped);
    f.told("effective", planners::mask::effective_units(answer.topology, answer.mask));
    f.line("  ").told("units_per_cluster", hw::units_per_cluster(answer.topology, answer.mask));
    f.told("clusters", answer.topology.assumed ? "assumed" : "known");
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

}  // namespace

Command add_mask(CLI::App& app) {
  auto [command, flags] = adding<MaskFlags>(
      app, "mask", "Choose the SMs or CUs of one kernel on a GPU where others run");
  flag(*command, "--topology", flags->gpu)->default_str(flags->gpu);
  within(flag(*command, "--units", flags->units), 1, hw::kMaxUnits)->required();
  one_of(flag(*command, "--policy", flags->policy,
              "packed: cluster after cluster; distributed: all clusters equally; conserved: the "
              "fewest clusters, equally; fair: as many clusters as give the most effective units, "
              "refuses no idle one; balanced: never more units than help; krisp: KRISP's algorithm "
              "as printed. On a GPU of several dies all of them share equally"),
         decide::mask_policy_words())
      ->default_str(flags->policy);
  flag(*command, "--busy", flags->busy);
  within(flag(*command, "--overlap-limit", flags->overlap_limit), 0, hw::kMaxUnits)
      ->default_str("0");
  add_atom_flag(*command, flags->atom);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita mask --gpu MI50 --units 19 --policy conserved\n"
      "partita mask --gpu H200 --units 40 --atom 2 --format json");
  return {command, [flags](Context& context) { return run_mask(context, *flags); }};
}

}  // namespace partita::cli
