#include "heat/dtm/governor.h"

#include <algorithm>

#include "base/check.h"

namespace partita::dtm {
namespace {

class FullSpeed final : public Governor {
 public:
  explicit FullSpeed(int top) : top_(top) {}
  int next(const EpochView&) override { return top_; }

 private:
  int top_;
};

class StepGovernor final : public Governor {
 public:
  StepGovernor(int top, double cap, double hysteresis)
      : top_(top), clock_(top), cap_(cap), hysteresis_(hysteresis) {}
  int next(const EpochView& view) override {
    if (view.sensed > cap_)
      clock_ = std::max(0, clock_ - 1);
    else if (view.sensed < cap_ - hysteresis_)
      clock_ = std::min(top_, clock_ + 1);
    return clock_;
  }

 private:
  int top_, clock_;
  double cap_, hysteresis_;
};

// In the velocity form: the clock's change follows the error's, so nothing winds up.
class PidGovernor final : public Governor {
 public:
  PidGovernor(const GovernorOptions& options, const std::vector<double>& clocks, double cap,
              Seconds epoch)
      : options_(options), clocks_(clocks), cap_(cap), epoch_(epoch) {}
  int next(const EpochView& view) override {
    const double error = cap_ - options_.hysteresis_k - view.sensed;
    if (!started_) last_ = before_ = error;
    started_ = true;
    share_ += options_.proportional * (error - last_) + options_.integral * error * epoch_.value +
              options_.derivative * (error - 2 * last_ + before_) / epoch_.value;
    share_ = std::clamp(share_, 0.0, 1.0);
    before_ = last_;
    last_ = error;
    const double wanted = clocks_.front() + share_ * (clocks_.back() - clocks_.front());
    int clock = 0;
    while (clock + 1 < static_cast<int>(clocks_.size()) &&
           clocks_[static_cast<std::size_t>(clock) + 1] <= wanted * (1 + 1e-12))
      ++clock;
    return clock;
  }

 private:
  GovernorOptions options_;
  std::vector<double> clocks_;
  double cap_;
  Seconds epoch_;
  double share_ = 1, last_ = 0, before_ = 0;
  bool started_ = false;
};

class PredictiveGovernor final : public Governor {
 public:
  PredictiveGovernor(int top, double cap, double margin) : top_(top), cap_(cap - margin) {}
  int next(const EpochView& view) override {
    CHECK(static_cast<int>(view.predicted.size()) == top_ + 1);
    int clock = top_;
    while (clock > 0 && view.predicted[static_cast<std::size_t>(clock)] > cap_) --clock;
    return clock;
  }

 private:
  int top_;
  double cap_;
};

}  // namespace

std::unique_ptr<Governor> make_governor(Governing kind, const GovernorOptions& options,
                                        const std::vector<double>& clocks, double cap,
                                        Seconds epoch) {
  CHECK(!clocks.empty());
  const int top = static_cast<int>(clocks.size()) - 1;
  switch (kind) {
    case Governing::none:
      break;
    case Governing::step:
      return std::make_unique<StepGovernor>(top, cap, options.hysteresis_k);
    case Governing::pid:
      return std::make_unique<PidGovernor>(options, clocks, cap, epoch);
    case Governing::predictive:
      return std::make_unique<PredictiveGovernor>(top, cap, options.margin_k);
  }
  return std::make_unique<FullSpeed>(top);
}

}  // namespace partita::dtm
