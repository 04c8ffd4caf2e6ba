// Logs against zlib's published check value, and on a disk; fuzz/record_log_fuzz.cc damages them.
#include "base/record_log.h"

#include <gtest/gtest.h>

#include "base/rng.h"

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
  EXPECT_EQ(refusal(header + "00000000\n"), "f:2: this is no record");
  EXPECT_EQ(refusal(header + "00000000-\n"), "f:2: this is no record");
  EXPECT_EQ(refusal(header + log_line("")), "") << "an empty one is one";
  EXPECT_EQ(refusal(header + cat + "00000000 cat\n"), "f:3: the checksum is wrong");
  EXPECT_EQ(refusal(log_header(std::string(70, 'x'))),
            "f:1: a log of '" + std::string(64, 'x') + "', not of 'pets'");
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

// A disk that fails now and then: with or without having done what it was told, or a part of it.
class FailingFiles final : public MemoryFiles {
 public:
  explicit FailingFiles(std::uint64_t seed) : rng_(seed) {}
  double failures = 0;
  bool took_effect = false;  // of the last write_atomic

  Result<std::string> read(const std::string& path) override {
    if (fails()) return environment_error(path, "cannot read");
    return MemoryFiles::read(path);
  }
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    const bool failed = fails();
    took_effect = !failed || rng_.below(2) == 0;
    EXPECT_TRUE(!took_effect || MemoryFiles::write_atomic(path, text));
    return failed ? Result<void>(environment_error(path, "cannot write")) : Result<void>();
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    if (!fails()) return MemoryFiles::append(path, text);
    const bool opened = rng_.below(3) != 0;
    EXPECT_TRUE(!opened || MemoryFiles::append(path, text.substr(0, rng_.below(text.size() + 1))));
    return environment_error(path, "cannot append");
  }

 private:
  bool fails() { return rng_.uniform() < failures; }
  Rng rng_;
};

// What was taken is there, in order, and nothing of what was refused lies between or behind it.
TEST(RecordLog, OnADiskThatFailsWhatWasTakenIsThere) {
  long refused = 0, taken = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    FailingFiles files(seed);
    Rng rng(seed);
    auto log = RecordLog::open(files, "log", "pets");
    ASSERT_TRUE(log);
    Texts wanted;
    for (int op = 0; op < 30; ++op) {
      files.failures = rng.below(3) == 0 ? 0.5 : 0;
      Texts some;
      for (std::uint64_t i = rng.below(3); i <= 2; ++i) some.push_back(std::to_string(op * 10 + i));
      const bool replaces = rng.below(4) == 0;
      files.took_effect = false;
      const bool announces = rng.below(3) == 0;
      const Result<void> done = replaces    ? log->replace(some)
                                : announces ? log->announce(some)
                                            : log->append(some);
      ++(done ? taken : refused);
      if (replaces && (done || files.took_effect)) wanted = some;
      if (!replaces && done) wanted.insert(wanted.end(), some.begin(), some.end());
      files.failures = 0;
      const Result<std::string> text = files.exists("log") ? files.read("log") : "";
      const auto parsed = parse_log("log", "pets", *text);
      ASSERT_TRUE(parsed || !done) << seed << ": " << to_string(parsed.error());
      if (!done) continue;
      ASSERT_EQ(texts(*parsed), wanted) << "seed " << seed << " operation " << op;
      ASSERT_EQ(log->bytes(), text->size());
      ASSERT_EQ(parsed->valid_bytes, text->size());
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 5000);
}

// A disk of so many bytes: what has no room is written as far as it has.
struct SmallDisk final : MemoryFiles {
  std::size_t size = 1u << 20;
  std::size_t used() const {
    std::size_t sum = 0;
    for (const auto& [path, text] : content) sum += text.size();
    return sum;
  }
  void fill() { content["others"] += std::string(size - used(), 'x'); }
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (used() + text.size() > size) return environment_error(path, "full");
    return MemoryFiles::write_atomic(path, text);
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    const std::string_view fits = text.substr(0, size - used());
    static_cast<void>(MemoryFiles::append(path, fits));
    return fits.size() == text.size() ? Result<void>() : environment_error(path, "full");
  }
};

TEST(RecordLog, WhatIsAnnouncedCanBeFollowedOnAFullDisk) {
  for (const std::size_t records : {0u, 1u, 5'000u}) {  // before, of 16 bytes
    SmallDisk files;
    {
      auto log = RecordLog::open(files, "log", "pets");
      for (std::size_t i = 0; i < records; ++i) ASSERT_TRUE(log->append({"before"}));
      ASSERT_TRUE(log->announce({"cat comes"}));
    }
    files.fill();
    auto log = RecordLog::open(files, "log", "pets");  // by another process
    EXPECT_FALSE(log->announce({"dog comes"})) << "there is no room, and none is taken for it";
    EXPECT_TRUE(files.exists("log.room"));
    ASSERT_TRUE(log->append_unsynced({"cat came"}));
    ASSERT_TRUE(log->append({"cat went"}));
    files.fill();
    EXPECT_FALSE(log->announce({"dog comes"}));
    EXPECT_FALSE(log->append({"hen came"}));
    files.content.erase("others");
    ASSERT_TRUE(log->announce({"hen comes"}));
    const Texts found = texts(*parse_log("log", "pets", files.content["log"]));
    ASSERT_EQ(found.size(), records + 4);
    EXPECT_EQ(Texts(found.end() - 4, found.end()),
              (Texts{"cat comes", "cat came", "cat went", "hen comes"}));
  }
}

TEST(RecordLog, NothingToAppendWritesNothing) {
  MemoryFiles files;
  auto log = RecordLog::open(files, "log", "pets");
  ASSERT_TRUE(log->append({}));
  EXPECT_FALSE(files.exists("log"));
  EXPECT_EQ(log->bytes(), 0u);
}

}  // namespace
}  // namespace partita
