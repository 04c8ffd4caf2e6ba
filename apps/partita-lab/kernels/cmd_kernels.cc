#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/form.h"
#include "base/median.h"
#include "base/table.h"
#include "decide/kernel_planning.h"
#include "decide/kernel_report.h"
#include "flags.h"
#include "forms/kernel_picture.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"
#include "lab_commands.h"
#include "planners/mask/right_size.h"

namespace partita::cli {
namespace {

using profile::ModelKernels;

// The inputs of every subcommand, read.
struct Loaded {
  hw::Topology topology;
  int atom = 1;
  std::vector<int> sizes;  // of masks
  std::vector<int> ticks;  // quarters
  std::vector<ModelKernels> models;
};

Result<Loaded> load(Context& context, const decide::KernelNames& flags) {
  hw::Topology topology = TRY(decide::load_topology(flags.gpu));
  const int atom = TRY(decide::load_atom(topology, flags.atom));
  auto models = TRY(decide::load_kernels(context.files, flags, topology));
  Loaded loaded{std::move(topology), atom, {}, {}, std::move(models)};
  loaded.sizes = hw::mask_sizes(loaded.topology, loaded.atom);
  loaded.ticks = *decide::load_configs("", loaded.topology, loaded.atom);
  return loaded;
}

// ------------------------------------------------------------------------------------- profile

struct KernelProfileFlags {
  decide::KernelNames kernels;
  double tolerance = 0.05;
  Output output;
};

std::string kernel_profile_text(const KernelProfileFlags& flags, const Loaded& in, int width) {
  Table table{{"MODEL", "KERNELS"}, {}};
  for (const int units : in.ticks) table.header.push_back(fmt::format("us on {}", units));
  table.header.insert(table.header.end(), {"LEAST, MEDIAN", "KNEE"});
  std::string strips;
  for (const ModelKernels& model : in.models) {
    const std::vector<int> least = planners::mask::least_units(model, flags.tolerance, in.sizes);
    std::vector<std::string> row{model.model, fmt::format("{}", model.kernels.size())};
    for (const int units : in.ticks) row.push_back(fmt::format("{:.0f}", model.time_us(units)));
    row.push_back(fmt::format("{}", median(least)));
    row.push_back(fmt::format("{}", planners::mask::knee(model, flags.tolerance, in.sizes)));
    table.rows.push_back(std::move(row));
    strips +=
        fmt::format("\n{}\n{}\n", model.model, decide::strip(least, in.topology.units(), width));
  }
  return to_string(table) +
         fmt::format("\nLeast {}s within {:g} % of the time on all {}, kernel by kernel:\n{}",
                     in.topology.unit_name, 100 * flags.tolerance, in.topology.units(), strips);
}

std::string kernel_profile_json(const KernelProfileFlags& flags, const Loaded& in) {
  const auto kernel = [&](Form& f, const profile::KernelProfile& one) {
    f.told("name", one.name);
    f.told("least_units", planners::mask::least_units(one, flags.tolerance, in.sizes));
    f.told("time_us", one.on(in.topology.units()));
  };
  const auto model = [&](Form& f, const ModelKernels& one) {
    f.told("name", one.model);
    f.told("time_us", one.time_us(in.topology.units()));
    f.told("knee", planners::mask::knee(one, flags.tolerance, in.sizes));
    f.line("     ").rows("kernels", one.kernels, kernel, {.indent = "      "});
  };
  return write_form([&](Form& f) {
    f.document("KernelProfiles");
    f.told("gpu", in.topology.name);
    f.told("atom", in.atom);
    f.told("tolerance", flags.tolerance);
    f.line("  ").rows("models", in.models, model, {.indent = "    "});
  });
}

forms::UnitsPicture picture_of(const Loaded& in, const std::string& title, double tolerance) {
  forms::UnitsPicture picture;
  picture.title = title;
  picture.subtitle = decide::gpu_facts(in.topology, in.atom);
  picture.least = fmt::format("fewest within {:g} % of the time on all {}", 100 * tolerance,
                              in.topology.units());
  picture.ticks = in.ticks;
  return picture;
}

std::string profile_svg(const KernelProfileFlags& flags, const Loaded& in) {
  forms::UnitsPicture picture =
      picture_of(in, fmt::format("The fewest {}s that each kernel needs", in.topology.unit_name),
                 flags.tolerance);
  picture.everywhere = "fewest for all kernels at once (knee)";
  for (const ModelKernels& model : in.models) {
    forms::UnitCurve curve{model.model, decide::model_facts(model, in.topology), {}, {}, 0};
    curve.least = planners::mask::least_units(model, flags.tolerance, in.sizes);
    curve.everywhere = planners::mask::knee(model, flags.tolerance, in.sizes);
    curve.facts += fmt::format("; median {}, knee {}", median(curve.least), curve.everywhere);
    picture.curves.push_back(std::move(curve));
  }
  return forms::units_svg(picture, in.topology);
}

Result<Exit> run_kernel_profile(Context& context, const KernelProfileFlags& flags) {
  const auto in = TRY(load(context, flags.kernels));
  const std::string content = flags.output.json()  ? kernel_profile_json(flags, in)
                              : flags.output.svg() ? profile_svg(flags, in)
                                                   : kernel_profile_text(flags, in, context.width);
  return finish(context, flags.output, content);
}

Command add_kernels_profile(CLI::App& kernels) {
  auto [command, flags] = adding<KernelProfileFlags>(
      kernels, "profile",
      "Show what the kernels of models take, and how many SMs or CUs they need");
  add_kernel_flags(*command, flags->kernels);
  within(flag(*command, "--tolerance", flags->tolerance), 0, 10)->default_str("0.05");
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer("partita kernels profile --workers resnet,bert --profiles kernels/ --gpu MI50");
  return {command, [flags](Context& context) { return run_kernel_profile(context, *flags); }};
}

// ----------------------------------------------------------------------------------- rightsize

struct SizeFlags {
  decide::KernelNames kernels;
  double tolerance = 0.05;
  std::string method = "kernel";
  Output output;
};

std::string sizes_text(const SizeFlags& flags, const Loaded& in,
                       const std::vector<planners::mask::RightSize>& sizes, int width) {
  Table table{{"MODEL", "METHOD", "us", "SLOWER", "MEAN UNITS", "SPENT", "PROVEN"}, {}};
  std::string strips;
  const int units = in.topology.units();
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const planners::mask::RightSize& size = sizes[m];
    const double whole = in.models[m].time_us(units);
    table.rows.push_back({in.models[m].model, flags.method, fmt::format("{:.0f}", size.time_us),
                          fmt::format("{:.2f} %", 100 * (size.time_us / whole - 1)),
                          fmt::format("{:.1f}", size.unit_us / size.time_us),
                          fmt::format("{:.1f} %", 100 * size.unit_us / (whole * units)),
                          size.optimal ? "yes" : "-"});
    strips +=
        fmt::format("\n{}\n{}\n", in.models[m].model, decide::strip(size.units, units, width));
  }
  return to_string(table) +
         "\nSPENT: units x time, compared with the whole GPU. Units of each kernel:\n" + strips;
}

std::string sizes_json(const SizeFlags& flags, const Loaded& in,
                       const std::vector<planners::mask::RightSize>& sizes) {
  const auto size = [&](Form& f, std::size_t m) {
    f.told("name", in.models[m].model);
    f.told("time_us", sizes[m].time_us);
    f.told("unit_us", sizes[m].unit_us);
    f.told("optimal", sizes[m].optimal);
    f.line("     ").told_list("units", sizes[m].units, {.between = ","});
  };
  return write_form([&](Form& f) {
    f.document("RightSizes");
    f.told("gpu", in.topology.name);
    f.told("atom", in.atom);
    f.told("method", flags.method);
    f.told("tolerance", flags.tolerance);
    f.line("  ").rows("models", sizes.size(), size, {.indent = "    "});
  });
}

std::string sizes_svg(const SizeFlags& flags, const Loaded& in,
                      const std::vector<planners::mask::RightSize>& sizes) {
  forms::UnitsPicture picture = picture_of(
      in, fmt::format("{}s for each kernel, method {}", in.topology.unit_name, flags.method),
      flags.tolerance);
  picture.given = "chosen";
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const ModelKernels& model = in.models[m];
    const double slower = sizes[m].time_us / model.time_us(in.topology.units()) - 1;
    picture.curves.push_back(
        {model.model,
         fmt::format("{}; {:.2f} % slower, median {}", decide::model_facts(model, in.topology),
                     100 * slower, median(sizes[m].units)),
         planners::mask::least_units(model, flags.tolerance, in.sizes),
         flags.method == "kernel" ? std::vector<int>{} : sizes[m].units, 0});
  }
  return forms::units_svg(picture, in.topology);
}

