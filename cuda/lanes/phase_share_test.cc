// Shares that follow load, in virtual time, against every share that stays.
#include "lanes/phase_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::lanes {
namespace {

constexpr int kUnits = 8;
constexpr double kNever = 1e300, kMs = 1e6, kHalf = 20'000 * kMs;

// What comes in each half: how many units prefill needs, and the time of a step of decode, which
// follows the one before at once: a constant part, and one that units divide.
struct Load {
  double prefill = 0, constant = 0, divided = 0;
};
using Loads = std::array<Load, 2>;
// Units that the next kernel of a phase gets.
using Units = std::function<int(Phase phase)>;

struct Half {
  double ttft = 0;   // ms, of prompts that came in it
  double steps = 0;  // per second
  double late = 0;   // share of steps above the promise
};

// A queue of prompts beside a decode that always has a step to do, kernel by kernel, each on the
// units on which it began. Units that both run on are halved.
class World {
 public:
  World(std::uint64_t seed, const Loads& loads, Units units, double promise = kNever)
      : loads_(loads), units_(std::move(units)), promise_(promise) {
    for (int half = 0; half < 2; ++half) {
      Rng rng(2 * seed + static_cast<std::uint64_t>(half));
      const double every = kWork / loads[static_cast<std::size_t>(half)].prefill;
      for (double at = half * kHalf; (at += exponential(rng, every)) < (half + 1) * kHalf;)
        prompts_.push_back({at, exponential(rng, kWork)});
    }
  }
  std::function<void(Phase phase, bool begins)> hears = [](Phase, bool) {};
  double now = 0;

  std::array<Half, 2> run() {
    while (next_ < prompts_.size() || !queue_.empty()) {
      for (Job* job : {&prefill_, &decode_})
        if (job->left <= 0 && (job == &decode_ || !queue_.empty())) begin_kernel(*job);
      double until = next_ < prompts_.size() ? prompts_[next_].arrival : kNever;
      for (const Job* job : {&prefill_, &decode_})
        if (job->left > 0) until = std::min(until, now + job->left / rate(*job));
      advance(until);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      halves_[i].ttft /= kMs * count_[i];
      halves_[i].late /= halves_[i].steps;
      halves_[i].steps /= kHalf / 1e9;
    }
    return halves_;
  }

 private:
  static constexpr int kKernels = 10;        // of a prompt and of a step
  static constexpr double kWork = 80 * kMs;  // of a prompt, on average: units x time
  struct Prompt {
    double arrival = 0, work = 0;
  };
  struct Job {  // the kernel that runs
    double left = 0, units = 0;
    int kernel = 0;
    double began = 0;
  };
  static double exponential(Rng& rng, double mean) { return -mean * std::log(1 - rng.uniform()); }
  std::size_t half(double at) const { return at < kHalf ? 0 : 1; }
  double rate(const Job& job) const {
    const double both = prefill_.left > 0 && decode_.left > 0
                            ? std::max(0.0, prefill_.units + decode_.units - kUnits)
                            : 0;
    const double units = job.units - both / 2;
    if (&job == &prefill_) return units;
    const Load& load = loads_[half(now)];
    return 1 / (load.constant + load.divided / units);  // of a step
  }
  void begin_kernel(Job& job) {
    const bool decode = &job == &decode_;
    const Phase phase = decode ? Phase::decode : Phase::prefill;
    if (decode && job.kernel == 0) {
      job.began = now;
      hears(phase, true);
    }
    job.left = (decode ? 1 : prompts_[queue_.front()].work) / kKernels;
    job.units = units_(phase);
  }
  void advance(double until) {
    const std::array<double, 2> rates{rate(prefill_), rate(decode_)};
    std::size_t i = 0;
    std::vector<Job*> over;
    for (Job* job : {&prefill_, &decode_}) {
      const double rate = rates[i++];
      if (job->left <= 0) continue;
      // The one whose end this is ends, whatever rounding says.
      const bool ends = now + job->left / rate <= until;
      job->left -= (until - now) * rate;
      if (!ends && job->left > 0) continue;
      job->left = 0;
      if (++job->kernel == kKernels) over.push_back(job);
    }
    now = until;
    for (Job* job : over) ended(*job);
    if (next_ == prompts_.size() || prompts_[next_].arrival > now) return;
    hears(Phase::prefill, true);
    queue_.push_back(next_++);
  }
  void ended(Job& job) {
    job.kernel = 0;
    if (&job == &decode_) {
      if (now < 2 * kHalf) {
        ++halves_[half(now)].steps;
        halves_[half(now)].late += now - job.began > promise_ ? 1 : 0;
      }
      return hears(Phase::decode, false);
    }
    const double came = prompts_[queue_.front()].arrival;
    queue_.pop_front();
    halves_[half(came)].ttft += now - came;
    ++count_[half(came)];
    hears(Phase::prefill, false);
  }

