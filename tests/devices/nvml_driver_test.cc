// The NVML driver: on the simulated library (the conformance suite, agreement with the simulated
// driver, errors), and reading only on NVIDIA's own library where there is one.
#include "drivers/nvml_mig/nvml_driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "act/power_guard.h"
#include "base/rng.h"
#include "device/adaptors.h"
#include "device/nvlinks.h"
#include "device/recognise.h"
#include "device/testing/conformance.h"
#include "drivers/nvml_mig/nvml_health.h"
#include "drivers/nvml_mig/nvml_reader.h"
#include "drivers/sim/sim_driver.h"
#include "drivers/sim/sim_health.h"

namespace partita::drivers::nvml_mig {
namespace {

using device::check_conformance;
using device::check_reading;
using device::NodeDriver;
using sim::Machine;
using sim::SharedMachine;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLibrary = PARTITA_NVML_SIM;

const hw::Catalogue& catalogue() { return hw::builtin_catalogue(); }

// A machine in a folder of its own, named by PARTITA_SIM, seen through the library (`driver`) and
// past it (`shared`).
enum class Shared { no, yes };  // no: its state is in the library, nobody sees it past that
class SimulatedNode {
 public:
  explicit SimulatedNode(const std::string& description, Shared share = Shared::yes) {
    std::string folder = (std::filesystem::temp_directory_path() / "nvml-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    const std::string file = folder_ / "machine.yaml";
    std::ofstream(file) << description << "speed: 0\n"
                        << (share == Shared::yes ? "state: machine.state\n" : "");
    ::setenv("PARTITA_SIM", file.c_str(), 1);
    auto opened = open_nvml(catalogue(), kLibrary);
    EXPECT_TRUE(opened) << to_string(opened.error());
    if (opened) driver = *std::move(opened);
    if (share == Shared::no) return;
    auto beside = sim::open_machine(file, clock_, catalogue());
    EXPECT_TRUE(beside) << to_string(beside.error());
    if (beside) shared = *std::move(beside);
  }
  ~SimulatedNode() {
    driver.reset();
    ::unsetenv("PARTITA_SIM");
    std::filesystem::remove_all(folder_);
  }

  void change(const std::function<void(Machine&)>& use) { EXPECT_TRUE(shared->with(use)); }

  std::unique_ptr<NodeDriver> driver;
  std::unique_ptr<SharedMachine> shared;

 private:
  ManualClock clock_;
  std::filesystem::path folder_;
};

std::string two_of(const std::string& model) {
  return "gpus: [{model: " + model + ", count: 2, mig: true}]\n";
}

class NvmlModels : public testing::TestWithParam<const char*> {};

TEST_P(NvmlModels, Conform) {
  SimulatedNode node(two_of(GetParam()), Shared::no);
  ASSERT_TRUE(node.driver);
  const hw::GpuModel& model = *catalogue().find(GetParam());
  EXPECT_THAT(device::differences(model, *node.driver->profiles(1)), IsEmpty());
  EXPECT_THAT(check_reading(*node.driver, catalogue()), IsEmpty());
  EXPECT_THAT(check_conformance({.driver = *node.driver, .gpu = 1, .model = model}), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Models, NvmlModels,
                         testing::Values("A100-80GB", "H200-141GB", "RTX-PRO-6000-96GB"));

// What comes from outside the door: a process that holds an instance, and the loss of the GPU.
TEST(NvmlDriverTest, TellsOfHoldersAndOfALostGpu) {
  SimulatedNode node(two_of("A30-24GB"));
  ASSERT_TRUE(node.driver && node.shared);
  const int id = node.driver->create_instance(1, {.nvml_enum = 1, .start = 2}).value();
  const auto compute = node.driver->create_compute(1, id).value();
  node.change([&](Machine& machine) {
    EXPECT_TRUE(machine.attach(1, {4711, "train", id, compute.ci_id}));
  });
  EXPECT_EQ(node.driver->read(1)->instances.at(0).holders,
            (std::vector<device::Holder>{{4711, "train"}}));
  EXPECT_EQ(node.driver->destroy_compute(1, id, compute.ci_id).error().code, ErrorCode::in_use);
  EXPECT_EQ(node.driver->destroy_instance(1, id).error().code, ErrorCode::in_use);
  EXPECT_EQ(node.driver->set_mig_mode(1, false).error().code, ErrorCode::in_use);
  node.change([](Machine& machine) { machine.detach(4711); });
  EXPECT_FALSE(node.driver->read(1)->instances.at(0).busy());

  node.change([](Machine& machine) { machine.lose(1); });
  const auto read = node.driver->read(1);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_TRUE(read->lost);
  EXPECT_EQ(read->uuid, sim::SimDriver(*node.shared).read(1)->uuid);
  EXPECT_THAT(read->instances, IsEmpty());
  EXPECT_EQ(node.driver->profiles(1).error().code, ErrorCode::lost);
  EXPECT_EQ(node.driver->create_instance(1, {.nvml_enum = 1, .start = 0}).error().code,
            ErrorCode::lost);
  EXPECT_EQ(node.driver->destroy_compute(1, id, compute.ci_id).error().code, ErrorCode::lost);
}

// The two drivers are two ways to one machine: whatever is there, they read the same.
TEST(NvmlDriverTest, ReadsWhatTheSimulatedDriverReads) {
  SimulatedNode node(
      "gpus: [{model: H100-80GB-SXM5, count: 1, mig: true}, {model: A100-40GB, mig: false}, "
      "{model: A100-80GB, mig: true}]\n"
      "instances: [{gpu: 0, profile: 3g.40gb, start: 4}, {gpu: 0, profile: 1g.10gb, start: 2}, "
      "{gpu: 0, profile: 1g.20gb, start: 0}, {gpu: 2, profile: 2g.20gb, start: 2, whole: false}]\n"
      "processes: [{gpu: 0, start: 4, pid: 77, name: train}, {gpu: 1, pid: 9, name: x}]\n");
  ASSERT_TRUE(node.driver && node.shared);
  node.change([](Machine& machine) {  // parts of an instance, made by others
    const auto whole = machine.create_instance(2, 4, std::nullopt);
    ASSERT_TRUE(whole);
    EXPECT_TRUE(machine.create_compute(2, whole->value, 1, 2));
    EXPECT_TRUE(machine.create_compute(2, whole->value, 2, 0));
  });
  sim::SimDriver direct(*node.shared);
  for (int gpu = 0; gpu < 3; ++gpu) {
    const auto read = node.driver->read(gpu);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(*read, *direct.read(gpu)) << "gpu " << gpu;
    EXPECT_EQ(*node.driver->profiles(gpu), *direct.profiles(gpu)) << "gpu " << gpu;
  }
  EXPECT_EQ(node.driver->read(0)->instances.size(), 3u);
  EXPECT_EQ(node.driver->read(2)->instances.size(), 2u);
}

// Of boards at two switches, a pair at its own and one without links; Ampere's are down under MIG.
TEST(NvmlDriverTest, FollowsNvLinks) {
  for (const bool mig : {true, false})
    for (const char* model : {"A100-80GB", "H100-80GB-SXM5"}) {
      const SimulatedNode node(
          fmt::format("gpus:\n- {{model: {0}, mig: {1}, count: 6, nvlink: 4}}\n"
                      "- {{model: {0}, mig: {1}, count: 2, nvlink: 2}}\n",
                      model, mig));
      const auto state = device::read_node(*node.driver);
      sim::SimDriver beside(*node.shared);
      ASSERT_TRUE(state) << to_string(state.error());
      EXPECT_EQ(state->gpus, device::read_node(beside)->gpus);
      std::vector<int> domains;
      for (const auto& [gpu, domain] : device::nvlink_domains(*state)) domains.push_back(domain);
      const bool down = mig && std::string_view(model).starts_with("A100");
      EXPECT_EQ(domains, down ? std::vector<int>() : (std::vector{0, 0, 0, 0, 4, 4, 6, 6}));
    }
  const SimulatedNode without("gpus: [{model: H100-80GB-SXM5, count: 2}]\n");
  EXPECT_THAT(device::nvlink_domains(*device::read_node(*without.driver)), IsEmpty());
}

TEST(NvmlDriverTest, SeesAtOnceWhatOthersChange) {
  SimulatedNode node(two_of("A100-80GB"));
  ASSERT_TRUE(node.driver && node.shared);
  sim::SimDriver other(*node.shared);
  const auto id = other.create_instance(0, {.nvml_enum = 2, .start = 4});
  ASSERT_TRUE(id);
  const auto compute = node.driver->create_compute(0, *id);
  ASSERT_TRUE(compute) << to_string(compute.error());
  EXPECT_EQ(other.read(0)->instances.at(0).uuid(), compute->uuid);
  ASSERT_TRUE(other.destroy_compute(0, *id, compute->ci_id));
  EXPECT_EQ(node.driver->destroy_compute(0, *id, compute->ci_id).error().code,
            ErrorCode::not_found);
  EXPECT_TRUE(node.driver->destroy_instance(0, *id));
  EXPECT_THAT(other.read(0)->instances, IsEmpty());
}

// While another thread makes and unmakes an instance, every reading is one that could have been.
TEST(NvmlDriverTest, ReadsWhileOthersChange) {
  SimulatedNode node(two_of("A30-24GB"));
  ASSERT_TRUE(node.driver && node.shared);
  std::jthread busy([&](const std::stop_token& stop) {
    sim::SimDriver other(*node.shared);
    for (int i = 0; i < 20 && !stop.stop_requested(); ++i) {
      const auto id = other.create_instance(0, {.nvml_enum = 1, .start = 2});
      if (!id) continue;
      const auto compute = other.create_compute(0, *id);
      EXPECT_TRUE(compute && other.destroy_compute(0, *id, compute->ci_id));
      EXPECT_TRUE(other.destroy_instance(0, *id));
    }
  });
  for (int i = 0; i < 10; ++i) {
    const auto read = node.driver->read(0);
    if (!read) {  // every one of its attempts met a change
      EXPECT_TRUE(read.error().code == ErrorCode::invalid_argument) << to_string(read.error());
      continue;
    }
    ASSERT_LE(read->instances.size(), 1u);
    for (const auto& instance : read->instances) EXPECT_EQ(instance.start, 2);
  }
}

TEST(NvmlDriverTest, TellsWhatIsWrongInItsOwnCodesWithTheCall) {
  SimulatedNode node(two_of("A100-80GB") +
                     "faults: [{method: create_instance, call: 2, error: timeout}]\n");
  ASSERT_TRUE(node.driver);
  const auto first = node.driver->create_instance(0, {.nvml_enum = 0, .start = 3});
  ASSERT_TRUE(first) << to_string(first.error());
  const auto late = node.driver->create_instance(0, {.nvml_enum = 0, .start = 4});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
  EXPECT_EQ(late.error().context,
            "create_instance(gpu 0, profile 0, start 4): nvmlDeviceCreateGpuInstanceWithPlacement");
  const auto taken = node.driver->create_instance(0, {.nvml_enum = 0, .start = 3});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::no_room);
  EXPECT_THAT(taken.error().message, HasSubstr("taken"));
}

TEST(NvmlDriverTest, NamesTheMissingLibraryAndTheRefusedMachine) {
  const auto missing = open_nvml(catalogue(), "/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::no_driver);
  EXPECT_THAT(to_string(missing.error()), HasSubstr("is the driver installed?"));

  ::setenv("PARTITA_SIM", "/nowhere/machine.yaml", 1);
  const auto refused = open_nvml(catalogue(), kLibrary);
  ::unsetenv("PARTITA_SIM");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_driver);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("driver is not loaded"));
}

TEST(NvmlDriverTest, WithoutDescriptionIsOneGpuInMemory) {
  ::unsetenv("PARTITA_SIM");
  const auto driver = open_nvml(catalogue(), kLibrary);
  ASSERT_TRUE(driver);
  EXPECT_EQ((*driver)->info()->gpus, 1);
  EXPECT_EQ((*driver)->read(0)->model, "A100-80GB");
  EXPECT_TRUE((*driver)->read(0)->mig_enabled);
}

// NVIDIA's naming rule gives the catalogue's names wherever both memories are known.
TEST(NvmlDriverTest, ComputesTheNamesOfProfiles) {
  int known = 0;
  for (const hw::GpuModel& model : catalogue().gpus) {
    for (const hw::MigProfile& profile : model.profiles) {
      if (!model.total_memory || !profile.memory) continue;
      const std::string name = computed_profile_name(
          profile.nvml_enum, profile.gpcs, profile.memory->value, model.total_memory->value);
      const bool alias = std::ranges::find(profile.aliases, name) != profile.aliases.end();
      EXPECT_TRUE(name == profile.name || alias)
          << model.name << ": " << name << " for " << profile.name;
      ++known;
    }
  }
  EXPECT_GT(known, 50);
}

// ---- power

constexpr const char* kBusy =
    "gpus: [{model: H100-80GB-SXM5}]\n"
    "instances: [{gpu: 0, profile: 3g.40gb, start: 4}, {gpu: 0, profile: 1g.10gb, start: 0}]\n"
    "processes: [{gpu: 0, start: 4, pid: 4711, name: train.py, activity: 0.7}]\n";

TEST(NvmlTelemetryTest, TellsWhatTheMachineDoes) {
  SimulatedNode node(kBusy);
  ASSERT_TRUE(node.driver);
  const auto first = node.driver->telemetry(0);
  ASSERT_TRUE(first) << to_string(first.error());
  EXPECT_FALSE(first->instances.at(0).activity.graphics_engine) << "nothing to compare with yet";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto sample = node.driver->telemetry(0);
  ASSERT_TRUE(sample) << to_string(sample.error());
  EXPECT_EQ(sample->model, "H100-80GB-SXM5");
  EXPECT_GT(*sample->power, Watts{90}) << "idle are 75";
  EXPECT_LT(*sample->power, Watts{700});
  EXPECT_GT(*sample->energy, *first->energy);
  const double mean = (*sample->energy - *first->energy).value / 0.3;
  EXPECT_GT(mean, 75) << "at least 0.3 s at idle power";
  EXPECT_EQ(sample->power_limit, Watts{700});
  EXPECT_GT(*sample->memory_temperature, Celsius{29});
  ASSERT_EQ(sample->instances.size(), 2u);
  const auto busy =
      std::ranges::find(sample->instances, "3g.40gb", &telemetry::InstanceSample::profile);
  EXPECT_NEAR(*busy->activity.graphics_engine, 0.7, 0.15);
  EXPECT_LT(*busy->activity.tensor, *busy->activity.graphics_engine);
  EXPECT_NEAR(*sample->activity.graphics_engine, 0.7 * 3 / 7, 0.07);
  const auto idle =
      std::ranges::find(sample->instances, "1g.10gb", &telemetry::InstanceSample::profile);
  EXPECT_EQ(idle->activity.graphics_engine, 0);
  ASSERT_EQ(sample->processes.size(), 1u);
  EXPECT_EQ(sample->processes[0].pid, 4711);
  EXPECT_EQ(sample->processes[0].gi_id, busy->gi_id);
}

TEST(NvmlTelemetryTest, AmpereHasNoPerformanceMonitor) {
  SimulatedNode node(
      "gpus: [{model: A100-80GB}]\n"
      "instances: [{gpu: 0, profile: 3g.40gb, start: 4}]\n");
  ASSERT_TRUE(node.driver && node.driver->telemetry(0));
  EXPECT_EQ(node.driver->telemetry(0)->instances.at(0).activity, telemetry::Activity{});
}

TEST(NvmlTelemetryTest, SettingsReachTheBoard) {
  SimulatedNode node(kBusy);
  ASSERT_TRUE(node.driver && node.shared);
  const auto board = node.driver->power_settings(0);
  ASSERT_TRUE(board) << to_string(board.error());
  EXPECT_FALSE(board->clocks_told);
  EXPECT_EQ(board->most_limit, Watts{700});
  EXPECT_EQ(board->clocks.back(), Mhz{1980});
  ASSERT_TRUE(
      node.driver->set_power_settings(0, {Watts{300}, device::ClockRange{Mhz{600}, Mhz{900}}}));
  const auto settings = [&] {
    device::PowerSettings now;
    node.change([&](Machine& machine) { now = machine.find(0)->power.settings; });
    return now;
  };
  EXPECT_EQ(settings(), (device::PowerSettings{Watts{300}, {{Mhz{600}, Mhz{900}}}}));
  EXPECT_EQ(node.driver->telemetry(0)->sm_clock, Mhz{900});
  EXPECT_EQ(node.driver->set_power_settings(0, {Watts{99}, {}}).error().code,
            ErrorCode::invalid_argument);
  ASSERT_TRUE(node.driver->set_power_settings(0, {}));
  EXPECT_EQ(settings(), device::PowerSettings{});
}

TEST(NvmlTelemetryTest, WithoutRightsSettingIsDenied) {
  SimulatedNode node(std::string(kBusy) + "power_rights: nobody\n");
  ASSERT_TRUE(node.driver);
  EXPECT_EQ(node.driver->set_power_settings(0, {Watts{300}, {}}).error().code, ErrorCode::denied);
  EXPECT_TRUE(node.driver->telemetry(0)) << "reading needs none";
}

// The process that sets power dies at a random call, before or after its effect: whoever opens the
// journal next puts everything back.
TEST(NvmlTelemetryTest, AThousandCrashesLeaveNoBoardChanged) {
  struct Died {};
  SimulatedNode node("gpus: [{model: A100-80GB, count: 2}]\n", Shared::no);
  ASSERT_TRUE(node.driver);
  MemoryFiles files;
  ManualClock clock;
  constexpr const char* kJournal = "power.journal";
  // Limits, and clocks, which on an idle board are the lowest that it may have.
  const auto settings = [&] {
    std::vector<std::pair<Watts, Mhz>> all;
    for (int gpu = 0; gpu < 2; ++gpu) {
      const auto sample = node.driver->telemetry(gpu);
      EXPECT_TRUE(sample);
      all.emplace_back(*sample->power_limit, *sample->sm_clock);
    }
    return all;
  };
  ASSERT_TRUE(node.driver->set_power_settings(1, {Watts{350}, {}}));
  const auto before = settings();
  int changed = 0;
  Rng rng(15);
  for (int crash = 0; crash < 1000; ++crash) {
    const int calls = 1 + static_cast<int>(rng.below(4));
    const device::Fault fault{.method = "set_power_settings",
                              .call = 1 + static_cast<int>(rng.below(3)) % calls,
                              .after_effect = rng.below(2) == 0,
                              .dies = true};
    device::FaultyDriver dying(*node.driver, clock, {fault}, [] { throw Died{}; });
    EXPECT_THROW(
        {
          auto guard = actuate::PowerGuard::open(files, kJournal, dying);
          for (int i = 0; guard && i < calls; ++i) {
            const double high = 600 + 15 * static_cast<double>(rng.below(50));
            (void)guard->set(static_cast<int>(rng.below(2)),
                             {Watts{100.0 + static_cast<double>(rng.below(300))},
                              device::ClockRange{Mhz{300}, Mhz{high}}});
          }
        },
        Died);
    changed += settings() != before;
    auto guard = actuate::PowerGuard::open(files, kJournal, *node.driver);
    ASSERT_TRUE(guard && guard->restore());
    ASSERT_EQ(settings(), before) << "crash " << crash;
  }
  EXPECT_GT(changed, 400) << "the crashes came when something was at stake";
}

// Both doors hear of one machine: the same, and only what was reported since they listen.
TEST(NvmlHealthTest, HearsWhatTheSimulatedMachineReports) {
  using Kind = device::HealthEvent::Kind;
  SimulatedNode node(two_of("A100-80GB"));
  ASSERT_TRUE(node.driver && node.shared);
  node.change([](Machine& machine) { machine.report_xid(0, 31); });  // nobody listens yet
  auto opened = watch_nvml(kLibrary);
  ASSERT_TRUE(opened) << to_string(opened.error());
  device::HealthWatch& watch = **opened;
  sim::SimHealthWatch direct(*node.shared);
  const auto both = [&] {
    const auto heard = watch.look();
    EXPECT_EQ(heard, direct.look());
    EXPECT_THAT(watch.complaints(), IsEmpty());
    return heard;
  };
  const std::string first = node.driver->read(0)->uuid, second = node.driver->read(1)->uuid;
  EXPECT_THAT(both(), testing::UnorderedElementsAre(device::HealthEvent{first, Kind::well, 1},
                                                    device::HealthEvent{second, Kind::well, 1}));
  EXPECT_THAT(both(), IsEmpty());
  node.change([](Machine& machine) {
    machine.report_xid(1, 13, 3, 0);
    machine.report_xid(1, 48);
  });
  EXPECT_THAT(both(), testing::ElementsAre(device::HealthEvent{second, Kind::xid, 13, 3, 0},
                                           device::HealthEvent{second, Kind::xid, 48},
                                           device::HealthEvent{second, Kind::ecc, 1},
                                           device::HealthEvent{second, Kind::recovery, 1}));
  EXPECT_THAT(both(), IsEmpty());
  node.change([](Machine& machine) { EXPECT_TRUE(machine.reset(1)); });
  EXPECT_THAT(both(), testing::ElementsAre(device::HealthEvent{second, Kind::reset, 0}));
  node.change([](Machine& machine) {
    machine.report_xid(0, 63);
    machine.report_xid(0, 64);
  });
  EXPECT_EQ(both().size(), 5u);  // two XIDs, both flags, the recommendation
  // Its last words are heard though it is lost by then.
  node.change([](Machine& machine) { machine.report_xid(0, 79); });
  EXPECT_THAT(both(), testing::ElementsAre(device::HealthEvent{first, Kind::xid, 79}));
  node.change([](Machine& machine) { machine.regain(0); });
  EXPECT_THAT(both(), testing::ElementsAre(device::HealthEvent{first, Kind::reset, 0}));
  node.change([](Machine& machine) { machine.report_xid(0, 95); });  // heard again
  EXPECT_EQ(both().size(), 2u);
}

// Seeded: whatever happens in whatever order, both tell the same.
TEST(NvmlHealthTest, AgreesWithTheSimulatedDoorWhateverHappens) {
  SimulatedNode node(two_of("H100-80GB-SXM5"));
  ASSERT_TRUE(node.driver && node.shared);
  auto watch = watch_nvml(kLibrary);
  ASSERT_TRUE(watch);
  sim::SimHealthWatch direct(*node.shared);
  EXPECT_EQ((*watch)->look(), direct.look());
  Rng rng(16);
  std::size_t heard = 0;
  for (int round = 0; round < 150; ++round) {
    const int gpu = static_cast<int>(rng.below(2));
    node.change([&](Machine& machine) {
      constexpr int kXids[] = {13, 31, 48, 63, 64, 79, 95, 119};
      switch (rng.below(6)) {
        case 0:
          return (void)machine.reset(gpu);
        case 1:
          return machine.regain(gpu);
        case 2:
          return machine.reboot();
        default:
          for (std::uint64_t n = rng.below(4); n-- > 0;)
            machine.report_xid(gpu, kXids[rng.below(std::size(kXids))]);
      }
    });
    // Where a GPU is lost and back between two looks, only who keeps a handle sees it.
    const auto one = (*watch)->look();
    ASSERT_EQ(one, direct.look()) << "round " << round;
    heard += one.size();
  }
  EXPECT_GT(heard, 100u);
}

// More XIDs than a GPU remembers: the newest are told, nothing is told twice, nothing hangs.
TEST(NvmlHealthTest, AFloodIsBounded) {
  SimulatedNode node(two_of("A100-80GB"));
  ASSERT_TRUE(node.driver && node.shared);
  auto watch = watch_nvml(kLibrary);
  ASSERT_TRUE(watch);
  EXPECT_EQ((*watch)->look().size(), 2u);  // both are well
  node.change([](Machine& machine) {
    for (int i = 0; i < 1000; ++i) machine.report_xid(0, 31);
  });
  EXPECT_EQ((*watch)->look().size(), sim::kMaxSimXids);
  EXPECT_THAT((*watch)->look(), IsEmpty());
}

TEST(NvmlHealthTest, WatchesARealGpu) {
  auto watch = watch_nvml();
  if (!watch) GTEST_SKIP() << to_string(watch.error());
  const auto driver = open_nvml(catalogue());
  ASSERT_TRUE(driver);
  const auto began = std::chrono::steady_clock::now();
  for (int look = 0; look < 20; ++look) (void)(*watch)->look();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  for (const std::string& sentence : (*watch)->complaints()) std::puts(sentence.c_str());
  std::printf("a look takes %.3f ms\n", took.count() * 1e3 / 20);
}

TEST(NvmlDriverTest, ReadsARealGpu) {
  void* handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) GTEST_SKIP() << "no libnvidia-ml.so.1 on this machine";
  ::dlclose(handle);
  const auto driver = open_nvml(catalogue());
  if (!driver) GTEST_SKIP() << to_string(driver.error());
  EXPECT_THAT(check_reading(**driver, catalogue()), IsEmpty());
}

}  // namespace
}  // namespace partita::drivers::nvml_mig
