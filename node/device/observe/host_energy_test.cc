#include "device/observe/host_energy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace partita::observe {
namespace {

// A tree as the kernel's, of two sockets.
struct Tree {
  MemoryFiles files;
  void zone(const std::string& zone, const std::string& name, double joules,
            double range_j = 262'143.328850) {
    const std::string path = "/rapl/" + zone;
    files.content[path + "/name"] = name + "\n";
    files.content[path + "/max_energy_range_uj"] = fmt::format("{:.0f}\n", range_j * 1e6);
    files.content[path + "/energy_uj"] = fmt::format("{:.0f}\n", joules * 1e6);
  }
  HostEnergyReader reader() { return HostEnergyReader(files, {"/rapl", "/proc"}); }
  void busy(double seconds) {
    files.content["/proc/stat"] =
        fmt::format("cpu  {:.0f} 0 0 999999 50 0 0 0 0 0\ncpu0 1 2 3\n", seconds * 100);
  }
  void process(int pid, double seconds) {
    files.content[fmt::format("/proc/{}/stat", pid)] =
        fmt::format("{0} (a ) b) S 1 {0} {0} 0 -1 4194304 1 0 0 0 {1:.0f} 100 0 0 20 0 1 0 5 6\n",
                    pid, seconds * 100 - 100);
  }
};

TEST(HostEnergy, SumsSocketsAndLeavesCoresToPackages) {
  Tree tree;
  tree.zone("intel-rapl:0", "package-0", 100);
  tree.zone("intel-rapl:0:0", "core", 70);
  tree.zone("intel-rapl:0:1", "dram", 10);
  tree.zone("intel-rapl:1", "package-1", 200);
  tree.zone("intel-rapl:1:0", "dram", 20);
  tree.zone("intel-rapl:2", "psys", 500);
  HostEnergyReader reader = tree.reader();
  EXPECT_EQ(reader.read({10}, {}).energy.cpu, Joules{0});
  tree.zone("intel-rapl:0", "package-0", 130);
  tree.zone("intel-rapl:0:0", "core", 95);
  tree.zone("intel-rapl:1", "package-1", 207);
  tree.zone("intel-rapl:1:0", "dram", 21.5);
  tree.zone("intel-rapl:2", "psys", 560);
  const auto sample = reader.read({11}, {});
  EXPECT_NEAR(sample.energy.cpu->value, 37, 1e-6);
  EXPECT_NEAR(sample.energy.dram->value, 1.5, 1e-6);
  EXPECT_NEAR(sample.energy.psys->value, 60, 1e-6);
  EXPECT_EQ(sample.fault, "");
}

// A counter that wraps many times tells what a counter without end does.
TEST(HostEnergy, GoesOnWhereACounterWraps) {
  Tree tree;
  Rng rng(3);
  constexpr double kRange = 65'532;
  double all = 65'000, now = 0;
  tree.zone("intel-rapl:0", "package-0", all, kRange);
  HostEnergyReader reader = tree.reader();
  reader.read({now}, {});
  const double first = all;
  for (int look = 0; look < 2000; ++look) {
    const double step = 1 + 20 * rng.uniform();
    now += step;
    all += std::floor(step * 400 * rng.uniform());
    tree.zone("intel-rapl:0", "package-0", std::fmod(all, kRange), kRange);
    ASSERT_NEAR(reader.read({now}, {}).energy.cpu->value, all - first, 1e-3);
  }
  EXPECT_GT(all, 10 * kRange);
  // A silence in which it may have wrapped twice is in no figure, and is said.
  all += 5;
  tree.zone("intel-rapl:0", "package-0", std::fmod(all, kRange), kRange);
  const auto before = reader.read({now + 1}, {}).energy.cpu;
  all += 1000;
  tree.zone("intel-rapl:0", "package-0", std::fmod(all, kRange), kRange);
  const auto after = reader.read({now + 100}, {});
  EXPECT_EQ(after.energy.cpu, before);
  EXPECT_EQ(after.fault, "99 s of /rapl/intel-rapl:0 were not counted: its counter may have "
                         "wrapped more than once");
}

TEST(HostEnergy, WhatIsNotToldIsMissing) {
  Tree tree;
  EXPECT_EQ(tree.reader().read({1}, {}).energy, telemetry::HostEnergy{});
  EXPECT_EQ(tree.reader().read({1}, {}).fault, "there are no RAPL counters at /rapl");
  tree.zone("intel-rapl:0", "package-0", 100);
  tree.zone("intel-rapl:1", "package-1", 100);
  // Of one of two sockets: the sum of both is not known.
  tree.files.content.erase("/rapl/intel-rapl:1/energy_uj");
  HostEnergyReader reader = tree.reader();
  reader.read({1}, {});
  const auto sample = reader.read({2}, {});
  EXPECT_EQ(sample.energy.cpu, std::nullopt);
  EXPECT_EQ(sample.energy.dram, std::nullopt);
  EXPECT_EQ(sample.fault, "/rapl/intel-rapl:1/energy_uj cannot be read: the kernel lets root "
                          "alone, who may give others the right");
  EXPECT_EQ(sample.cpu_s, std::nullopt) << "there is no /proc/stat";
}

TEST(HostEnergy, TimesOfTenantsFollowTheirProcesses) {
  Tree tree;
  HostEnergyReader reader = tree.reader();
  tree.busy(1000);
  tree.process(7, 40);
  tree.process(8, 10);
  reader.read({1}, {{"chat", 7, "a"}, {"search", 8, "b"}});
  tree.busy(1010);
  tree.process(7, 43);
  tree.process(8, 11);
  auto sample = reader.read({2}, {{"chat", 7, "a"}, {"search", 8, "b"}});
  EXPECT_NEAR(*sample.cpu_s, 1010, 1e-9);
  EXPECT_NEAR(sample.cpu_of.at("chat"), 3, 1e-9);
  EXPECT_NEAR(sample.cpu_of.at("search"), 1, 1e-9);
  // Another process has the number, and one has ended.
  tree.process(7, 1);
  tree.files.content.erase("/proc/8/stat");
  sample = reader.read({3}, {{"chat", 7, "c"}, {"search", 8, "b"}});
  EXPECT_NEAR(sample.cpu_of.at("chat"), 3, 1e-9);
  tree.process(7, 2);
  sample = reader.read({4}, {{"chat", 7, "c"}});
  EXPECT_NEAR(sample.cpu_of.at("chat"), 4, 1e-9);
  EXPECT_NEAR(sample.cpu_of.at("search"), 1, 1e-9);
}

// A cgroup has the time of all that ever ran in it; of a task it is the one that its process was
// put into, and of no other kind.
TEST(HostEnergy, TimesOfCgroups) {
  Tree tree;
  auto& files = tree.files.content;
  files["/proc/self/mounts"] = "proc /proc proc rw 0 0\ncgroup2 /cg cgroup2 rw,nsdelegate 0 0\n";
  files["/proc/7/cgroup"] = "12:cpu:/x\n0::/user.slice/partita-00aa\n";
  files["/proc/8/cgroup"] = "0::/user.slice\n";
  const auto used = [&](const std::string& folder, double seconds) {
    files[folder + "/cpu.stat"] =
        fmt::format("usage_usec {:.0f}\nuser_usec 1\nsystem_usec 2\n", seconds * 1e6);
  };
  const std::vector<TenantProcess> all = {{.tenant = "task", .pid = 7, .family = true},
                                          {.tenant = "stray", .pid = 8, .family = true},
                                          {.tenant = "pod", .cgroup = "/pods/podx"}};
  tree.busy(1000);
  used("/cg/user.slice/partita-00aa", 40);
  used("/cg/user.slice", 900);
  HostEnergyReader reader = tree.reader();
  auto sample = reader.read({1}, all);
  EXPECT_FALSE(sample.cpu_of.contains("stray")) << "others are in that one, too";
  EXPECT_FALSE(sample.cpu_of.contains("pod")) << "its cgroup is not there yet";
  used("/cg/user.slice/partita-00aa", 43.5);
  used("/pods/podx", 100);
  sample = reader.read({2}, all);
  EXPECT_NEAR(sample.cpu_of.at("task"), 3.5, 1e-9);
  EXPECT_NEAR(sample.cpu_of.at("pod"), 0, 1e-9);
  // It vanishes, and another of that name counts from nothing.
  files.erase("/pods/podx/cpu.stat");
  used("/cg/user.slice/partita-00aa", 44);
  sample = reader.read({3}, all);
  EXPECT_NEAR(sample.cpu_of.at("task"), 4, 1e-9);
  EXPECT_NEAR(sample.cpu_of.at("pod"), 0, 1e-9);
  used("/pods/podx", 1);
  reader.read({4}, all);
  used("/pods/podx", 3);
  sample = reader.read({5}, all);
  EXPECT_NEAR(sample.cpu_of.at("pod"), 2, 1e-9);
  files["/pods/podx/cpu.stat"] = "usage_usec -5\n";
  EXPECT_NEAR(reader.read({6}, all).cpu_of.at("pod"), 2, 1e-9);
  reader.keep_only({all[0]});
  EXPECT_FALSE(reader.read({7}, {all[0]}).cpu_of.contains("pod"));
}

}  // namespace
}  // namespace partita::observe
