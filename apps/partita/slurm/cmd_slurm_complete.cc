// What no command of Slurm's does: says that a job has ended, as salloc and srun do of theirs, by
// Slurm's own library. A process of its own, since that library ends its process where it pleases.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "slurm/slurm_commands.h"

namespace partita::cli {
namespace {

constexpr int kOldest = 36, kNewest = 60;  // libslurm.so of Slurm 20.11, and of many to come

struct CompleteFlags {
  long job = 0;
  int status = 0;
};

// Its plugins look for its symbols among those of the program.
void* slurm_library() {
  for (int version = kNewest; version >= kOldest; --version)
    if (void* library =
            ::dlopen(fmt::format("libslurm.so.{}", version).c_str(), RTLD_NOW | RTLD_GLOBAL))
      return library;
  return ::dlopen("libslurm.so", RTLD_NOW | RTLD_GLOBAL);
}

Result<Exit> run_slurm_complete(const CompleteFlags& flags) {
  void* library = slurm_library();
  if (library == nullptr) return environment_error("libslurm.so", ::dlerror());
  const auto init = reinterpret_cast<void (*)(const char*)>(::dlsym(library, "slurm_init"));
  const auto complete = reinterpret_cast<int (*)(std::uint32_t, std::uint32_t)>(
      ::dlsym(library, "slurm_complete_job"));
  if (complete == nullptr) return environment_error("slurm_complete_job", ::dlerror());
  if (init != nullptr) init(nullptr);
  if (complete(static_cast<std::uint32_t>(flags.job), static_cast<std::uint32_t>(flags.status)) !=
      0)
    return environment_error("slurm_complete_job",
                             fmt::format("Slurm does not take the end of job {}", flags.job));
  return Exit::done;
}

}  // namespace

Command add_slurm_complete(CLI::App& slurm) {
  CLI::App* command = slurm.add_subcommand("complete", "Say to Slurm that a job has ended");
  command->group("");  // the placer runs it
  auto flags = std::make_shared<CompleteFlags>();
  command->add_option("JOB", flags->job)->required();
  command->add_option("STATUS", flags->status, "As waitpid gives it")->required();
  command->footer("partita slurm complete 12 0");
  return {command, [flags](Context&) { return run_slurm_complete(*flags); }};
}

}  // namespace partita::cli
