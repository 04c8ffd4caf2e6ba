// Attempts of tasks as processes of this machine. Each runs in a shell that first claims the
// attempt by making a file that must not exist, and at its end notes the exit status in another.
// So whoever comes after a kill knows: an attempt that nobody has claimed is claimed by the one who
// asks, and can never begin; one that was claimed runs, or has noted its status, or died without.
#pragma once

#include <map>
#include <string>

#include "base/files.h"
#include "base/processes.h"
#include "queue/host/doors.h"

namespace partita::queue {

class Attempts final : public AttemptDoor {
 public:
  // `folder` is absolute and there: TASK.log, and TASK.ATTEMPT.claim and .status in it.
  Attempts(Processes& processes, Files& files, std::string folder);

  Result<Began> start(const Task& task) override;
  Event recover(const Task& task) override;
  std::vector<Event> ended() override;
  void stop(Pid pid, StopSignal signal) override;
  void save(const Task& task) override;
  void stop_save(long task) override;

  // What its attempts have printed.
  std::string log_path(long task) const;

 private:
  std::string path(const Task& task, const char* kind) const;
  std::string tag(const Task& task) const;
  Ended noted(const Task& task);
  Event at_end(const Task& task, Event event);
  std::map<std::string, std::string> environment(const Task& task) const;

  struct Watched {
    Task task;
    bool saves = false;  // its checkpoint command
  };
  Processes& processes_;
  Files& files_;
  std::string folder_, boot_;
  std::map<Pid, Watched> watched_;
  std::vector<Event> events_;
  std::map<Pid, std::string> found_;  // as they were found when the first was asked for
  bool looked_ = false;
};

}  // namespace partita::queue
