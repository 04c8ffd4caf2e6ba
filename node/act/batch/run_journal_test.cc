#include "act/batch/run_journal.h"

#include <gtest/gtest.h>

namespace partita::exec {
namespace {

using Kind = Record::Kind;

// A record of every kind, and its text.
const std::vector<std::pair<Record, std::string>>& records() {
  static const std::vector<std::pair<Record, std::string>> all = {
      {{.kind = Kind::run, .run = "r1", .script = "0123", .origin = 5},
       R"({"record": "run", "t_ns": 0, "run": "r1", "script": "0123", "origin_ns": 5})"},
      {{.kind = Kind::create, .time = 1, .visit = 2},
       R"({"record": "create", "t_ns": 1, "visit": 2})"},
      {{.kind = Kind::created, .time = 2, .visit = 2, .made = {3, "MIG-x"}},
       R"({"record": "created", "t_ns": 2, "gi_id": 3, "uuid": "MIG-x", "visit": 2})"},
      {{.kind = Kind::stale, .time = 3, .visit = 4, .made = {5, ""}},
       R"({"record": "stale", "t_ns": 3, "gi_id": 5, "visit": 4})"},
      {{.kind = Kind::destroyed, .time = 4, .visit = 4},
       R"({"record": "destroyed", "t_ns": 4, "visit": 4})"},
      {{.kind = Kind::start, .time = 5, .task = "a b", .attempt = 1},
       R"({"record": "start", "t_ns": 5, "task": "a b", "attempt": 1})"},
      {{.kind = Kind::stop, .time = 6, .task = "a", .attempt = 2},
       R"({"record": "stop", "t_ns": 6, "task": "a", "attempt": 2})"},
      {{.kind = Kind::end, .time = 7, .task = "a", .attempt = 3, .status = -1, .in_time = false},
       R"({"record": "end", "t_ns": 7, "task": "a", "attempt": 3, "status": -1, )"
       R"("in_time": false})"},
      {{.kind = Kind::done, .time = 9'000'000'000'000'000},
       R"({"record": "done", "t_ns": 9000000000000000})"}};
  return all;
}

TEST(RunJournal, EveryRecordIsWrittenAndReadAsItIs) {
  std::string text = log_header(kLogKind);
  std::vector<Record> all;
  for (const auto& [record, line] : records()) {
    EXPECT_EQ(record_text(record), line);
    EXPECT_EQ(record_line(record), log_line(line));
    text += record_line(record);
    all.push_back(record);
  }
  const auto parsed = parse_journal("j", text + "torn");
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(parsed->records, all);
  EXPECT_EQ(parsed->valid_bytes, text.size());
  EXPECT_TRUE(parse_journal("j", "")->records.empty());
}

// A journal of a run and one record of this text; what is said of it.
std::string refusal(const std::string& record) {
  const auto parsed =
      parse_journal("j", log_header(kLogKind) + record_line(records()[0].first) + log_line(record));
  return parsed ? "" : to_string(parsed.error());
}

TEST(RunJournal, WhatIsWrongIsRefusedWithItsLine) {
  for (const auto& [record, line] : records()) {
    if (record.kind == Kind::run) continue;
    EXPECT_EQ(refusal(line), "") << line;
  }
  for (const std::string wrong :
       {"{}", R"({"record": "begin", "t_ns": 1})", R"({"record": "done"})",
        R"({"record": "done", "t_ns": 9000000000000001})", R"({"record": "done", "t_ns": -1})",
        R"({"record": "create", "t_ns": 1})", R"({"record": "create", "t_ns": 1, "visit": -1})",
        R"({"record": "create", "t_ns": 1, "visit": 2147483648})",
        R"({"record": "created", "t_ns": 2, "gi_id": 3, "visit": 2})",
        R"({"record": "created", "t_ns": 2, "uuid": "M", "visit": 2})",
        R"({"record": "stale", "t_ns": 2, "visit": 2})", R"({"record": "destroyed", "t_ns": 2})",
        R"({"record": "start", "t_ns": 2, "task": "a", "attempt": 0})",
        R"({"record": "start", "t_ns": 2, "task": "", "attempt": 1})",
        R"({"record": "stop", "t_ns": 2, "task": "a"})",
        R"({"record": "end", "t_ns": 2, "task": "a", "attempt": 1, "in_time": true})",
        R"({"record": "end", "t_ns": 2, "task": "a", "attempt": 1, "status": 0})",
        R"({"record": "end", "t_ns": 2, "task": "a", "attempt": 1, "status": -2, "in_time": true})",
        "nonsense"})
    EXPECT_TRUE(refusal(wrong).starts_with("j:3: ")) << wrong << " -> " << refusal(wrong);
  EXPECT_EQ(refusal(records()[0].second), "j:3: a journal begins with a run and has only one");
  const auto headless = parse_journal("j", log_header(kLogKind) + record_line(records()[1].first));
  ASSERT_FALSE(headless);
  EXPECT_EQ(to_string(headless.error()), "j:2: a journal begins with a run and has only one");
  EXPECT_EQ(parse_journal("j", log_header("changes")).error().context, "j:1");
}

}  // namespace
}  // namespace partita::exec
