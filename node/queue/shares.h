// Fair shares: how much of the machine a user has had lately, in slice seconds that count half as
// much after every half-life, against what is due to them. Pure.
#pragma once

#include <map>
#include <string>

#include "plan/batch.h"

namespace partita::queue {

inline constexpr plan::Nanos kHalfLife = plan::Nanos{7} * 86'400 * plan::kNanosInSecond;

struct Usage {
  double slice_s = 0;  // as of
  plan::Nanos at = 0;
  bool operator==(const Usage&) const = default;
};

class Shares {
 public:
  explicit Shares(std::map<std::string, double> due = {}) : due_(std::move(due)) {}
  void restore(const std::string& user, const Usage& usage) { used_[user] = usage; }
  const Usage& add(const std::string& user, double slice_s, plan::Nanos now);
  // Of the user's tasks: 1 with what is due to them, up to 2 with less, down to 1/4 with more.
  double weight(const std::string& user, plan::Nanos now) const;
  double share(const std::string& user) const;  // that is due to them

 private:
  std::map<std::string, double> due_;  // 1 where nothing is said
  std::map<std::string, Usage> used_;
};

}  // namespace partita::queue
