#include "act/predict.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::actuate {
namespace {

// Follows the capacities of all services through the steps.
class Follower {
 public:
  Follower(const Change& change, const Capacities& capacities, double min_available)
      : capacities_(capacities),
        level_(capacities.now()),
        floor_(capacities.floors(min_available)),
        full_(capacities.floors(1)),
        affected_(level_.size()) {
    for (std::size_t s = 0; s < level_.size(); ++s) affected_[s].service = capacities.services()[s];
    touched_.resize(level_.size());
    for (const Step& step : change.steps) {
      if (step.kind != Step::Kind::stop) continue;
      const int service = capacities.service(step.segment.service);
      if (service >= 0) touched_[static_cast<std::size_t>(service)] = true;
    }
  }

  void take(const Step& step, int gpcs) {
    const int service = capacities_.service(step.segment.service);
    if (service >= 0 && (step.kind == Step::Kind::start || step.kind == Step::Kind::stop)) {
      const double amount = capacities_.of(step.segment, gpcs);
      double& level = level_[static_cast<std::size_t>(service)];
      level += step.kind == Step::Kind::start ? amount : -amount;
      note(static_cast<std::size_t>(service), step);
    }
    for (std::size_t s = 0; s < level_.size(); ++s) {
      if (full_[s] <= 0) continue;
      if (!reaches(level_[s], floor_[s])) affected_[s].below += step.predicted;
      if (reaches(0, level_[s])) affected_[s].unavailable += step.predicted;
    }
  }

  std::vector<Affected> affected() const {
    std::vector<Affected> all;
    for (std::size_t s = 0; s < affected_.size(); ++s) {
      if (touched_[s]) all.push_back(affected_[s]);
    }
    std::sort(all.begin(), all.end(),
              [](const Affected& a, const Affected& b) { return a.service < b.service; });
    return all;
  }

 private:
  void note(std::size_t s, const Step& step) {
    if (full_[s] <= 0) return;
    Affected& one = affected_[s];
    one.least = std::min(one.least, std::max(0.0, level_[s] / full_[s]));
    if (!reaches(level_[s], floor_[s]) && one.why_below.empty()) {
      one.why_below = fmt::format(
          "{} has to stop before its successor can start: no room for it, nor for a stand-in",
          to_string(step.place));
    }
  }

  const Capacities& capacities_;
  std::vector<double> level_, floor_, full_;
  std::vector<Affected> affected_;
  std::vector<char> touched_;
};

void explain(Change& change) {
  auto say = [&](std::string sentence) { change.explanation.push_back(std::move(sentence)); };
  for (const Move& move : change.move) {
    say(fmt::format("{} moves from {} to {}", move.to.segment.service, to_string(move.from.place),
                    to_string(move.to.place)));
  }
  for (const Reassignment& one : change.reassign) {
    const std::string& from = one.from.segment.service;
    if (one.to.service.empty()) {
      say(fmt::format("{} keeps its instance, {} leaves it", to_string(one.from.place), from));
    } else if (from.empty()) {
      say(fmt::format("{} is there already; {} starts on it", to_string(one.from.place),
                      one.to.service));
    } else if (from == one.to.service) {
      say(fmt::format("{} keeps its instance; {} restarts with batch {} x {} processes",
                      to_string(one.from.place), from, one.to.batch, one.to.processes));
    } else {
      say(fmt::format("{} keeps its instance; {} gives way to {}", to_string(one.from.place), from,
                      one.to.service));
    }
  }
  for (const Creation& one : change.temporary) {
    say(fmt::format("{} is a stand-in for {} until its successor runs", to_string(one.place),
                    one.segment.service));
  }
  for (const Present& one : change.destroy) {
    if (!one.ours && one.segment.service.empty())
      say(fmt::format("{} is not wanted; Partita did not make it", to_string(one.place)));
  }
}

}  // namespace

Seconds driver_time(const hw::GpuModel& model, const std::string& profile, Step::Kind kind) {
  const bool creates = kind == Step::Kind::create_instance;
  if (!creates && kind != Step::Kind::destroy_instance) return {};
  const int number = model.profile_index(profile);
  if (number < 0) return {};
  const int gpcs = model.profiles[static_cast<std::size_t>(number)].gpcs;
  for (const hw::ReconfigurationTime& time : model.reconfiguration) {
    if (time.gpcs == gpcs) return creates ? time.create : time.destroy;
  }
  return {};
}

void predict(Change& change, const Capacities& capacities, const std::map<std::string, int>& gpcs,
             double min_available) {
  Follower follower(change, capacities, min_available);
  for (const Step& step : change.steps) {
    change.predicted += step.predicted;
    const auto found = gpcs.find(step.place.profile);
    follower.take(step, found == gpcs.end() ? 0 : found->second);
  }
  change.affected = follower.affected();
  explain(change);
}

}  // namespace partita::actuate
