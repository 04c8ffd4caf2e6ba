#include "queue/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/index.h"

namespace partita::queue {
namespace {

constexpr double kMibInGib = 1024;
constexpr double kFixedShare = 0.3;  // of a time on one slice that larger sizes do not shorten
constexpr double kNanos = 1e9;

struct Point {
  int gpcs = 0;
  double time_s = 0, weight = 0;
};

// time = fixed + work / size, the least squares over the points, neither part negative.
struct Law {
  double fixed = 0, work = 0;
  double at(int gpcs) const { return fixed + work / gpcs; }
};

Law law_through(const std::vector<Point>& points) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Point& p : points) {
    const double inverse = 1.0 / p.gpcs;
    w += p.weight;
    x += p.weight * inverse;
    y += p.weight * p.time_s;
    xx += p.weight * inverse * inverse;
    xy += p.weight * inverse * p.time_s;
  }
  const double spread = w * xx - x * x;
  const double mean = y / w, inverse = x / w;
  if (spread < 1e-9 * w * w) {  // one size: the usual share is fixed
    const double whole = mean / (kFixedShare + (1 - kFixedShare) * inverse);
    return {kFixedShare * whole, (1 - kFixedShare) * whole};
  }
  Law law;
  law.work = (w * xy - x * y) / spread;
  law.fixed = mean - law.work * inverse;
  if (law.work < 0) return {mean, 0};
  if (law.fixed < 0) return {0, xy / xx};
  return law;
}

}  // namespace

void TimeStats::add(double time_s) {
  ++runs;
  const double before = time_s - mean_s;
  mean_s += before / static_cast<double>(runs);
  squares += before * (time_s - mean_s);
}

double TimeStats::cv() const {
  if (runs < 2 || mean_s <= 0) return kUnknownCv / 2;
  return std::sqrt(squares / static_cast<double>(runs - 1)) / mean_s;
}

std::string name_of(const Spec& spec) {
  const std::string& name = spec.name.empty() ? spec.command : spec.name;
  return spec.gpus == 1 ? name : fmt::format("{} on {}", name, spec.gpus);
}

const TimeStats& Times::learn(const TimeKey& key, double time_s) {
  if (known_.size() >= kMaxLearned && !known_.contains(key)) known_.erase(known_.begin());
  TimeStats& stats = known_[key];
  stats.add(time_s);
  return stats;
}

std::vector<int> profiles_for(const Spec& spec, const hw::GpuModel& model) {
  const auto lacks = [&](const hw::MigProfile& profile) {
    return spec.memory_gib && profile.memory &&
           profile.memory->value < *spec.memory_gib * kMibInGib;
  };
  const auto plain_lacks = [&](int gpcs) {
    return std::ranges::any_of(model.profiles, [&](const hw::MigProfile& other) {
      return other.plain() && other.gpcs == gpcs && lacks(other);
    });
  };
  const bool whole = spec.gpus > 1 && spec.profiles.empty() && !spec.memory_gib;
  std::vector<int> all;
  for (std::size_t i = 0; i < model.profiles.size(); ++i) {
    const hw::MigProfile& profile = model.profiles[i];
    const auto named = [&](const std::string& name) {
      return name == profile.name || std::ranges::count(profile.aliases, name) > 0 ||
             (profile.plain() && name == std::to_string(profile.gpcs) + "g");
    };
    const bool usual =
        whole ? profile.gpcs == model.compute_slices && profile.plain()
              : profile.plain() || (profile.double_memory() && plain_lacks(profile.gpcs));
    const bool may = spec.profiles.empty() ? usual : std::ranges::any_of(spec.profiles, named);
    if (may && !lacks(profile)) all.push_back(static_cast<int>(i));
  }
  return all;
}

Times::Estimate Times::estimate(const Spec& spec, const hw::GpuModel& model) const {
  std::vector<Point> points;
  std::map<int, double> direct;
  double cv = 0, cv_weight = 0, said_anywhere = 0;
  for (const KnownTime& said : spec.times) {
    if (said.gpcs == 0) said_anywhere = said.time_s;
  }
  for (const hw::MigProfile& profile : model.profiles) {
    if (!profile.plain()) continue;
    double sum = 0, weight = 0;
    for (const KnownTime& said : spec.times) {
      if (said.gpcs != profile.gpcs && said.gpcs != 0) continue;
      sum += said.time_s;
      weight += 1;
      cv += spec.time_cv;
      cv_weight += 1;
    }
    const auto known = known_.find({spec.user, name_of(spec), model.name, profile.gpcs});
    if (known != known_.end()) {
      const auto runs = static_cast<double>(known->second.runs);
      sum += known->second.mean_s * runs;
      weight += runs;
      cv += known->second.cv() * runs;
      cv_weight += runs;
    }
    if (weight == 0) continue;
    direct[profile.gpcs] = sum / weight;
    points.push_back({profile.gpcs, sum / weight, weight});
  }
  Estimate estimate;
  estimate.measured = !points.empty() || said_anywhere > 0;
  if (points.empty()) points.push_back({1, kUnknownTimeS, 1});
  if (cv_weight > 0) estimate.cv = cv / cv_weight;
  const Law law = law_through(points);
  for (const int profile : profiles_for(spec, model)) {
    const int gpcs = model.profiles[at(profile)].gpcs;
    const auto known = direct.find(gpcs);
    const double time_s =
        std::clamp(known != direct.end() ? known->second : law.at(gpcs), 1e-3, 1e6);
    estimate.times[gpcs] = std::max<plan::Nanos>(1, std::llround(time_s * kNanos));
  }
  return estimate;
}

}  // namespace partita::queue
