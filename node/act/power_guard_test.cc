#include "act/power_guard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "act/power_loop.h"
#include "base/rng.h"

namespace partita::actuate {
namespace {

using device::ClockRange;
using device::PowerSettings;
using device::PowerState;

constexpr const char* kPath = "state/power.journal";

// Thrown where the process dies; what was on disk and in the boards stays.
struct Died {};

// Counts everything that reaches the world, and dies at one of them.
struct Doom {
  int left = 1 << 30;
  bool after = false;  // the effect happens, the answer is not heard
  int tear = 0;        // an append leaves so many bytes
  // Whether this is the moment.
  bool strikes() { return left-- == 0; }
};

// Boards that keep their settings. Setting takes two steps, as with NVML: limit, then clocks.
class Boards final : public device::NodeDriver {
 public:
  Boards(std::vector<PowerSettings> settings, Doom& doom)
      : settings_(std::move(settings)), doom_(doom) {}
  Result<device::DriverInfo> info() override {
    return device::DriverInfo{"boards", "1", static_cast<int>(settings_.size())};
  }
  Result<device::GpuState> read(int gpu) override {
    if (gpu == lost) return failed({ErrorCode::lost, "it fell off the bus", "read"});
    device::GpuState state;
    state.index = gpu;
    state.uuid = "GPU-" + std::to_string(gpu);
    return state;
  }
  Result<PowerState> power_settings(int gpu) override {
    PowerState state;
    state.now = at(gpu);
    state.least_limit = Watts{100};
    state.most_limit = Watts{400};
    state.clocks_told = tells_clocks;
    for (double mhz = 300; mhz <= 1500; mhz += 300) state.clocks.push_back(Mhz{mhz});
    return state;
  }
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) override {
    if (denies) return failed({ErrorCode::denied, "no rights", "set_power_settings"});
    if (doom_.strikes()) {
      if (doom_.after) at(gpu).limit = settings.limit;
      throw Died{};
    }
    at(gpu).limit = settings.limit;
    if (doom_.strikes()) {
      if (doom_.after) at(gpu).clocks = settings.clocks;
      throw Died{};
    }
    at(gpu).clocks = settings.clocks;
    return {};
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override {
    telemetry::GpuSample sample;
    sample.index = gpu;
    sample.power = Watts{at(gpu).clocks ? at(gpu).clocks->high.value / 10 : 200};
    sample.energy = Joules{100.0 * ++looks_};
    return sample;
  }
  Result<std::vector<device::ProfileInfo>> profiles(int) override { return failed(none()); }
  Result<device::ModeChange> set_mig_mode(int, bool) override { return failed(none()); }
  Result<int> create_instance(int, const device::Placement&) override { return failed(none()); }
  Result<void> destroy_instance(int, int) override { return failed(none()); }
  Result<device::ComputeInstance> create_compute(int, int) override { return failed(none()); }
  Result<void> destroy_compute(int, int, int) override { return failed(none()); }

  const std::vector<PowerSettings>& settings() const { return settings_; }
  bool denies = false, tells_clocks = true;
  int lost = -1;

 private:
  static Error none() { return {ErrorCode::not_supported, "not here", {}}; }
  PowerSettings& at(int gpu) { return settings_[static_cast<std::size_t>(gpu)]; }
  std::vector<PowerSettings> settings_;
  Doom& doom_;
  int looks_ = 0;
};

// A disk on which writes are cut short when the process dies.
class Disk final : public MemoryFiles {
 public:
  explicit Disk(Doom& doom) : doom_(doom) {}
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (!doom_.strikes()) return MemoryFiles::write_atomic(path, text);
    if (doom_.after) {
      EXPECT_TRUE(MemoryFiles::write_atomic(path, text));
    }
    throw Died{};
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    if (!doom_.strikes()) return MemoryFiles::append(path, text);
    const auto kept = doom_.after ? text : text.substr(0, static_cast<std::size_t>(doom_.tear));
    EXPECT_TRUE(MemoryFiles::append(path, kept));
    throw Died{};
  }

