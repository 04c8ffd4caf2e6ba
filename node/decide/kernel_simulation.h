// Policies of co-location compared by simulation: each on the same workers, against every model
// alone on the whole GPU; once, or once per value of a parameter. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "decide/kernel_policies.h"
#include "sim/colocation.h"

namespace partita::decide {

// One policy; `normalised`: summed over workers, requests per second against the same model alone
// on the whole GPU.
struct PolicyOutcome {
  std::string policy;
  sim::ColocationReport report;
  double normalised = 0;
  double p95_ratio = 0;     // worst worker, against alone
  double energy_ratio = 0;  // per normalised request, against alone
};

// A parameter of the simulation that people set, or sweep.
struct KernelParameter {
  const char* name;
  double sim::ColocationOptions::*value;
  double most;       // from 0
  const char* unit;  // "US", "SHARE"
  const char* meaning;
};
std::span<const KernelParameter> kernel_parameters();
inline constexpr int kMaxStreams = 1000;

// The policies once per value of a parameter: one of kernel_parameters(), switches or streams.
struct Sweep {
  std::string parameter;
  std::vector<double> values;
  std::vector<std::vector<PolicyOutcome>> outcomes;  // per value; empty before they are run
};

// "NAME=V,V,...", at most 100 values. Refusals name `flag`.
Result<Sweep> parse_sweep(const std::string& flag, const std::string& text);

// Words of kernel_policy_words() and eclip:N between commas; the refusal names `flag`.
Result<std::vector<std::string>> parse_policies(const std::string& flag, const std::string& text);

// The policies on the inputs' workers. Refused where a model alone ends no request in the time.
Result<std::vector<PolicyOutcome>> compare_policies(const PolicyInputs& inputs,
                                                    const std::vector<std::string>& policies,
                                                    const sim::ColocationOptions& options);

Result<Sweep> run_sweep(Sweep sweep, const PolicyInputs& inputs,
                        const std::vector<std::string>& policies,
                        const sim::ColocationOptions& options);

// Against the mps of the same run; 0 without one, or where no request of it ended.
double against_mps(const std::vector<PolicyOutcome>& outcomes, const PolicyOutcome& outcome);

}  // namespace partita::decide
