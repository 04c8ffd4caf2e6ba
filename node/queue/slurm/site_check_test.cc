#include "queue/slurm/site_check.h"

#include <gtest/gtest.h>

#include "base/form.h"

namespace partita::slurm {
namespace {

// A cluster of two nodes that is as `site_files` says.
struct Cluster {
  SlurmSite site{.nodes = {{"g[0-1]", "A100-80GB", 2}}};
  std::map<std::string, std::string> config = parse_config(
      "JobSubmitPlugins        = lua\n"
      "JobCompType             = jobcomp/lua\n"
      "PrologFlags             = Alloc\n"
      "Prolog                  = /etc/slurm/partita-prolog.sh\n"
      "Epilog                  = /etc/slurm/partita-epilog.sh\n"
      "TaskProlog              = /etc/slurm/partita-task.sh\n"
      "GresTypes               = gpu,slice,mslice\n"
      "SelectType              = select/cons_tres\n"
      "SLURM_VERSION           = 22.05.8\n");
  std::vector<SlurmNode> nodes = {node("g0"), node("g1")};
  std::map<std::string, std::string> files = {};
  bool placer_runs = true;

  static SlurmNode node(const std::string& name) {
    return {.name = name, .usable = true, .gres = "gpu:a100_80gb:2(S:0),slice:14,mslice:16"};
  }
  Cluster() {
    const auto wanted = site_files(site, hw::builtin_catalogue(), {});
    for (const auto& [name, file] : *wanted)
      if (!file.snippet) files[name] = file.text;
    files["plugstack.conf"] = "required /usr/lib/partita/spank_partita.so jobs=/run/x\n";
  }
  std::vector<std::string> sentences() const {
    return *check_site({site, hw::builtin_catalogue(), {}, config, nodes, files, placer_runs});
  }
};

TEST(SiteCheck, a_cluster_that_is_right) {
  EXPECT_EQ(Cluster().sentences(), std::vector<std::string>());
}

// One fault each, and the one sentence that says it.
TEST(SiteCheck, each_fault_has_its_sentence) {
  const std::pair<void (*)(Cluster&), const char*> faults[] = {
      {[](Cluster& c) { c.config["JobSubmitPlugins"] = "all_partitions"; }, "JobSubmitPlugins"},
      {[](Cluster& c) { c.config.erase("JobCompType"); }, "a killed slurmctld has forgotten"},
      {[](Cluster& c) { c.config["PrologFlags"] = "(null)"; }, "PrologFlags has no Alloc"},
      {[](Cluster& c) { c.config["GresTypes"] = "gpu,slice"; }, "GresTypes has no mslice"},
      {[](Cluster& c) { c.config["SelectType"] = "select/linear"; }, "only select/cons_tres"},
      {[](Cluster& c) { c.config["JobRequeue"] = "0"; }, "cancelled, not put back"},
      {[](Cluster& c) { c.config["SchedulerType"] = "sched/builtin"; }, "holds up all behind"},
      {[](Cluster& c) { c.config["SLURM_VERSION"] = "26.11"; }, "was tried with 22.05"},
      {[](Cluster& c) { c.config["Epilog"] = "/x.sh"; }, "Epilog is '/x.sh', not"},
      {[](Cluster& c) { c.files["cgroup.conf"] = "ConstrainDevices=yes\n"; }, "Set it to no"},
      {[](Cluster& c) { c.files["plugstack.conf"] = "optional x.so\n"; }, "does not load"},
      {[](Cluster& c) { c.files.erase("jobcomp.lua"); }, "jobcomp.lua is missing"},
      {[](Cluster& c) { c.files["job_submit.lua"] += " "; }, "is not what"},
      {[](Cluster& c) { c.nodes.pop_back(); }, "Slurm has no node g1."},
      {[](Cluster& c) { c.nodes[0].gres = "gpu:a100_80gb:2,slice:7,mslice:16"; },
       "Node g0 has 7 slice"},
      {[](Cluster& c) { c.nodes[1].usable = false, c.nodes[1].why = "broken fan"; }, "broken fan"},
      {[](Cluster& c) { c.nodes.push_back(Cluster::node("g7")); }, "is not in the site file"},
      {[](Cluster& c) { c.placer_runs = false; }, "No `partita slurm serve` runs"},
  };
  for (const auto& [make, sentence] : faults) {
    Cluster cluster;
    make(cluster);
    const std::vector<std::string> said = cluster.sentences();
    ASSERT_EQ(said.size(), 1U) << sentence;
    EXPECT_NE(said[0].find(sentence), std::string::npos) << said[0];
  }
}

TEST(SiteCheck, a_site_that_is_wrong_itself) {
  Cluster cluster;
  cluster.site.nodes.push_back({"g1", "A100-80GB", 1});
  EXPECT_FALSE(check_site({cluster.site, hw::builtin_catalogue(), {}, {}, {}, {}, true}));
}

}  // namespace
}  // namespace partita::slurm