 private:
  Doom& doom_;
};

PowerSettings random_settings(Rng& rng) {
  PowerSettings settings;
  if (rng.below(2) == 0) settings.limit = Watts{100.0 + static_cast<double>(rng.below(300))};
  if (rng.below(2) == 0) {
    const double low = 200 + 15 * static_cast<double>(rng.below(20));
    settings.clocks = ClockRange{Mhz{low}, Mhz{low + 150}};
  }
  return settings;
}

// A run that changes GPUs and puts them back at its end.
void work(Files& files, device::NodeDriver& driver, Rng rng) {
  auto guard = PowerGuard::open(files, kPath, driver);
  ASSERT_TRUE(guard) << to_string(guard.error());
  const std::uint64_t changes = 1 + rng.below(12);
  for (std::uint64_t i = 0; i < changes; ++i)
    ASSERT_TRUE(guard->set(static_cast<int>(rng.below(4)), random_settings(rng)));
  ASSERT_TRUE(guard->restore());
}

void restore(Files& files, device::NodeDriver& driver) {
  auto guard = PowerGuard::open(files, kPath, driver);
  ASSERT_TRUE(guard) << to_string(guard.error());
  ASSERT_TRUE(guard->restore());
}

template <class Run>
bool dies(Doom& doom, Rng& rng, int most, Run run) {
  doom = {.left = static_cast<int>(rng.below(static_cast<std::uint64_t>(most))),
          .after = rng.below(2) == 0,
          .tear = static_cast<int>(rng.below(60))};
  try {
    run();
  } catch (const Died&) {
    doom.left = 1 << 30;
    return true;
  }
  doom.left = 1 << 30;
  return false;
}

TEST(PowerGuard, AThousandCrashesLeaveNoGpuChanged) {
  int crashes = 0, in_restore = 0, changed_at_death = 0;
  for (std::uint64_t seed = 0; crashes < 1000; ++seed) {
    Rng rng(seed);
    std::vector<PowerSettings> before;
    for (int gpu = 0; gpu < 4; ++gpu) before.push_back(random_settings(rng));
    Doom doom;
    Boards boards(before, doom);
    Disk disk(doom);
    // Some runs meet what an earlier one left.
    for (int runs = 0; runs < 3; ++runs) {
      if (!dies(doom, rng, 40, [&] { work(disk, boards, rng.split(9)); })) continue;
      ++crashes;
      changed_at_death += boards.settings() != before;
    }
    while (dies(doom, rng, 14, [&] { restore(disk, boards); })) ++in_restore, ++crashes;
    restore(disk, boards);
    ASSERT_EQ(boards.settings(), before) << "seed " << seed;
    const auto left = read_power_journal(disk, kPath);
    ASSERT_TRUE(left && left->empty()) << "seed " << seed;
  }
  EXPECT_GT(changed_at_death, 100) << "the crashes came when something was at stake";
  EXPECT_GT(in_restore, 20);
}

TEST(PowerGuard, BoardsAreAnnouncedBeforeTheyAreChanged) {
  Doom doom;
  Boards boards({{Watts{300}, {}}, {}}, doom);
  Disk disk(doom);
  auto guard = PowerGuard::open(disk, kPath, boards);
  ASSERT_TRUE(guard);
  doom.left = 1;  // the journal is written, the board is not reached
  EXPECT_THROW((void)guard->set(0, {Watts{200}, {}}), Died);
  const auto journal = read_power_journal(disk, kPath);
  ASSERT_TRUE(journal);
  EXPECT_EQ(*journal, (std::vector<PowerBefore>{{0, "GPU-0", {Watts{300}, {}}}}));
  EXPECT_EQ(boards.settings()[0].limit, Watts{300});
}

TEST(PowerGuard, OneAtATime) {
  Doom doom;
  Boards boards({{}}, doom);
  Disk disk(doom);
  const auto first = PowerGuard::open(disk, kPath, boards);
  ASSERT_TRUE(first);
  const auto second = PowerGuard::open(disk, kPath, boards);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::in_use);
}

TEST(PowerGuard, WithoutRightsNothingIsLeftInTheJournal) {
  Doom doom;
  Boards boards({{Watts{300}, {}}}, doom);
  boards.denies = true;
  Disk disk(doom);
  auto guard = PowerGuard::open(disk, kPath, boards);
  ASSERT_TRUE(guard);
  EXPECT_EQ(guard->set(0, {Watts{200}, {}}).error().code, ErrorCode::denied);
  EXPECT_TRUE(guard->changed().empty());
  EXPECT_TRUE(read_power_journal(disk, kPath)->empty());
}

