#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "commands.h"
#include "flags.h"
#include "slurm/slurm_commands.h"

namespace partita::cli {

void add_site_flag(CLI::App& command, std::string& site) {
  flag(command, "--site", site)->default_str(slurm::kSiteFile);
}

Result<slurm::SlurmSite> read_site(Context& context, const std::string& path) {
  const std::string file = path.empty() ? slurm::kSiteFile : path;
  const std::string text = TRY(context.files.read(file));
  return slurm::parse_site(file, text);
}

Result<OpenSlurm> open_slurm(Context& context) {
  PrivateFolder folder = TRY(PrivateFolder::make());
  OpenSlurm open;
  open.folder = std::make_unique<PrivateFolder>(std::move(folder));
  open.processes = std::make_unique<RealProcesses>();
  open.door = std::make_unique<slurm::RealSlurm>(*open.processes, context.clock, context.files,
                                                 open.folder->path());
  return open;
}

Result<FileLock> lock_of_placer(Context& context, const std::string& site) {
  const std::string folder = lock_directory();
  TRY(context.files.make_directories(folder));
  std::error_code error;
  std::string name = std::filesystem::weakly_canonical(site, error).string();
  if (error) return environment_error(site, error.message());
  std::ranges::replace(name, '/', '_');
  return context.files.lock(folder + "/slurm-placer" + name + ".lock");
}

Command add_slurm(CLI::App& app) {
  CLI::App* slurm = app.add_subcommand(
      "slurm", "MIG instances for jobs of a Slurm cluster, made for each job as it asks");
  return group_of(slurm,
                  {add_slurm_install(*slurm), add_slurm_check(*slurm), add_slurm_serve(*slurm),
                   add_slurm_prolog(*slurm), add_slurm_epilog(*slurm), add_slurm_complete(*slurm),
                   add_slurm_meter(*slurm)});
}

}  // namespace partita::cli
