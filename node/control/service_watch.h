// ServiceWatch: the verdict on each service from step to step, and who is told of it: once what is
// bad, again when it becomes worse, that it is over when it has been for a while; and workers that
// keep failing. Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "act/workers_state.h"
#include "control/report.h"
#include "control/verdict.h"

namespace partita::control {

class ServiceWatch {
 public:
  explicit ServiceWatch(Report& report) : report_(report) {}

  // Verdicts now, and what is to be kept of them.
  std::vector<VerdictKept> judge(const VerdictGround& ground, std::int64_t now_ms);
  // Whether a service does otherwise than the last verdict says.
  bool differs(const VerdictGround& ground, std::int64_t now_ms) const;
  const std::vector<ServiceVerdict>& verdicts() const { return verdicts_; }  // by name

  // As the supervisor wrote them.
  void hear_workers(const std::vector<actuate::WorkerRecord>& workers);
  long restarts() const { return restarts_; }
  long given_up() const { return given_up_; }

 private:
  void tell(const ServiceVerdict& verdict, std::int64_t now_ms);

  Report& report_;
  std::vector<ServiceVerdict> verdicts_;
  std::map<std::string, Standing> told_of_;  // services that somebody was told of, and what
  std::set<std::string> starting_;           // services that have not been served yet
  long restarts_ = 0, given_up_ = 0;
};

}  // namespace partita::control
