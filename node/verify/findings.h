// Findings: what a judge finds wrong, each constraint said once per subject.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/reason.h"

namespace partita::verify {

class Findings {
 protected:
  void report(std::string constraint, std::string subject, double have, double need,
              std::string detail) {
    if (said_.emplace(constraint, subject).second)
      reasons_.push_back(
          {std::move(constraint), std::move(subject), have, need, std::move(detail)});
  }
  std::vector<plan::Reason> take() { return std::move(reasons_); }

 private:
  std::set<std::pair<std::string, std::string>> said_;  // constraint and subject of the reasons
  std::vector<plan::Reason> reasons_;
};

}  // namespace partita::verify
