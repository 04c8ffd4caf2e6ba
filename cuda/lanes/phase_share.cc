#include "lanes/phase_share.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace partita::lanes {
namespace {

constexpr int kMostBorders = 7;
constexpr double kUnlike = 0.5;    // units
constexpr double kBusy = 0.8;      // prefill at most
constexpr double kCareful = 0.95;  // of that, or of what is promised, before units are given away

PhaseOptions with_clock(PhaseOptions options) {
  if (!options.now)
    options.now = [] {
      return std::int64_t{std::chrono::steady_clock::now().time_since_epoch().count()};
    };
  CHECK(!options.decode.empty() && options.decode.front() > 0 &&
        options.decode.back() < options.units);
  return options;
}

}  // namespace

std::vector<int> phase_borders(int units, int atom) {
  const int atoms = units / atom, parts = std::min(atoms, kMostBorders + 1);
  std::vector<int> borders;
  for (int i = 1; i < parts; ++i) borders.push_back(atom * (atoms * i / parts));
  return borders;
}

PhaseShare::PhaseShare(PhaseOptions options)
    : options_(with_clock(std::move(options))),
      border_(options_.decode.size() / 2),
      seen_(options_.now()),
      window_(seen_) {
  steps_.since = seen_;
}

std::shared_ptr<void> PhaseShare::work(std::shared_ptr<PhaseShare> share, Phase phase) {
  {
    const std::lock_guard lock(share->mutex_);
    share->look();
    ++share->at(phase).unfinished;
    share->at(phase).fresh = true;
  }
  PhaseShare* const mine = share.get();
  return {mine, [share = std::move(share), phase](PhaseShare*) {
            const std::lock_guard lock(share->mutex_);
            share->look();
            Lane& lane = share->at(phase);
            if (--lane.unfinished == 0) lane.idle_since = share->seen_;
          }};
}

int PhaseShare::units(Phase phase, std::size_t lane) const {
  if (lane == 0) return options_.units;
  const int decode = options_.decode[lane - 1];
  return phase == Phase::decode ? decode : options_.units - decode;
}

std::size_t PhaseShare::lane_of(Phase phase) {
  const std::lock_guard lock(mutex_);
  look();
  const bool all = lends(at(phase == Phase::decode ? Phase::prefill : Phase::decode));
  const std::size_t lane = all ? 0 : border_ + 1;
  ++at(phase).kernels;
  at(phase).granted += units(phase, lane);
  return lane;
}

void PhaseShare::request_ended(Phase phase) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(at(phase).fresh, false) || phase != Phase::decode) return;
  look();
  ++steps_.count;
  if (options_.decode_at_most > 0 && seen_ - steps_.since >= options_.window) keep_promise();
}

void PhaseShare::look() {
  const std::int64_t now = options_.now();
  // Who has no work lends from some moment on.
  for (const Lane& lane : lanes_)
    if (const std::int64_t lent = lane.idle_since + options_.lend_after;
        lane.unfinished == 0 && lent > seen_ && lent < now)
      spend(lent);
  spend(now);
  if (now - window_ >= options_.window) end_window();
}

// What was worked since the last look.
void PhaseShare::spend(std::int64_t until) {
  const auto time = static_cast<double>(until - seen_);
  for (const Phase phase : {Phase::prefill, Phase::decode}) {
    Lane& mine = at(phase);
    const Lane& other = at(phase == Phase::decode ? Phase::prefill : Phase::decode);
    if (mine.unfinished == 0) continue;
    const double worked = time * units(phase, lends(other) ? 0 : border_ + 1);
    mine.work += worked;
    if (phase == Phase::prefill && other.unfinished > 0) together_ += time;
    if (phase == Phase::decode) steps_.busy += time, steps_.work += worked;
  }
  seen_ = until;
}

void PhaseShare::end_window() {
  const auto length = static_cast<double>(seen_ - std::exchange(window_, seen_));
  const double old = std::exp2(-length / static_cast<double>(options_.window));
  demand_ = old * demand_ + (1 - old) * at(Phase::prefill).work / length;
  for (Lane& lane : lanes_) lane.work = 0;
  if (std::exchange(together_, 0) == 0 || options_.decode_at_most > 0) return;
  // The most units for decode that leave prefill enough.
  const auto leaving = [&](double busy) {
    const auto found = std::ranges::upper_bound(options_.decode, options_.units - demand_ / busy);
    return std::max<std::size_t>(static_cast<std::size_t>(found - options_.decode.begin()), 1) - 1;
  };
  const std::size_t fewer = leaving(kBusy), more = leaving(kBusy * kCareful);
  if (fewer < border_) move_to(fewer);
  if (more > border_) move_to(more);
}

// Of the time of steps, what more units make no shorter: from two numbers of units; none is known
// where there was one.
double PhaseShare::constant_part(const Measured& measured) const {
  const auto& other = before_;
  if (!other) return 0;
  const double divided = (other->took - measured.took) / (1 / other->on - 1 / measured.on);
  return std::clamp(measured.took - divided / measured.on, 0.0, measured.took);
}

void PhaseShare::keep_promise() {
  const Steps steps = std::exchange(steps_, {.since = seen_});
  if (steps.busy <= 0) return;
  const Measured now{steps.busy / static_cast<double>(steps.count), steps.work / steps.busy};
  if (measured_ && std::abs(measured_->on - now.on) >= kUnlike) before_ = measured_;
  measured_ = now;
  const auto promised = static_cast<double>(options_.decode_at_most);
  const double constant = constant_part(now);
  const std::size_t last = options_.decode.size() - 1;
  const auto enough = [&](double most, double fixed) {
    const double units =
        most > fixed ? now.on * (now.took - fixed) / (most - fixed) : options_.units;
    const auto found = std::ranges::lower_bound(options_.decode, units);
    return std::min(static_cast<std::size_t>(found - options_.decode.begin()), last);
  };
  if (now.took > promised)
    return move_to(std::min(std::max(enough(promised, 0), border_ + 1), last));
  const std::size_t surely = enough(kCareful * promised, 0);
  if (surely < border_) return move_to(surely);
  if (border_ > 0 && enough(kCareful * promised, constant) < border_) move_to(border_ - 1);
}

void PhaseShare::move_to(std::size_t border) {
  moves_ += border != border_ ? 1 : 0;
  border_ = border;
}

PhaseShare::Report PhaseShare::report() const {
  const std::lock_guard lock(mutex_);
  Report report{.moves = moves_};
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    report.kernels[i] = lanes_[i].kernels;
    if (lanes_[i].kernels > 0)
      report.units[i] = lanes_[i].granted / static_cast<double>(lanes_[i].kernels);
  }
  return report;
}

}  // namespace partita::lanes
