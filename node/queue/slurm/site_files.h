// What an administrator puts into a Slurm cluster's configuration so that its jobs get instances:
// the plugin job_submit.lua with the shapes of the site's GPUs, prolog, epilog and task prolog, and
// lines for slurm.conf and gres.conf. Pure: texts by their names.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "hw/catalogue.h"
#include "queue/slurm/site.h"

namespace partita::slurm {

struct FilePlaces {
  std::string program = "/usr/bin/partita";
  std::string site = kSiteFile;
  std::string folder = "/etc/slurm";  // where these files are to lie
  std::string spank = {};             // the SPANK plugin; empty: there is none here
};

struct SiteFile {
  std::string text;
  bool program = false;  // is executed
  bool snippet = false;  // lines for a file of the administrator's
};

// By name: job_submit.lua, jobcomp.lua, partita-prolog.sh, partita-epilog.sh, partita-task.sh,
// slurm.conf.partita, gres.conf.partita, plugstack.conf.partita.
Result<std::map<std::string, SiteFile>> site_files(const SlurmSite& site,
                                                   const hw::Catalogue& catalogue,
                                                   const FilePlaces& places);

}  // namespace partita::slurm
