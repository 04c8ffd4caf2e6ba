// Notifier: tells receivers, each on a thread of its own, so that a slow one holds up neither the
// caller nor the others. tell() never blocks. Bounded: kMaxQueued notices per receiver, the oldest
// goes first; what could not be told after all tries is reported, not kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control/notify/notice.h"

namespace partita::notify {

inline constexpr std::size_t kMaxQueued = 256;
inline constexpr std::size_t kMaxReports = 1024;

// What became of a notice at one receiver.
struct Report {
  std::string receiver;
  Notice notice;
  bool told = false;
  int tries = 0;
  std::string why = {};  // not told
};

struct Patience {
  std::int64_t first_pause_ms = 1000;  // before the second try; doubled from try to try
  std::int64_t longest_pause_ms = 60'000;
};

class Notifier {
 public:
  explicit Notifier(std::vector<Receiver> receivers, const Patience& patience = {});
  // Gives up what waits; a try under way comes to its end first, which takes its timeout at most.
  ~Notifier();
  Notifier(const Notifier&) = delete;

  // Any thread.
  void tell(const Notice& notice);
  // What has been told or given up since the last call, for the history.
  std::vector<Report> reports();
  // Whether nothing waits and nobody is being told.
  bool idle() const;

 private:
  class Line;
  std::vector<std::unique_ptr<Line>> lines_;
};

// One try: whether it was told. `retry`: whether another try could be better.
struct Try {
  bool told = false, retry = true;
  std::string why = {};
};
Try try_once(const Receiver& receiver, const Notice& notice);

}  // namespace partita::notify
