#include "act/recent_requests.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace partita::actuate {
namespace {

constexpr double kFinest = 0.25;    // seconds between entries
constexpr double kLongestSlo = 60;  // of what is told apart

}  // namespace

std::vector<KeyCounts> told_keys(std::vector<KeyCounts> all) {
  std::erase_if(all, [](const KeyCounts& key) { return key.key.empty(); });  // asked without one
  const auto less = [](const KeyCounts& one) {
    return std::tuple(-one.answered - one.tokens - one.refused, one.key);
  };
  if (all.size() > kMostKeysTold) {
    std::ranges::sort(all, {}, less);
    KeyCounts others{.key = kOtherKeys};
    for (std::size_t k = kMostKeysTold - 1; k < all.size(); ++k) {
      others.answered += all[k].answered;
      others.refused += all[k].refused;
      others.bytes += all[k].bytes;
      others.tokens += all[k].tokens;
    }
    all.resize(kMostKeysTold - 1);
    all.push_back(std::move(others));
  }
  std::ranges::sort(all, {}, &KeyCounts::key);
  return all;
}

void RecentRequests::note(double time_s, const RequestCounts& counts) {
  // A service of that name that is another one, and has been counted from nothing.
  if (!entries_.empty() && counts.asked < entries_.back().counts.asked) entries_.clear();
  // The newest entry is moved on until it is old enough to stay.
  if (entries_.size() >= 2 && time_s - entries_[entries_.size() - 2].time_s < kFinest)
    entries_.pop_back();
  entries_.push_back({time_s, counts});
  const double oldest = time_s - kLongStretch - kLongestSlo;
  while (entries_.size() > 2 && entries_[1].time_s <= oldest) entries_.pop_front();
}

RequestCounts RecentRequests::at(double time_s) const {
  const auto after = std::ranges::lower_bound(entries_, time_s, {}, &Entry::time_s);
  if (after == entries_.begin()) return entries_.front().counts;
  if (after == entries_.end()) return entries_.back().counts;
  const Entry& before = *std::prev(after);
  const double share = (time_s - before.time_s) / (after->time_s - before.time_s);
  const auto between = [&](double RequestCounts::*count) {
    return before.counts.*count + share * (after->counts.*count - before.counts.*count);
  };
  return {between(&RequestCounts::asked), between(&RequestCounts::in_slo),
          between(&RequestCounts::missed), between(&RequestCounts::withdrawn)};
}

RequestStretch RecentRequests::last(double seconds, double slo_s) const {
  if (entries_.size() < 2) return {};
  const double now = entries_.back().time_s, slo = std::min(slo_s, kLongestSlo);
  const double begin = std::max(now - seconds, entries_.front().time_s);
  const RequestCounts &is = entries_.back().counts, was = at(begin);
  RequestStretch stretch{.seconds = now - begin};
  stretch.asked = is.asked - was.asked;
  stretch.in_slo = is.in_slo - was.in_slo;
  // Those that wait for longer than they may, at a time.
  const auto overdue = [&](double time_s, const RequestCounts& ended) {
    return std::max(0.0, at(time_s - slo).asked - ended.in_slo - ended.missed - ended.withdrawn);
  };
  const double more_overdue = std::max(0.0, overdue(now, is) - overdue(begin, was));
  stretch.due = stretch.in_slo + is.missed - was.missed + more_overdue;
  return stretch;
}

}  // namespace partita::actuate
