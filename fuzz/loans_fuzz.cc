// Logs of loans: the input as it is, and as the record of a good log. What is read survives
// writing.
#include <string_view>

#include "base/check.h"
#include "act/loans/loan_record.h"
#include "target.h"

namespace {

namespace exec = partita::exec;

void check(const std::string& content) {
  const auto log = partita::parse_log("loans", exec::kLoanLogKind, content);
  if (!log) return;
  const auto standing = exec::standing_loans("loans", *log);
  if (!standing) {
    CHECK(standing.error().context.starts_with("loans:"));
    return;
  }
  std::string again = partita::log_header(exec::kLoanLogKind);
  for (const auto& [number, loan] : *standing)
    again += partita::log_line(exec::loan_record_text(loan));
  const auto read = partita::parse_log("again", exec::kLoanLogKind, again);
  CHECK(read && exec::standing_loans("again", *read) == *standing);
}

}  // namespace

FUZZ_TARGET(loans) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(text);
  check(partita::log_header(exec::kLoanLogKind) +
        partita::log_line(text.substr(0, text.find('\n'))));
  return 0;
}
