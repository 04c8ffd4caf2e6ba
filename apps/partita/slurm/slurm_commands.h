// The subcommands of `partita slurm`: one cmd_slurm_NAME.cc each, and what they share.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/processes.h"
#include "context.h"
#include "places.h"
#include "queue/slurm/site.h"
#include "queue/slurm/slurm_door.h"

namespace partita::cli {

Command add_slurm_install(CLI::App& slurm);
Command add_slurm_check(CLI::App& slurm);
Command add_slurm_serve(CLI::App& slurm);
Command add_slurm_prolog(CLI::App& slurm);
Command add_slurm_epilog(CLI::App& slurm);
Command add_slurm_complete(CLI::App& slurm);
Command add_slurm_meter(CLI::App& slurm);

// Beside the program, or where packages put it; empty: nowhere.
std::string spank_plugin();
// Adds --site.
void add_site_flag(CLI::App& command, std::string& site);
Result<slurm::SlurmSite> read_site(Context& context, const std::string& path);

// Slurm's commands, with what they need.
struct OpenSlurm {
  std::unique_ptr<PrivateFolder> folder;
  std::unique_ptr<Processes> processes;
  std::unique_ptr<slurm::RealSlurm> door;
};
Result<OpenSlurm> open_slurm(Context& context);
// Where `partita slurm meter` writes, in the folder of what jobs are told.
std::string metered_file(const std::string& folder);

// Held by the one placer of a site on this machine; in_use where one runs.
Result<FileLock> lock_of_placer(Context& context, const std::string& site);

}  // namespace partita::cli
