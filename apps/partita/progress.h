// Progress: a line on a terminal that is overwritten and at the end removes itself. Silent where
// standard error is no terminal.
#pragma once

#include <fmt/format.h>

#include <string>

#include "context.h"

namespace partita::cli {

class Progress {
 public:
  explicit Progress(Context& context) : context_(context) {}
  ~Progress() {
    if (shown_) std::fputs("\r\033[2K", context_.err);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& line) {
    if (!context_.err_terminal) return;
    std::fputs(fmt::format("\r\033[2K{}", line).c_str(), context_.err);
    std::fflush(context_.err);
    shown_ = true;
  }

 private:
  Context& context_;
  bool shown_ = false;
};

}  // namespace partita::cli
