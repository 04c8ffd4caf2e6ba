// Cgroups on folders that look as the kernel's do, whose files are there from the start. On the
// kernel's own: processes_test.cc, where some can be made.
#include "base/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/testing/test_without_input.h"

namespace partita {
namespace {

class CgroupsTest : public testing::Test {
 protected:
  CgroupsTest() {
    std::filesystem::remove_all(root_);
    write("proc/self/mounts", "proc /proc proc rw\ncgroup2 " + in("groups") + " cgroup2 rw\n");
    write("proc/self/cgroup", "12:cpu:/other\n0::/home\n");
    write("groups/home/cgroup.procs", "");
  }
  ~CgroupsTest() override { std::filesystem::remove_all(root_); }
  std::string in(const std::string& name) const { return root_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(in(name)).parent_path());
    std::ofstream(in(name)) << text;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream file(in(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool there(const std::string& name) const { return std::filesystem::exists(in(name)); }
  Cgroups cgroups() const { return Cgroups(in("proc")); }

  std::string root_ = testing::TempDir() + "cgroups-" + std::to_string(::getpid());
};

TEST_F(CgroupsTest, OneIsGoneIntoAndLeft) {
  write("groups/home/a/cgroup.procs", "");
  write("groups/home/a/cgroup.kill", "");
  Cgroups some = cgroups();
  ASSERT_TRUE(some.possible());
  {
    const WithoutInput number_nought_is_free;
    EXPECT_TRUE(some.enter("a"));
  }
  EXPECT_EQ(text_of("groups/home/a/cgroup.procs"), "0");
  EXPECT_EQ(text_of("groups/home/cgroup.procs"), "");
  EXPECT_TRUE(some.leave());
  EXPECT_EQ(text_of("groups/home/cgroup.procs"), "0");
  EXPECT_TRUE(some.possible());
  EXPECT_EQ(some.folder_of("a"), in("groups/home/a"));
  EXPECT_EQ(some.folder_of("b"), "");
  write("proc/42/cgroup", "0::/else/where/a\n");
  EXPECT_EQ(some.folder_with(42, "a"), in("groups/else/where/a"));
  EXPECT_EQ(some.folder_with(42, "re/b"), "");
  EXPECT_EQ(some.folder_with(43, "a"), "");
}

TEST_F(CgroupsTest, OneIsEndedAndRemovedOnceNobodyIsInIt) {
  write("groups/home/a/cgroup.kill", "");
  end_cgroup(in("groups/home/a"));
  EXPECT_EQ(text_of("groups/home/a/cgroup.kill"), "1");
  EXPECT_FALSE(remove_cgroup(in("groups/home/a")));
  std::filesystem::remove(in("groups/home/a/cgroup.kill"));
  EXPECT_TRUE(remove_cgroup(in("groups/home/a")));
  EXPECT_FALSE(there("groups/home/a"));
  EXPECT_TRUE(remove_cgroup(in("groups/home/a"))) << "gone is gone";
}

TEST_F(CgroupsTest, WhereNoneCanBeMadeNothingIsDone) {
  const auto impossible = [this](const std::string& file, const std::string& text) {
    const std::string before = text_of(file);
    write(file, text);
    Cgroups some = cgroups();
    const bool refused = !some.possible() && !some.enter("a") && some.folder_of("home").empty();
    some.tidy("ho");
    write(file, before);
    return refused;
  };
  EXPECT_TRUE(impossible("proc/self/mounts", ""));
  EXPECT_TRUE(impossible("proc/self/mounts", "cgroup " + in("groups") + " cgroup rw\n"));
  EXPECT_TRUE(impossible("proc/self/mounts", "cgroup2 " + in("groups") + "\n"));
  EXPECT_TRUE(impossible("proc/self/cgroup", "1:cpu:/home\n"));
  EXPECT_TRUE(impossible("proc/self/cgroup", "0::/nowhere\n"));
  EXPECT_TRUE(impossible("proc/self/cgroup", "0::/\n")) << "there is no groups/cgroup.procs";
  write("groups/cgroup.procs", "");
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(cgroups().folder_of("home"), in("groups/home"));
}

// A system that cannot end a cgroup at once, or has let us in and not out, gets no more of them.
TEST_F(CgroupsTest, WhatCannotBeEndedIsNotBegun) {
  Cgroups some = cgroups();
  EXPECT_FALSE(some.enter("a")) << "it has no cgroup.kill";
  EXPECT_FALSE(there("groups/home/a"));
  write("groups/home/b/cgroup.kill", "");
  EXPECT_FALSE(some.enter("b")) << "it cannot be gone into";
  EXPECT_FALSE(some.enter("nowhere/c"));
  EXPECT_FALSE(there("groups/home/nowhere"));
  EXPECT_TRUE(some.possible());
  std::filesystem::remove(in("groups/home/cgroup.procs"));
  EXPECT_FALSE(some.leave());
  EXPECT_FALSE(some.possible());
}

TEST_F(CgroupsTest, TidyingRemovesItsOwnThatNobodyIsIn) {
  for (const char* name : {"p-1", "p-2", "q-1"})
    std::filesystem::create_directories(in("groups/home/") + name);
  write("groups/home/p-3", "a file");
  write("groups/home/p-4/busy", "");
  cgroups().tidy("p-");
  EXPECT_FALSE(there("groups/home/p-1") || there("groups/home/p-2"));
  EXPECT_TRUE(there("groups/home/q-1") && there("groups/home/p-3") && there("groups/home/p-4"));
}

}  // namespace
}  // namespace partita
