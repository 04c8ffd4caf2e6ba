#include "control/damping.h"

#include <algorithm>

namespace partita::control {
namespace {

constexpr std::int64_t kBudgetMs = 60 * kMinuteMs;
constexpr double kLongestTryPause = 3600;

}  // namespace

bool Damping::is_within(std::int64_t at_ms, std::int64_t now_ms) const {
  return static_cast<double>(now_ms - at_ms) < settings_.cooldown_s * 1000;
}

bool Damping::cools(const std::vector<Touched>& touched, const std::string& subject,
                    std::int64_t now_ms) const {
  const auto found = std::ranges::find(touched, subject, &Touched::subject);
  return found != touched.end() && is_within(found->at_ms, now_ms);
}

bool Damping::cools(const std::string& service, std::int64_t now_ms) const {
  return cools(kept_.services_touched, service, now_ms);
}

bool Damping::cools(const Difference& difference, std::int64_t now_ms) const {
  const auto any = [&](const std::vector<Touched>& touched,
                       const std::vector<std::string>& subjects) {
    return std::ranges::any_of(subjects,
                               [&](const std::string& one) { return cools(touched, one, now_ms); });
  };
  return any(kept_.services_touched, difference.services) ||
         any(kept_.gpus_touched, difference.gpus);
}

int Damping::moves_left(double share, std::int64_t now_ms) const {
  int used = 0;
  for (const MovesAt& one : kept_.moves)
    if (now_ms - one.at_ms < kBudgetMs) used += one.moves;
  return static_cast<int>(settings_.moves_per_hour * share) - used;
}

std::vector<MadeAt> Damping::just_made(std::int64_t now_ms) const {
  std::vector<MadeAt> made = kept_.made;
  std::erase_if(made, [&](const MadeAt& one) { return !is_within(one.at_ms, now_ms); });
  return made;
}

void Damping::touch(std::vector<Touched>& touched, const std::vector<std::string>& subjects,
                    std::int64_t now_ms) const {
  for (const std::string& subject : subjects) {
    std::erase_if(touched, [&](const Touched& one) { return one.subject == subject; });
    touched.push_back({subject, now_ms});
  }
  std::erase_if(touched, [&](const Touched& one) { return !is_within(one.at_ms, now_ms); });
  std::ranges::sort(touched, {}, &Touched::subject);
}

void Damping::adopt(const Difference& difference, bool first, std::int64_t now_ms) {
  touch(kept_.services_touched, difference.services, now_ms);
  touch(kept_.gpus_touched, difference.gpus, now_ms);
  std::erase_if(kept_.moves, [&](const MovesAt& one) { return now_ms - one.at_ms >= kBudgetMs; });
  if (!difference.made.empty() && !first)
    kept_.moves.push_back({now_ms, static_cast<int>(difference.made.size())});
  kept_.made = just_made(now_ms);
  for (MadeAt one : difference.made) {
    one.at_ms = now_ms;
    kept_.made.push_back(std::move(one));
  }
}

void Damping::begin_cooldown(std::int64_t since_ms, std::int64_t now_ms) {
  const auto begin = [&](auto& all) {
    for (auto& one : all)
      if (one.at_ms >= since_ms) one.at_ms = now_ms;
  };
  begin(kept_.services_touched);
  begin(kept_.gpus_touched);
  begin(kept_.made);
}

bool Tries::may(const std::string& kind, const std::string& about, std::int64_t now_ms) const {
  const auto found = tried_.find(kind);
  return found == tried_.end() || found->second.about != about || now_ms >= found->second.until_ms;
}

void Tries::note(const std::string& kind, const std::string& about, double pause_s,
                 std::int64_t now_ms) {
  const auto [place, first] = tried_.try_emplace(kind);  // what it is about may be nothing
  Tried& one = place->second;
  const bool again = !first && one.about == about;
  one.pause_s = again ? std::min(one.pause_s * 2, kLongestTryPause) : pause_s;
  one.about = about;
  one.until_ms = now_ms + static_cast<std::int64_t>(one.pause_s * 1000);
}

}  // namespace partita::control
