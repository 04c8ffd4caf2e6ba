// What Slurm says of its jobs, nodes and reservations, read from `squeue --json`, `sinfo --json`
// and `scontrol -o show reservation` (with SLURM_TIME_FORMAT=%s). Forms of Slurm 22.05. Users write
// part of it: bytes that are no text are replaced, and a job whose mark is damaged has none. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "queue/slurm/host_list.h"
#include "queue/slurm/job_mark.h"

namespace partita::slurm {

inline constexpr long kForgetfulS = 600;    // since its start: what it has forgotten is looked for
inline constexpr long kNoLimit = 1L << 40;  // seconds: a job without a time limit

// Where a job is in its life, for who places it: waits; is on its nodes (also while it is made
// ready or suspended); is leaving them; has left them.
enum class Phase { waiting, running, leaving, gone };

struct SlurmJob {
  std::string id;   // as scontrol takes it: "12", "12_3"
  long number = 0;  // SLURM_JOB_ID; of tasks that wait together that of their array
  long array = 0;   // 0: none
  Phase phase = Phase::waiting;
  std::string state, reason;
  long priority = 0;  // 0: held
  std::optional<JobMark> mark = {};
  std::string why_unmarked = {};            // a mark that is damaged
  bool unlaunched = false;                  // held by Slurm: its node would not begin it
  std::vector<std::string> nodes = {};      // that it is on
  std::vector<std::string> excluded = {};   // by its user
  std::vector<std::vector<int>> gpus = {};  // whole ones by index, per node
  std::string partition, features;
  std::vector<std::string> reservations = {};  // it may begin in one of them alone; none: in none
  bool depends = false;    // on jobs that have not ended as it wants
  bool exclusive = false;  // its nodes for itself
  int restarts = 0;
  int most_at_once = 0;                           // of its array, 0: all
  long submitted = 0, eligible = 0, started = 0;  // seconds since 1970
  long limit_s = kNoLimit;
  int cpus = 1;
  double memory_mib = 0;  // per node
};

struct SlurmNode {
  std::string name;
  bool usable = false;  // takes jobs now
  int cpus = 0, busy_cpus = 0;
  double memory_mib = 0, busy_memory_mib = 0;
  std::vector<std::string> partitions = {}, features = {};
  std::string gres = {};  // "gpu:a100:1,slice:7"
  std::string why = {};   // an administrator or Slurm says that it takes none
};

struct SlurmReservation {
  std::string name;
  std::vector<std::string> nodes = {};
  long begin = 0, end = 0;
  bool maintenance = false, overlaps = false;  // flags MAINT, OVERLAP: its jobs may begin in others
  bool flexible = false;   // FLEX: its jobs may begin earlier, end later and be elsewhere
  bool any_nodes = false;  // ANY_NODES: it is of licences and the like
  std::map<std::string, int> cores = {};  // by node, where it is of some cores alone
};

// A run of a job that has ended by itself or was cancelled, as slurmctld said when it heard of it.
// One that is killed forgets its last seconds; runs are told apart by the job's submission, which a
// requeue renews, and by its restarts.
struct EndedRun {
  std::string id;  // as SlurmJob's
  long submitted = 0;
  int restarts = 0;
  bool cancelled = false;  // by its user or its time limit
  int status = 0;          // as waitpid gives it
  long later_s = 0;        // its submission may be so much later: when a requeue came is not known
  bool is(long submission, int restart) const {
    return restart == restarts && submitted <= submission && submission <= submitted + later_s;
  }
  auto operator<=>(const EndedRun&) const = default;
};

struct SlurmState {
  std::vector<SlurmJob> jobs = {};
  std::vector<SlurmNode> nodes = {};
  std::vector<SlurmReservation> reservations = {};
  long controller_since = 0;         // when slurmctld started
  std::vector<EndedRun> ended = {};  // sorted; of a slurmctld that runs long: none
};

// Tasks of an array that wait together become a job each, the first `tasks_most` of each array.
Result<std::vector<SlurmJob>> parse_jobs(std::string_view json, std::size_t tasks_most = 256);
Result<std::vector<SlurmNode>> parse_nodes(std::string_view json);
Result<std::vector<SlurmReservation>> parse_reservations(std::string_view text);
// What jobcomp.lua writes: a line "ID SUBMITTED RESTARTS STATE STATUS HEARD" each, sorted. Others,
// and runs that Slurm itself ended to begin them again, are passed over. Where such a run had ended
// before, which a killed slurmctld had forgotten, its next one has nothing left to do: it counts as
// ended, too, whenever Slurm takes it for submitted, which it does once the job's epilog is over.
std::vector<EndedRun> parse_ended(std::string_view text);

}  // namespace partita::slurm
