// Judged<Plan>: a plan that the judge let pass, with the digest of the problem it was judged
// against. Only verify::Judge makes one (node/verify/judge.h; that no other module defines a class
// of that name is a house check), so a function that takes a Judged<Plan> cannot be handed a plan
// that nobody looked at. A value; it is never changed after it was judged.
#pragma once

#include <string>
#include <utility>

namespace partita::verify {
class Judge;
}

namespace partita::plan {

template <class Plan>
class Judged {
 public:
  const Plan& operator*() const { return plan_; }
  const Plan* operator->() const { return &plan_; }
  // Of the problem that it solves (digest.h); what the document itself says where it was judged
  // alone, and that may be nothing.
  const std::string& problem_digest() const { return digest_; }

 private:
  friend class verify::Judge;
  Judged(Plan plan, std::string digest) : plan_(std::move(plan)), digest_(std::move(digest)) {}

  Plan plan_;
  std::string digest_;
};

}  // namespace partita::plan
