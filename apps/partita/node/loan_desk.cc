#include "node/loan_desk.h"

#include <unistd.h>

#include "node/state_dir.h"

namespace partita::cli {

Result<std::unique_ptr<LoanDesk>> LoanDesk::open(Context& context, const OpenDriver& driver) {
  const device::NodeState node = TRY(device::read_node(*driver.driver));
  auto desk = std::make_unique<LoanDesk>();
  desk->lock_ = TRY(lock_node(context, driver, node));
  exec::Loans loans =
      TRY(exec::Loans::open({*driver.driver, context.clock, context.files, desk->processes_},
                            loan_log(driver, node), ::getpid()));
  desk->loans_.emplace(std::move(loans));
  return desk;
}

}  // namespace partita::cli
