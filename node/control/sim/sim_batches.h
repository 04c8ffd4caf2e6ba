// SimBatches: runs of batches on a SimNode, in virtual time: the real executor with its journal on
// the node's disk, tasks that are processes of the simulation and take about as long as their file
// says. The agent may be killed at any call; tasks live on, and what is opened next goes on with
// them. A reboot ends them. Counts how often each task was begun and came to its end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/batch.h"
#include "control/host/batch_work.h"

namespace partita::control {

class SimNode;

class SimBatches {
 public:
  explicit SimBatches(SimNode& node, std::uint64_t seed);
  ~SimBatches();
  SimBatches(const SimBatches&) = delete;
  SimBatches& operator=(const SimBatches&) = delete;

  // As BatchRunner.
  void carry(const std::vector<BatchDeed>& deeds);
  std::vector<BatchRunNow> runs() const;
  // Does what can be done now; when there will be more to do, on the node's clock.
  std::optional<std::int64_t> step();
  // Whether a run has ended since this was asked last.
  bool news() { return std::exchange(news_, false); }
  // The agent was killed.
  void drop();
  // The machine stops.
  void reboot();

  // By batch and task ("3/train"): processes begun, and those that came to their end by themselves.
  const std::map<std::string, int>& begun() const { return begun_; }
  const std::map<std::string, int>& ended() const { return ended_; }
  // What runs now: the device (a MIG UUID) of each task's process.
  std::vector<std::pair<std::string, std::string>> running() const;

 private:
  class PassedOn;
  class Tasks;
  class TasksOfRun;
  struct Run {
    BatchDeed deed;
    BatchOrders orders;
    std::unique_ptr<TasksOfRun> tasks;
    std::unique_ptr<BatchWork> work;
    std::unique_ptr<exec::SteppedRun> steps;
    BatchRunNow now;
    std::size_t returned = 0;  // GPUs that it has left
    std::optional<std::int64_t> retry_ns = {};
    std::optional<std::int64_t> wake_ns = {};
  };
  BatchDoors doors(Processes& tasks) const;
  void open(Run& run);
  void carry_on(Run& run);
  SimBehaviour behaviour(const ProcessSpec& spec);
  void settle_tasks();

  SimNode& node_;
  const std::uint64_t seed_;
  std::unique_ptr<SimProcesses> processes_;
  std::unique_ptr<Tasks> tasks_;
  std::map<std::string, std::unique_ptr<Run>> runs_;  // by key
  std::map<std::string, int> begun_, ended_;
  bool news_ = false;
};

}  // namespace partita::control
