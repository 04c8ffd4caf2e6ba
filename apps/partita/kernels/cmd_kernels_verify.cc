#include <fmt/format.h>

#include <memory>

#include "flags.h"
#include "forms/kernel_forms.h"
#include "forms/reason_forms.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"
#include "serving/planning.h"
#include "verify/kernels.h"

namespace partita::cli {
namespace {

struct KernelsVerifyFlags {
  std::string plan;
  KernelFlags kernels;
  Output output;
};

std::vector<plan::Reason> violations_of(const forms::KernelClaim& claim) {
  std::vector<plan::Reason> found = verify::verify(claim.problem, claim.plan);
  if (!found.empty()) return found;
  found = verify::verify(claim.problem, claim.plan, claim.lanes, claim.topology);
  for (plan::Reason& one : verify::verify(claim.problem, claim.plan, claim.predicted))
    found.push_back(std::move(one));
  return found;
}

Result<Exit> run_kernels_verify(Context& context, KernelsVerifyFlags flags) {
  const Result<std::string> text = read_input(context, "PLAN", flags.plan);
  if (!text) return failed(text.error());
  const auto stated = forms::parse_kernel_plan(flags.plan, *text);
  if (!stated) return failed(stated.error());
  flags.kernels.workers = worker_names(*stated);
  const Result<hw::Topology> topology = load_topology(stated->gpu);
  if (!topology) return failed(topology.error());
  const auto models = load_kernels(context, flags.kernels, *topology);
  if (!models) return failed(models.error());
  const auto claim = forms::kernel_claim(flags.plan, *stated, *models);
  if (!claim) return failed(claim.error());
  const std::vector<plan::Reason> violations = violations_of(*claim);
  const bool ok = violations.empty();
  std::string content;
  if (flags.output.format == "json") {
    content = forms::verdict_json(violations);
  } else if (ok) {
    content = fmt::format("ok: {} workers on one {}, objective {:.3f} us, no violation\n",
                          claim->plan.workers.size(), topology->name, claim->plan.objective);
  } else {
    content = reasons_text(fmt::format("{}: {} violations:", flags.plan, violations.size()),
                           violations) +
              "\n";
  }
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return ok ? Exit::done : Exit::no;
}

}  // namespace

Command add_kernels_verify(CLI::App& kernels) {
  CLI::App* command = kernels.add_subcommand(
      "verify", "Judge a kernel plan, whoever made it, against the profiles of its kernels");
  auto flags = std::make_shared<KernelsVerifyFlags>();
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
