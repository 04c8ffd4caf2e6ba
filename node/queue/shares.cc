#include "queue/shares.h"

#include <algorithm>
#include <cmath>

namespace partita::queue {
namespace {

double decayed(const Usage& usage, plan::Nanos now) {
  const double half_lives = static_cast<double>(now - usage.at) / static_cast<double>(kHalfLife);
  return usage.slice_s * std::exp2(-std::max(0.0, half_lives));
}

}  // namespace

double Shares::share(const std::string& user) const {
  const auto found = due_.find(user);
  return found == due_.end() ? 1 : found->second;
}

const Usage& Shares::add(const std::string& user, double slice_s, plan::Nanos now) {
  Usage& usage = used_[user];
  usage = {decayed(usage, now) + slice_s, std::max(now, usage.at)};
  return usage;
}

double Shares::weight(const std::string& user, plan::Nanos now) const {
  double all = 0, shares = 0, own = 0;
  for (const auto& [name, usage] : used_) {
    const double used = decayed(usage, now);
    all += used;
    shares += share(name);
    if (name == user) own = used;
  }
  if (!used_.contains(user)) shares += share(user);
  if (all <= 0 || shares <= 0) return 1;
  // 1 where what was had is what is due.
  const double ratio = (own / all) / (share(user) / shares);
  return std::clamp(std::exp2(1 - ratio), 0.25, 2.0);
}

}  // namespace partita::queue