  const Loads loads_;
  const Units units_;
  const double promise_;
  std::vector<Prompt> prompts_;
  std::size_t next_ = 0;
  std::deque<std::size_t> queue_;
  Job prefill_ = {}, decode_ = {};
  std::array<Half, 2> halves_ = {};
  std::array<double, 2> count_ = {};
};

// A share that stays. Each half by itself, too, without what the first one left over.
std::array<Half, 2> with_share(std::uint64_t seed, const Loads& loads, int decode,
                               double promise = kNever) {
  return World(
             seed, loads,
             [decode](Phase phase) { return phase == Phase::decode ? decode : kUnits - decode; },
             promise)
      .run();
}

// The share as a server asks it.
std::array<Half, 2> following(std::uint64_t seed, const Loads& loads, double promise = kNever) {
  std::unique_ptr<World> world;
  const auto share = std::make_shared<PhaseShare>(
      PhaseOptions{.units = kUnits,
                   .decode = phase_borders(kUnits, 1),
                   .decode_at_most = promise == kNever ? 0 : static_cast<std::int64_t>(promise),
                   .now = [&] { return static_cast<std::int64_t>(world ? world->now : 0); }});
  std::array<std::deque<std::shared_ptr<void>>, 2> working;
  world = std::make_unique<World>(
      seed, loads, [&](Phase phase) { return share->units(phase, share->lane_of(phase)); },
      promise);
  world->hears = [&](Phase phase, bool begins) {
    auto& mine = working[static_cast<std::size_t>(phase)];
    if (begins) return mine.push_back(PhaseShare::work(share, phase));
    share->request_ended(phase);
    mine.pop_front();
  };
  return world->run();
}

Half half_with_share(std::uint64_t seed, Loads loads, std::size_t half, int decode,
                     double promise = kNever) {
  loads[1 - half].prefill = 0.01;
  return with_share(seed, loads, decode, promise)[half];
}

// Prompts come quickly and few sequences are decoded, then the other way round. In each half it is
// as good as the best share that stays (the fewest units on which every step is in time), found by
// trying all, and no share is right for both.
TEST(PhaseShare, KeepsAPromiseAndLeavesTheRest) {
  constexpr double kPromise = 40 * kMs, kInTime = 0.03;
  const Loads loads{Load{4, 10 * kMs, 50 * kMs}, Load{1.2, 12 * kMs, 125 * kMs}};
  for (int seed = 1; seed <= test_rounds(10); ++seed) {
    SCOPED_TRACE(seed);
    const auto mine = following(seed, loads, kPromise);
    for (std::size_t half = 0; half < 2; ++half) {
      double best = kNever;
      for (int decode = 1; decode < kUnits; ++decode) {
        const Half one = half_with_share(seed, loads, half, decode, kPromise);
        if (one.late <= kInTime) best = std::min(best, one.ttft);
      }
      EXPECT_LE(mine[half].late, kInTime);
      EXPECT_LE(mine[half].ttft, 1.05 * best) << half;
    }
    for (int decode = 1; decode < kUnits; ++decode) {
      const auto one = with_share(seed, loads, decode, kPromise);
      EXPECT_TRUE(one[0].late + one[1].late > 0.5 || one[0].ttft > 10 * mine[0].ttft) << decode;
    }
  }
}

// Without a promise, against the least share of prefill that is busy for 0.8 of its time at most;
// units that prefill lends while it has no prompt come on top.
TEST(PhaseShare, FollowsLoad) {
  const Loads loads{Load{4.8, 0, 50 * kMs}, Load{1.2, 0, 150 * kMs}};
  for (int seed = 1; seed <= test_rounds(10); ++seed) {
    SCOPED_TRACE(seed);
    const auto mine = following(seed, loads);
    for (std::size_t half = 0; half < 2; ++half) {
      const int prefill = static_cast<int>(std::ceil(loads[half].prefill / 0.8 - 1e-9));
      const Half one = half_with_share(seed, loads, half, kUnits - prefill);
      EXPECT_LE(mine[half].ttft, 1.3 * one.ttft) << half;
      EXPECT_GT(mine[half].steps, one.steps) << half;
    }
    for (int decode = 1; decode < kUnits; ++decode) {
      const auto one = with_share(seed, loads, decode);
      EXPECT_TRUE(one[0].ttft + one[1].ttft > 1.2 * (mine[0].ttft + mine[1].ttft) ||
                  one[0].steps + one[1].steps < 0.8 * (mine[0].steps + mine[1].steps))
          << decode;
    }
  }
}

// Whoever comes back has its own units at once; a pause that is short lends nothing.
TEST(PhaseShare, LendsWhatIsIdle) {
  std::int64_t now = 0;
  const auto share = std::make_shared<PhaseShare>(PhaseOptions{
      .units = kUnits, .decode = {2, 4}, .lend_after = 10, .now = [&] { return now; }});
  auto prefill = PhaseShare::work(share, Phase::prefill);
  EXPECT_EQ(share->units(Phase::prefill, share->lane_of(Phase::prefill)), kUnits);
  auto decode = PhaseShare::work(share, Phase::decode);
  EXPECT_EQ(share->units(Phase::prefill, share->lane_of(Phase::prefill)), 4);
  EXPECT_EQ(share->units(Phase::decode, share->lane_of(Phase::decode)), 4);
  decode = nullptr;
  now = 9;
  EXPECT_EQ(share->units(Phase::prefill, share->lane_of(Phase::prefill)), 4);
  now = 10;
  EXPECT_EQ(share->units(Phase::prefill, share->lane_of(Phase::prefill)), kUnits);
  const PhaseShare::Report report = share->report();
  EXPECT_EQ(report.kernels[0], 4);
  EXPECT_EQ(report.units[0], 6);
  EXPECT_EQ(report.units[1], 4);
}

TEST(PhaseShare, BordersAreWholeAtoms) {
  EXPECT_EQ(phase_borders(2, 1), std::vector<int>({1}));
  EXPECT_EQ(phase_borders(8, 1), std::vector<int>({1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(phase_borders(132, 8), std::vector<int>({16, 32, 48, 64, 80, 96, 112}));
  EXPECT_TRUE(phase_borders(1, 1).empty());
}

}  // namespace
}  // namespace partita::lanes
