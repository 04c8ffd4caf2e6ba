#include "queue/slurm/site.h"

#include <fmt/format.h>

#include "base/form_rules.h"
#include "queue/slurm/host_list.h"

namespace partita::slurm {
namespace {

void describe_site_nodes(Form& f, SiteNodes& nodes) {
  f.text("names", nodes.names, "Node names as Slurm writes them, g[0-7]");
  f.name("gpu", nodes.gpu, "GPU model, of the catalogue");
  f.optional().integer("count", nodes.count, {.low = 1, .high = kMostGpus},
                       "How many of them each node has");
  f.closed();
}

void describe_site(Form& f, SlurmSite& site) {
  f.document("SlurmSite");
  const SlurmSite standard;
  f.line("  ").list("nodes", site.nodes, describe_site_nodes,
                    {.most = 4'096, .indent = "    ", .least = 1}, "Nodes whose GPUs are divided");
  f.line("  ").optional(site.driver != standard.driver);
  f.text("driver", site.driver, "As --driver of `partita lease`");
  f.line("  ").optional(site.machine != standard.machine);
  f.text("machine", site.machine, "As --machine, for driver sim; %n is the node's name");
  f.line("  ").optional(site.jobs != standard.jobs);
  f.text("jobs", site.jobs, "Folder of what jobs are told; %n is the node's name");
  f.line("  ").optional(site.ended != standard.ended);
  f.text("ended", site.ended,
         "File of runs that have ended; SlurmUser writes it on the controller");
  f.closed();
}

}  // namespace

Result<SlurmSite> parse_site(const std::string& file, std::string_view text) {
  return read_form<SlurmSite>(file, text, describe_site);
}

std::string site_text(const SlurmSite& site) { return write_form(site, describe_site); }

DocumentKind site_kind() {
  return document_kind<SlurmSite, describe_site, "SlurmSite",
                       "which GPUs are divided on which nodes of a Slurm cluster">();
}

Result<std::map<std::string, SiteGpus>> gpus_of_site(const SlurmSite& site,
                                                     const hw::Catalogue& catalogue) {
  std::map<std::string, SiteGpus> gpus;
  for (const SiteNodes& some : site.nodes) {
    const auto model = TRY(catalogue.get(some.gpu));
    const auto names = TRY(host_names(some.names));
    for (const std::string& name : names)
      if (!gpus.emplace(name, SiteGpus{model, some.count}).second)
        return bad_input("nodes", fmt::format("node '{}' is named twice", name));
  }
  return gpus;
}

std::string for_node(std::string_view path, std::string_view node) {
  std::string text(path);
  for (std::size_t at = text.find("%n"); at != std::string::npos; at = text.find("%n", at))
    text.replace(at, 2, node), at += node.size();
  return text;
}

}  // namespace partita::slurm
