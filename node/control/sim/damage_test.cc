// Files of the state directory, damaged at random places while an agent keeps a node and between
// two of its lives: it goes on, and nothing promised is lost. A second world without damage
// is the oracle: the same instances, made once, the same numbers of changes, modes, GPUs that were
// taken out, batches.
// PARTITA_DAMAGES says how many places instead of the usual few.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/test_rounds.h"
#include "control/host/change_numbers.h"
#include "control/host/memory_file.h"
#include "control/sim/testing/test_world.h"

namespace partita::control {
namespace {

constexpr const char* kServices =
    "services:\n  - {name: a, model: resnet50, rate_rps: 900, slo_ms: 138}\n"
    "  - {name: b, model: bert, rate_rps: 20, slo_ms: 4294}\n";
constexpr const char* kTasks =
    "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command,after\n"
    "t0,90000,90000,90000,90000,90000,work,\nt1,90000,90000,90000,90000,90000,work,t0\n";

// A node with what people have asked of its agent: a GPU is out, a batch is accepted.
class DamageWorld {
 public:
  explicit DamageWorld(std::uint64_t seed) {
    WeeksOptions options = weeks_of_tests("damage", 5, 30, seed, kServices);
    options.world.settings.batch.gpus = {4};
    options.tasks_text = kTasks;
    options.tasks_hour = 0.2;
    options.tasks_days = 1;
    auto begun = SimWeeks::begin(options);
    CHECK(begun.has_value());
    weeks = *std::move(begun);
    weeks->add_doors = [this](AgentDoors& doors) {
      doors.inquiries = [this] {
        std::vector<Inquiry> due;
        for (Asked& one : std::exchange(asks, {})) due.push_back({std::move(one), {}});
        return due;
      };
      doors.notify = [this](const LoopNotice& notice) {
        if (notice.kind == NoticeKind::damaged_file) told.push_back(notice.sentence);
      };
    };
    weeks->recorded = [this](const history::Event& event) {
      if (event.kind == history::EventKind::applying) ++applied[event.change];
    };
  }
  void look(int times) {
    for (int n = 0; n < times; ++n) ASSERT_TRUE(weeks->step());
  }
  const AgentMemory& memory() { return weeks->agent()->memory(); }

  std::unique_ptr<SimWeeks> weeks;
  std::vector<Asked> asks;
  std::vector<std::string> told;
  std::map<long, int> applied;  // changes, and how often they were begun
};

// UUIDs of the instances, and who serves on them.
std::set<std::string> layout_of(DamageWorld& world) {
  std::set<std::string> all;
  for (const device::GpuState& gpu : world.weeks->node().boards().look().gpus)
    for (const device::Instance& one : gpu.instances) all.insert(one.uuid());
  for (const actuate::AssignedSegment& one : world.weeks->node().assignment().segments)
    all.insert(one.device + " " + one.service);
  return all;
}

void expect_nothing_lost(DamageWorld& world, DamageWorld& twin) {
  EXPECT_EQ(layout_of(world), layout_of(twin));
  EXPECT_EQ(world.weeks->node().counts().created, twin.weeks->node().counts().created)
      << "made again";
  // Another digit in the number of the last change is still a number: some are left out then, and
  // none is given twice.
  EXPECT_GE(world.memory().changes, twin.memory().changes);
  EXPECT_EQ(world.memory().out, twin.memory().out);
  EXPECT_EQ(world.memory().mode, twin.memory().mode);
  EXPECT_EQ(world.memory().services, twin.memory().services);
  const auto plan = [](DamageWorld& one) {
    std::optional<Target> target = one.memory().target;
    if (target) target->change = 0;
    return target;
  };
  EXPECT_EQ(plan(world), plan(twin));
  ASSERT_EQ(world.memory().batch.size(), twin.memory().batch.size());
  const auto begun = [](const DamageWorld& one) {
    int sum = 0;
    for (const auto& [change, times] : one.applied) sum += times;
    return sum;
  };
  EXPECT_EQ(begun(world), begun(twin)) << "applied again";
}

// Another text in the file's place, or nothing: it is to be unreadable.
std::optional<std::string> damaged(std::string text, Rng& rng) {
  const std::size_t at = text.empty() ? 0 : rng.below(text.size());
  switch (rng.below(5)) {
    case 0:
      return text.substr(0, at);
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << rng.below(8)));
      return text;
    case 2:
      return "";
    case 3:
      for (std::size_t i = at; i < std::min(text.size(), at + 64); ++i)
        text[i] = static_cast<char>(rng.next());
      return text;
    default:
      return std::nullopt;
  }
}

int places() {
  const char* wanted = std::getenv("PARTITA_DAMAGES");
  return wanted != nullptr ? std::atoi(wanted) : test_rounds(30);
}

