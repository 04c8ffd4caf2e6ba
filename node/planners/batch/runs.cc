#include "planners/batch/runs.h"

#include <algorithm>

#include "base/rng.h"

namespace partita::planners::batch {
namespace {

constexpr int kShortRuns = 5;  // before the usual one; the first of them does not search
constexpr int kShorter = 4;    // each of the others is 2^4 times shorter than the next

}  // namespace

Runs::Runs(long usual, const Options& options)
    : usual_(usual), budget_(options.budget > 0 ? options.budget : usual), options_(options) {}

std::optional<Run> Runs::next() {
  Run run{.steps = 0, .seed = options_.seed, .restart = std::max(0, made_ - kShortRuns)};
  long price = usual_;  // of this run and all before it
  if (made_ < kShortRuns) {
    run.steps = made_ == 0 ? 0 : usual_ >> (kShorter * (kShortRuns - made_));
    price = std::max(1L, run.steps);
  } else if (run.restart == 0) {
    run.steps = usual_;
  } else {
    run.steps = usual_ << ((run.restart - 1) / 2);
    run.seed = Rng(options_.seed).split(static_cast<std::uint64_t>(run.restart)).next();
    price = spent_ + run.steps;
  }
  if (price > budget_) return std::nullopt;
  if (price > spent_ && options_.go_on && !options_.go_on(spent_, price)) return std::nullopt;
  ++made_;
  spent_ = price;
  return run;
}

}  // namespace partita::planners::batch
