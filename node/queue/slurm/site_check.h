// What is wrong in the configuration of a Slurm cluster for jobs with MIG instances, a sentence
// each: from `scontrol show config`, `sinfo --json` and the files in Slurm's folder. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hw/catalogue.h"
#include "queue/slurm/site_files.h"
#include "queue/slurm/slurm_state.h"

namespace partita::slurm {

// "Name = value" lines of `scontrol show config`; of names that stand twice the first.
std::map<std::string, std::string> parse_config(std::string_view text);

struct CheckedSite {
  const SlurmSite& site;
  const hw::Catalogue& catalogue;
  FilePlaces places;
  std::map<std::string, std::string> config;  // of slurmctld
  std::vector<SlurmNode> nodes;
  std::map<std::string, std::string> files;  // in places.folder; also cgroup.conf, plugstack.conf
  bool placer_runs = false;
};

// bad_input where the site itself is wrong; no sentence: nothing is.
Result<std::vector<std::string>> check_site(const CheckedSite& checked);

}  // namespace partita::slurm
