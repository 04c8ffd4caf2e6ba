// What keeps changes few: how many moves an hour still has, what was changed lately, what was tried
// in vain. Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/memory.h"
#include "control/settings.h"

namespace partita::control {

// What differs between two targets: instances made, and subjects touched.
struct Difference {
  std::vector<MadeAt> made;                 // without their time
  std::vector<std::string> services, gpus;  // sorted; GPUs by UUID
};

class Damping {
 public:
  // `kept` is written here only, and outlives this.
  Damping(const DampingSettings& settings, DampingKept& kept) : settings_(settings), kept_(kept) {}

  // Whether a service was changed within its cooldown.
  bool cools(const std::string& service, std::int64_t now_ms) const;
  // Whether any subject of this was.
  bool cools(const Difference& difference, std::int64_t now_ms) const;
  // Instances that may still be made in this hour, of a share of what it has.
  int moves_left(double share, std::int64_t now_ms) const;
  // Instances that were made within the cooldown.
  std::vector<MadeAt> just_made(std::int64_t now_ms) const;

  // This is decided; a `first` plan takes no moves.
  void adopt(const Difference& difference, bool first, std::int64_t now_ms);
  // What was decided since then is there now: its cooldown begins only now.
  void begin_cooldown(std::int64_t since_ms, std::int64_t now_ms);

 private:
  bool is_within(std::int64_t at_ms, std::int64_t now_ms) const;
  bool cools(const std::vector<Touched>& touched, const std::string& subject,
             std::int64_t now_ms) const;
  void touch(std::vector<Touched>& touched, const std::vector<std::string>& subjects,
             std::int64_t now_ms) const;

  DampingSettings settings_;
  DampingKept& kept_;
};

// What led to nothing: not again before a time, twice as long each time, or when it is about
// something else.
class Tries {
 public:
  bool may(const std::string& kind, const std::string& about, std::int64_t now_ms) const;
  void note(const std::string& kind, const std::string& about, double pause_s, std::int64_t now_ms);
  void forget() { tried_.clear(); }

 private:
  struct Tried {
    std::string about;
    std::int64_t until_ms = 0;
    double pause_s = 0;
  };
  std::map<std::string, Tried> tried_;
};

}  // namespace partita::control
