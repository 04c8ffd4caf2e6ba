#include "queue/slurm/slurm_door.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/append.h"
#include "base/parse_number.h"
#include "queue/slurm/site_check.h"

namespace partita::slurm {
namespace {

constexpr std::int64_t kFirstLook = 500'000, kLongestLook = 10'000'000;

std::optional<int> ended(Processes& processes, Pid pid) {
  for (const ProcessExit& one : processes.exited())
    if (one.pid == pid) return one.status;
  return std::nullopt;
}

}  // namespace

Result<SlurmAnswer> RealSlurm::run(const std::vector<std::string>& argv) {
  const std::string out = folder_ + "/slurm.out", complaint = folder_ + "/slurm.err";
  for (const std::string& file : {out, complaint}) TRY(files_.remove(file));
  ProcessSpec spec;
  // The door has one file for both.
  spec.argv = {"/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", complaint};
  spec.argv.insert(spec.argv.end(), argv.begin(), argv.end());
  spec.environment = {{"SLURM_TIME_FORMAT", "%s"}, {"LC_ALL", "C.UTF-8"}};
  spec.log_file = out;
  const Pid pid = TRY(processes_.start(spec));
  const std::int64_t give_up = clock_.now_ns() + kCommandLimitNs;
  std::int64_t wait = kFirstLook;
  for (;;) {
    if (const auto status = ended(processes_, pid)) {
      SlurmAnswer answer{*status, files_.read(out).value_or(""),
                         files_.read(complaint).value_or("")};
      while (answer.complaint.ends_with('\n')) answer.complaint.pop_back();
      return answer;
    }
    if (clock_.now_ns() >= give_up) break;
    clock_.sleep_ns(wait);
    wait = std::min(wait * 2, kLongestLook);
  }
  static_cast<void>(processes_.stop(pid, StopSignal::kill));
  return failed({ErrorCode::timeout, "Slurm does not answer", argv.front()});
}

Result<std::string> output_of(SlurmDoor& slurm, const std::vector<std::string>& argv) {
  auto answer = TRY(slurm.run(argv));
  if (answer.status != 0)
    return environment_error(argv.front(), answer.complaint.empty()
                                               ? fmt::format("ended with {}", answer.status)
                                               : answer.complaint);
  return std::move(answer.out);
}

Result<SlurmState> read_slurm(SlurmDoor& slurm) {
  const auto said = TRY(output_of(slurm, {"squeue", "--json"}));
  auto jobs = TRY(parse_jobs(said));
  const auto told = TRY(output_of(slurm, {"sinfo", "--json"}));
  auto nodes = TRY(parse_nodes(told));
  const auto shown = TRY(output_of(slurm, {"scontrol", "-o", "show", "reservation"}));
  auto reservations = TRY(parse_reservations(shown));
  const auto config = TRY(output_of(slurm, {"scontrol", "show", "config"}));
  const auto since = parse_number<long>(parse_config(config)["BOOT_TIME"]);
  return SlurmState{std::move(jobs), std::move(nodes), std::move(reservations), since.value_or(0)};
}

}  // namespace partita::slurm
