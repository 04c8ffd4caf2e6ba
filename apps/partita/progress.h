// Progress: a line on a terminal that is overwritten and at the end removes itself. Silent where
// standard error is no terminal.
#pragma once

#include <fmt/format.h>

#include <string>

#include "context.h"
#include "decide/made.h"

namespace partita::cli {

class Progress {
 public:
  explicit Progress(Context& context) : context_(context) {}
  ~Progress() {
    if (shown_) fmt::print(context_.err, "\r\033[2K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& line) {
    if (!context_.err_terminal) return;
    fmt::print(context_.err, "\r\033[2K{}", line);
    std::fflush(context_.err);
    shown_ = true;
  }

  // For a planner, as long as this lives.
  decide::Watch watch() {
    return {[this] { return static_cast<double>(context_.clock.cpu_ns()) / 1e6; },
            [this](const std::string& line) { show(line); }};
  }

 private:
  Context& context_;
  bool shown_ = false;
};

}  // namespace partita::cli
