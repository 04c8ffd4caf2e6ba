// This program again, as a child: what the demo shows is what people would type. Owns the process;
// who forgets it ends it (SIGTERM, then waits).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace partita::cli {

class DemoChild {
 public:
  // `output`: a file that gets what it prints; empty: it prints where we do.
  static Result<DemoChild> start(const std::vector<std::string>& arguments,
                                 const std::string& output);
  ~DemoChild();
  DemoChild(DemoChild&& other) noexcept;
  DemoChild& operator=(DemoChild&&) = delete;

  bool runs();
  int wait();  // its exit status, or 128 + the signal that ended it
  void terminate();

 private:
  explicit DemoChild(int pid) : pid_(pid) {}
  int pid_ = 0;
  int status_ = 0;
};

}  // namespace partita::cli
