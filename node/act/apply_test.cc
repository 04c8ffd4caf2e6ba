// Apply on a simulated node, clock and disk: how often and how long it tries, what it waits for and
// in which words it gives up. In general: tests/actuation.
#include "act/apply.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "act/executor.h"
#include "act/gateway_state.h"
#include "act/workers_state.h"
#include "base/processes.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"

namespace partita::actuate {
namespace {

using drivers::sim::Machine;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kApplyMs = 1'000'000, kApplySecond = 1000 * kApplyMs;

// Nothing can be written there while it is full.
struct FullOnceFiles final : MemoryFiles {
  bool full = false;
  int appends_left = 1 << 30;  // of the journal, until it is full
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (full) return environment_error(path, "no space left");
    return MemoryFiles::write_atomic(path, text);
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    if (appends_left-- <= 0) return environment_error(path, "no space left");
    return MemoryFiles::append(path, text);
  }
};

// One A30 that takes no time of its own, so that all time is waited.
struct ApplyNode : Clock {
  explicit ApplyNode(std::vector<device::Fault> faults = {}, bool mig = true, int gpus = 1) {
    const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
    machine = drivers::sim::own_machine(Machine({{&model, gpus, mig}}, "apply"), *this, 0,
                                        std::move(faults));
    driver = std::make_unique<drivers::sim::SimDriver>(*machine);
  }
  std::int64_t now_ns() override { return now; }
  std::int64_t cpu_ns() override { return now; }
  void sleep_ns(std::int64_t ns) override {
    now += std::max<std::int64_t>(ns, 0);
    meanwhile();
  }
  Doors doors() {
    return {*driver, files,          *this,       hw::builtin_catalogue(),
            "/s",    processes_door, interrupted, reset_gpu};
  }
  Result<ApplyReport> to(std::vector<WantedInstance> instances, const ApplyOptions& options = {}) {
    const Wanted wanted{{{"A30-24GB", "", std::move(instances)}}};
    return apply(doors(), wanted, options, [this](const ApplyEvent& event) {
      if (event.kind == ApplyEvent::Kind::retry) retries.push_back(event.detail);
      if (event.kind == ApplyEvent::Kind::waiting) {
        waits.push_back(event.detail);
        EXPECT_LT(event.step, event.change->steps.size());
      }
      if (event.kind == ApplyEvent::Kind::step) begun.push_back(event.step);
      if (event.kind == ApplyEvent::Kind::done_step) {
        EXPECT_EQ(begun.back(), event.step);
        after_step(event);
      }
    });
  }
  void use(const std::function<void(Machine&)>& change) {
    EXPECT_TRUE(machine->with(change).has_value());
  }
  void hold(std::int64_t pid, int gi_id) {
    use([&](Machine& all) { EXPECT_TRUE(all.attach(0, {pid, "worker", gi_id, 0})); });
  }
  void let_go(std::int64_t pid) {
    use([&](Machine& all) { all.detach(pid); });
  }
  std::vector<device::Instance> instances() { return driver->read(0).value().instances; }
  std::vector<AssignedSegment> segments() { return read_assignment(files, "/s").value().segments; }
  JournalState journal() { return read_journal(files, journal_path("/s")).value(); }

  std::int64_t now = 0;
  FullOnceFiles files;
  std::unique_ptr<drivers::sim::SharedMachine> machine;
  std::unique_ptr<drivers::sim::SimDriver> driver;
  std::function<void()> meanwhile = [] {};
  std::function<void(const ApplyEvent&)> after_step = [](const ApplyEvent&) {};
  std::function<bool()> interrupted;
  std::function<Result<void>(int)> reset_gpu;
  Processes* processes_door = nullptr;
  std::vector<std::string> retries, waits;
  std::vector<std::size_t> begun;  // steps
};

WantedInstance chat_at(int start) { return {"1g.6gb", start, {"chat", 4, 1, 10}}; }
WantedInstance plain_at(int start) { return {"1g.6gb", start, {}}; }

std::vector<device::Fault> first_calls(const std::string& method, int count,
                                       ErrorCode code = ErrorCode::environment) {
  std::vector<device::Fault> faults;
  for (int call = 1; call <= count; ++call)
    faults.push_back({.method = method, .call = call, .code = code});
  return faults;
}

// Each wait is twice the one before, 50 ms at first; the ninth failure is the last.
TEST(Apply, WhatGoesWrongIsTriedAgainEightTimes) {
  ApplyNode well(first_calls("create_instance", kMaxReconciles));
  well.now = 7 * kApplySecond;
  const auto applied = well.to({plain_at(0)});
  ASSERT_TRUE(applied) << to_string(applied.error());
  EXPECT_EQ(applied->reconciles, 8);
  EXPECT_EQ(applied->change.create.size(), 1u) << "as it was planned first";
  EXPECT_EQ(applied->driver_calls, 10) << "nine creations and the compute instance";
  EXPECT_EQ(well.retries.size(), 8u);
  EXPECT_THAT(well.retries.front(), HasSubstr("a fault of the machine's script"));
  const std::int64_t waited = (50 + 100 + 200 + 400 + 800 + 1600 + 3200 + 6400) * kApplyMs;
  EXPECT_EQ(well.now, 7 * kApplySecond + waited);
  EXPECT_DOUBLE_EQ(applied->took.value, 12.75);
  EXPECT_EQ(well.journal().end.value().outcome, "done");

  ApplyNode ill(first_calls("create_instance", kMaxReconciles + 1));
  const auto refused = ill.to({plain_at(0)});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("a fault of the machine's script"));
  EXPECT_EQ(ill.now, waited) << "the last failure is waited for no more";
  EXPECT_EQ(ill.journal().end.value().outcome, "failed");
  EXPECT_THAT(ill.journal().end.value().reason, HasSubstr("a fault of the machine's script"));
  EXPECT_THAT(ill.instances(), IsEmpty());
}

