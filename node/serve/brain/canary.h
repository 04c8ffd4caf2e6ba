// Canary: a new version of a model beside the one that serves, with a share of its requests, or
// with copies of them whose answers are thrown away (shadow). Decides which requests it gets, and
// when it is taken back or promoted. Pure: outcomes and times are the caller's. Single-threaded.
//
// Bad is an answer that failed or came later than the SLO. It is taken back as soon as a cumulative
// sum of log-likelihood ratios (E. S. Page, Continuous Inspection Schemes, Biometrika 1954) says
// that its bad part is 20 points above that of the version that serves rather than equal to it:
// when all fail, at the third one. After `watch` and kFewestAnswers it is promoted, unless more of
// its answers were bad than chance makes of the other's part, or it is slower by half and uses more
// than half of the SLO: then it is taken back, too. While most of its answers are bad, as those of
// the other are, nothing speaks for it: it stays on trial.
#pragma once

#include <array>
#include <string>

#include "plan/admission.h"
#include "sim/histogram.h"

namespace partita::serve {

using plan::Nanos;

inline constexpr long kFewestAnswers = 100;  // before it is promoted
inline constexpr Nanos kCanaryWatch = 60'000'000'000;

struct CanarySettings {
  double share = 0.05;  // of requests, above 0, at most 1
  bool shadow = false;
  Nanos slo = 0;
  Nanos watch = kCanaryWatch;
};

class Canary {
 public:
  enum class State : std::uint8_t { on_trial, promoted, taken_back };
  struct Side {
    long answers = 0, bad = 0;
    sim::LatencyHistogram latencies = {};
    double bad_part() const;
  };

  Canary(CanarySettings settings, Nanos begun) : settings_(settings), begun_(begun) {}

  // Whether the next request goes to it (a shadow: is copied to it). On trial never more than its
  // share of those that were asked about; when promoted all.
  bool takes_next();
  // The service's SLO is another one from now on.
  void promise(Nanos slo) { settings_.slo = slo; }
  // What became of one, of the new version or the old one.
  void answered(bool fresh, bool well, Nanos latency);
  State step(Nanos now);
  // What was decided of it before, by another one.
  void was(State state, std::string why) { decide(state, std::move(why)); }

  const CanarySettings& settings() const { return settings_; }
  State state() const { return state_; }
  const std::string& why() const { return why_; }  // it was taken back or promoted
  const Side& fresh() const { return sides_[1]; }

 private:
  double expected_bad() const;
  void decide(State state, std::string why);

  CanarySettings settings_;
  Nanos begun_;
  State state_ = State::on_trial;
  std::string why_;
  double due_ = 0, evidence_ = 0;
  std::array<Side, 2> sides_ = {};  // old, new
};

std::string_view name_of(Canary::State state);

}  // namespace partita::serve
