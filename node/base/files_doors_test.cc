// One suite for every implementation of the Files door: what code over a door may rely on.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/input_output.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FilesDoor : public testing::TestWithParam<bool> {
 protected:
  FilesDoor() : folder_(testing::TempDir() + fmt::format("doors-{}", ::getpid())) {
    std::filesystem::remove_all(folder_);
    if (GetParam())
      files_ = std::make_unique<RealFiles>();
    else
      files_ = std::make_unique<MemoryFiles>();
    EXPECT_TRUE(files_->make_directories(folder_));
  }
  ~FilesDoor() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::unique_ptr<Files> files_;
  std::string folder_;
};

TEST_P(FilesDoor, WhatIsWrittenIsRead) {
  EXPECT_THAT(files_->read(path("a")).error().message, HasSubstr("No such file"));
  EXPECT_FALSE(files_->exists(path("a")));
  ASSERT_TRUE(files_->write_atomic(path("a"), "one"));
  ASSERT_TRUE(files_->write_atomic(path("a"), "two"));
  EXPECT_EQ(files_->read(path("a")).value(), "two");
  EXPECT_TRUE(files_->exists(path("a")));
  EXPECT_FALSE(files_->is_directory(path("a")));
  ASSERT_TRUE(files_->append(path("log"), "x"));
  ASSERT_TRUE(files_->append(path("log"), "yz"));
  EXPECT_EQ(files_->read(path("log")).value(), "xyz");
  const std::string large(200'001, 'l');  // more than one read gives
  ASSERT_TRUE(files_->write_atomic(path("large"), large));
  EXPECT_EQ(files_->read(path("large")).value(), large);
}

TEST_P(FilesDoor, AFileGetsAnotherName) {
  ASSERT_TRUE(files_->write_atomic(path("a"), "one"));
  ASSERT_TRUE(files_->write_atomic(path("b"), "two"));
  ASSERT_TRUE(files_->rename(path("a"), path("b")));
  EXPECT_FALSE(files_->exists(path("a")));
  EXPECT_EQ(files_->read(path("b")).value(), "one");
  EXPECT_FALSE(files_->rename(path("a"), path("b")));
  EXPECT_EQ(files_->read(path("b")).value(), "one");
}

TEST_P(FilesDoor, AFolderListsItsFilesAlone) {
  ASSERT_TRUE(files_->make_directories(path("deep/deeper")));
  ASSERT_TRUE(files_->make_directories(path("deep/deeper")));
  for (const char* name : {"deep/b", "deep/a", "deep/deeper/c"})
    ASSERT_TRUE(files_->write_atomic(path(name), "x"));
  EXPECT_THAT(files_->list(path("deep")).value(), ElementsAre("a", "b"));
  EXPECT_TRUE(files_->is_directory(path("deep")));
  EXPECT_TRUE(files_->exists(path("deep/deeper")));
  EXPECT_FALSE(files_->is_directory(path("dee")));
  EXPECT_FALSE(files_->list(path("nowhere")));
}

TEST_P(FilesDoor, RemovingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(files_->remove(path("a")));
  ASSERT_TRUE(files_->write_atomic(path("a"), "x"));
  EXPECT_TRUE(files_->remove(path("a")));
  EXPECT_FALSE(files_->exists(path("a")));
}

TEST_P(FilesDoor, ALockIsHeldUntilItDies) {
  Result<FileLock> first = files_->lock(path("lock"));
  ASSERT_TRUE(first);
  EXPECT_EQ(files_->lock(path("lock")).error().code, ErrorCode::in_use);
  EXPECT_TRUE(files_->lock(path("other")));
  *first = {};
  EXPECT_TRUE(files_->lock(path("lock")));
}

INSTANTIATE_TEST_SUITE_P(, FilesDoor, testing::Values(true, false),
                         [](const auto& which) { return which.param ? "Real" : "Memory"; });

TEST(RealFiles, SaysWhatTheSystemRefuses) {
  RealFiles files;
  const std::string folder = testing::TempDir() + fmt::format("refused-{}", ::getpid());
  std::filesystem::create_directories(folder + "/full");
  EXPECT_THAT(files.remove(folder + "/full").error().message, HasSubstr("cannot remove"));
  EXPECT_THAT(files.lock(folder + "/none/lock").error().message, HasSubstr("cannot open"));
  EXPECT_THAT(files.append(folder + "/none/log", "x").error().message, HasSubstr("cannot open"));
  ASSERT_TRUE(files.write_atomic(folder + "/file", "x"));
  EXPECT_THAT(files.make_directories(folder + "/file/below").error().message,
              HasSubstr("cannot create the directory"));
  EXPECT_THAT(files.write_atomic(folder + "/none/a", "x").error().message,
              HasSubstr("cannot create a temporary file"));
  EXPECT_THAT(files.write_atomic(folder + "/full", "x").error().message, HasSubstr("cannot write"));
  EXPECT_THAT(files.list(folder).value(), ElementsAre("file")) << "half a file was left";
  EXPECT_THAT(write_output(folder + "/full", "x").error().message, HasSubstr("is a directory"));
  std::filesystem::remove_all(folder);
}

// A FIFO is written into: whoever waits at its other end gets the text, and it stays a FIFO.
TEST(RealFiles, OutputGoesIntoAPipeOfThatName) {
  const std::string pipe = testing::TempDir() + fmt::format("pipe-{}", ::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Descriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(write_output(pipe, "text"));
  char text[8] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  struct stat info {};
  EXPECT_TRUE(::lstat(pipe.c_str(), &info) == 0 && S_ISFIFO(info.st_mode));
  ::unlink(pipe.c_str());
}

}  // namespace
}  // namespace partita
