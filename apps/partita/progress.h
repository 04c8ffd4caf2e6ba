// Progress: a line on a terminal that is overwritten and at the end removes itself, as it does when
// something is said meanwhile. Silent where standard error is no terminal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/unicode.h"
#include "context.h"
#include "decide/made.h"

namespace partita::cli {

class Progress {
 public:
  explicit Progress(Context& context) : context_(context) {}
  ~Progress() { note(context_, ""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A line that the terminal would wrap could not be taken back, so it is cut.
  void show(const std::string& line) {
    if (!context_.progress) return;
    const int room = context_.err_width - 1;
    std::fputs(("\r\033[2K" + fit(line, std::min(columns(line), room))).c_str(), context_.err);
    std::fflush(context_.err);
    context_.progress_shown = true;
  }

  // For a planner, as long as this lives.
  decide::Watch watch() {
    return {[this] { return static_cast<double>(context_.clock.cpu_ns()) / 1e6; },
            [this](const std::string& line) { show(line); },
            [this] { return static_cast<double>(context_.clock.now_ns()) / 1e9; }};
  }

 private:
  Context& context_;
};

}  // namespace partita::cli