// The mark of another journal stays, whose board it is.
TEST(PowerGuard, WithoutRightsWhatOthersChangedStaysMarked) {
  Doom doom;
  Boards boards({{Watts{300}, {}}}, doom);
  MemoryFiles files;
  const auto open = [&](const std::string& path) {
    return PowerGuard::open(files, path, boards, "/locks/").value();
  };
  PowerGuard first = open("/a/power.journal");
  ASSERT_TRUE(first.set(0, {Watts{200}, {}}));
  boards.denies = true;
  EXPECT_FALSE(open("/b/power.journal").set(0, {Watts{250}, {}}));
  EXPECT_EQ(open("/c/power.journal").changed_by_others()->size(), 1U);
  boards.denies = false;
  ASSERT_TRUE(first.restore());
  boards.denies = true;
  EXPECT_FALSE(open("/b/power.journal").set(0, {Watts{250}, {}}));
  EXPECT_FALSE(files.exists("/locks/GPU-0.power")) << "and one of its own is taken back";
  EXPECT_TRUE(open("/c/power.journal").changed_by_others()->empty());
}

TEST(PowerGuard, GpusHaveNumbersUpToAMillion) {
  for (const auto& [gpu, fits] : {std::pair{1'000'000, true}, {1'000'001, false}})
    EXPECT_EQ(
        parse_power_record("at", fmt::format(R"({{"gpu": {}, "uuid": "x"}})", gpu)).has_value(),
        fits);
}

TEST(PowerGuard, WhatCannotBePutBackStaysInTheJournal) {
  Doom doom;
  Boards boards({{Watts{300}, {}}, {Watts{310}, {}}}, doom);
  Disk disk(doom);
  auto guard = PowerGuard::open(disk, kPath, boards);
  ASSERT_TRUE(guard && guard->set(1, {Watts{210}, {}}) && guard->set(0, {Watts{200}, {}}));
  EXPECT_EQ(guard->changed().front().gpu, 0) << "in the order of the GPUs";
  boards.denies = true;
  EXPECT_FALSE(guard->restore());
  EXPECT_EQ(read_power_journal(disk, kPath)->size(), 2u);
  boards.denies = false;
  EXPECT_TRUE(guard->restore());
  EXPECT_EQ(boards.settings()[1].limit, Watts{310});
  EXPECT_TRUE(read_power_journal(disk, kPath)->empty());
}

TEST(PowerGuard, AGpuThatDoesNotAnswerKeepsNoOtherFromBeingPutBack) {
  Doom doom;
  Boards boards({{Watts{300}, {}}, {Watts{310}, {}}}, doom);
  Disk disk(doom);
  auto guard = PowerGuard::open(disk, kPath, boards);
  ASSERT_TRUE(guard && guard->set(0, {Watts{200}, {}}) && guard->set(1, {Watts{210}, {}}));
  boards.lost = 0;
  const auto restored = guard->restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::lost);
  EXPECT_EQ(boards.settings()[1].limit, Watts{310});
  ASSERT_EQ(read_power_journal(disk, kPath)->size(), 1u);
  boards.lost = -1;
  EXPECT_TRUE(guard->restore());
  EXPECT_EQ(boards.settings()[0].limit, Watts{300});
}

// A GPU that was swapped out: what it was set to is of no use to anybody after the next boot; until
// then it may only be out of sight.
TEST(PowerGuard, AGpuThatIsGoneSinceTheLastBootIsForgotten) {
  Doom doom;
  Boards boards({{Watts{300}, {}}, {Watts{310}, {}}, {Watts{320}, {}}}, doom);
  Boards fewer({{Watts{200}, {}}}, doom);
  MemoryFiles files;
  std::string& boot = files.content["/proc/sys/kernel/random/boot_id"];
  boot = "a\n";
  const auto open = [&](Boards& of) {
    return PowerGuard::open(files, kPath, of, "/locks/").value();
  };
  const auto left = [&] { return read_power_journal(files, kPath)->size(); };
  ASSERT_TRUE(open(boards).set(0, {Watts{200}, {}}));
  ASSERT_TRUE(open(boards).set(1, {Watts{210}, {}}));
  boot = "";  // as those say nothing of it that an older version wrote
  ASSERT_TRUE(open(boards).set(2, {Watts{220}, {}}));
  boot = "a\n";
  EXPECT_EQ(open(fewer).restore().error().code, ErrorCode::not_found);
  EXPECT_EQ(fewer.settings()[0].limit, Watts{300});
  EXPECT_EQ(left(), 2u);
  boot = "b\n";
  fewer.lost = 0;  // it may be this one
  EXPECT_EQ(open(fewer).restore().error().code, ErrorCode::lost);
  EXPECT_EQ(left(), 2u);
  fewer.lost = -1;
  PowerGuard guard = open(fewer);
  EXPECT_TRUE(guard.restore());
  ASSERT_EQ(guard.gone().size(), 2u);
  EXPECT_EQ(guard.gone()[1].uuid, "GPU-2");
  EXPECT_EQ(left(), 0u);
  EXPECT_FALSE(files.exists("/locks/GPU-1.power"));
}

