#include "queue/slurm/site_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/append.h"
#include "base/unicode.h"

namespace partita::slurm {
namespace {

constexpr std::string_view kPlugin =
#include "job_submit.inc"
    ;
constexpr std::string_view kEnded =
#include "jobcomp.inc"
    ;

// What the plugin knows of a shape.
struct LuaShape {
  int slices = 0, memory = 0, most = 0;  // `most`: of it on one node
  bool operator==(const LuaShape&) const = default;
};

// Slurm's types are in small letters and hold no ':' ',' '='.
std::string slurm_type(std::string_view model) {
  std::string type;
  for (const char c : lower_case(model)) type += c == '-' || c == ' ' ? '_' : c;
  return type;
}

Result<std::map<std::string, LuaShape>> shapes_of(const std::map<std::string, SiteGpus>& nodes) {
  std::map<std::string, LuaShape> shapes;
  for (const auto& [node, gpus] : nodes)
    for (const hw::MigProfile& profile : gpus.model->profiles) {
      const LuaShape one{profile.gpcs, profile.size, profile.max_instances * gpus.count};
      std::vector<std::string> names = profile.aliases;
      names.push_back(profile.name);
      for (const std::string& name : names) {
        LuaShape& known = shapes.try_emplace(lower_case(name), one).first->second;
        if (known.slices != one.slices || known.memory != one.memory)
          return bad_input("nodes",
                           fmt::format("'{}' is {} slices of {} and {} on another GPU here", name,
                                       one.slices, gpus.model->name, known.slices));
        known.most = std::max(known.most, one.most);
      }
    }
  return shapes;
}

Result<std::string> lua_tables(const SlurmSite& site, const hw::Catalogue& catalogue) {
  const auto nodes = TRY(gpus_of_site(site, catalogue));
  const auto shapes = TRY(shapes_of(nodes));
  std::string text = "-- Written by `partita slurm install`.\nlocal SHAPES = {\n";
  for (const auto& [name, one] : shapes)
    append(text, "  [\"{}\"] = {{ {}, {}, {} }},\n", name, one.slices, one.memory, one.most);
  text += "}\nlocal GPUS = {\n";
  std::set<std::pair<int, int>> kinds;
  std::set<std::string> models;
  int slices = 0, memory = 0;
  for (const auto& [node, gpus] : nodes) {
    const hw::GpuModel& model = *gpus.model;
    kinds.emplace(model.compute_slices, model.memory_slices);
    slices = std::max(slices, model.compute_slices * gpus.count);
    memory = std::max(memory, model.memory_slices * gpus.count);
    if (models.insert(model.name).second)
      append(text, "  [\"{}\"] = {{ {}, {} }},\n", slurm_type(model.name), model.compute_slices,
             model.memory_slices);
  }
  append(text, "}}\nlocal MOST = {{ {}, {} }}\n", slices, memory);
  if (kinds.size() == 1)
    append(text, "local WHOLE = {{ {}, {} }}\n", kinds.begin()->first, kinds.begin()->second);
  else
    text += "local WHOLE = nil\n";
  append(text, "local EXAMPLE = \"{}\"\nlocal MANAGER = 0\n\n", shapes.begin()->first);
  return text;
}

// A script of Slurm's on the nodes: what a task is told of its job is in $file.
std::string script_text(const SlurmSite& site, const char* about, std::string_view lines) {
  return fmt::format(
      "#!/bin/sh\n"
      "# Written by `partita slurm install`: {}.\n"
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
      "export PATH\n"
      "file=\"{}/$SLURM_JOB_ID.env\"\n"
      "{}"
      "exit 0\n",
      about, for_node(site.jobs, "$SLURMD_NODENAME"), lines);
}

// Once more where it was killed; what it did is there then, and is what it would do.
std::string run_text(const FilePlaces& places, const char* command, const char* until) {
  return fmt::format(
      "    for try in 1 2 3; do\n"
      "      '{}' slurm {} --site '{}' 2>&1 | logger -t partita-slurm 2> /dev/null\n"
      "      [ {} ] && break\n"
      "    done ;;\n",
      places.program, command, places.site, until);
}

std::string prolog_text(const SlurmSite& site, const FilePlaces& places) {
  return script_text(site, "makes the instances of a job that starts",
                     "# A script that fails here drains the node, so this one does not.\n"
                     "mkdir -p \"${file%/*}\"\n"
                     "rm -f \"$file\"\n"
                     "case $SLURM_JOB_COMMENT in\n"
                     "  'partita '*)\n" +
                         run_text(places, "prolog", "-e \"$file\"") +
                         "  *) : > \"$file\" ;;\n"
                         "esac\n");
}

std::string epilog_text(const SlurmSite& site, const FilePlaces& places) {
  return script_text(site, "destroys the instances of a job that has ended",
                     "case $SLURM_JOB_COMMENT in\n"
                     "  'partita '*)\n"
                     "    # No task of it begins from now on.\n"
                     "    mkdir -p \"${file%/*}\"\n"
                     "    mv -f \"$file\" \"$file.over\" 2> /dev/null || touch \"$file.over\"\n" +
                         run_text(places, "epilog", "! -e \"$file.over\"") +
                         "  *) rm -f \"$file\" ;;\n"
                         "esac\n");
}

std::string task_text(const SlurmSite& site) {
  return script_text(
      site, "what a task is told of its instances",
      "if [ ! -e \"$file\" ]; then\n"
      "  # No prolog has run for it here. Without instances it is no job that has none: those of\n"
      "  # others would be open to it. It goes back, unless it has already.\n"
      "  job=$(scontrol -o show job \"$SLURM_JOB_ID\") || exit 1\n"
      "  case $job in *' Comment=partita '*) ;; *) exit 0 ;; esac\n"
      "  case $job in *\" Restarts=${SLURM_RESTART_COUNT:-0} \"*)\n"
      "    scontrol requeue \"$SLURM_JOB_ID\" ;;\n"
      "  esac > /dev/null 2>&1\n"
      "  exit 1\n"
      "fi\n"
      "# The node had no room: the job is on its way back into the queue, and starts nothing.\n"
      "if grep -q '^PARTITA_REFUSED=' \"$file\"; then exit 1; fi\n"
      "sed 's/^/export /' \"$file\" || exit 1\n");
}

std::string slurm_conf_text(const SlurmSite& site, const hw::Catalogue& catalogue,
                            const FilePlaces& places) {
  std::string text = fmt::format(
      "# Written by `partita slurm install`: lines for slurm.conf (docs/slurm.md).\n"
      "JobSubmitPlugins=lua\n"
      "JobCompType=jobcomp/lua\n"
      "PrologFlags=Alloc\n"
      "Prolog={0}/partita-prolog.sh\n"
      "Epilog={0}/partita-epilog.sh\n",
      places.folder);
  append(text, "TaskProlog={}/partita-task.sh\n", places.folder);
  text +=
      "GresTypes=gpu,slice,mslice\n"
      "SelectType=select/cons_tres\n"
      "JobRequeue=1\n"
      "# With slurmdbd, so that shares, limits and accounts are in slices:\n"
      "#AccountingStorageTRES=gres/gpu,gres/slice,gres/mslice\n"
      "# Of each node its GPUs, and the slices of all of them together:\n";
  for (const SiteNodes& some : site.nodes) {
    const auto model = catalogue.get(some.gpu);
    if (!model) continue;
    append(text, "# NodeName={} Gres=gpu:{}:{},slice:{},mslice:{} ...\n", some.names,
           slurm_type((*model)->name), some.count, (*model)->compute_slices * some.count,
           (*model)->memory_slices * some.count);
  }
  return text;
}

std::string gres_conf_text(const SlurmSite& site, const hw::Catalogue& catalogue) {
  std::string text =
      "# Written by `partita slurm install`: lines for gres.conf (docs/slurm.md).\n"
      "AutoDetect=off\n";
  for (const SiteNodes& some : site.nodes) {
    const auto model = catalogue.get(some.gpu);
    if (!model) continue;
    const std::string devices = some.count == 1 ? "0" : fmt::format("[0-{}]", some.count - 1);
    append(text, "NodeName={} Name=gpu Type={} File=/dev/nvidia{}\n", some.names,
           slurm_type((*model)->name), devices);
    append(text, "NodeName={} Name=slice Count={}\n", some.names,
           (*model)->compute_slices * some.count);
    append(text, "NodeName={} Name=mslice Count={}\n", some.names,
           (*model)->memory_slices * some.count);
  }
  return text;
}

}  // namespace

Result<std::map<std::string, SiteFile>> site_files(const SlurmSite& site,
                                                   const hw::Catalogue& catalogue,
                                                   const FilePlaces& places) {
  auto tables = TRY(lua_tables(site, catalogue));
  std::map<std::string, SiteFile> files;
  files["job_submit.lua"] = {tables + std::string(kPlugin)};
  files["jobcomp.lua"] = {fmt::format(
      "-- Written by `partita slurm install`.\nlocal ENDED = \"{}\"\n\n{}", site.ended, kEnded)};
  files["partita-prolog.sh"] = {prolog_text(site, places), true};
  files["partita-epilog.sh"] = {epilog_text(site, places), true};
  files["partita-task.sh"] = {task_text(site), true};
  files["slurm.conf.partita"] = {slurm_conf_text(site, catalogue, places), false, true};
  if (!places.spank.empty())
    files["plugstack.conf.partita"] = {
        fmt::format("# Written by `partita slurm install`: lines for plugstack.conf "
                    "(docs/slurm.md).\nrequired {} jobs={}\n",
                    places.spank, site.jobs),
        false, true};
  files["gres.conf.partita"] = {gres_conf_text(site, catalogue), false, true};
  return files;
}

}  // namespace partita::slurm