TEST(Apply, OnlyWhatMayPassIsTriedAgain) {
  for (const ErrorCode code : {ErrorCode::environment, ErrorCode::not_found, ErrorCode::no_room,
                               ErrorCode::lost, ErrorCode::timeout, ErrorCode::in_use}) {
    ApplyNode node(first_calls("create_instance", 1, code));
    EXPECT_EQ(node.to({plain_at(0)}).value().reconciles, 1);
  }
  for (const ErrorCode code : {ErrorCode::denied, ErrorCode::not_supported, ErrorCode::bad_input,
                               ErrorCode::invalid_argument, ErrorCode::reset_required}) {
    ApplyNode node(first_calls("create_instance", 1, code));
    EXPECT_EQ(node.to({plain_at(0)}).error().code, code);
    EXPECT_EQ(node.now, 0);
  }
}

// Somebody who undoes every step is not fought for ever.
TEST(Apply, AgainstSomebodyElseItGivesUp) {
  ApplyNode node;
  int made = 0;
  node.after_step = [&](const ApplyEvent& event) {
    if (event.change->steps[event.step].kind != Step::Kind::create_compute) return;
    ++made;
    node.use([](Machine& all) {
      const int gi_id = all.gpus()[0].instances.at(0).gi_id;
      ASSERT_TRUE(all.destroy_compute(0, gi_id, 0));
      ASSERT_TRUE(all.destroy_instance(0, gi_id));
    });
  };
  const auto applied = node.to({plain_at(0)});
  ASSERT_FALSE(applied);
  EXPECT_EQ(to_string(applied.error()),
            "node: the node does not reach the wanted state: somebody else changes it");
  EXPECT_EQ(applied.error().code, ErrorCode::environment);
  EXPECT_EQ(made, kMaxReconciles + 1);
}

TEST(Apply, AWorkerThatStaysIsWaitedForAndNamed) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0)}));
  const int gi_id = node.instances().at(0).gi_id;
  const auto before = node.segments();
  node.hold(7, gi_id);
  const auto applied = node.to({}, {.drain_timeout = {20}});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::in_use);
  EXPECT_EQ(to_string(applied.error()),
            "gpu 0 1g.6gb at 0: still held by pid 7 (worker) after 20 s");
  EXPECT_EQ(node.now, 20 * kApplySecond);
  EXPECT_EQ(node.waits, std::vector<std::string>{"pid 7 (worker)"}) << "said once";
  EXPECT_EQ(node.segments(), before) << "it works on";
  EXPECT_EQ(node.instances().size(), 1u);

  node.meanwhile = [&] {
    if (node.now >= 21 * kApplySecond) node.let_go(7);
  };
  ASSERT_TRUE(node.to({}, {.drain_timeout = {20}}));
  EXPECT_EQ(node.now, 21 * kApplySecond) << "seen at once";
  EXPECT_THAT(node.instances(), IsEmpty());
  EXPECT_THAT(node.segments(), IsEmpty());
}

// What the driver still finds in use a moment after its holder left is tried until it goes.
TEST(Apply, WhatIsInUseForAMomentIsTriedAgain) {
  ApplyNode node(first_calls("destroy_instance", 3, ErrorCode::in_use));
  ASSERT_TRUE(node.to({plain_at(0)}));
  const auto emptied = node.to({});
  ASSERT_TRUE(emptied) << to_string(emptied.error());
  EXPECT_EQ(node.now, 60 * kApplyMs);
  EXPECT_EQ(emptied->reconciles, 0);
  EXPECT_EQ(emptied->driver_calls, 5);
  ApplyNode stuck(first_calls("destroy_compute", 1000, ErrorCode::in_use));
  ASSERT_TRUE(stuck.to({plain_at(0)}));
  const auto refused = stuck.to({}, {.drain_timeout = {2}});
  EXPECT_EQ(refused.error().code, ErrorCode::in_use);
  EXPECT_EQ(stuck.now, 2 * kApplySecond);
  EXPECT_THAT(stuck.retries, IsEmpty()) << "what was waited for in vain";
}

