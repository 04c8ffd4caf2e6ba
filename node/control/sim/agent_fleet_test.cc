// The fleet of the agent: one seed is three days of a node under changing traffic, with reboots,
// XIDs, GPUs that fall off the bus, people who change instances, a driver that fails, workers and
// gateways that die, and the agent killed at any call. Every twelve hours end with calm; then
// everything must be as it is wanted. The real loop, apply and journal on control/sim.
// PARTITA_SEEDS says how many seeds are run instead of the usual few, from PARTITA_FIRST_SEED
// on (1); PARTITA_SEED runs one and tells everything that happens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/test_rounds.h"
#include "control/sim/testing/test_world.h"

namespace partita::control {
namespace {

struct AgentFleetResult {
  std::vector<std::string> violations;
  std::map<std::string, long> counts;  // of events
  long kills = 0, calms = 0, changes = 0, guarded = 0;
  double worst_attainment = 1;
  long tasks = 0, tasks_done = 0, tasks_failed = 0, given_back = 0;  // of batches; GPUs
};

struct AgentKilled {};

constexpr std::int64_t kAgentSecond = 1'000'000'000, kHalfDayNs = 43'200 * kAgentSecond;
constexpr double kKillChance = 1.0 / 1500;  // per call at a door
// Beyond the driver's times that a change predicts: workers leave and become ready.
constexpr double kSwitchSeconds = 45;

int slices_of(const std::string& profile) {
  for (const auto& one : a100_of_tests().gpu.profiles)
    if (one.name == profile) return one.gpcs;
  return 0;
}

// What a seed's node is asked for: with the bursts it fits with a GPU to spare.
std::string services_text(Rng rng, int gpus) {
  struct Kind {
    const char* model;
    double rate, slo_ms;  // per GPU of the node
  };
  constexpr Kind kKinds[] = {{"resnet50", 500, 138},    {"bert", 14, 4294},
                             {"densenet121", 160, 126}, {"inceptionv3", 260, 282},
                             {"mobilenetv2", 500, 113}, {"vgg16", 180, 227}};
  std::string text = "services:\n";
  const int count = 2 + static_cast<int>(rng.below(3));
  const auto first = static_cast<std::size_t>(rng.below(std::size(kKinds)));
  for (int s = 0; s < count; ++s) {
    const Kind& kind = kKinds[(first + static_cast<std::size_t>(s)) % std::size(kKinds)];
    const double rate = kind.rate * gpus / count * (0.7 + 0.5 * rng.uniform());
    text += fmt::format("  - {{name: s{}, model: {}, rate_rps: {:.0f}, slo_ms: {}}}\n", s,
                        kind.model, rate, kind.slo_ms);
  }
  return text;
}

// A batch a day: tasks of minutes to hours, some after others.
std::string tasks_text(Rng rng) {
  std::string text = "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command,after\n";
  const auto count = 3 + rng.below(14);
  for (std::uint64_t t = 0; t < count; ++t) {
    const double seconds = 120 + 20'000 * rng.uniform() * rng.uniform();
    text += fmt::format("t{},{:.0f},{:.0f},{:.0f},{:.0f},{:.0f},work,{}\n", t, seconds,
                        seconds * 0.6, seconds * 0.4, seconds * 0.35, seconds * 0.25,
                        t > 0 && rng.uniform() < 0.3 ? fmt::format("t{}", rng.below(t)) : "");
  }
  return text;
}

// Four seeds of nine have batches: on a GPU of their own, on those that are idle, or on both.
void add_batches(Rng rng, int gpus, WeeksOptions& options) {
  BatchSettings& policy = options.world.settings.batch;
  const auto kind = rng.below(9);
  if (kind >= 4) return;
  policy.idle = kind != 0;
  if (kind < 2) policy.gpus = {gpus};  // beside those that the services are dealt for
  policy.give_back_s = 300 * rng.uniform();
  policy.grace_s = 5 + 25 * rng.uniform();
  options.tasks_text = tasks_text(rng.split(1));
  options.tasks_hour = 20 * rng.uniform();
  if (!policy.gpus.empty())
    options.machine = drivers::sim::Machine(
        {{hw::builtin_catalogue().find("A100-80GB"), gpus + 1, true}}, "fleet");
}

WeeksOptions seed_options(std::uint64_t seed) {
  Rng rng = Rng(seed).split(50);
  const int gpus = 3 + static_cast<int>(rng.below(2));
  WeeksOptions options = weeks_of_tests("fleet", gpus, 3, seed, services_text(rng.split(1), gpus));
  options.troubles = usual_troubles();
  for (double* often : {&options.troubles.reboots, &options.troubles.lost_gpus,
                        &options.troubles.xids, &options.troubles.ecc, &options.troubles.foreign})
    *often *= 4 * rng.uniform();
  options.troubles.driver_faults = 0.05 * rng.uniform();
  options.troubles.calm_hours = 3;
  add_batches(rng.split(2), gpus, options);
  return options;
}

bool is_out(const Snapshot& now, int gpu) {
  const auto found = std::ranges::find(now.gpus, gpu, &GpuNow::index);
  return found != now.gpus.end() && found->out;
}

// What is watched while a seed runs.
class AgentFleet {
 public:
  AgentFleet(std::uint64_t seed, std::FILE* echo)
      : options_(seed_options(seed)), kills_(Rng(seed).split(51)), echo_(echo) {}
  AgentFleetResult run();

