// The brain of `partita slurm serve`: from what Slurm says of its jobs and nodes, the commands that
// come next. A job that asks for instances is submitted with a beginning far away (job_submit.lua),
// so that Slurm keeps its priority and never starts it; once there is a place for it, the place is
// written into its mark, its node into its required nodes, and its beginning is now. Everything is
// read from Slurm at each step, so a placer that is killed is gone on with by the next; what it
// remembers besides only spares vain tries. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "queue/slurm/placing.h"
#include "queue/slurm/site.h"
#include "queue/slurm/slurm_state.h"

namespace partita::slurm {

struct PlacerSettings {
  long patience_s = 300;     // a job that waits longer has a place kept for it
  long stuck_s = 60;         // released, and not started by Slurm: tried elsewhere
  long rest_s = 30;          // of a job that limits keep from starting; of a node that refused
  std::size_t window = 512;  // of waiting jobs that are looked at, by priority
  std::size_t kept = 4;      // jobs that a place is kept for
};

struct SlurmCommand {
  std::string job;
  std::vector<std::string> argv;
  std::string why;
};

struct PlacerStep {
  std::vector<SlurmCommand> commands = {};
  std::size_t waiting = 0;                   // and are without a place after it
  std::size_t released = 0;                  // with a place, not started yet
  std::size_t standing = 0;                  // on their instances
  // About jobs with damaged marks, and jobs that no node takes before a reservation is over.
  std::vector<std::string> complaints = {};
};

class Placer {
 public:
  // `placing` must outlive it, the models of `gpus` too.
  Placer(const Placing& placing, std::map<std::string, SiteGpus> gpus, PlacerSettings settings)
      : placing_(placing), gpus_(std::move(gpus)), settings_(settings) {}

  PlacerStep step(long now_s, const SlurmState& state);

 private:
  struct View;
  void heed_refusal(long now_s, const SlurmJob& job);
  bool just_requeued(long now_s, const SlurmJob& job);
  static const EndedRun* ended_run(const SlurmState& state, const SlurmJob& job);
  bool is_ours(long now_s, const SlurmJob& job) const;
  void add_waiting(View& view, const SlurmJob& job);
  std::optional<WaitingJob> asked(const View& view, const SlurmJob& job);
  void place(View& view, PlacerStep& step);
  void forget(const SlurmState& state);

  const Placing& placing_;
  const std::map<std::string, SiteGpus> gpus_;
  const PlacerSettings settings_;
  std::map<std::string, std::set<std::string>> tried_ = {};  // nodes where Slurm did not start it
  std::map<std::string, long> rests_ = {};                   // until when
  // Nodes that gave a job back, since something is there that Slurm does not know of.
  struct Distrust {
    int refusals = 0;
    long until = 0;
  };
  std::map<std::string, Distrust> distrusted_ = {};
  std::map<std::string, int> refused_ = {};  // jobs, by the start that was refused
  struct Requeue {
    int restarts = 0;
    long seen_s = 0;
  };
  std::map<std::string, Requeue> requeued_ = {};  // by job
};

}  // namespace partita::slurm
