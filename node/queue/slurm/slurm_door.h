// The door to Slurm: its own commands (squeue, sinfo, scontrol), run one after the other. Real ones
// through the processes door; tests simulate a Slurm. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/processes.h"
#include "base/result.h"
#include "queue/slurm/slurm_state.h"

namespace partita::slurm {

struct SlurmAnswer {
  int status = 0;
  std::string out, complaint;  // its output, and what it says of itself
};

class SlurmDoor {
 public:
  virtual ~SlurmDoor() = default;
  // Runs a command to its end. An error is that it cannot be started, or does not end in time.
  virtual Result<SlurmAnswer> run(const std::vector<std::string>& argv) = 0;
};

inline constexpr std::int64_t kCommandLimitNs = 60'000'000'000;

class RealSlurm final : public SlurmDoor {
 public:
  // What commands print goes through files in `folder`, which must be there.
  RealSlurm(Processes& processes, Clock& clock, Files& files, std::string folder)
      : processes_(processes), clock_(clock), files_(files), folder_(std::move(folder)) {}
  Result<SlurmAnswer> run(const std::vector<std::string>& argv) override;

 private:
  Processes& processes_;
  Clock& clock_;
  Files& files_;
  std::string folder_;
};

// The output of a command that must succeed: else an error with its complaint.
Result<std::string> output_of(SlurmDoor& slurm, const std::vector<std::string>& argv);
// Everything the placer looks at but what has ended.
Result<SlurmState> read_slurm(SlurmDoor& slurm);

}  // namespace partita::slurm
