// Loans: MIG instances that are made for a while and destroyed again. Each is announced in a log
// (loan_record.h) before it is made, so that those of an owner that was killed are destroyed by
// whoever opens the log next. An instance that a process uses is never destroyed. Between the
// announcement and its UUID a loan is known by its placement alone; whoever makes instances
// therefore holds the node's lock meanwhile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/processes.h"
#include "device/node_driver.h"
#include "act/loans/loan_record.h"

namespace partita::exec {

struct LoanDoors {
  device::NodeDriver& driver;
  Clock& clock;
  Files& files;
  Processes& processes;
};

struct Loan {
  std::string device;   // UUID of the MIG device
  std::string profile;  // the driver's name
  int gpcs = 0;
  bool operator==(const Loan&) const = default;
};

// The profile without media engines or graphics beside the compute slices ("1g.10gb+me" has them).
bool is_plain(const std::string& profile);

class Loans {
 public:
  // Opens the log at `path`, made when something is lent first, for the process `owner`. Empty: a
  // machine that nobody else can see; nothing is written. Takes the log's lock: in_use when another
  // has it. Destroys what dead owners left; what of it is still used is left, see left().
  static Result<Loans> open(LoanDoors doors, const std::string& path, Pid owner);

  // Makes an instance of the first of these profiles that has room. no_room when none has; what
  // was made half by then is gone again, if the driver lets it.
  Result<Loan> make(int gpu, const std::vector<device::ProfileInfo>& profiles);
  // Destroys it, waiting up to 10 s for processes that end: in_use after that, and the loan stands.
  // One that is not there, or no loan, is no error.
  Result<void> give_back(const std::string& device);
  // Loans of dead owners that processes still use, for people.
  const std::vector<std::string>& left() const { return left_; }

 private:
  Loans(LoanDoors doors, Pid owner) : doors_(doors), owner_(owner) {}
  Result<void> take_back_lost();
  Result<std::optional<Loan>> make_at(int gpu, const std::string& gpu_uuid,
                                      const device::ProfileInfo& profile, int start);
  Result<void> destroy(const LoanRecord& loan);
  Result<void> destroy_patiently(const LoanRecord& loan);
  Result<void> write(const LoanRecord& record);

  LoanDoors doors_;
  Pid owner_;
  std::optional<RecordLog> log_;  // none: nothing is written
  StandingLoans standing_;
  long last_ = 0;
  std::vector<std::string> left_;
};

}  // namespace partita::exec