// Of clocks that the driver does not tell nobody knows whether they are as they were: they are set.
TEST(PowerGuard, WhatTheDriverDoesNotTellIsPutBackAllTheSame) {
  for (const bool told : {true, false}) {
    Doom doom;
    Boards boards({{Watts{300}, {}}}, doom);
    boards.tells_clocks = told;
    Disk disk(doom);
    auto guard = PowerGuard::open(disk, kPath, boards);
    ASSERT_TRUE(guard && guard->set(0, {Watts{200}, {}}));
    ASSERT_TRUE(boards.set_power_settings(0, {Watts{300}, {}}));
    boards.denies = true;
    EXPECT_EQ(guard->restore().has_value(), told);
  }
}

// Two state directories: what one has changed is what the other must not take for the original.
TEST(PowerGuard, PutsBackWhatAnotherJournalSaysWasThereBefore) {
  Doom doom;
  Boards boards({{Watts{300}, {}}, {Watts{310}, {}}}, doom);
  MemoryFiles files;
  const auto open = [&](const std::string& path) {
    auto guard = PowerGuard::open(files, path, boards, "/locks/");
    EXPECT_TRUE(guard) << to_string(guard.error());
    return std::move(guard).value();
  };
  {
    PowerGuard first = open("/a/power.journal");
    ASSERT_TRUE(first.set(0, {Watts{200}, {}}) && first.set(1, {Watts{200}, {}}));
  }
  {
    PowerGuard second = open("/b/power.journal");
    ASSERT_TRUE(second.set(0, {Watts{250}, {}}));
    EXPECT_EQ(second.changed().front().settings.limit, Watts{300});
    const auto others = second.changed_by_others();
    ASSERT_TRUE(others && others->size() == 1U);
    EXPECT_EQ(others->front().gpu, 1);
    ASSERT_TRUE(second.restore());
  }
  EXPECT_EQ(boards.settings()[0].limit, Watts{300});
  EXPECT_EQ(boards.settings()[1].limit, Watts{200});
  {
    PowerGuard third = open("/c/power.journal");
    ASSERT_TRUE(third.take_over(third.changed_by_others().value()));
    ASSERT_TRUE(third.restore());
    EXPECT_TRUE(third.changed_by_others()->empty());
  }
  EXPECT_EQ(boards.settings()[1].limit, Watts{310});
  // What the first journal still says is so already; a mark whose journal is gone says nothing.
  ASSERT_TRUE(open("/a/power.journal").restore());
  EXPECT_EQ(boards.settings()[1].limit, Watts{310});
  {
    PowerGuard fourth = open("/d/power.journal");
    ASSERT_TRUE(fourth.set(0, {Watts{222}, {}}));
  }
  ASSERT_TRUE(files.remove("/d/power.journal"));
  EXPECT_TRUE(open("/b/power.journal").changed_by_others()->empty());
}

// What another journal has put back is marked again as soon as it is changed again.
TEST(PowerGuard, WhatIsChangedAgainIsMarkedAgain) {
  Doom doom;
  Boards boards({{Watts{300}, {}}}, doom);
  MemoryFiles files;
  const auto open = [&](const std::string& path) {
    return PowerGuard::open(files, path, boards, "/locks/").value();
  };
  PowerGuard first = open("/a/power.journal");
  ASSERT_TRUE(first.set(0, {Watts{200}, {}}));
  {
    PowerGuard second = open("/b/power.journal");
    ASSERT_TRUE(second.set(0, {Watts{250}, {}}) && second.restore());
  }
  EXPECT_EQ(boards.settings()[0].limit, Watts{300});
  EXPECT_TRUE(open("/c/power.journal").changed_by_others()->empty());
  ASSERT_TRUE(first.set(0, {Watts{210}, {}}));
  const auto others = open("/c/power.journal").changed_by_others();
  ASSERT_TRUE(others && others->size() == 1U);
  EXPECT_EQ(others->front(), (PowerBefore{0, "GPU-0", {Watts{300}, {}}}));
  EXPECT_TRUE(first.restore());
  EXPECT_TRUE(open("/c/power.journal").changed_by_others()->empty());
}

