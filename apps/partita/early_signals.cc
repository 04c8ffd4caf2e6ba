#include "early_signals.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "context.h"

namespace partita::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Those that docs/ promises an end in order of.
constexpr std::string_view kInOrder[] = {"apply", "drain", "batch run", "power run", "power set"};

extern "C" void end_in_order(int) {
  constexpr std::string_view kSentence = "partita: interrupted before anything was begun\n";
  static_cast<void>(::write(STDERR_FILENO, kSentence.data(), kSentence.size()) > 0);
  ::_exit(static_cast<int>(Exit::environment));
}

}  // namespace

EarlySignals::EarlySignals() {
  sigset_t early;
  sigemptyset(&early);
  for (const int signal : kSignals) sigaddset(&early, signal);
  ::pthread_sigmask(SIG_BLOCK, &early, &before_);
}

EarlySignals::Way EarlySignals::way_of(std::string_view command) {
  if (command == "agent" || command == "workers") return Way::kept;
  return std::ranges::find(kInOrder, command) == std::end(kInOrder) ? Way::plain : Way::in_order;
}

void EarlySignals::hand_over(std::string_view command) const {
  const Way way = way_of(command);
  if (way == Way::kept) return;
  for (const int signal : kSignals) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (way != Way::in_order || now.sa_handler == SIG_IGN) continue;
    now = {};
    now.sa_handler = end_in_order;
    ::sigaction(signal, &now, nullptr);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace partita::cli
