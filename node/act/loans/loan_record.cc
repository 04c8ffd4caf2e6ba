#include "act/loans/loan_record.h"

#include <fmt/format.h>

#include "base/form.h"

namespace partita::exec {
namespace {

constexpr double kMostNumber = 9e15;  // a double holds them exactly

void describe_loan(Form& f, LoanRecord& record) {
  f.whole("loan", record.loan, {.low = 1, .high = kMostNumber}, "its number");
  f.word("state", record.state, {"intended", "made", "gone"}, "what became of it");
  f.whole("pid", record.pid, {.low = 1, .high = kMostNumber}, "whose it is");
  f.text("owner", record.owner, "what tells that process from a later one of its number");
  f.name("gpu", record.gpu, "UUID");
  f.integer("profile_id", record.profile_id, {.low = 0}, "the driver's");
  f.integer("start", record.start, {.low = 0}, "first memory slice");
  f.optional(!record.device.empty()).name("device", record.device, "UUID of the MIG device");
  if (Fields* in = f.reading(); in != nullptr && !in->error())
    if (record.state == LoanRecord::State::made && record.device.empty())
      in->refuse("device", "an instance that was made has a device");
}

}  // namespace

std::string loan_record_text(const LoanRecord& record) {
  std::string text = write_form(record, describe_loan);
  text.pop_back();
  return text;
}

Result<StandingLoans> standing_loans(const std::string& file, const ParsedLog& log) {
  StandingLoans standing;
  for (const LogRecord& line : log.records) {
    const std::string where = fmt::format("{}:{}", file, line.line);
    const Result<LoanRecord> record = read_form<LoanRecord>("loan", line.text, describe_loan);
    if (!record) return bad_input(where, record.error().message);
    if (record->state == LoanRecord::State::gone) {
      standing.erase(record->loan);
      continue;
    }
    if (standing.size() == kMaxLoans && !standing.contains(record->loan))
      return bad_input(where, fmt::format("more than {} loans stand", kMaxLoans));
    standing[record->loan] = *record;
  }
  return standing;
}

}  // namespace partita::exec