 private:
  void line(const std::string& text);
  void violation(const std::string& text);
  void saw(const Snapshot& now);
  void change_begins(const ChangeNow& change, const Snapshot& now);
  void change_ends();
  void watch_direction(const Snapshot& now);
  bool measured_shortage() const;
  void check_calm();
  void watch_lent(const Snapshot& now);
  void check_tasks();
  void check_batches_in_calm(const Snapshot& now, const device::NodeState& state);
  long disturbances() const;

  WeeksOptions options_;
  Rng kills_;
  std::FILE* echo_;
  std::unique_ptr<SimWeeks> weeks_;
  AgentFleetResult result_;
  struct Guarded {
    long change = 0, disturbed = 0;
    std::vector<double> allowed_s;  // by service
  };
  std::optional<Guarded> guarded_;
  struct Direction {
    int gpcs = 0;
    std::int64_t grew_ns = -kHalfDayNs;
    long disturbed = -1;
  };
  std::map<std::string, Direction> planned_;  // by service
  std::map<std::string, double> promised_;    // req/s of the plan before, by service
  bool short_ = false;  // a service was, at this look or at one of the change that ends now
  struct WantedBack {
    std::int64_t since_ns = 0;
    long disturbed = 0;
  };
  std::map<std::string, WantedBack> wanted_back_;  // by UUID: batches have it, the plan uses it
  std::int64_t checked_ns_ = 0;
};

void AgentFleet::line(const std::string& text) {
  if (echo_ == nullptr) return;
  const double hours = static_cast<double>(weeks_->node().now_ns()) / 3.6e12;
  fmt::print(echo_, "{:9.4f} h  {}\n", hours, text);
}

void AgentFleet::violation(const std::string& text) {
  line("VIOLATION " + text);
  const double hours = static_cast<double>(weeks_->node().now_ns()) / 3.6e12;
  result_.violations.push_back(fmt::format("at {:.3f} h: {}", hours, text));
}

long AgentFleet::disturbances() const {
  long sum = result_.kills;
  for (const auto& [what, times] : weeks_->node().counts().events) sum += times;
  return sum;
}

// Where nothing interferes, a service has less than it needs only as long as was predicted. What
// ran on a GPU that was taken out is not promised: it is emptied though nothing else may be left.
void AgentFleet::change_begins(const ChangeNow& change, const Snapshot& now) {
  SimNode& node = weeks_->node();
  Guarded guarded{change.number, disturbances(), {}};
  std::vector<double> floors;
  for (const SimService& service : node.services()) {
    const std::string& name = service.wanted.name;
    const auto affected =
        std::ranges::find(change.change.affected, name, &actuate::Affected::service);
    const bool touched = affected != change.change.affected.end();
    double after = 0;
    for (const plan::PlannedGpu& gpu : change.plan.gpus)
      for (const plan::PlannedInstance& one : gpu.instances)
        if (one.service == name && !is_out(now, gpu.index)) after += one.throughput.value;
    const double before = node.ready_rps(floors.size());
    floors.push_back(touched ? std::min(before, after) : 0);
    // A restart in place costs no time of the driver: the change says that it goes below, and why.
    guarded.allowed_s.push_back(touched && !affected->why_below.empty()
                                    ? affected->below.value +
                                          kSwitchSeconds *
                                              static_cast<double>(change.change.steps.size())
                                    : 0);
  }
  node.gateway().watch_floors(std::move(floors));
  guarded_ = std::move(guarded);
  line(fmt::format("change {} begins: {} ({} steps)", change.number, change.cause,
                   change.change.steps.size()));
}

void AgentFleet::change_ends() {
  SimNode& node = weeks_->node();
  if (guarded_->disturbed == disturbances()) {
    ++result_.guarded;
    for (std::size_t s = 0; s < node.gateway().below_floor_s().size(); ++s)
      if (node.gateway().below_floor_s()[s] > guarded_->allowed_s[s] + 1e-6)
        violation(fmt::format("change {}: {} had too little for {:.1f} s, predicted {:.1f} s",
                              guarded_->change, node.services()[s].wanted.name,
                              node.gateway().below_floor_s()[s], guarded_->allowed_s[s]));
  }
  guarded_.reset();
  node.gateway().watch_floors({});
}

// Whether more comes for some service than was planned before: that may take from others at once.
bool AgentFleet::measured_shortage() const {
  for (std::size_t s = 0; s < weeks_->node().services().size(); ++s) {
    const auto before = promised_.find(weeks_->node().services()[s].wanted.name);
    if (before != promised_.end() && weeks_->node().rate(s) > before->second * 0.97) return true;
  }
  return false;
}

// Growth that is taken back within the cooldown, though nothing broke and nobody was short.
void AgentFleet::watch_direction(const Snapshot& now) {
  // What was short when a change was decided need not be so when it is there.
  const bool was_short = short_ || measured_shortage();
  short_ = measured_shortage() || (short_ && !now.converged);
  if (!now.plan || !now.converged) return;
  const std::int64_t at = weeks_->node().now_ns();
  const auto cooldown = static_cast<std::int64_t>(options_.world.settings.damping.cooldown_s * 1e9);
  std::map<std::string, int> gpcs;
  for (const plan::PlannedGpu& gpu : now.plan->gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      gpcs[one.service] += slices_of(one.profile);
  for (const auto& [service, slices] : gpcs) {
    Direction& before = planned_[service];
    if (slices < before.gpcs && at - before.grew_ns < cooldown &&
        before.disturbed == disturbances() && !was_short)
      violation(fmt::format("{} grew to {} slices {:.0f} s ago and shrinks to {}", service,
                            before.gpcs, static_cast<double>(at - before.grew_ns) * 1e-9, slices));
    if (slices > before.gpcs) {
      before.grew_ns = at;
      before.disturbed = disturbances();
    }
    before.gpcs = slices;
  }
  for (const plan::PlannedService& one : now.plan->services)
    promised_[one.name] = one.planned.value;
}

void AgentFleet::saw(const Snapshot& now) {
  const bool applying = now.current && now.current->state == ChangeState::applying;
  if (guarded_ && (!applying || now.current->number != guarded_->change)) change_ends();
  if (applying && !guarded_) change_begins(*now.current, now);
  watch_direction(now);
  watch_lent(now);
}

// A GPU is a batch's or the services', and one that the plan needs is left in time.
void AgentFleet::watch_lent(const Snapshot& now) {
  const std::set<std::string> lent(now.batch.gpus.begin(), now.batch.gpus.end());
  if (lent.size() != now.batch.gpus.size()) violation("a GPU is lent to two batches");
  for (const actuate::AssignedSegment& one : now.assignment.segments)
    if (lent.contains(one.gpu_uuid)) violation("a segment and a batch share " + one.gpu_uuid);
  std::set<std::string> needed;
  if (now.plan)
    for (const plan::PlannedGpu& gpu : now.plan->gpus)
      for (const GpuNow& here : now.gpus)
        if (here.index == gpu.index && !gpu.instances.empty() && lent.contains(here.uuid))
          needed.insert(here.uuid);
  const std::int64_t at = weeks_->node().now_ns();
  const BatchSettings& policy = options_.world.settings.batch;
  const double allowed_s =
      policy.give_back_s + policy.grace_s + 2 * options_.world.settings.look_s + kSwitchSeconds;
  result_.given_back +=
      std::erase_if(wanted_back_, [&](const auto& one) { return !needed.contains(one.first); });
  for (const std::string& uuid : needed) {
    WantedBack& one = wanted_back_.try_emplace(uuid, WantedBack{at, disturbances()}).first->second;
    if (one.disturbed != disturbances()) one = {at, disturbances()};
    const double waited = static_cast<double>(at - one.since_ns) * 1e-9;
    if (waited <= allowed_s) continue;
    violation(
        fmt::format("a batch has had {} for {:.0f} s since it was wanted back, allowed {:.0f}",
                    uuid, waited, allowed_s));
    one.since_ns = at;
  }
}

// What runs: one task per instance, none where a service is, each to its end once.
void AgentFleet::check_tasks() {
  std::set<std::string> devices;
  const actuate::Assignment assignment = weeks_->node().assignment();
  for (const auto& [device, task] : weeks_->batches().running()) {
    if (!devices.insert(device).second) violation("two tasks on " + device);
    if (weeks_->node().boards().foreign().contains(device))
      violation(task + " runs on what others made");
    for (const actuate::AssignedSegment& one : assignment.segments)
      if (one.device == device) violation(task + " runs where " + one.service + " does");
  }
  for (const auto& [task, times] : weeks_->batches().ended())
    if (times > 1) violation(fmt::format("{} came to its end {} times", task, times));
}

// No task is lost, and none waits where there is room for it.
void AgentFleet::check_batches_in_calm(const Snapshot& now, const device::NodeState& state) {
  const BatchNow& batch = now.batch;
  result_.tasks = batch.waiting + batch.running + batch.done + batch.failed;
  result_.tasks_done = batch.done;
  result_.tasks_failed = batch.failed;
  const std::string& text = options_.tasks_text;
  const long each = std::ranges::count(text, '\n') - (text.empty() ? 0 : 1);
  if (result_.tasks < weeks_->batches_taken() * each ||
      result_.tasks > weeks_->batches_asked() * each)
    violation(fmt::format("{} tasks are known, {} batches of {} were taken, {} handed in",
                          result_.tasks, weeks_->batches_taken(), each, weeks_->batches_asked()));
  if (const auto ended = std::ssize(weeks_->batches().ended()); batch.done > ended)
    violation(fmt::format("{} tasks are called done, {} came to their end", batch.done, ended));
  if (batch.waiting == 0 || batch.running > 0) return;
  const BatchSettings& policy = options_.world.settings.batch;
  for (const device::GpuState& gpu : state.gpus) {
    const bool own = std::ranges::count(policy.gpus, gpu.index) > 0;
    if (!gpu.lost && gpu.instances.empty() && !is_out(now, gpu.index) && (own || policy.idle))
      violation(fmt::format("{} tasks wait though gpu {} is empty", batch.waiting, gpu.index));
  }
}

// After hours without trouble the node is exactly as the plan in force wants it, and carries what
// comes. A rate that has only just risen is no failure of the calm: it is seen at the next look,
// once a minute of it was counted.
void AgentFleet::check_calm() {
  SimNode& node = weeks_->node();
  ++result_.calms;
  const Snapshot* now = weeks_->snapshot();
  if (now == nullptr) return violation("no agent in calm");
  line("calm: " + now->doing);
  if (!now->converged) return violation("not converged in calm: " + now->doing);
  const actuate::Assignment assignment = node.assignment();
  std::set<std::string> assigned;
  for (const actuate::AssignedSegment& one : assignment.segments) assigned.insert(one.device);
  const double seen_within = options_.world.settings.look_s + 60;
  const device::NodeState state = node.boards().look();
  const std::set<std::string> lent(now->batch.gpus.begin(), now->batch.gpus.end());
  std::set<std::string> there;
  for (const device::GpuState& gpu : state.gpus)
    for (const device::Instance& one : gpu.instances) {
      if (lent.contains(gpu.uuid)) continue;
      if (!node.boards().foreign().contains(one.uuid()) || assigned.contains(one.uuid()))
        there.insert(one.uuid());
    }
  for (const std::string& device : assigned)
    if (!there.contains(device)) violation("assigned, and not there: " + device);
  for (const std::string& device : there)
    if (!assigned.contains(device)) violation("there, and for nothing: " + device);
  for (std::size_t s = 0; s < node.services().size(); ++s)
    if (node.ready_rps(s) < node.rate(s) && node.gateway().tally(s).short_now_s > seen_within)
      violation(fmt::format("{} has {:.0f} req/s ready for {:.0f} in calm",
                            node.services()[s].wanted.name, node.ready_rps(s), node.rate(s)));
  check_batches_in_calm(*now, state);
}

AgentFleetResult AgentFleet::run() {
  auto begun = SimWeeks::begin(options_);
  CHECK(begun.has_value());
  weeks_ = *std::move(begun);
  SimNode& node = weeks_->node();
  node.log = [this](const std::string& text) { line(text); };
  node.at_call = [this, &node] {
    if (node.calm() || kills_.uniform() >= kKillChance) return;
    throw AgentKilled{};
  };
  weeks_->published = [this](const Snapshot& now) { saw(now); };
  weeks_->recorded = [this](const history::Event& event) {
    line(fmt::format("{} {}: {} {}", history::to_string(event.kind), event.change, event.cause,
                     event.detail));
    if (event.kind == history::EventKind::applied) ++result_.changes;
  };
  for (bool on = true; on;) {
    try {
      on = weeks_->step();
    } catch (const AgentKilled&) {
      ++result_.kills;
      line("kill");
      guarded_.reset();
      weeks_->drop_agent();
    }
    check_tasks();
    const std::int64_t next = (checked_ns_ / kHalfDayNs + 1) * kHalfDayNs;
    if (node.now_ns() < next - 120 * kAgentSecond) continue;
    check_calm();
    checked_ns_ = next;
  }
  result_.counts = node.counts().events;
  for (std::size_t s = 0; s < node.services().size(); ++s)
    result_.worst_attainment =
        std::min(result_.worst_attainment,
                 node.gateway().tally(s).in_slo / std::max(1.0, node.gateway().tally(s).arrived));
  return result_;
}

// `echo` gets a line per event; null: nobody does.
AgentFleetResult run_agent_fleet(std::uint64_t seed, std::FILE* echo = nullptr) {
  return AgentFleet(seed, echo).run();
}

long number_in(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atol(text);
}

TEST(AgentFleet, ConvergesInEveryCalmAndNeverFlaps) {
  const long count = number_in("PARTITA_SEEDS", test_rounds(8));
  const long first = number_in("PARTITA_FIRST_SEED", 1);
  std::map<std::string, long> counts;
  long failed = 0, kills = 0, calms = 0, changes = 0, guarded = 0;
  long tasks = 0, done = 0, not_done = 0, given_back = 0;
  double worst = 1;
  for (long seed = first; seed < first + count; ++seed) {
    const AgentFleetResult one = run_agent_fleet(static_cast<std::uint64_t>(seed));
    for (const auto& [what, times] : one.counts) counts[what] += times;
    kills += one.kills;
    calms += one.calms;
    changes += one.changes;
    guarded += one.guarded;
    tasks += one.tasks;
    done += one.tasks_done;
    not_done += one.tasks_failed;
    given_back += one.given_back;
    worst = std::min(worst, one.worst_attainment);
    if (one.violations.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << ": " << one.violations.front()
                  << "; see PARTITA_SEED=" << seed
                  << " control_sim_test --gtest_filter=AgentFleet.OneSeed";
  }
  if (std::getenv("PARTITA_SEEDS") != nullptr) {
    fmt::print(
        "seeds {}, failed {}, kills {}, calms {}, changes {}, undisturbed changes {}, least "
        "share in SLO {:.4f}\n",
        count, failed, kills, calms, changes, guarded, worst);
    fmt::print("tasks {}, done {}, given up {}, GPUs that batches gave back {}\n", tasks, done,
               not_done, given_back);
    for (const auto& [what, times] : counts) fmt::print("  {} {}\n", times, what);
  }
  if (count < 8) return;
  // The troubles do happen, and there is something to guard.
  for (const char* const what : {"reboot", "lost", "regained", "xid", "foreign", "worker-death"})
    EXPECT_GT(counts[what], 0) << what;
  EXPECT_GT(kills, 0);
  EXPECT_GT(guarded, count);
  EXPECT_EQ(calms, 6 * count);
  EXPECT_GT(done, count);
}

// Each found something once:
// 36: services waited for a GPU that a batch had left, until its run on other GPUs was over;
// 94: a rate that rose in the minute of the check was taken for a failure of the calm;
// 100: a change waited for ever for the capacity of segments on a lost GPU;
// 137: the cooldown was counted from the decision, not from when the change was there;
// 398: the last GPU that was left is emptied when it has errors, which the oracle did not know;
// 4507: what had just grown was shrunk for a rate that the plan carried, but was not made for;
// 5486: a stand-in went because it could have carried much itself, before its successor was ready;
// 8010: what a batch left behind on a GPU was destroyed when its other GPUs were done, not at once.
constexpr std::uint64_t kKeptSeeds[] = {36, 94, 100, 137, 398, 4507, 5486, 8010};

TEST(AgentFleet, SeedsThatFoundSomething) {
  if (test_rounds(8) < 8) GTEST_SKIP() << "under sanitizers the first seeds are enough";
  for (const std::uint64_t seed : kKeptSeeds)
    for (const std::string& violation : run_agent_fleet(seed).violations)
      ADD_FAILURE() << "seed " << seed << ": " << violation;
}

TEST(AgentFleet, OneSeed) {
  if (std::getenv("PARTITA_SEED") == nullptr) return;
  const auto seed = static_cast<std::uint64_t>(number_in("PARTITA_SEED", 1));
  for (const std::string& violation : run_agent_fleet(seed, stdout).violations)
    ADD_FAILURE() << violation;
}

}  // namespace
}  // namespace partita::control
