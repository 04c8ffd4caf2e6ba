// Progress: a line on a terminal that is overwritten and at the end removes itself, as it does when
// something is said meanwhile. Silent where standard error is no terminal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/unicode.h"
#include "context.h"

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
    fmt::print(context_.err, "\r\033[2K{}", fit(line, std::min(columns(line), room)));
    std::fflush(context_.err);
    context_.progress_shown = true;
  }

 private:
  Context& context_;
};

}  // namespace partita::cli
