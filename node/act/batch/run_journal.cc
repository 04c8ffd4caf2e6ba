#include "act/batch/run_journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/form.h"

namespace partita::exec {
namespace {

using Kind = Record::Kind;

constexpr Range kNanos{.high = 9e15};  // 104 days; a double holds them exactly
constexpr Range kAny{.high = 2147483647};

void describe_record(Form& f, Record& record) {
  f.word("record", record.kind,
         {"run", "create", "created", "stale", "destroyed", "start", "stop", "end", "done"},
         "what it tells");
  f.whole("t_ns", record.time, kNanos, "since the start of the run");
  const auto is = [&](std::initializer_list<Kind> kinds) {
    return f.walk().when(std::ranges::find(kinds, record.kind) != kinds.end());
  };
  if (is({Kind::run})) {
    f.name("run", record.run, "its name");
    f.name("script", record.script, "fingerprint of what it does");
    f.whole("origin_ns", record.origin, kNanos, "the clock at its start");
  }
  if (is({Kind::created, Kind::stale}))
    f.integer("gi_id", record.made.gi_id, kAny, "of the GPU instance");
  if (is({Kind::created})) f.name("uuid", record.made.uuid, "of the MIG device");
  if (is({Kind::create, Kind::created, Kind::stale, Kind::destroyed}))
    f.integer("visit", record.visit, kAny, "whose instance it is");
  if (is({Kind::start, Kind::stop, Kind::end})) {
    f.name("task", record.task, "its name");
    f.integer("attempt", record.attempt, {.low = 1, .high = kAny.high}, "from 1");
  }
  if (is({Kind::end})) {
    f.integer("status", record.status, {.low = -1, .high = kAny.high}, "of its exit");
    f.boolean("in_time", record.in_time, "not stopped for taking too long, or for the run's end");
  }
}

Result<Record> parse_record(std::string_view json) {
  Result<Record> record = read_form<Record>("journal.json", json, describe_record);
  if (!record) return bad_input("", record.error().message);
  return record;
}

}  // namespace

std::string record_text(const Record& record) {
  return line_form(record, describe_record);
}
std::string record_line(const Record& record) { return log_line(record_text(record)); }

Result<std::vector<Record>> records_of(const std::string& file, const ParsedLog& log) {
  std::vector<Record> records;
  for (const LogRecord& line : log.records) {
    const std::string where = fmt::format("{}:{}", file, line.line);
    if (records.size() == kMaxRecords) return bad_input(where, "too many records");
    Result<Record> record = parse_record(line.text);
    if (!record) return bad_input(where, record.error().message);
    if ((record->kind == Kind::run) != records.empty())
      return bad_input(where, "a journal begins with a run and has only one");
    records.push_back(*std::move(record));
  }
  return records;
}

Result<ParsedJournal> parse_journal(const std::string& file, std::string_view text) {
  const ParsedLog log = TRY(parse_log(file, kLogKind, text));
  std::vector<Record> records = TRY(records_of(file, log));
  return ParsedJournal{std::move(records), log.valid_bytes};
}

}  // namespace partita::exec
