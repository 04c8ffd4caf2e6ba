// Logs against zlib's published check value, and on a disk; fuzz/record_log_fuzz.cc damages them.
#include "base/record_log.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

std::vector<std::string> texts(const ParsedLog& log) {
  std::vector<std::string> all;
  for (const LogRecord& record : log.records) all.emplace_back(record.text);
  return all;
}

using Texts = std::vector<std::string>;

TEST(RecordLog, ChecksumIsCrc32) {
  EXPECT_EQ(log_line("123456789"), "cbf43926 123456789\n");  // the check value of ISO 3309
  EXPECT_EQ(log_line(""), "00000000 \n");
}

TEST(RecordLog, RefusesWithTheLine) {
  const std::string header = log_header("pets"), cat = log_line("cat");
  const auto refusal = [](const std::string& text) {
    const auto parsed = parse_log("f", "pets", text);
    return parsed ? "" : to_string(parsed.error());
  };
  EXPECT_EQ(refusal(header + cat), "");
  EXPECT_EQ(refusal(cat + cat), "");  // from before there were headers
  EXPECT_EQ(refusal(header + "cat\n"), "f:2: this is no record");
  EXPECT_EQ(refusal(header + cat + "00000000 cat\n"), "f:3: the checksum is wrong");
  EXPECT_EQ(refusal(cat + header), "f:2: a header amid the records");
  EXPECT_EQ(refusal(log_header("cars")), "f:1: a log of 'cars', not of 'pets'");
  EXPECT_EQ(refusal(log_line("partita log 2 pets")),
            "f:1: a log of version 2, this program reads 1");
  EXPECT_EQ(refusal(log_line("partita log x")), "f:1: this is no header of a log");
}

TEST(RecordLog, CutsOffWhatIsTornAndStartsAnew) {
  MemoryFiles files;
  files.content["log"] = log_header("pets") + log_line("cat") + log_line("dog").substr(0, 5);
  {
    auto log = RecordLog::open(files, "log", "pets");
    ASSERT_TRUE(log.has_value());
    EXPECT_EQ(texts(log->found()), Texts{"cat"});
    EXPECT_EQ(RecordLog::open(files, "log", "pets").error().code, ErrorCode::in_use);
    ASSERT_TRUE(log->append({"cow", "hen"}));
    EXPECT_EQ(log->bytes(), files.content["log"].size());
  }
  {
    auto log = RecordLog::open(files, "log", "pets");
    EXPECT_EQ(texts(log->found()), (Texts{"cat", "cow", "hen"}));
    ASSERT_TRUE(log->replace({"hen"}));
    ASSERT_TRUE(log->append({"cat"}));
  }
  EXPECT_EQ(files.content["log"], log_header("pets") + log_line("hen") + log_line("cat"));
}

}  // namespace
}  // namespace partita
