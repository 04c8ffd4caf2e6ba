// Who keeps a device: by hand, and over random interleavings of apply, the supervisor and deaths of
// it, against one rule: once nobody is said to keep a device, nothing runs on it any more.
#include "act/workers_on.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

#include "act/workers.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::actuate {
namespace {

using testing::HasSubstr;

constexpr const char* kState = "/s/workers.json";
constexpr std::int64_t kSecond = 1'000'000'000;

AssignedSegment segment(const std::string& device) {
  return {{"1g.10gb", 0}, {"chat", 4, 1}, device, "GPU-a"};
}

class WorkersOn : public testing::Test {
 protected:
  Pid run(const std::string& tag = "") {
    ProcessSpec spec{.argv = {"w"}};
    if (!tag.empty()) spec.environment[kWorkerVariable] = tag;
    return processes.start(spec).value();
  }
  void note(long revision, Pid supervisor, Pid worker, const std::string& identity) {
    WorkersState state{.revision = revision,
                       .supervisor = {supervisor, processes.identity(supervisor)},
                       .workers = {}};
    state.workers.push_back({.segment = segment("MIG-1"), .pid = worker, .identity = identity});
    files.content[kState] = workers_json(state);
  }
  std::string left(const std::string& device = "MIG-1") {
    return workers_on({processes, files, kState}, device, 5).value();
  }

  ManualClock clock;
  MemoryFiles files;
  SimProcesses processes{clock, [](const ProcessSpec&) { return SimBehaviour{}; }};
};

TEST_F(WorkersOn, nobody_where_no_supervisor_ever_was) { EXPECT_EQ(left(), ""); }

TEST_F(WorkersOn, a_supervisor_that_has_not_followed_keeps_every_device) {
  const Pid supervisor = run();
  note(4, supervisor, 0, "");
  EXPECT_THAT(left("MIG-9"), HasSubstr("process 1000, which has not yet followed assignment 5"));
  note(5, supervisor, 0, "");
  EXPECT_EQ(left("MIG-9"), "");
  EXPECT_EQ(left(), "worker 0 of chat");  // its daemon may still be there
}

TEST_F(WorkersOn, workers_keep_it_also_without_a_supervisor) {
  const Pid dead = run(), worker = run();
  note(5, dead, worker, processes.identity(worker));
  processes.crash(dead, 137);
  EXPECT_EQ(left(), "worker 0 of chat, process 1001 (no supervisor runs: partita workers)");
  note(5, dead, worker, "somebody else's");
  EXPECT_EQ(left(), "");
}

TEST_F(WorkersOn, workers_that_nobody_noted_are_found) {
  run(worker_tag("/other/workers.json", "MIG-1", 0));
  EXPECT_EQ(left(), "");
  run(worker_tag(kState, "MIG-1", 3));
  EXPECT_THAT(left(), HasSubstr("worker 3, process 1001"));
  EXPECT_EQ(left("MIG-2"), "");
}

TEST_F(WorkersOn, a_damaged_state_is_named) {
  files.content[kState] = "{\"kind\": \"Work";
  const auto answer = workers_on({processes, files, kState}, "MIG-1", 5);
  ASSERT_FALSE(answer);
  EXPECT_THAT(to_string(answer.error()), HasSubstr("/s/workers.json:1"));
}

// Dies in the middle of a step: thrown out of what it says, so also between a start and its note.
struct Killed {};

// One device that apply takes out of the assignment and gives back, and a supervisor that looks,
// steps and dies at any moment in between.
class Interleaving {
 public:
  explicit Interleaving(std::uint64_t seed) : rng_(seed) { assign(true); }

  void act() {
    try {
      const auto choice = rng_.below(12);
      if (choice == 0) assign(!assigned_);
      if (choice >= 1 && choice <= 4) ask();
      if (choice == 5 && supervisor_) kill();
      if (choice >= 6 && choice <= 8) look();
      if (choice >= 9) step();
      clock_.now += static_cast<std::int64_t>(rng_.below(5)) * kSecond / 2;
    } catch (const Killed&) {
      kill();
    }
    if (let_go_) {
      EXPECT_EQ(workers(), 0);
    }
  }
  int times_let_go() const { return times_let_go_; }

 private:
  long workers() {
    const auto running = processes_.running();
    return std::ranges::count_if(running,
                                 [](const auto& one) { return one.second.spec.argv[0] == "w"; });
  }
  SimBehaviour behaviour() {
    SimBehaviour behaviour{.heeds_terminate = rng_.below(4) != 0};
    if (rng_.below(3) == 0) behaviour.run_ns = static_cast<std::int64_t>(rng_.below(9)) * kSecond;
    return behaviour;
  }
  void assign(bool device) {
    assigned_ = device;
    let_go_ = false;
    ++assignment_.revision;
    assignment_.segments.clear();
    if (device) assignment_.segments.push_back(segment("MIG-1"));
  }
  void ask() {
    if (assigned_ || let_go_) return;
    const auto left = workers_on({processes_, files_, kState}, "MIG-1", assignment_.revision);
    ASSERT_TRUE(left);
    let_go_ = left->empty();
    times_let_go_ += let_go_;
  }
  void kill() {
    supervisor_.reset();
    // Its own process goes; those it started live on.
    processes_.orphan_all();
    processes_.crash(self_, 137);
    self_ = 0;
  }
  void begin() {
    self_ = processes_.start({.argv = {"partita"}}).value();
    SupervisorOptions options{.command = parse_command("c", "w").value(),
                              .state_file = kState,
                              .log_dir = "",
                              .self = {self_, processes_.identity(self_)}};
    options.hooks.say = [this](const std::string&) {
      if (rng_.below(20) == 0) throw Killed{};
    };
    supervisor_ = std::make_unique<Supervisor>(processes_, files_, std::move(options));
    ASSERT_TRUE(supervisor_->recover(clock_.now));
  }
  void look() {
    if (!supervisor_) begin();
    supervisor_->follow(assignment_);
  }
  void step() {
    if (!supervisor_) begin();
    supervisor_->step(clock_.now);
  }

  Rng rng_;
  ManualClock clock_;
  MemoryFiles files_;
  SimProcesses processes_{clock_, [this](const ProcessSpec& spec) {
                            return spec.argv[0] == "w" ? behaviour() : SimBehaviour{};
                          }};
  std::unique_ptr<Supervisor> supervisor_;
  Assignment assignment_;
  Pid self_ = 0;
  bool assigned_ = false, let_go_ = false;
  int times_let_go_ = 0;
};

TEST(WorkersOnHistories, nothing_runs_on_what_was_let_go) {
  int times_let_go = 0;
  const int seeds = test_rounds(300);
  for (int seed = 0; seed < seeds; ++seed) {
    Interleaving one(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < 300; ++i) one.act();
    times_let_go += one.times_let_go();
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(times_let_go, 3 * seeds);
}

}  // namespace
}  // namespace partita::actuate