// In the order of the GPUs, however they were changed.
TEST(PowerGuard, JournalsAreReadInOrder) {
  MemoryFiles files;
  files.content[kPath] = log_header("power") + log_line(R"({"gpu": 1, "uuid": "GPU-1"})") +
                         log_line(R"({"gpu": 0, "uuid": "GPU-0"})");
  const auto changed = read_power_journal(files, kPath);
  ASSERT_TRUE(changed) << to_string(changed.error());
  ASSERT_EQ(changed->size(), 2U);
  EXPECT_EQ(changed->front().uuid, "GPU-0");
}

TEST(PowerGuard, DamagedJournalsAreRefusedWithTheirLine) {
  Doom doom;
  Boards boards({{}}, doom);
  for (const std::string record : {"{}", "[]", R"({"gpu": 0, "uuid": "GPU-0", "limit_w": -3})",
                                   R"({"gpu": 0, "uuid": "GPU-0", "clocks": {"low_mhz": 5}})",
                                   R"({"gpu": 0, "uuid": "GPU-0", "watts": 3})"}) {
    MemoryFiles files;
    files.content[kPath] = log_header("power") + log_line(record);
    const auto guard = PowerGuard::open(files, kPath, boards);
    ASSERT_FALSE(guard) << record;
    EXPECT_EQ(guard.error().context, std::string(kPath) + ":2") << record;
  }
}

// As many MHz as requests per second; what it is asked goes to `asked`.
PowerPolicy follower(std::vector<plan::Observation>& asked) {
  return {.poll = Seconds{0.5},
          .start = {.clock = Mhz{1500}},
          .decide = [&asked](const plan::Observation& seen) {
            asked.push_back(seen);
            return plan::Setting{.clock = Mhz{seen.services.at(0).rate.value}, .cap = Watts{250}};
          }};
}

TEST(PowerLoop, FollowsWhatItSeesAndGoesBack) {
  Doom doom;
  const std::vector<PowerSettings> before{{Watts{300}, {}}};
  Boards boards(before, doom);
  Disk disk(doom);
  ManualClock clock;
  clock.now = 7'000'000'000;
  auto guard = PowerGuard::open(disk, kPath, boards);
  std::vector<plan::Observation> asked;
  std::vector<PowerStep> steps;
  const std::vector<double> rates{250, 700, 700, -1, 5000};  // -1: nobody knows
  const PowerLoop loop{.gpu = 0,
                       .policy = follower(asked),
                       .services = [&](Seconds at) -> Result<std::vector<plan::ServiceSeen>> {
                         const double rate =
                             rates.at(static_cast<std::size_t>(at.value / 0.5 + 0.1) - 1);
                         if (rate < 0) return environment_error("gateway", "gone");
                         return std::vector<plan::ServiceSeen>{{.rate = Rps{rate}}};
                       },
                       .stopped =
                           [&](std::int64_t ns) {
                             clock.sleep_ns(ns);
                             return clock.now > 9'600'000'000;
                           },
                       .tell = [&](const PowerStep& step) { steps.push_back(step); }};
  const auto report = run_power_loop(loop, boards, &*guard, clock);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_EQ(report->polls, 5);
  EXPECT_EQ(report->blind, 1);
  EXPECT_EQ(report->energy, Joules{400});
  EXPECT_EQ(report->time, Seconds{3});
  std::vector<double> clocks;
  for (const PowerStep& step : steps) clocks.push_back(step.settings.clocks->high.value);
  // The start; the next clock up; blind: the start; above all: the highest.
  EXPECT_EQ(clocks, (std::vector<double>{1500, 300, 900, 900, 1500, 1500}));
  std::vector<std::string> whys;
  for (const PowerStep& step : steps) whys.push_back(step.why);
  EXPECT_EQ(whys, (std::vector<std::string>{"", "", "", "", "gateway: gone", ""}));
  EXPECT_EQ(report->changes, 5) << "start, down, up, blind, capped again";
  EXPECT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[1].at, Seconds{1});
  EXPECT_EQ(asked[1].power, Watts{30});
  EXPECT_EQ(boards.settings()[0].limit, Watts{250});
  EXPECT_TRUE(guard->restore());
  EXPECT_EQ(boards.settings(), before);
}