TEST(Apply, WhoDoesNotComeUpIsNamed) {
  ApplyNode node;
  const auto applied = node.to({chat_at(0)}, {.ready_timeout = {20}});
  ASSERT_FALSE(applied);
  EXPECT_EQ(to_string(applied.error()),
            fmt::format("gpu 0 1g.6gb at 0: no process of chat came up on {} within 20 s; is the "
                        "supervisor running?",
                        node.instances().at(0).uuid()));
  EXPECT_EQ(applied.error().code, ErrorCode::timeout);
  EXPECT_EQ(node.now, 20 * kApplySecond);
  ApplyNode quick;
  quick.meanwhile = [&] {
    if (quick.now == 3 * kApplySecond) quick.hold(7, quick.instances().at(0).gi_id);
  };
  EXPECT_TRUE(quick.to({chat_at(0)}, {.ready_timeout = {20}}));
  EXPECT_EQ(quick.now, 3 * kApplySecond);
}

// Who is in the way of the driver is named, and nobody else.
TEST(Apply, WhoHoldsWhatIsToGoIsNamed) {
  ApplyNode node;
  ASSERT_TRUE(node.to({plain_at(0), plain_at(1)}));
  node.hold(8, node.instances().at(1).gi_id);
  node.after_step = [&](const ApplyEvent& event) {
    if (event.change->steps[event.step].kind == Step::Kind::drain)
      node.hold(9, node.instances().at(0).gi_id);
  };
  const auto applied = node.to({plain_at(1)}, {.drain_timeout = {2}});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::in_use);
  EXPECT_THAT(to_string(applied.error()), HasSubstr("pid 9 (worker)"));
  EXPECT_THAT(to_string(applied.error()), testing::Not(HasSubstr("pid 8")));
}

// What was ours and is gone is forgotten, all of it.
TEST(Apply, WhatIsGoneIsNoLongerOurs) {
  ApplyNode node;
  ASSERT_TRUE(node.to({plain_at(0), plain_at(1), plain_at(2)}));
  EXPECT_EQ(node.journal().owned.size(), 3u);
  node.use([](Machine& all) { all.lose(0), all.regain(0); });  // as after a reset
  ASSERT_TRUE(node.to({plain_at(3)}));
  EXPECT_EQ(node.journal().owned, std::vector<std::string>{node.instances().at(0).uuid()});
}

// Who cannot be made to go works on, beside the others.
TEST(Apply, WhatIsPutBackIsBesideWhatStayed) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0), chat_at(1)}));
  const auto before = node.segments();
  node.hold(7, node.instances().at(0).gi_id);
  ASSERT_FALSE(node.to({chat_at(1)}, {.drain_timeout = {2}}));
  EXPECT_EQ(node.segments(), before);
}

TEST(Apply, ForeignProcessesBlockBeforeAnythingIsTouched) {
  ApplyNode node;
  ASSERT_TRUE(node.to({plain_at(0)}));
  node.hold(7, node.instances().at(0).gi_id);
  const auto applied = node.to({});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::in_use);
  EXPECT_EQ(to_string(applied.error()),
            fmt::format("node: processes without a segment hold what must be destroyed or reset: "
                        "pid 7 (worker) on gpu 0 1g.6gb at 0 ({}); nothing was changed",
                        node.instances().at(0).uuid()));
  EXPECT_EQ(node.journal().transactions, 1);
}

TEST(Apply, AnInterruptionAmidSaysHowToGoOn) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0)}));
  const auto before = node.segments();
  node.hold(7, node.instances().at(0).gi_id);
  node.interrupted = [&] { return node.now >= kApplySecond; };
  EXPECT_EQ(to_string(node.to({}, {.drain_timeout = {20}}).error()),
            "interrupted; `partita apply` again goes on, `partita apply --rollback` goes back");
  EXPECT_EQ(node.now, kApplySecond);
  EXPECT_EQ(node.segments(), before);
}

// What ran on a GPU that fell off the bus may come back: it stays assigned.
TEST(Apply, WhatIsOutOfSightStaysAssigned) {
  ApplyNode node({}, true, 2);
  const auto apply_both = [&](std::vector<WantedInstance> first) {
    const std::vector<device::GpuState> gpus = device::read_node(*node.driver).value().gpus;
    Wanted wanted{{{"A30-24GB", gpus[0].uuid, std::move(first)}}};
    if (!gpus[1].lost) wanted.gpus.push_back({"A30-24GB", gpus[1].uuid, {chat_at(3)}});
    return apply(node.doors(), wanted, {}, [](const ApplyEvent&) {}).has_value();
  };
  ASSERT_TRUE(apply_both({chat_at(0)}));
  ASSERT_EQ(node.segments().size(), 2u);
  node.use([](Machine& all) { all.lose(1); });
  ASSERT_TRUE(apply_both({chat_at(1)}));
  std::vector<int> starts;
  for (const AssignedSegment& one : node.segments()) starts.push_back(one.start);
  std::ranges::sort(starts);
  EXPECT_EQ(starts, (std::vector<int>{1, 3}));
  node.use([](Machine& all) { all.regain(1); });  // as after a reset: its instances are gone
  ASSERT_TRUE(apply_both({chat_at(1)}));
  EXPECT_EQ(node.segments().size(), 2u);
}

