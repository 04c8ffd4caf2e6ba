#include "act/batch/run_journal.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "base/fields.h"
#include "base/json_writer.h"

namespace partita::exec {
namespace {

using Kind = Record::Kind;

constexpr std::array<std::string_view, 9> kWords = {
    "run", "create", "created", "stale", "destroyed", "start", "stop", "end", "done"};
constexpr double kMaxNanos = 9e15;  // 104 days; a double holds them exactly

std::string record_json(const Record& record) {
  JsonWriter json;
  json.raw("{\"record\": ").string(kWords[static_cast<std::size_t>(record.kind)]);
  json.raw(", \"t_ns\": ").number(static_cast<long>(record.time));
  switch (record.kind) {
    case Kind::run:
      json.raw(", \"run\": ").string(record.run).raw(", \"script\": ").string(record.script);
      json.raw(", \"origin_ns\": ").number(static_cast<long>(record.origin));
      break;
    case Kind::created:
    case Kind::stale:
      json.raw(", \"gi_id\": ").number(static_cast<long>(record.made.gi_id));
      if (record.kind == Kind::created) json.raw(", \"uuid\": ").string(record.made.uuid);
      [[fallthrough]];
    case Kind::create:
    case Kind::destroyed:
      json.raw(", \"visit\": ").number(static_cast<long>(record.visit));
      break;
    case Kind::start:
    case Kind::stop:
    case Kind::end:
      json.raw(", \"task\": ").string(record.task);
      json.raw(", \"attempt\": ").number(static_cast<long>(record.attempt));
      if (record.kind != Kind::end) break;
      json.raw(", \"status\": ").number(static_cast<long>(record.status));
      json.raw(", \"in_time\": ").boolean(record.in_time);
      break;
    case Kind::done:
      break;
  }
  return json.raw("}").take();
}

std::optional<Kind> kind_of(std::string_view word) {
  for (std::size_t i = 0; i < kWords.size(); ++i)
    if (kWords[i] == word) return static_cast<Kind>(i);
  return std::nullopt;
}

Result<Record> read_record(const Document& document) {
  Fields fields(document);
  Record record;
  const std::string word = fields.text("record");
  const std::optional<Kind> kind = kind_of(word);
  if (!kind) return bad_input("", "no such record: " + word);
  record.kind = *kind;
  const Range nanos{.high = kMaxNanos};
  const auto number = [&](std::string_view key) { return std::llround(fields.number(key, nanos)); };
  record.time = number("t_ns");
  switch (record.kind) {
    case Kind::run:
      record.run = fields.name("run");
      record.script = fields.name("script");
      record.origin = number("origin_ns");
      break;
    case Kind::created:
      record.made.uuid = fields.name("uuid");
      [[fallthrough]];
    case Kind::stale:
      record.made.gi_id = fields.integer("gi_id", {.low = 0});
      [[fallthrough]];
    case Kind::create:
    case Kind::destroyed:
      record.visit = fields.integer("visit", {.low = 0});
      break;
    case Kind::end:
      record.status = fields.integer("status", {.low = -1});
      record.in_time = fields.boolean("in_time");
      [[fallthrough]];
    case Kind::start:
    case Kind::stop:
      record.task = fields.name("task");
      record.attempt = fields.integer("attempt", {.low = 1});
      break;
    case Kind::done:
      break;
  }
  if (fields.error()) return bad_input("", fields.error()->message);
  return record;
}

Result<Record> parse_record(std::string_view json) {
  const Result<Document> document = parse_document("journal.json", json);
  if (!document) return bad_input("", document.error().message);
  return read_record(*document);
}

}  // namespace

std::string record_text(const Record& record) { return record_json(record); }
std::string record_line(const Record& record) { return log_line(record_json(record)); }

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
  const Result<ParsedLog> log = parse_log(file, kLogKind, text);
  if (!log) return failed(log.error());
  Result<std::vector<Record>> records = records_of(file, *log);
  if (!records) return failed(records.error());
  return ParsedJournal{*std::move(records), log->valid_bytes};
}

}  // namespace partita::exec
