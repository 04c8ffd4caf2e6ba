#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "decide/input.h"
#include "flags.h"
#include "queue/slurm/site_check.h"
#include "slurm/slurm_commands.h"

namespace partita::cli {
namespace {

struct SlurmCheckFlags {
  std::string site = slurm::kSiteFile, catalogue;
  slurm::FilePlaces places;
};

std::map<std::string, std::string> files_in(Context& context, const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : {"job_submit.lua", "jobcomp.lua", "partita-prolog.sh",
                           "partita-epilog.sh", "partita-task.sh", "cgroup.conf"}) {
    const std::string path = folder + "/" + name;
    if (!context.files.exists(path)) continue;
    if (auto text = context.files.read(path)) files[name] = *std::move(text);
  }
  return files;
}

Result<Exit> run_slurm_check(Context& context, const SlurmCheckFlags& flags) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto site = TRY(read_site(context, flags.site));
  auto open = TRY(open_slurm(context));
  const auto config = TRY(slurm::output_of(*open.door, {"scontrol", "show", "config"}));
  const auto shown = TRY(slurm::output_of(*open.door, {"sinfo", "--json"}));
  auto nodes = TRY(slurm::parse_nodes(shown));
  slurm::CheckedSite checked{
      site, catalogue, flags.places, slurm::parse_config(config), std::move(nodes), {}, false};
  if (checked.places.folder.empty())
    checked.places.folder =
        std::filesystem::path(checked.config["SLURM_CONF"]).parent_path().string();
  checked.places.site = std::filesystem::absolute(flags.site).string();
  checked.places.program = std::filesystem::canonical("/proc/self/exe").string();
  checked.files = files_in(context, checked.places.folder);
  if (auto plugstack = context.files.read(checked.config["PlugStackConfig"]))
    checked.files["plugstack.conf"] = *std::move(plugstack);
  const auto lock = lock_of_placer(context, flags.site);
  checked.placer_runs = !lock && lock.error().code == ErrorCode::in_use;
  const auto sentences = TRY(slurm::check_site(checked));
  for (const std::string& sentence : sentences) say(context, sentence + "\n");
  if (sentences.empty()) say(context, "Jobs can ask for MIG instances here.\n");
  return sentences.empty() ? Exit::done : Exit::no;
}

}  // namespace

Command add_slurm_check(CLI::App& slurm) {
  auto [command, flags] = adding<SlurmCheckFlags>(
      slurm, "check", "Say what is wrong in Slurm's configuration, a sentence each");
  flags->places.folder.clear();
  add_site_flag(*command, flags->site);
  flag(*command, "--etc", flags->places.folder, "Default: where slurm.conf is");
  add_catalogue(*command, flags->catalogue);
  command->footer("partita slurm check");
  return {command, [flags](Context& context) { return run_slurm_check(context, *flags); }};
}

}  // namespace partita::cli
