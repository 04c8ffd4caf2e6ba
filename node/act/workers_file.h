// WorkersFile: the supervisor's state file, beside it a copy. What is damaged is set aside, what
// others do to it is made good. The Files door must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "act/workers_state.h"
#include "base/files.h"

namespace partita::actuate {

class WorkersFile {
 public:
  WorkersFile(Files& files, std::string path, std::function<void(const std::string&)> say);

  // What was written last; nothing ever: no workers. A damaged file is moved aside and its copy
  // read, without either there are no workers; an error when it cannot be moved.
  Result<WorkersState> recall();
  // Writes what is new; a failure is said once.
  void save(const WorkersState& state);
  // Once a second: where the file is not as it was written, the next save() writes it again.
  void check(std::int64_t now_ns);

 private:
  Result<WorkersState> recorded(const std::string& path);

  Files& files_;
  std::string path_, saved_;  // its content, as far as we know
  std::function<void(const std::string&)> say_;
  bool unsaved_ = false;
  std::int64_t next_check_ns_ = 0;
};

}  // namespace partita::actuate