// A transaction that was cut short has told a worker to go: it is no stranger where it was.
TEST(Apply, WhoIsLeavingIsNoStranger) {
  ApplyNode node;
  ASSERT_TRUE(node.to({plain_at(0)}));
  const device::Instance there = node.instances().at(0);
  const device::NodeState state = device::read_node(*node.driver).value();
  const std::string uuid = state.gpus[0].uuid;
  node.hold(7, there.gi_id);
  const auto blockers = [&](const JournalState& journal) {
    const device::NodeState now = device::read_node(*node.driver).value();
    return planned_change({now, {}, journal}, {{{"A30-24GB", uuid, {}}}}, {}, {},
                          hw::builtin_catalogue())
        .value()
        .blockers.size();
  };
  const auto ran = [&](const std::string& gpu, const WantedInstance& instance) {
    JournalState journal;
    BeginRecord begun;
    begun.transaction = 1;
    begun.source.gpus = {{"A30-24GB", gpu, {instance}}};
    journal.last = begun;
    return journal;
  };
  EXPECT_EQ(blockers({}), 1u);
  EXPECT_EQ(blockers(ran(uuid, chat_at(0))), 0u);
  EXPECT_EQ(blockers(ran(uuid, plain_at(0))), 1u) << "nothing ran there";
  EXPECT_EQ(blockers(ran(uuid, chat_at(1))), 1u) << "it ran elsewhere";
  EXPECT_EQ(blockers(ran("GPU-x", chat_at(0))), 1u);
  EXPECT_EQ(blockers(ran(uuid, {"2g.12gb", 0, {"chat", 4, 1, 10}})), 1u);
  JournalState ended = ran(uuid, chat_at(0));
  ended.end = EndRecord{1, "done", ""};
  EXPECT_EQ(blockers(ended), 1u) << "it is over";
  JournalState made = ran(uuid, chat_at(1));
  made.owned = {there.uuid()};
  EXPECT_EQ(blockers(made), 0u) << "made in that transaction";
}

// What was begun is gone on with under its number, another wish is another transaction; what is
// half made on the way is made whole before anybody may stop.
TEST(Apply, WhatWasCutShortIsResumed) {
  for (const bool same : {true, false}) {
    ApplyNode node;
    bool stop = false;
    node.after_step = [&](const ApplyEvent& event) {
      stop = stop || event.change->steps[event.step].kind == Step::Kind::create_instance;
    };
    node.interrupted = [&] { return stop; };
    EXPECT_EQ(node.to({plain_at(0), plain_at(1)}).error(), interrupted_error(false));
    ASSERT_EQ(node.instances().size(), 1u);
    EXPECT_TRUE(node.instances()[0].whole());
    EXPECT_TRUE(node.journal().pending());
    EXPECT_EQ(node.journal().last->gpu_uuids.size(), 1u);
    node.interrupted = {};
    const auto on = same ? node.to({plain_at(0), plain_at(1)}) : node.to({plain_at(2)});
    ASSERT_TRUE(on) << to_string(on.error());
    EXPECT_EQ(on->resumed, same);
    EXPECT_EQ(node.journal().transactions, same ? 1 : 2);
    EXPECT_FALSE(node.journal().pending());
    EXPECT_EQ(node.instances().size(), same ? 2u : 1u);
    EXPECT_EQ(node.journal().owned.size(), node.instances().size());
  }
}

// Whoever interrupts while an instance is made hears of it once it is whole.
TEST(Apply, WhatIsHalfMadeIsMadeWholeFirst) {
  ApplyNode node;
  node.interrupted = [&] { return !node.instances().empty(); };
  EXPECT_EQ(node.to({plain_at(0), plain_at(1)}).error(), interrupted_error(false));
  ASSERT_EQ(node.instances().size(), 1u);
  EXPECT_TRUE(node.instances()[0].whole());
}

// Which GPU becomes which is decided once; another takes the place of one that is lost, and then
// that is so.
TEST(Apply, WhatWasCutShortStaysWithItsGpu) {
  ApplyNode node({}, true, 2);
  const std::vector<device::GpuState> gpus = device::read_node(*node.driver).value().gpus;
  const Wanted wanted{{{"A30-24GB", "", {plain_at(0)}}}}, other{{{"A30-24GB", "", {plain_at(1)}}}};
  const auto cut_without = [&](int lost) {
    node.use([&](Machine& all) { all.lose(lost); });
    node.files.appends_left = 1;
    ASSERT_FALSE(apply(node.doors(), wanted, {}, [](const ApplyEvent&) {}));
    node.files.appends_left = 1 << 30;
    node.use([&](Machine& all) { all.regain(lost); });
    ASSERT_TRUE(node.journal().pending());
    const std::string& decided = gpus[static_cast<std::size_t>(1 - lost)].uuid;
    EXPECT_EQ(node.journal().last->gpu_uuids, std::vector{decided}) << lost;
    EXPECT_EQ(preview(node.doors(), wanted, {}).value().gpu_of, std::vector{1 - lost});
  };
  cut_without(1);
  cut_without(0);
  EXPECT_EQ(preview(node.doors(), other, {}).value().gpu_of, std::vector{0}) << "another wish";
  const auto on = apply(node.doors(), wanted, {}, [](const ApplyEvent&) {});
  ASSERT_TRUE(on) << to_string(on.error());
  EXPECT_TRUE(on->resumed);
  EXPECT_EQ(node.driver->read(1).value().instances.size(), 1u);
}

