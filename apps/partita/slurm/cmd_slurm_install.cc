#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/append.h"
#include "commands.h"
#include "decide/input.h"
#include "flags.h"
#include "queue/slurm/site_files.h"
#include "slurm/slurm_commands.h"

namespace partita::cli {
namespace {

struct SlurmInstallFlags {
  std::string site = slurm::kSiteFile, catalogue, folder;
  slurm::FilePlaces places;
  slurm::SlurmSite described;
  slurm::SiteNodes nodes;
  bool apply = false, force = false;
};

Result<slurm::SlurmSite> site_of(Context& context, const SlurmInstallFlags& flags) {
  if (flags.nodes.names.empty()) return read_site(context, flags.site);
  slurm::SlurmSite site = flags.described;
  site.nodes = {flags.nodes};
  return site;
}

// Writes one file; what is there and differs stays, unless it is to be replaced.
Result<bool> put(Context& context, const std::string& path, const slurm::SiteFile& file,
                 bool force) {
  const bool there = context.files.exists(path);
  if (there) {
    const std::string now = TRY(context.files.read(path));
    if (now == file.text) {
      say(context, fmt::format("{}: is so already\n", path));
      return true;
    }
    if (!force) {
      complain(context, fmt::format("{}: differs and stays; --replace does it", path));
      return false;
    }
  }
  TRY(context.files.write_atomic(path, file.text));
  if (::chmod(path.c_str(), file.program ? 0755 : 0644) != 0)
    return environment_error(path, "its rights cannot be set");
  say(context, fmt::format("{}: {}\n", path, there ? "replaced" : "written"));
  return true;
}

Result<Exit> run_slurm_install(Context& context, SlurmInstallFlags& flags) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto site = TRY(site_of(context, flags));
  slurm::FilePlaces places = flags.places;
  places.site = std::filesystem::absolute(flags.site).string();
  places.program = std::filesystem::canonical("/proc/self/exe").string();
  places.spank = spank_plugin();
  const std::string folder = flags.apply ? places.folder : flags.folder;
  if (folder.empty()) return bad_input("--files", "a folder for the files, or --into-etc");
  if (!flags.apply) places.folder = std::filesystem::absolute(folder).string();
  const auto files = TRY(slurm::site_files(site, catalogue, places));
  TRY(context.files.make_directories(folder));
  bool all = true;
  std::map<std::string, slurm::SiteFile> wanted;
  for (const auto& [name, file] : files) wanted[folder + "/" + name] = file;
  if (!flags.nodes.names.empty()) wanted[places.site] = {slurm::site_text(site)};
  for (const auto& [path, file] : wanted) {
    const auto done = TRY(put(context, path, file, flags.force));
    all = all && done;
  }
  say(context,
      "Now put the lines of the .partita files into slurm.conf and gres.conf on every "
      "node, restart slurmctld and slurmd, and see `partita slurm check`.\n");
  return all ? Exit::done : Exit::no;
}

}  // namespace

std::string spank_plugin() {
  const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  for (const auto& file : {folder / "spank_partita.so", folder / "../lib/partita/spank_partita.so"})
    if (std::filesystem::exists(file)) return std::filesystem::canonical(file).string();
  return {};
}

Command add_slurm_install(CLI::App& slurm) {
  auto [command, flags] = adding<SlurmInstallFlags>(
      slurm, "install",
      "Write what Slurm needs: plugin, prolog, epilog, lines for its configuration");
  add_site_flag(*command, flags->site);
  flag(*command, "--nodes", flags->nodes.names);
  flag(*command, "--gpu", flags->nodes.gpu, "With --nodes: theirs");
  within(flag(*command, "--gpus", flags->nodes.count, "With --nodes: of each"), 1,
         slurm::kMostGpus);
  one_of(flag(*command, "--driver", flags->described.driver, "With --nodes: nvml or sim"),
         {"nvml", "sim"});
  flag(*command, "--machine", flags->described.machine,
       "With --nodes and --driver sim: of each node, %n being its name");
  flag(*command, "--jobs", flags->described.jobs);
  flag(*command, "--ended", flags->described.ended)->default_str(flags->described.ended);
  flag(*command, "--files", flags->folder);
  flag(*command, "--into-etc", flags->apply);
  flag(*command, "--etc", flags->places.folder)->default_str(flags->places.folder);
  flag(*command, "--replace", flags->force);
  add_catalogue(*command, flags->catalogue);
  command->footer(
      "partita slurm install --nodes g[0-7] --gpu A100-80GB --files slurm-files\n"
      "partita slurm install --into-etc");
  return {command, [flags](Context& context) { return run_slurm_install(context, *flags); }};
}

}  // namespace partita::cli
