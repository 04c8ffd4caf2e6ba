#include "base/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace partita {
namespace {

TEST(SecretFile, WhatOthersMayReadOrWriteIsRefusedWithTheCommandThatMendsIt) {
  const std::string path = testing::TempDir() + "secret-" + std::to_string(::getpid());
  std::ofstream(path) << "s3cret\n";
  const auto said = [&](mode_t mode, auto&& check) {
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    const Result<void> fine = check(path);
    if (fine) return std::string("fine");
    EXPECT_EQ(fine.error().context, path);
    return fine.error().message;
  };
  const std::string mend = " it; mend that with: chmod 600 " + path;
  for (const mode_t mode : {0600, 0400, 0640, 0700})
    EXPECT_EQ(said(mode, check_secret_file), "fine") << mode;
  EXPECT_EQ(said(0644, check_secret_file), "others may read" + mend);
  EXPECT_EQ(said(0604, check_secret_file), "others may read" + mend);
  EXPECT_EQ(said(0666, check_secret_file), "others may read and write" + mend);
  EXPECT_EQ(said(0660, check_secret_file), "others may write" + mend);
  EXPECT_EQ(said(0602, check_secret_file), "others may write" + mend);
  EXPECT_EQ(said(0644, check_trusted_file), "fine");
  for (const mode_t mode : {0666, 0664, 0602})
    EXPECT_EQ(said(mode, check_trusted_file),
              "others may write it; mend that with: chmod go-w " + path);
  ::unlink(path.c_str());
  EXPECT_TRUE(check_secret_file(path));         // whoever reads it says that it is not there
  EXPECT_TRUE(check_secret_file("/dev/null"));  // others may read it, and it is no file
}

}  // namespace
}  // namespace partita
