#include <fmt/format.h>


#include "decide/input.h"
#include "decide/kernel_planning.h"
#include "flags.h"
#include "forms/kernel_forms.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"
#include "reasons.h"

namespace partita::cli {
namespace {

struct KernelsVerifyFlags {
  std::string plan;
  decide::KernelNames kernels;
  Output output;
};

Result<Exit> run_kernels_verify(Context& context, KernelsVerifyFlags flags) {
  const std::string text = TRY(read_input(context.files, "PLAN", flags.plan));
  const auto stated = TRY(forms::parse_kernel_plan(flags.plan, text));
  flags.kernels.workers = decide::planned_units(stated).workers;
  const hw::Topology topology = TRY(decide::load_topology(stated.gpu));
  const auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  const auto claim = TRY(forms::kernel_claim(flags.plan, stated, models));
  const plan::KernelPlan& plan = claim.planned.plan;
  return say_verdict(context, flags.output, flags.plan,
                     fmt::format("ok: {} workers on one {}, objective {:.3f} us, no violation\n",
                                 plan.workers.size(), topology.name, plan.objective),
                     decide::violations_of(claim));
}

}  // namespace

Command add_kernels_verify(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsVerifyFlags>(
      kernels, "verify", "Check a kernel plan from any tool against the profiles of its kernels");
  command
      ->add_option("PLAN", flags->plan,
                   "A plan (JSON), as `partita kernels plan --format json` writes it")
      ->type_name("FILE")
      ->required();
  add_profiles_flag(*command, flags->kernels);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita kernels verify plan.json --profiles kernels/");
  return {command, [flags](Context& context) { return run_kernels_verify(context, *flags); }};
}

}  // namespace partita::cli
