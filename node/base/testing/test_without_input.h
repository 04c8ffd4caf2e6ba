// For tests: as long as it lives this process has no standard input, so that what is opened next is
// number 0, as in a program that was started so.
#pragma once

#include <unistd.h>

namespace partita {

class WithoutInput {
 public:
  WithoutInput() : kept_(::dup(STDIN_FILENO)) { ::close(STDIN_FILENO); }
  ~WithoutInput() {
    ::dup2(kept_, STDIN_FILENO);
    ::close(kept_);
  }
  WithoutInput(const WithoutInput&) = delete;
  WithoutInput& operator=(const WithoutInput&) = delete;

 private:
  int kept_;
};

}  // namespace partita
