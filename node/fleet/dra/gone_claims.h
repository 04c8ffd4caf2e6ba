// GoneClaims: claims that hold instances of this node and are not at the API server any more: a
// kubelet that lost its state unprepares none. The scheduler gives their places away, so they are
// told apart from those that it counts, and are given back once nobody has used them for a while.
// Pure; times are the caller's, of a clock that never goes back.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace partita::dra {

// A claim that is prepared may be ahead of what the watch has told.
inline constexpr std::int64_t kGoneAfter = 3'000'000'000;
inline constexpr std::int64_t kReturnedAfter = 300'000'000'000;

// What claims have of a pool, as the API server says it.
struct ClaimsNow {
  bool known = false;                  // it was listed, and the watch goes on
  std::set<std::string> uids;          // of claims that have some
  std::set<std::string> devices = {};  // that they have
};

// A claim that has an instance here.
struct HeldByClaim {
  std::string uid;
  bool busy = false;  // a process uses it
};

class GoneClaims {
 public:
  // Where claims are not known now, who is gone is as before; who uses what is known.
  void see(const std::vector<HeldByClaim>& held, const ClaimsNow& claims, std::int64_t now_ns);
  bool has(const std::string& uid) const;
  // Those that are to be given back, each again as late as before.
  std::vector<std::string> take_due();

 private:
  struct Gone {
    std::int64_t since_ns = 0, unused_ns = 0;  // since when
  };
  std::map<std::string, Gone> all_;  // by UID
  std::int64_t now_ns_ = 0;
};

}  // namespace partita::dra