TEST(Apply, WhatStaysHalfMadeIsCompletedByTheNextOne) {
  ApplyNode node(first_calls("create_compute", kMaxReconciles + 1));
  ASSERT_FALSE(node.to({plain_at(0)}));
  ASSERT_EQ(node.instances().size(), 1u);
  EXPECT_FALSE(node.instances()[0].whole());
  EXPECT_EQ(node.journal().intended.size(), 1u);
  const auto gpus = node.journal().last->gpu_uuids;
  EXPECT_EQ(gpus.size(), 1u) << "however often it was planned";
  ASSERT_TRUE(node.to({plain_at(0)}));
  EXPECT_TRUE(node.instances()[0].whole());
  EXPECT_EQ(node.journal().intended.size(), 0u);
  EXPECT_EQ(node.journal().owned, std::vector<std::string>{node.instances()[0].uuid()});
  ASSERT_TRUE(node.to({}));
  EXPECT_THAT(node.journal().owned, IsEmpty());
  EXPECT_THAT(node.journal().intended, IsEmpty());
  ApplyNode cut(first_calls("create_compute", kMaxReconciles + 1));
  ASSERT_FALSE(cut.to({plain_at(0)}));
  ASSERT_TRUE(cut.to({})) << "or taken away";
  EXPECT_THAT(cut.instances(), IsEmpty());
  EXPECT_THAT(cut.journal().intended, IsEmpty());
}

// Of what others made nothing is noted: it was not ours, and it is not when it has gone.
TEST(Apply, TheJournalIsOfOurOwn) {
  ApplyNode node;
  const auto intents = [&] {
    const std::string& text = node.files.content["/s/journal"];
    std::size_t count = 0;
    for (auto at = text.find("intent"); at != text.npos; at = text.find("intent", at + 1)) ++count;
    return count;
  };
  ASSERT_TRUE(node.to({plain_at(0)}));
  EXPECT_EQ(intents(), 1u) << "before it was made";
  ASSERT_TRUE(node.to({}));
  EXPECT_EQ(intents(), 2u) << "and before its compute instance went";
  const auto made = node.driver->create_instance(0, {.nvml_enum = 0, .start = 1});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_TRUE(node.driver->create_compute(0, *made));
  ASSERT_TRUE(node.to({}));
  EXPECT_THAT(node.instances(), IsEmpty());
  EXPECT_EQ(intents(), 2u);
}

// Nothing is done that could not be noted before.
TEST(Apply, AFullDiskStopsItWhereverItIs) {
  ApplyNode measured;
  ASSERT_TRUE(measured.to({chat_at(0)}));
  const int before = measured.files.appends_left;
  ASSERT_TRUE(measured.to({chat_at(1)}));
  const int appends = before - measured.files.appends_left;
  ASSERT_GT(appends, 4);
  for (int at = 0; at < appends; ++at) {
    ApplyNode node;
    ASSERT_TRUE(node.to({chat_at(0)}));
    node.files.appends_left = at;
    const auto applied = node.to({chat_at(1)});
    ASSERT_FALSE(applied) << at;
    EXPECT_THAT(to_string(applied.error()), HasSubstr("no space left"));
    const JournalState journal = node.journal();
    for (const device::Instance& one : node.instances())
      EXPECT_TRUE(std::ranges::count(journal.owned, one.uuid()) == 1 || !journal.intended.empty())
          << at << ": nobody knows whose it is";
    node.files.appends_left = 1 << 30;
    ASSERT_TRUE(node.to({chat_at(1)})) << at;
    ASSERT_EQ(node.instances().size(), 1u);
    EXPECT_EQ(node.instances()[0].start, 1);
    EXPECT_EQ(node.journal().owned, std::vector<std::string>{node.instances()[0].uuid()});
  }
}

// Who was told to go and cannot be put back is told so.
TEST(Apply, AnInterruptionOnAFullDiskSaysSo) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0)}));
  node.hold(7, node.instances().at(0).gi_id);
  node.interrupted = [&] { return node.files.full = node.now >= kApplySecond; };
  EXPECT_THAT(to_string(node.to({}, {.drain_timeout = {20}}).error()), HasSubstr("no space left"));
}

TEST(Apply, AnInterruptionAtOnceChangesNothing) {
  ApplyNode node;
  node.interrupted = [] { return true; };
  EXPECT_EQ(to_string(node.to({plain_at(0)}).error()), "interrupted; nothing was changed");
  EXPECT_EQ(node.journal(), JournalState{});
}

