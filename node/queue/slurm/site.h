// A site: which GPUs Partita divides on which nodes of a Slurm cluster, and how its commands are
// told so on the nodes. The document SlurmSite, /etc/partita/slurm.yaml by default, the same on
// controller and nodes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"
#include "hw/catalogue.h"

namespace partita::slurm {

inline constexpr const char* kSiteFile = "/etc/partita/slurm.yaml";
inline constexpr int kMostGpus = 64;  // of a node

struct SiteNodes {
  std::string names;  // as Slurm writes them, "g[0-7]"
  std::string gpu;    // catalogue name
  int count = 1;      // of them in each
  bool operator==(const SiteNodes&) const = default;
};

struct SlurmSite {
  std::vector<SiteNodes> nodes = {};
  std::string driver = "nvml";                 // of the nodes; sim for trials
  std::string machine = {};                    // of driver sim; %n is the node's name
  std::string jobs = "/run/partita/slurm/%n";  // folder of what jobs are told on a node
  // What slurmctld writes of runs that have ended, and the placer reads.
  std::string ended = "/var/lib/slurm/partita-ended";
  bool operator==(const SlurmSite&) const = default;
};

Result<SlurmSite> parse_site(const std::string& file, std::string_view text);
std::string site_text(const SlurmSite& site);
DocumentKind site_kind();

// The models of its nodes by name, from a catalogue that must outlive them. bad_input: a model that
// there is not, a node named twice.
struct SiteGpus {
  const hw::GpuModel* model = nullptr;
  int count = 0;
};
Result<std::map<std::string, SiteGpus>> gpus_of_site(const SlurmSite& site,
                                                     const hw::Catalogue& catalogue);

// A path with the node's name for %n.
std::string for_node(std::string_view path, std::string_view node);

}  // namespace partita::slurm
