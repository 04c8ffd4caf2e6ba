#include "queue/slurm/site_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parse_number.h"
#include "base/split.h"

namespace partita::slurm {
namespace {

constexpr const char* kTried = "22.05";

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

bool lists(const std::string& value, std::string_view word) {
  return std::ranges::any_of(split(value, ','),
                             [&](const std::string& one) { return trimmed(one) == word; });
}

// How many of a GRES "gpu:a100:2(S:0),slice:14" has; of several types together.
int count_of(const std::string& gres, std::string_view name) {
  int count = 0;
  for (const std::string& entry : split(gres, ',')) {
    const std::vector<std::string> words = split(entry.substr(0, entry.find('(')), ':');
    if (words.front() != name) continue;
    const auto number = words.size() > 1 ? parse_number<int>(words.back()) : std::nullopt;
    count += number.value_or(1);
  }
  return count;
}

class SiteCheck {
 public:
  explicit SiteCheck(const CheckedSite& checked) : in_(checked) {}

  Result<std::vector<std::string>> run() {
    const auto nodes = TRY(gpus_of_site(in_.site, in_.catalogue));
    const auto files = TRY(site_files(in_.site, in_.catalogue, in_.places));
    settings();
    scripts(files);
    this->nodes(nodes);
    if (!in_.placer_runs)
      say("No `partita slurm serve` runs here: jobs that ask for MIG instances wait. "
          "(Where it runs on another machine, all is well.)");
    return sentences_;
  }

 private:
  void say(std::string sentence) { sentences_.push_back(std::move(sentence)); }
  std::string value(const std::string& name) const {
    const auto found = in_.config.find(name);
    return found == in_.config.end() || found->second == "(null)" ? "" : found->second;
  }

  void settings() {
    const std::string version = value("SLURM_VERSION");
    if (!version.empty() && !version.starts_with(kTried))
      say(fmt::format("This is Slurm {}; Partita was tried with {}.", version, kTried));
    const std::string plugins = value("JobSubmitPlugins");
    if (!lists(plugins, "lua") && !lists(plugins, "job_submit/lua"))
      say("JobSubmitPlugins has no lua: shapes of MIG instances are not understood by sbatch.");
    if (value("JobCompType") != "jobcomp/lua")
      say("JobCompType is not jobcomp/lua: jobs whose end a killed slurmctld has forgotten run "
          "again.");
    if (!lists(value("PrologFlags"), "Alloc") && !lists(value("PrologFlags"), "Contain"))
      say("PrologFlags has no Alloc: the prolog may come after the first step of a job.");
    for (const char* type : {"gpu", "slice", "mslice"})
      if (!lists(value("GresTypes"), type)) say(fmt::format("GresTypes has no {}.", type));
    if (value("SelectType") != "select/cons_tres")
      say(fmt::format("SelectType is {}: only select/cons_tres counts slices beside each other.",
                      value("SelectType")));
    if (value("JobRequeue") == "0")
      say("JobRequeue is 0: a job that its node has no room for is cancelled, not put back.");
    if (value("SchedulerType") == "sched/builtin")
      say("SchedulerType is sched/builtin: a job that waits holds up all behind it.");
    const auto plugstack = in_.files.find("plugstack.conf");
    const std::string loaded = plugstack == in_.files.end() ? "" : plugstack->second;
    if (loaded.find("spank_partita.so") == std::string::npos &&
        loaded.find("include") == std::string::npos)
      say("plugstack.conf does not load spank_partita.so: jobs can open each other's instances, "
          "and one that ends while a killed slurmctld is away, which forgot that the job began, "
          "runs again.");
    const auto cgroup = in_.files.find("cgroup.conf");
    if (cgroup == in_.files.end()) return;
    for (const std::string& line : split(cgroup->second, '\n')) {
      const std::string setting = trimmed(line);
      if (setting.starts_with("ConstrainDevices=") && setting.substr(17, 3) == "yes")
        say("cgroup.conf has ConstrainDevices=yes: Slurm then keeps jobs with MIG instances from "
            "every GPU. Set it to no.");
    }
  }

  // A script of ours that slurm.conf must name.
  void script(const char* setting, const std::string& name) {
    const std::string said = value(setting), path = in_.places.folder + "/" + name;
    if (said.find(name) == std::string::npos && said.find('*') == std::string::npos)
      say(fmt::format("{} is '{}', not {}.", setting, said, path));
  }

  void scripts(const std::map<std::string, SiteFile>& wanted) {
    script("Prolog", "partita-prolog.sh");
    script("Epilog", "partita-epilog.sh");
    script("TaskProlog", "partita-task.sh");
    for (const auto& [name, file] : wanted) {
      if (file.snippet) continue;
      const auto found = in_.files.find(name);
      const std::string path = in_.places.folder + "/" + name;
      if (found == in_.files.end())
        say(fmt::format("{} is missing; `partita slurm install --into-etc` writes it.", path));
      else if (found->second != file.text)
        say(fmt::format("{} is not what `partita slurm install` writes for this site.", path));
    }
  }

  void nodes(const std::map<std::string, SiteGpus>& wanted) {
    std::map<std::string, const SlurmNode*> there;
    for (const SlurmNode& node : in_.nodes) there[node.name] = &node;
    for (const auto& [name, gpus] : wanted) {
      const auto found = there.find(name);
      if (found == there.end()) {
        say(fmt::format("Slurm has no node {}.", name));
        continue;
      }
      const std::pair<const char*, int> counts[] = {
          {"gpu", gpus.count},
          {"slice", gpus.count * gpus.model->compute_slices},
          {"mslice", gpus.count * gpus.model->memory_slices}};
      for (const auto& [gres, count] : counts)
        if (const int has = count_of(found->second->gres, gres); has != count)
          say(fmt::format("Node {} has {} {} in Slurm; {} x {} are {}.", name, has, gres,
                          gpus.count, gpus.model->name, count));
      if (!found->second->usable)
        say(fmt::format("Node {} takes no jobs{}{}.", name, found->second->why.empty() ? "" : ": ",
                        found->second->why));
    }
    for (const SlurmNode& node : in_.nodes)
      if (count_of(node.gres, "slice") > 0 && !wanted.contains(node.name))
        say(
            fmt::format("Node {} has slices in Slurm and is not in the site file: nothing is "
                        "placed there.",
                        node.name));
  }

  const CheckedSite& in_;
  std::vector<std::string> sentences_;
};

}  // namespace

std::map<std::string, std::string> parse_config(std::string_view text) {
  std::map<std::string, std::string> config;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    config.emplace(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
  }
  return config;
}

Result<std::vector<std::string>> check_site(const CheckedSite& checked) {
  return SiteCheck(checked).run();
}

}  // namespace partita::slurm
