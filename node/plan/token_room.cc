#include "plan/token_room.h"

#include <algorithm>

namespace partita::plan {
namespace {

// For one that is late; of room more where there is much of it.
constexpr double kFewer = 0.5, kMuch = 64, kLessPatient = 0.02;
// What is late even so is late for another reason.
constexpr double kLeastRoom = 4, kLeastPatience = 0.25;

// Where as many are late as may be, late ones take what the others give; while nothing is kept out
// the others give as much each, and are not late by what is let in.
double step(double down, bool late, double may_be_late, bool keeps_out) {
  if (late) return -down;
  return keeps_out ? down * may_be_late / (1 - may_be_late) : down;
}

}  // namespace

int TokenRoom::limit() const { return std::max(1, static_cast<int>(limit_)); }

void TokenRoom::ended(bool late, double may_be_late, int at_once) {
  const double fewer = kFewer * std::max(limit_ / kMuch, 1.0);
  limit_ += step(fewer, late, may_be_late, at_once >= limit());
  limit_ = std::clamp(limit_, std::min(kLeastRoom, most_), most_);
}

void TokenPatience::began(bool late, double may_be_late) {
  const bool keeps_out = calm_ < kCalm;
  calm_ += keeps_out;
  if (late && !keeps_out) return;
  share_ += step(kLessPatient, late, may_be_late, keeps_out);
  share_ = std::clamp(share_, kLeastPatience, 1.0);
}

}  // namespace partita::plan