TEST(Damage, AnAgentGoesOnAndLosesNothing) {
  DamageWorld world(5), twin(5);
  Rng rng(77);
  const std::vector<std::string> names = {"agent-memory.json", "agent-memory.json.copy",
                                          "last-change",       "journal",
                                          "assignment.json",   "assignment.json.copy"};
  for (DamageWorld* one : {&world, &twin}) {
    one->look(10);
    one->asks = {{TakeOut{one->weeks->node().boards().look().gpus[3].uuid, "for a test"}, "anna"}};
    one->look(30);
    ASSERT_FALSE(one->memory().batch.empty());
    ASSERT_EQ(one->memory().out.size(), 1U);
  }
  expect_nothing_lost(world, twin);
  int noticed = 0;
  for (int place = 0; place < places() && !testing::Test::HasFailure(); ++place) {
    SimNode& node = world.weeks->node();
    const std::string path = "/state/" + names[rng.below(names.size())];
    ASSERT_TRUE(node.disk().contains(path)) << path;
    const std::string before = node.disk().at(path);
    const auto text = damaged(before, rng);
    SCOPED_TRACE(fmt::format("place {}: {} of {} bytes, {}", place, path, before.size(),
                             text ? fmt::format("{} bytes", text->size()) : "unreadable"));
    const bool restart = rng.below(2) == 0;
    if (restart)
      for (DamageWorld* one : {&world, &twin}) one->weeks->drop_agent();
    if (text) node.disk()[path] = *text;
    bool refuses = !text;  // until it is moved, or something is put in its place
    node.disk_refuses = [&](const std::string& asked, bool change) -> std::optional<Error> {
      if (change && asked == path) refuses = false;
      if (!refuses || change || asked != path) return std::nullopt;
      return Error{ErrorCode::denied, "cannot open: Permission denied", path};
    };
    world.told.clear();
    for (DamageWorld* one : {&world, &twin}) one->look(4);
    expect_nothing_lost(world, twin);
    noticed += world.told.empty() ? 0 : 1;
    for (const std::string& sentence : world.told)
      EXPECT_NE(sentence.find("/state/"), std::string::npos) << sentence;
    node.disk_refuses = {};
    // Whoever begins now finds everything.
    for (DamageWorld* one : {&world, &twin}) one->weeks->drop_agent();
    for (DamageWorld* one : {&world, &twin}) one->look(2);
    expect_nothing_lost(world, twin);
  }
  EXPECT_GT(noticed * 4, places()) << "hardly any damage was one";
  int kept = 0;
  for (const auto& [path, text] : world.weeks->node().disk())
    kept += path.find("/journal.damaged-") != path.npos ? 1 : 0;
  EXPECT_LE(kept, kDamagedKept);
}

// Both copies of the memory are gone: what people said is lost, and that is said; the node stays.
TEST(Damage, WithoutAnyMemoryTheNodeStays) {
  DamageWorld world(6);
  world.look(40);
  const auto before = world.weeks->node().boards().look();
  const long created = world.weeks->node().counts().created, last = world.memory().changes;
  world.weeks->drop_agent();
  world.weeks->node().disk()["/state/agent-memory.json"] = "{";
  world.weeks->node().disk()["/state/agent-memory.json.copy"] = "";
  world.look(4);
  ASSERT_EQ(world.told.size(), 2U);
  EXPECT_NE(world.told[0].find("begins anew"), std::string::npos);
  EXPECT_GE(world.memory().changes, last);  // no number is given twice
  EXPECT_LE(world.weeks->node().counts().created - created, 1);
  for (std::size_t service = 0; service < 2; ++service)
    EXPECT_GE(world.weeks->node().ready_rps(service), world.weeks->node().rate(service));
}

// A batch whose journal is gone is neither forgotten nor begun anew: what of it runs is not known.
TEST(Damage, ABatchWithoutItsJournalWaitsForAPerson) {
  DamageWorld world(5);
  world.look(40);
  SimNode& node = world.weeks->node();
  std::string journal;
  for (const auto& [path, text] : node.disk())
    if (path.ends_with("/run.journal")) journal = path;
  ASSERT_FALSE(journal.empty());
  const long created = node.counts().created;
  world.weeks->drop_agent();
  node.disk().erase(journal);
  world.look(40);
  EXPECT_TRUE(node.disk().contains(journal + ".open"));
  EXPECT_FALSE(node.disk().contains(journal));
  EXPECT_EQ(node.counts().created, created);
  ASSERT_EQ(world.memory().batch.size(), 1U);
}

// A copy that is damaged is made good while the assignment is whole, and without one the agent
// still knows what it saw last: workers are not stopped for a flipped bit.
TEST(Damage, AnAssignmentIsKnownWithoutItsCopy) {
  DamageWorld world(5), twin(5);
  for (DamageWorld* one : {&world, &twin}) one->look(40);
  SimNode& node = world.weeks->node();
  const std::string path = "/state/assignment.json", copy = path + ".copy";
  const std::string whole = node.disk().at(path);
  node.disk()[copy] = "";
  for (DamageWorld* one : {&world, &twin}) one->look(2);
  EXPECT_EQ(node.disk().at(copy), whole);
  node.disk()[copy] = "[]";
  node.disk()[path] = "{";
  for (DamageWorld* one : {&world, &twin}) one->look(1);
  EXPECT_EQ(node.assignment().segments, twin.weeks->node().assignment().segments);
  for (DamageWorld* one : {&world, &twin}) one->look(4);
  expect_nothing_lost(world, twin);
  EXPECT_EQ(node.disk().at(copy), node.disk().at(path));
}

// A full disk for half an hour: nothing is done that cannot be written down, and all goes on after.
TEST(Damage, AFullDiskStopsNothingForGood) {
  DamageWorld world(7);
  world.look(40);
  const auto out = world.memory().out;
  world.weeks->node().disk_refuses = [](const std::string& path,
                                        bool change) -> std::optional<Error> {
    if (!change) return std::nullopt;
    return Error{ErrorCode::environment, "cannot write: No space left on device", path};
  };
  const long created = world.weeks->node().counts().created;
  world.asks = {{TakeOut{world.weeks->node().boards().look().gpus[2].uuid, "for a test"}, "anna"}};
  world.look(10);
  world.weeks->drop_agent();
  world.look(10);
  EXPECT_EQ(world.weeks->node().counts().created, created)
      << "done though it could not be written down";
  world.weeks->node().disk_refuses = {};
  world.look(20);
  for (std::size_t service = 0; service < 2; ++service)
    EXPECT_GE(world.weeks->node().ready_rps(service), world.weeks->node().rate(service));
  for (const auto& [change, times] : world.applied) EXPECT_EQ(times, 1) << change;
}

}  // namespace
}  // namespace partita::control
