// What is let in of requests for a language model, learned from what became of those before, so
// that what is let in is in time: as planned, less while more answers are late than may be. For
// the gateway, and for the simulator that foresees it. Pure. `may_be_late`: of answers, >= 0, < 1.
#pragma once

namespace partita::plan {

// How many requests an engine may have at once, for their time per token's sake.
class TokenRoom {
 public:
  explicit TokenRoom(int most) : most_(most), limit_(most) {}  // as planned, >= 1
  int limit() const;
  // An answer has ended, one of `at_once` that ran; whether it was late by its time per token.
  void ended(bool late, double may_be_late, int at_once);

 private:
  double most_, limit_;
};

// How much of the promised TTFT may be expected to be used up by one that is let in, between 0 and
// 1. What is expected is off by some either way, and while more comes than is carried all that
// are let in are expected to be just in time.
class TokenPatience {
 public:
  double share() const { return share_; }
  void refused() { calm_ = 0; }  // one that would have been late
  // A first token has come; whether it was late.
  void began(bool late, double may_be_late);

 private:
  double share_ = 1;
  int calm_ = kCalm;  // that have begun since one was refused
  static constexpr int kCalm = 32;
};

}  // namespace partita::plan