TEST(Apply, WhatWasBeforeHasAName) {
  ApplyNode node;
  EXPECT_EQ(to_string(rollback_target(node.doors()).error()), "/s: nothing was ever applied here");
  EXPECT_FALSE(rollback_name(node.doors()));
  EXPECT_FALSE(again_target(node.doors()));
  ASSERT_TRUE(node.to({plain_at(0)}));
  EXPECT_EQ(rollback_name(node.doors()).value(),
            "what was before transaction 1: 0 instances on 1 GPU");
  EXPECT_EQ(again_target(node.doors()).value().gpus[0].instances.size(), 1u);
  ASSERT_TRUE(node.to({plain_at(0), plain_at(1)}));
  EXPECT_EQ(rollback_name(node.doors()).value(),
            "what was before transaction 2: 1 instance on 1 GPU");
  const Wanted back = rollback_target(node.doors()).value();
  ASSERT_TRUE(apply(node.doors(), back, {.rollback = true}, [](const ApplyEvent&) {}));
  EXPECT_EQ(rollback_name(node.doors()).value(),
            "what transaction 3, a rollback, went back to: 1 instance on 1 GPU");
  EXPECT_EQ(rollback_target(node.doors()).value(), back);
}

TEST(Apply, AnEmptiedJournalIsNoticed) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0), chat_at(1)}));
  ASSERT_TRUE(node.files.write_atomic("/s/journal", ""));
  const auto applied = node.to({});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::bad_input);
  EXPECT_THAT(to_string(applied.error()),
              HasSubstr("/s/journal:1: is empty, though the assignment names 2 instances; nothing "
                        "was changed"));
  EXPECT_FALSE(preview(node.doors(), {{{"A30-24GB", "", {}}}}, {}));
  EXPECT_EQ(node.instances().size(), 2u);
  ASSERT_TRUE(node.files.remove("/s/journal"));  // a new one, then
  EXPECT_TRUE(preview(node.doors(), {{{"A30-24GB", "", {}}}}, {}));
}

TEST(Apply, TurnsMigOnWhereSomebodyMayReset) {
  ApplyNode node({}, false);
  const auto nobody = node.to({plain_at(0)});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(to_string(nobody.error()),
            "gpu 0: MIG mode is stored and takes effect after a reset: run nvidia-smi --gpu-reset "
            "-i 0, then apply again");
  EXPECT_EQ(nobody.error().code, ErrorCode::reset_required);
  const ApplyOptions able{.can_reset = true};
  EXPECT_EQ(to_string(node.to({plain_at(0)}, able).error()),
            "gpu 0: MIG mode is stored and takes effect after a reset, and the driver did not "
            "reset it when its mode was set: run nvidia-smi --gpu-reset -i 0, then apply again");
  int resets = 0;
  node.reset_gpu = [&](int gpu) -> Result<void> {
    ++resets;
    node.use([&](Machine& all) { EXPECT_TRUE(all.reset(gpu)); });
    return {};
  };
  const auto turned = node.to({plain_at(0)}, able);
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->driver_calls, 3) << "the mode and what an instance takes";
  EXPECT_EQ(resets, 1);
  EXPECT_EQ(node.instances().size(), 1u);
  ASSERT_TRUE(node.to({plain_at(1)}, able));
  EXPECT_EQ(resets, 1) << "it is on";
}

TEST(Apply, AResetThatIsRefusedSaysWhoHoldsTheGpu) {
  ApplyNode node({}, false);
  node.reset_gpu = [&](int) -> Result<void> {
    node.use([](Machine& all) { EXPECT_TRUE(all.attach(0, {9, "x", -1, -1})); });
    return failed({ErrorCode::in_use, "held", "gpu 0"});
  };
  const auto applied = node.to({plain_at(0)}, {.can_reset = true});
  ASSERT_FALSE(applied);
  EXPECT_THAT(to_string(applied.error()), HasSubstr("pid 9 (x)"));
  ASSERT_FALSE(node.retries.empty());
  EXPECT_THAT(node.retries.front(), HasSubstr("held: pid 9 (x)"));
}

TEST(Apply, AnInterruptedDrainSaysHowToGoOn) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0)}));
  const auto before = node.segments();
  node.hold(7, node.instances().at(0).gi_id);
  node.interrupted = [&] { return node.now >= kApplySecond; };
  const auto nobody = [](const ApplyEvent& event) {
    EXPECT_FALSE(event.change->steps[event.step].temporary);
  };
  EXPECT_EQ(
      to_string(drain(node.doors(), {before[0].device}, Seconds{5}, nobody).error()),
      "interrupted; what was still held has its segments again; `partita drain` again goes on");
  EXPECT_EQ(node.segments(), before);
}

TEST(Apply, DrainingEmptiesWhatItNamesAlone) {
  ApplyNode node;
  ASSERT_TRUE(node.to({chat_at(0), chat_at(1)}));
  const auto two = node.segments();
  const auto nobody = [](const ApplyEvent&) {};
  ASSERT_TRUE(drain(node.doors(), {two[0].device}, Seconds{5}, nobody));
  EXPECT_EQ(node.segments(), std::vector<AssignedSegment>{two[1]});
  EXPECT_EQ(node.instances().size(), 2u);
  node.hold(7, node.instances().at(0).gi_id), node.hold(8, node.instances().at(1).gi_id);
  const auto drained = drain(node.doors(), {two[1].device}, Seconds{5}, nobody);
  ASSERT_FALSE(drained);
  EXPECT_THAT(to_string(drained.error()), HasSubstr("(worker) after 5 s"));
  EXPECT_EQ(node.now, 5 * kApplySecond);
  EXPECT_EQ(node.segments(), std::vector<AssignedSegment>{two[1]});
}