Result<Exit> run_rightsize(Context& context, const SizeFlags& flags) {
  const auto in = TRY(load(context, flags.kernels));
  std::vector<planners::mask::RightSize> sizes;
  for (const ModelKernels& model : in.models)
    sizes.push_back(decide::right_size(flags.method, model, flags.tolerance, in.sizes));
  const std::string content = flags.output.json()  ? sizes_json(flags, in, sizes)
                              : flags.output.svg() ? sizes_svg(flags, in, sizes)
                                                   : sizes_text(flags, in, sizes, context.width);
  return finish(context, flags.output, content);
}

Command add_kernels_rightsize(CLI::App& kernels) {
  auto [command, flags] =
      adding<SizeFlags>(kernels, "rightsize", "Choose how many SMs or CUs each kernel gets");
  add_kernel_flags(*command, flags->kernels);
  one_of(flag(*command, "--method", flags->method,
              "kernel: the fewest units per kernel within the tolerance (KRISP); model: the same "
              "number for all kernels; critical: the least units x time with the whole model "
              "within the tolerance, exactly; critical-greedy: Chow's Algorithm 2"),
         {"kernel", "model", "critical", "critical-greedy"})
      ->default_str(flags->method);
  within(flag(*command, "--tolerance", flags->tolerance), 0, 10)->default_str("0.05");
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita kernels rightsize --workers resnet --profiles kernels/ --method critical");
  return {command, [flags](Context& context) { return run_rightsize(context, *flags); }};
}

}  // namespace

Command add_kernels(CLI::App& app) {
  CLI::App* kernels = app.add_subcommand(
      "kernels", "Size and plan the SMs or CUs of the kernels of co-located models");
  const std::vector<Command> commands = {
      add_kernels_profile(*kernels), add_kernels_rightsize(*kernels), add_kernels_plan(*kernels),
      add_kernels_verify(*kernels),  add_kernels_simulate(*kernels),  add_kernels_run(*kernels),
      add_kernels_measure(*kernels), add_kernels_import(*kernels)};
  kernels->footer("partita kernels plan --workers vgg,resnet --profiles kernels/ --gpu MI50");
  return group_of(kernels, commands);
}

}  // namespace partita::cli
