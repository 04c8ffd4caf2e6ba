// Records of the log of loans (base/record_log.h): JSON, one per change of a loan, each with all
// that is known of it. The last record of a loan counts.
#pragma once

#include <map>
#include <string>

#include "base/record_log.h"
#include "base/result.h"

namespace partita::exec {

inline constexpr const char* kLoanLogKind = "loans";
inline constexpr std::size_t kMaxLoans = 10'000;  // that stand at the same time

struct LoanRecord {
  enum class State { intended, made, gone };
  long loan = 0;  // from 1
  State state = State::intended;
  long pid = 0;        // whose it is
  std::string owner;   // what tells that process from a later one of its number
  std::string gpu;     // UUID
  int profile_id = 0;  // the driver's
  int start = 0;
  std::string device;  // UUID of the MIG device; empty while it is intended
  bool operator==(const LoanRecord&) const = default;
};

std::string loan_record_text(const LoanRecord& record);

// The loans that stand, by number. Refused with FILE:LINE.
using StandingLoans = std::map<long, LoanRecord>;
Result<StandingLoans> standing_loans(const std::string& file, const ParsedLog& log);

}  // namespace partita::exec
