#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "slurm/slurm_commands.h"

namespace partita::cli {
namespace {

struct SlurmCheckFlags {
  std::string site = slurm::kSiteFile;
};

Result<Exit> run_slurm_check(Context& context, const SlurmCheckFlags& flags) {
  const auto site = read_site(context, flags.site);
  if (!site) return failed(site.error());
  return Exit::done;
}

}  // namespace

Command add_slurm_check(CLI::App& slurm) {
  CLI::App* command =
      slurm.add_subcommand("check", "Say what is wrong in Slurm's configuration, a sentence each");
  auto flags = std::make_shared<SlurmCheckFlags>();
  add_site_flag(*command, flags->site);
  command->footer("partita slurm check");
  return {command, [flags](Context& context) { return run_slurm_check(context, *flags); }};
}

}  // namespace partita::cli