// ---- with a gateway ----

// A gateway that says what `ready` says, whenever time passes.
struct ServedNode : ApplyNode {
  explicit ServedNode(int gpus = 1) : ApplyNode({}, true, gpus) {
    pid = *processes.start({.argv = {"gateway"}});
    processes_door = &processes;
    meanwhile = [this] {
      if (now % kApplySecond == 0) tell();
    };
  }
  void tell() {
    const Assignment assignment = read_assignment(files, "/s").value();
    GatewayState told{.revision = assignment.revision - behind,
                      .pid = pid,
                      .identity = processes.identity(pid),
                      .written_s = static_cast<double>(now) * 1e-9,
                      .services = {{"chat", 0, rate}},
                      .workers = {}};
    for (const AssignedSegment& one : assignment.segments) {
      if (one.start > last_ready) continue;
      told.services[0].capacity_rps +=
          full_batches * (one.throughput_rps > 0 ? one.throughput_rps : 10 * one.processes);
      for (int i = 0; i < one.processes; ++i)
        told.workers.push_back({one.device, i, one.service, 4711 + i, WorkerReadiness::ready, 0});
    }
    EXPECT_TRUE(files.write_atomic("/s/gateway.json", gateway_json(told)));
  }
  std::string device_at(int start) {
    for (const device::Instance& one : instances())
      if (one.start == start) return one.uuid();
    return "none";
  }
  SimProcesses processes{*this, [](const ProcessSpec&) { return SimBehaviour{}; }};
  Pid pid = 0;
  int last_ready = 3;  // segments up to this start come up
  double rate = 20;
  double full_batches = 1;  // what they carry, of what is planned
  long behind = 0;          // revisions that it has not seen yet
};

TEST(ApplyServed, WhatIsNotReadyIsNamedAndWaitedForInVainOnce) {
  for (const double timeout : {20.0, 0.5, 0.0}) {
    ServedNode node;
    node.tell();
    ASSERT_TRUE(node.to({chat_at(0), chat_at(1)}));
    node.last_ready = 1;
    node.tell();
    const std::int64_t begun = node.now;
    node.waits.clear();
    const auto applied = node.to({chat_at(1), chat_at(2)}, {.ready_timeout = {timeout}});
    ASSERT_FALSE(applied);
    const double waited = timeout > 0 ? timeout : kGatewayReadyTimeout.value;
    EXPECT_EQ(to_string(applied.error()),
              fmt::format("gpu 0 1g.6gb at 0: waited {} s for the workers of chat on {} to be "
                          "ready; is the supervisor running?",
                          waited, node.device_at(2)));
    EXPECT_EQ(applied.error().code, ErrorCode::timeout);
    EXPECT_EQ(node.now - begun, static_cast<std::int64_t>(waited * kApplySecond));
    EXPECT_THAT(node.retries, IsEmpty());
    EXPECT_EQ(node.waits.size(), 1u);
    EXPECT_EQ(node.instances().size(), 3u) << "nothing was stopped";
  }
}

TEST(ApplyServed, AGatewayThatHasNotSeenTheSegmentKnowsNothingOfIt) {
  ServedNode node;
  node.tell();
  ASSERT_TRUE(node.to({chat_at(0)}));
  node.behind = 1;
  node.tell();
  node.meanwhile = [&] {
    if (node.now >= 7 * kApplySecond) node.behind = 0;
    node.tell();
  };
  ASSERT_TRUE(node.to({chat_at(0), chat_at(1)}, {.ready_timeout = {20}}));
  EXPECT_EQ(node.now, 7 * kApplySecond);
}

// What is ready has to carry the rate without what is to be stopped, to the last request; the share
// that is to stay up counts.
TEST(ApplyServed, WhatWouldBeTooLittleIsSaidInNumbers) {
  for (const auto& [rate, share, waits] :
       {std::tuple{10.0, 1.0, false}, {10.1, 1.0, true}, {20.0, 0.5, false}, {30.0, 0.0, false}}) {
    ServedNode node;
    node.rate = rate;
    node.tell();
    ASSERT_TRUE(node.to({chat_at(0), chat_at(1), chat_at(2)}));
    node.last_ready = 1;  // the third one is silent
    node.tell();
    const auto applied =
        node.to({chat_at(1), chat_at(2)}, {.min_available = share, .ready_timeout = {5}});
    ASSERT_EQ(applied.has_value(), !waits) << rate << " " << share;
    if (!waits) continue;
    EXPECT_EQ(to_string(applied.error()),
              "gpu 0 1g.6gb at 0: waited 5 s for chat to have 10.1/s ready without gpu 0 1g.6gb at "
              "0; it would have 10/s; is the supervisor running?");
  }
}

