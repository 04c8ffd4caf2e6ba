// Where commands borrow instances of the node: its lock, its log of loans, and the doors to both.
// While it is open nobody else changes the node. What dead commands left is gone once it is open.
#pragma once

#include <memory>

#include "base/processes.h"
#include "act/loans/loans.h"
#include "node/devices.h"

namespace partita::cli {

class LoanDesk {
 public:
  // in_use while another command changes the node. The driver outlives it, at the same place.
  static Result<std::unique_ptr<LoanDesk>> open(Context& context, const OpenDriver& driver);
  exec::Loans& loans() { return *loans_; }

 private:
  RealProcesses processes_;
  FileLock lock_;
  std::optional<exec::Loans> loans_;
};

}  // namespace partita::cli