// Shares are handed out when they change, and not in a dry run; who cannot hand them out stops.
TEST(PowerLoop, SharesGoToWhoHoldsTheMasks) {
  Doom doom;
  Boards boards({{Watts{300}, {}}}, doom);
  Disk disk(doom);
  const std::vector<std::vector<int>> wanted{{20, 40}, {20, 40}, {30, 30}, {30, 30}, {10, 50}};
  for (const bool dry : {false, true}) {
    ManualClock clock;
    auto guard = PowerGuard::open(disk, kPath, boards);
    ASSERT_TRUE(guard);
    std::vector<std::vector<int>> handed;
    std::size_t next = 0;
    bool refuses = false;
    PowerLoop loop{.gpu = 0,
                   .policy = {.poll = Seconds{0.5},
                              .start = {.clock = Mhz{900}, .units = {60, 60}},
                              .decide =
                                  [&](const plan::Observation&) {
                                    return plan::Setting{.clock = Mhz{900},
                                                         .units = wanted.at(next++)};
                                  }},
                   .services = [](Seconds) -> Result<std::vector<plan::ServiceSeen>> {
                     return std::vector<plan::ServiceSeen>(2);
                   },
                   .share = [&](const plan::Setting& setting) -> Result<void> {
                     if (refuses) return environment_error("shares.json", "disk is full");
                     handed.push_back(setting.units);
                     return {};
                   },
                   .stopped =
                       [&](std::int64_t ns) {
                         clock.sleep_ns(ns);
                         return next == wanted.size();
                       },
                   .tell = [](const PowerStep&) {}};
    ASSERT_TRUE(run_power_loop(loop, boards, dry ? nullptr : &*guard, clock));
    const std::vector<std::vector<int>> expected{{60, 60}, {20, 40}, {30, 30}, {10, 50}};
    EXPECT_EQ(handed, dry ? std::vector<std::vector<int>>{} : expected);
    refuses = true;
    next = 0;
    const auto stopped = run_power_loop(loop, boards, dry ? nullptr : &*guard, clock);
    EXPECT_EQ(stopped.has_value(), dry);
    EXPECT_TRUE(guard->restore());
  }
}

TEST(PowerLoop, DryRunSetsNothing) {
  Doom doom;
  const std::vector<PowerSettings> before{{Watts{300}, {}}};
  Boards boards(before, doom);
  ManualClock clock;
  std::vector<plan::Observation> asked;
  int told = 0;
  const PowerLoop loop{.gpu = 0,
                       .policy = follower(asked),
                       .services = [](Seconds) -> Result<std::vector<plan::ServiceSeen>> {
                         return std::vector<plan::ServiceSeen>{{.rate = Rps{400}}};
                       },
                       .stopped =
                           [&](std::int64_t ns) {
                             clock.sleep_ns(ns);
                             return clock.now > 10'000'000'000;
                           },
                       .tell = [&](const PowerStep&) { ++told; }};
  const auto report = run_power_loop(loop, boards, nullptr, clock);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->polls, 20);
  EXPECT_EQ(told, 21);
  EXPECT_EQ(boards.settings(), before);
}

TEST(PowerLoop, SettingsAreMovedIntoWhatTheBoardCan) {
  device::PowerState board;
  board.now.limit = Watts{300};
  board.least_limit = Watts{100};
  board.most_limit = Watts{400};
  board.clocks = {Mhz{300}, Mhz{600}};
  EXPECT_EQ(on_board({.clock = Mhz{301}, .cap = Watts{50}}, board),
            (PowerSettings{Watts{100}, ClockRange{Mhz{600}, Mhz{600}}}));
  EXPECT_EQ(on_board({.clock = Mhz{9000}, .cap = Watts{900}}, board),
            (PowerSettings{Watts{400}, ClockRange{Mhz{600}, Mhz{600}}}));
  EXPECT_EQ(on_board({.clock = Mhz{100}}, board),
            (PowerSettings{Watts{300}, ClockRange{Mhz{300}, Mhz{300}}}));
}

}  // namespace
}  // namespace partita::actuate