// Where nobody said what a segment carries, its processes count.
TEST(ApplyServed, UnplannedSegmentsCountByTheirProcesses) {
  for (const auto& [rate, waits] : {std::pair{20.0, false}, {21.0, true}}) {
    ServedNode node;
    node.rate = rate;
    node.tell();
    const auto of = [](int start, int processes) {
      return WantedInstance{"1g.6gb", start, {"chat", 4, processes, 0}};
    };
    ASSERT_TRUE(node.to({of(0, 1), of(1, 2), of(2, 3)}));
    node.last_ready = 1;  // the third one is silent
    node.tell();
    const auto applied = node.to({of(1, 2), of(2, 3)}, {.ready_timeout = {5}});
    ASSERT_EQ(applied.has_value(), !waits) << rate;
    if (waits) {
      EXPECT_THAT(to_string(applied.error()), HasSubstr("it would have 20/s"));
    }
  }
}

// What is planned for those that stay holds, whatever they carry in full batches.
TEST(ApplyServed, NoMoreIsCountedThanIsPlanned) {
  for (const auto& [rate, waits] : {std::pair{10.0, false}, {15.0, true}}) {
    ServedNode node;
    node.rate = rate;
    node.full_batches = 3;
    node.tell();
    ASSERT_TRUE(node.to({chat_at(0), chat_at(1), chat_at(2)}));
    node.last_ready = 1;
    node.tell();
    const auto applied = node.to({chat_at(1), chat_at(2)}, {.ready_timeout = {5}});
    ASSERT_EQ(applied.has_value(), !waits) << rate;
    if (waits) {
      EXPECT_THAT(to_string(applied.error()), HasSubstr("it would have 10/s"));
    }
  }
}

TEST(ApplyServed, WhereNobodyIsReadyNothingIsCarried) {
  ServedNode node;
  node.tell();
  const auto of = [](int start, double rps) {
    return WantedInstance{"1g.6gb", start, {"chat", 4, 1, rps}};
  };
  ASSERT_TRUE(node.to({of(0, 0), of(1, 0)}));
  node.last_ready = -1;
  node.tell();
  const auto applied = node.to({of(1, 0)}, {.ready_timeout = {5}});
  ASSERT_FALSE(applied);
  EXPECT_THAT(to_string(applied.error()), HasSubstr("it would have 0/s"));
}

// A stand-in that was ready is not waited for again when it has gone.
TEST(ApplyServed, AStandInIsWaitedForOnce) {
  ServedNode node(2);
  node.tell();
  const std::vector<device::GpuState> gpus = device::read_node(*node.driver).value().gpus;
  const auto to = [&](const char* profile) {
    const WantedInstance one{profile, 0, {"chat", 4, 1, 20}};
    return apply(node.doors(),
                 {{{"A30-24GB", gpus[0].uuid, {one}}, {"A30-24GB", gpus[1].uuid, {}}}}, {},
                 [](const ApplyEvent&) {});
  };
  ASSERT_TRUE(to("4g.24gb"));
  const auto applied = to("2g.12gb");
  ASSERT_TRUE(applied) << to_string(applied.error());
  EXPECT_EQ(applied->change.temporary.size(), 1u);
  EXPECT_EQ(node.segments().size(), 1u);
}

// Without a gateway it is the driver that knows who has come up; what the workers' file says is of
// no matter.
TEST(ApplyServed, WithoutAGatewayTheDriverSaysWhoIsUp) {
  ServedNode node;
  ASSERT_TRUE(node.files.write_atomic("/s/workers.json", "damaged"));
  node.meanwhile = [&] {
    if (node.now == 3 * kApplySecond) node.hold(7, node.instances().at(0).gi_id);
  };
  const auto applied = node.to({chat_at(0)}, {.ready_timeout = {20}});
  ASSERT_TRUE(applied) << to_string(applied.error());
  EXPECT_EQ(node.now, 3 * kApplySecond);
}

// A device is free when the supervisor of the workers says so, too.
TEST(ApplyServed, ASupervisorThatIsBehindIsWaitedFor) {
  ServedNode node;
  ASSERT_TRUE(node.to({chat_at(0)}));
  const Pid pid = *node.processes.start({.argv = {"supervisor"}});
  const auto followed = [&](long revision) {
    WorkersState state;
    state.revision = revision;
    state.supervisor = {pid, node.processes.identity(pid)};
    EXPECT_TRUE(node.files.write_atomic("/s/workers.json", workers_json(state)));
  };
  followed(0);
  const auto applied = node.to({}, {.drain_timeout = {2}});
  ASSERT_FALSE(applied);
  EXPECT_THAT(to_string(applied.error()),
              HasSubstr(fmt::format("still held by the supervisor of the workers, process {}, "
                                    "which has not yet followed assignment",
                                    pid)));
  followed(99);
  EXPECT_TRUE(node.to({}, {.drain_timeout = {2}}));
}

// Of a gateway that is gone or hangs nothing is expected.
TEST(ApplyServed, AStaleGatewayHoldsNothingUp) {
  ServedNode node;
  node.tell();
  ASSERT_TRUE(node.to({chat_at(0)}));
  node.last_ready = 0;
  node.tell();
  node.meanwhile = [] {};
  const std::int64_t begun = node.now;
  ASSERT_TRUE(node.to({chat_at(1)}, {.ready_timeout = {20}}));
  EXPECT_EQ(node.now - begun, kGatewayStaleNs + 20 * kApplyMs) << "the look after it went stale";
}

}  // namespace
}  // namespace partita::actuate
