#include "serve/brain/canary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace partita::serve {
namespace {

constexpr double kUsualBad = 0.01;            // no version is expected to be better than that
constexpr double kMuchMore = 0.2;             // bad answers than expected, as a part of all
constexpr double kMostBad = 0.5;              // of what is promoted
constexpr double kThreshold = 6.9;            // ln 1000
constexpr double kSlower = 1.5, kChance = 2;  // times the old one's median; standard deviations

}  // namespace

std::string_view name_of(Canary::State state) {
  constexpr std::string_view kNames[] = {"on trial", "promoted", "taken back"};
  return kNames[static_cast<int>(state)];
}

double Canary::Side::bad_part() const {
  return answers == 0 ? 0 : static_cast<double>(bad) / static_cast<double>(answers);
}

bool Canary::takes_next() {
  if (state_ == State::taken_back) return false;
  if (state_ == State::promoted) return !settings_.shadow;
  due_ += settings_.share;
  if (due_ < 1) return false;
  due_ -= 1;
  return true;
}

double Canary::expected_bad() const { return std::max(kUsualBad, sides_[0].bad_part()); }

void Canary::decide(State state, std::string why) {
  state_ = state;
  why_ = std::move(why);
}

void Canary::answered(bool fresh, bool well, Nanos latency) {
  const bool bad = !well || latency > settings_.slo;
  Side& side = sides_[fresh ? 1 : 0];
  ++side.answers;
  if (bad) ++side.bad;
  if (well) side.latencies.add(std::max<Nanos>(latency, 0));
  if (!fresh || state_ != State::on_trial) return;
  const double usual = expected_bad(), much = usual + std::min(kMuchMore, (1 - usual) / 2);
  if (usual >= 1) return;
  const double ratio = bad ? much / usual : (1 - much) / (1 - usual);
  evidence_ = std::max(0.0, evidence_ + std::log(ratio));
  if (evidence_ < kThreshold) return;
  decide(State::taken_back,
         fmt::format("{} of its {} answers failed or were late, {:.1f} % of the others", side.bad,
                     side.answers, 100 * sides_[0].bad_part()));
}

Canary::State Canary::step(Nanos now) {
  const Side& fresh = sides_[1];
  if (state_ != State::on_trial || now - begun_ < settings_.watch || fresh.answers < kFewestAnswers)
    return state_;
  const double usual = expected_bad();
  const double chance =
      kChance * std::sqrt(usual * (1 - usual) / static_cast<double>(fresh.answers));
  const Nanos own = fresh.latencies.percentile(50), other = sides_[0].latencies.percentile(50);
  const bool slow = static_cast<double>(own) > kSlower * static_cast<double>(other) &&
                    fresh.latencies.percentile(99) > settings_.slo / 2;
  if (fresh.bad_part() > usual + chance)
    decide(State::taken_back, fmt::format("{} of its {} answers failed or were late, {:.1f} % of "
                                          "the others",
                                          fresh.bad, fresh.answers, 100 * sides_[0].bad_part()));
  else if (slow && sides_[0].answers > 0)
    decide(State::taken_back,
           fmt::format("half of its answers take more than {:.1f} ms, of the others {:.1f} ms",
                       static_cast<double>(own) / 1e6, static_cast<double>(other) / 1e6));
  else if (fresh.bad_part() <= kMostBad)
    decide(State::promoted,
           fmt::format("{} answers, {} of them failed or late", fresh.answers, fresh.bad));
  return state_;
}

}  // namespace partita::serve
