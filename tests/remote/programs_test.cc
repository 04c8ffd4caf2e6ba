// The programs of tests/remote/programs, each a process of its own under our libcudart.so.12,
// against real sessions that run PTX: every one compares its results with its own reference. With
// the checks on nothing is said of them, and the one with faults is found out.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/source_text.h"
#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

std::string folder_of_programs() { return std::string(PARTITA_REMOTE_LIBRARIES) + "/programs/"; }

std::vector<std::string> cuda_programs() {
  std::vector<std::string> names;
  const std::string sources = std::string(PARTITA_SOURCE_DIR) + "/tests/remote/programs";
  for (const auto& entry : std::filesystem::directory_iterator(sources)) {
    if (entry.path().extension() == ".cu") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Ran {
  int status = -1;
  std::string text = {};
};

Ran run_program(const std::string& address, const std::string& check, const std::string& words) {
  const std::string command = "PARTITA_REMOTE=" + address + " PARTITA_REMOTE_CHECK=" + check + " " +
                              folder_of_programs() + words + " 2>&1";
  Ran ran;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (!pipe) return ran;
  char piece[4096];
  while (const std::size_t got = std::fread(piece, 1, sizeof piece, pipe))
    ran.text.append(piece, got);
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  return ran;
}

// Builds with sanitizers make none.
bool no_programs() { return !std::filesystem::exists(folder_of_programs()); }

void expect_all_right(const char* check) {
  PtxServer server(private_address());
  EXPECT_GE(cuda_programs().size(), 18U);
  for (const std::string& name : cuda_programs()) {
    const Ran ran = run_program(server.address(), check, name);
    EXPECT_EQ(ran.status, 0) << name << "\n" << ran.text;
    EXPECT_NE(ran.text.find(name + ": right"), std::string::npos) << name << "\n" << ran.text;
    for (const char* accusation : {"race", "uninitialised", "out of bounds", "divergence"}) {
      EXPECT_EQ(ran.text.find(accusation), std::string::npos) << name << "\n" << ran.text;
    }
  }
}

TEST(CudaPrograms, AreAllRight) {
  if (no_programs()) GTEST_SKIP() << "this build has no CUDA programs";
  expect_all_right("");
}

TEST(CudaPrograms, AreNotAccusedUnderTheChecks) {
  if (no_programs()) GTEST_SKIP() << "this build has no CUDA programs";
  expect_all_right("1");
}

TEST(CudaPrograms, FaultsAreFoundUnderTheChecks) {
  if (no_programs()) GTEST_SKIP() << "this build has no CUDA programs";
  PtxServer server(private_address());
  const std::map<std::string, std::string> faults = {{"bounds", "out of bounds"},
                                                     {"race", "race"},
                                                     {"fresh", "uninitialised"},
                                                     {"early", "divergence"}};
  for (const auto& [fault, said] : faults) {
    const Ran ran = run_program(server.address(), "1", "faulty " + fault);
    EXPECT_NE(ran.text.find(said), std::string::npos) << fault << "\n" << ran.text;
    EXPECT_NE(ran.text.find("faulty_sums"), std::string::npos) << fault << "\n" << ran.text;
  }
}

}  // namespace
}  // namespace partita::remote::test
