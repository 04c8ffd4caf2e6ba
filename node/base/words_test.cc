// Small words: codes of errors, paths beside a file, files of flags, and what a bug of ours says.
#include <gtest/gtest.h>

#include <csignal>

#include "base/check.h"
#include "base/error_code.h"
#include "base/input.h"

namespace partita {
namespace {

TEST(ErrorCodes, HaveWordsThatAreReadBack) {
  const std::vector<std::string> words = error_code_words();
  ASSERT_EQ(words.size(), static_cast<std::size_t>(ErrorCode::timeout) + 1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(to_string(code), words[i]);
    EXPECT_EQ(parse_error_code(words[i]), code);
  }
  EXPECT_EQ(to_string(ErrorCode::in_use), "in_use");
  EXPECT_EQ(parse_error_code("in use"), std::nullopt);
  EXPECT_EQ(parse_error_code(""), std::nullopt);
}

// What a file names lies beside it, unless it says where.
TEST(Beside, PathsAreOfTheFileThatNamesThem) {
  EXPECT_EQ(beside("/a/b.yaml", "c"), "/a/c");
  EXPECT_EQ(beside("a/b.yaml", "../c"), "a/../c");
  EXPECT_EQ(beside("/b.yaml", "c"), "/c");
  EXPECT_EQ(beside("b.yaml", "c"), "c");
  EXPECT_EQ(beside("/a/b.yaml", "/c"), "/c");
}

TEST(Input, WhatCannotBeReadIsNamedByItsFlag) {
  MemoryFiles files;
  files.content["a.json"] = R"({"a": 1})";
  EXPECT_EQ(read_input(files, "--plan", "a.json").value_or(""), R"({"a": 1})");
  EXPECT_EQ(read_document(files, "--plan", "a.json").value().root.find("a")->number, 1);
  for (const Error& error : {read_input(files, "--plan", "b.json").error(),
                             read_document(files, "--plan", "b.json").error()}) {
    EXPECT_EQ(error.code, ErrorCode::bad_input);
    EXPECT_EQ(to_string(error), "--plan b.json: cannot open: No such file or directory");
  }
}

TEST(Check, SaysWhatDoesNotHoldAndWhereAndEnds) {
  EXPECT_EXIT(CHECK(1 + 1 == 3), testing::KilledBySignal(SIGABRT),
              "words_test.cc:[0-9]+: bug in partita: CHECK\\(1 \\+ 1 == 3\\) failed");
}

}  // namespace
}  // namespace partita
