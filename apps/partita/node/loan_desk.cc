#include "node/loan_desk.h"

#include <unistd.h>

#include "node/state_dir.h"

namespace partita::cli {

Result<std::unique_ptr<LoanDesk>> LoanDesk::open(Context& context, const OpenDriver& driver) {
  const Result<device::NodeState> node = device::read_node(*driver.driver);
  if (!node) return failed(node.error());
  auto desk = std::make_unique<LoanDesk>();
  Result<FileLock> lock = lock_node(context, driver, *node);
  if (!lock) return failed(lock.error());
  desk->lock_ = *std::move(lock);
  Result<exec::Loans> loans =
      exec::Loans::open({*driver.driver, context.clock, context.files, desk->processes_},
                        loan_log(driver, *node), ::getpid());
  if (!loans) return failed(loans.error());
  desk->loans_.emplace(*std::move(loans));
  return desk;
}

}  // namespace partita::cli
