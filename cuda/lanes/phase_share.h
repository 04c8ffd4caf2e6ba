// PhaseShare: prefill and decode of language models as two lanes of one GPU, or of the cores, side
// by side: how many units each has, as load goes. Between them is a border, among places that are
// given beforehand, so that lanes can be made beforehand. Whoever has no work for a while lends its
// units until it has. Nothing that runs is moved: what is asked for is where the next kernel goes.
// The border follows what was measured over a window:
// - with a promise for decode, decode has the fewest units on which its requests (steps) keep it,
//   and prefill the rest. What fewer units would do is told by the last two numbers of units that
//   steps were measured on (a constant and a part that is divided), else taken in proportion;
// - without one prefill has the fewest units on which it is busy for at most four fifths of the
//   time, and decode, which is as fast as its units are many, the rest.
// Thread rule: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace partita::lanes {

enum class Phase : std::size_t { prefill, decode };

// Times in nanoseconds.
struct PhaseOptions {
  int units = 0;                           // that both have; at least 2
  std::vector<int> decode = {};            // units that decode may have, ascending, less than all
  std::int64_t window = 50'000'000;        // between two looks at the border
  std::int64_t lend_after = 2'000'000;     // without work
  std::int64_t decode_at_most = 0;         // a request of decode takes; 0: nothing is promised
  std::function<std::int64_t()> now = {};  // empty: the steady clock
};

// At most seven borders of whole atoms, evenly: with all units as many lanes as a stream keeps.
std::vector<int> phase_borders(int units, int atom);

class PhaseShare {
 public:
  explicit PhaseShare(PhaseOptions options);

  // The phase has work until the answer, and others like it, are gone.
  static std::shared_ptr<void> work(std::shared_ptr<PhaseShare> share, Phase phase);
  // Where a kernel that is launched now goes: 0: all units, else 1 + the border's number.
  std::size_t lane_of(Phase phase);
  // A request of the phase ends with the kernels that came so far.
  void request_ended(Phase phase);

  int units(Phase phase, std::size_t lane) const;
  std::size_t borders() const { return options_.decode.size(); }
  // What came to pass: kernels of a phase, and the units they had on average; the border's moves.
  struct Report {
    std::array<long, 2> kernels = {};
    std::array<double, 2> units = {};  // 0 without kernels
    long moves = 0;
  };
  Report report() const;

 private:
  struct Lane {
    long unfinished = 0;
    std::int64_t idle_since = std::numeric_limits<std::int64_t>::min() / 2;
    double work = 0;   // of this window: units x time
    long kernels = 0;  // in all
    double granted = 0;
    bool fresh = false;  // kernels came since the last request
  };
  // Steps that took so long, on so many units.
  struct Measured {
    double took = 0, on = 0;
  };
  // Of decode, since the border was last looked at for its promise.
  struct Steps {
    long count = 0;
    double busy = 0, work = 0;
    std::int64_t since = 0;
  };
  Lane& at(Phase phase) { return lanes_[static_cast<std::size_t>(phase)]; }
  bool lends(const Lane& lane) const {
    return lane.unfinished == 0 && seen_ - lane.idle_since >= options_.lend_after;
  }
  void look();  // with mutex_, as the others
  void spend(std::int64_t until);
  void end_window();
  void keep_promise();
  double constant_part(const Measured& measured) const;
  void move_to(std::size_t border);

  const PhaseOptions options_;
  mutable std::mutex mutex_;
  std::array<Lane, 2> lanes_ = {};
  std::size_t border_;
  std::int64_t seen_, window_;  // the last look, and where the window began
  double together_ = 0;         // of it, with work of both
  double demand_ = 0;           // units that prefill needs all the time, as of late
  Steps steps_ = {};
  std::optional<Measured> measured_ = {}, before_ = {};  // and on another number of units
  long moves_ = 0;
};

// A session among them: of one phase, or of both, decode on streams of higher priority.
struct PhaseUse {
  std::shared_ptr<PhaseShare> share = {};
  std::optional<Phase> phase = {};
  Phase of(int priority) const {
    return phase.value_or(priority < 0 ? Phase::decode : Phase::prefill);
  }
  // Among all units, those of prefill and those of decode, border by border.
  std::size_t lane_of(Phase of) const {
    const std::size_t lane = share->lane_of(of);
    return lane == 0 || of == Phase::prefill ? lane : lane + share->borders();
  }
  // Of each phase that it has.
  void request_ended() const {
    for (const Phase one : {Phase::prefill, Phase::decode})
      if (share != nullptr && phase.value_or(one) == one) share->request_ended(one);
  }
};

}  // namespace partita::lanes
