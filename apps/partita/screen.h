// What commands that watch share: the terminal as a picture that is drawn over and over, and a time
// that grows.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "context.h"
#include "places.h"

namespace partita::cli {

// Takes the terminal, and gives it back as it was, whatever ends the picture.
class Screen {
 public:
  explicit Screen(std::FILE* out) : out_(out) { put("\x1b[?1049h\x1b[?25l\x1b[2J"); }
  ~Screen() { put("\x1b[?25h\x1b[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  int height() const {
    winsize size{};
    return ::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
  }
  void draw(const std::string& frame) {
    std::string text = "\x1b[H";
    for (const char c : frame) {
      if (c == '\n') text += "\x1b[K";
      text += c;
    }
    put(text + "\x1b[J");
  }

 private:
  void put(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }
  std::FILE* out_;
};

inline bool is_terminal(const Context& context) {
  return ::isatty(::fileno(context.out)) == 1 && environment_variable("TERM") != "dumb";
}

// Seconds since the epoch that grow even when the wall clock is set back.
class WallTime {
 public:
  explicit WallTime(Clock& clock)
      : clock_(clock),
        start_ns_(clock.now_ns()),
        epoch_s_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                     .count()) {}
  Seconds now() {
    return Seconds{epoch_s_ + static_cast<double>(clock_.now_ns() - start_ns_) * 1e-9};
  }

 private:
  Clock& clock_;
  std::int64_t start_ns_;
  double epoch_s_;
};

// The first lines of a text that fit on a screen; the last one says how many are left out.
inline std::string first_lines(const std::string& text, int height) {
  std::size_t end = 0;
  int lines = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') continue;
    if (++lines < height - 1) end = i + 1;
  }
  if (height <= 0 || lines < height) return text;
  return text.substr(0, end) + "... " + std::to_string(lines - height + 2) + " more lines\n";
}

}  // namespace partita::cli
