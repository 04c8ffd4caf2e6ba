// PlanMemo: what was planned and judged before for a question that is asked again: a node whose
// plan stays, and rates on a grid, come back to the same questions for hours. Planning is a pure
// function, so an answer from here is the answer; what is in it never changes a decision. Holds the
// newest kMostKept questions of each kind. Where only one service's rate is new, planner and judge
// still find, each in its own memory, what they once found of the pools of the others. A value,
// owned by whoever plans. Internal to control.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plan/changes.h"
#include "plan/judged.h"
#include "plan/serving.h"
#include "planners/serving/pool_memo.h"
#include "verify/judge.h"
#include "verify/pool_memo.h"

namespace partita::control {

// What of a problem differs between two questions of one World.
struct ProblemKey {
  std::vector<plan::Service> services;  // at the rates to plan for
  std::vector<std::string> models;      // of the usable GPUs, sorted
  int survive = 0;
  bool relaxed = false;
  bool endless = false;  // as many GPUs of these models as it takes
  bool operator==(const ProblemKey&) const = default;
};

struct PlanQuestion {
  ProblemKey problem;
  plan::ServingPlan current;
  std::optional<int> max_moves;
  std::vector<std::string> lent = {};  // names of what stays besides
  bool operator==(const PlanQuestion&) const = default;
};
struct PlanAnswer {
  std::optional<plan::Judged<plan::ServingPlan>> plan;  // none: there is none
  plan::Changes changes;
  std::string why;  // there is none, or the judge refused it
};

struct JudgeQuestion {
  ProblemKey problem;
  plan::ServingPlan plan;
  bool operator==(const JudgeQuestion&) const = default;
};

template <class Question, class Answer>
class Remembered {
 public:
  static constexpr std::size_t kMostKept = 64;

  // Null where it was not asked before, or too long ago.
  const Answer* find(const Question& question) const {
    for (const auto& [asked, answer] : kept_)
      if (asked == question) return &answer;
    return nullptr;
  }
  const Answer& keep(Question question, Answer answer) {
    if (kept_.size() >= kMostKept) kept_.pop_back();
    kept_.emplace_front(std::move(question), std::move(answer));
    return kept_.front().second;
  }

 private:
  std::deque<std::pair<Question, Answer>> kept_;
};

struct PlanMemo {
  Remembered<PlanQuestion, PlanAnswer> plans;
  Remembered<JudgeQuestion, verify::Verdict<plan::ServingPlan>> verdicts;
  planners::serving::PoolMemo planners_pools;
  verify::PoolMemo judges_pools;
  // What the judge said, whenever it was asked: accepted, refused; by what asked (snapshot.h).
  std::map<std::string, std::pair<long, long>> said;
  void count(const std::string& asked, bool accepted) {
    auto& [yes, no] = said[asked];
    ++(accepted ? yes : no);
  }
};

}  // namespace partita::control
