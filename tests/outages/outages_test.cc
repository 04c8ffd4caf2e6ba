// Outages: one seed is some hours of a node under even traffic, in which workers, the supervisor,
// the gateway, the driver, GPUs and the agent itself fail, in part and in whole, one or two at a
// time, and come back. Every second each surface must say of each service what is so, or was within
// the last five seconds: the agent's state, the API's document, its metrics, `partita status`. What
// is so is taken from the simulated world; nothing of control/verdict.cc is used for it. Besides:
// all that was asked for is counted, and forecasts are those of the same days without an outage.
// PARTITA_SEEDS says how many seeds are run instead of the usual few, from PARTITA_FIRST_SEED on
// (1); PARTITA_SEED runs one and tells everything that happens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <sstream>

#include "api/metrics.h"
#include "base/check.h"
#include "base/source_text.h"
#include "base/test_rounds.h"
#include "control/host/servers.h"
#include "control/sim/testing/test_world.h"

namespace partita::control {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr int kWarmUpS = 900, kOutagesPerSeed = 6;
constexpr std::size_t kWithinS = 5;  // that a surface may be late

using Words = std::set<Standing>;

std::string text_of(const Words& words) {
  std::string text;
  for (const Standing word : words)
    text += fmt::format("{}{}", text.empty() ? "" : "|", to_string(word));
  return text;
}

std::string services_of(Rng rng, int gpus) {
  struct Kind {
    const char* model;
    double rate, slo_ms;  // per GPU of the node
  };
  constexpr Kind kKinds[] = {{"resnet50", 400, 138},
                             {"densenet121", 150, 126},
                             {"inceptionv3", 220, 282},
                             {"mobilenetv2", 400, 113},
                             {"vgg16", 150, 227}};
  std::string text = "services:\n";
  const auto first = static_cast<std::size_t>(rng.below(std::size(kKinds)));
  for (std::size_t s = 0; s < 2; ++s) {
    const Kind& kind = kKinds[(first + s) % std::size(kKinds)];
    const double rate = kind.rate * gpus / 2 * (0.6 + 0.4 * rng.uniform());
    text += fmt::format("  - {{name: s{}, model: {}, rate_rps: {:.0f}, slo_ms: {}}}\n", s,
                        kind.model, rate, kind.slo_ms);
  }
  return text;
}

WeeksOptions options_of(std::uint64_t seed) {
  Rng rng = Rng(seed).split(60);
  const int gpus = 2 + static_cast<int>(rng.below(2));
  WeeksOptions options = weeks_of_tests("outage", gpus, 1, seed, services_of(rng.split(1), gpus));
  options.world.settings.look_s = 10;
  options.shape = {.trough = 1, .weekend = 1, .shifts_per_day = 0, .bursts_per_day = 0};
  options.glances = true;
  return options;
}

// What was so of a service in a second.
struct Truth {
  Words words;
  bool well = false;    // requests are answered as promised, whatever else is known
  bool enough = false;  // and so they would be at the promised rate, if somebody watches
  double missed = 0, requests = 0;
};

struct OutageResult {
  std::vector<std::string> violations;
  std::map<std::string, long> counts;
  long checks = 0;
  std::map<std::string, long> said;                           // words of verdicts
  std::vector<std::map<std::string, double>> forecasts = {};  // by minute
};

class OutageSeed {
 public:
  OutageSeed(std::uint64_t seed, bool with_outages, std::FILE* echo)
      : options_(options_of(seed)),
        rng_(Rng(seed).split(61)),
        with_outages_(with_outages),
        asks_(Rng(seed).split(62).below(4) == 0),
        echo_(echo) {
    options_.glances = with_outages;
  }
  OutageResult run();

 private:
  SimNode& node() { return weeks_->node(); }
  std::int64_t second() { return node().now_ns() / kSecondNs; }
  void line(const std::string& text) {
    if (echo_ != nullptr) fmt::print(echo_, "{:7} s  {}\n", second(), text);
  }
  void violation(const std::string& text) {
    line("VIOLATION " + text);
    if (result_.violations.size() < 5)
      result_.violations.push_back(fmt::format("at {} s: {}", second(), text));
  }
  void plan_outages();
  void happen();
  void end_agent();
  void look();
  Truth truth_of(std::size_t service);
  bool was_well(std::size_t service) const;
  Words last_words(std::size_t service, double ready) const;
  bool unwatched() const {
    const SimNode& node = weeks_->node();
    return node.broken(SimOutage::watchless) || node.broken(SimOutage::supervisor);
  }
  Words allowed(std::size_t service) const;
  void check(const char* surface, std::size_t service, const ServiceVerdict& said);
  void check_agent(const Snapshot& now);
  void check_count(const Snapshot& now, std::size_t service);
  void check_notices(std::size_t service);
  void note_forecasts(const Snapshot& now);

  struct Event {
    std::int64_t at_s = 0;
    bool begins = false;
    int outage = 0;  // SimOutage, or kSimOutages: the agent
    int which = 0;
    std::int64_t until_s = 0;
  };
  WeeksOptions options_;
  Rng rng_;
  const bool with_outages_, asks_;  // asks_: changes wait for a person
  std::FILE* echo_;
  std::unique_ptr<SimWeeks> weeks_;
  OutageResult result_;
  std::deque<Event> events_;
  std::vector<std::deque<Truth>> truths_;  // by service, the newest last
  std::vector<std::int64_t> told_s_;  // when the last bad news of a service came; -1: it is well
  std::vector<std::int64_t> bad_since_s_;  // by service; -1: it is not bad
  std::int64_t agent_since_s_ = 0, lost_until_s_ = -1, end_s_ = 0, unheard_s_ = 0;
  std::optional<std::int64_t> agent_ends_until_s_;
  std::vector<double> rates_;
  NodeFilesBefore before_;
};

void OutageSeed::plan_outages() {
  std::int64_t at = kWarmUpS;
  const int gpus = static_cast<int>(options_.machine.gpus().size());
  std::vector<Event> all;
  for (int outage = 0; outage < kOutagesPerSeed; ++outage) {
    at += 150 + static_cast<std::int64_t>(rng_.below(200));
    const int both = rng_.uniform() < 0.35 ? 2 : 1;
    std::set<int> kinds;
    while (std::ssize(kinds) < both) kinds.insert(static_cast<int>(rng_.below(kSimOutages + 1)));
    std::int64_t over = at;
    for (const int kind : kinds) {
      const std::int64_t begins = at + static_cast<std::int64_t>(rng_.below(30));
      const std::int64_t ends = begins + 15 + static_cast<std::int64_t>(rng_.below(150));
      const int of = kind == static_cast<int>(SimOutage::gpu) ? gpus : 2;
      const int which = static_cast<int>(rng_.below(static_cast<std::uint64_t>(of)));
      all.push_back({begins, true, kind, which, ends});
      all.push_back({ends, false, kind, which, ends});
      over = std::max(over, ends);
    }
    at = over;
  }
  end_s_ = at + 200;
  std::ranges::stable_sort(all, {}, &Event::at_s);
  events_.assign(all.begin(), all.end());
}

// Not in the middle of a step of its own.
void OutageSeed::end_agent() {
  if (!agent_ends_until_s_) return;
  agent_since_s_ = std::max(*std::exchange(agent_ends_until_s_, std::nullopt), second());
  line("agent ends");
  ++result_.counts["outage-agent"];
  weeks_->drop_agent(agent_since_s_ * kSecondNs);
}

void OutageSeed::happen() {
  while (!events_.empty() && events_.front().at_s <= second()) {
    const Event event = events_.front();
    events_.pop_front();
    if (event.outage == kSimOutages) {
      if (!event.begins) continue;
      agent_ends_until_s_ = event.until_s;
      continue;
    }
    const auto outage = static_cast<SimOutage>(event.outage);
    if (event.begins)
      node().break_down(outage, event.which);
    else
      node().mend(outage);
    if (outage == SimOutage::gpu) lost_until_s_ = second() + 900;
  }
}

// Judged from who runs, what they carry and what is asked of them.
Truth OutageSeed::truth_of(std::size_t service) {
  const plan::Service& wanted = node().services()[service].wanted;
  const double rate = node().rate(service), share = node().share_in_time(service);
  const double missed = 1 - share, may_miss = 1 - wanted.percentile / 100;
  Truth truth{.words = {}, .missed = rate * missed, .requests = rate};
  const double ready = node().ready_rps(service);
  if (!node().gateway().answers()) {
    truth.words = last_words(service, ready);
    return truth;
  }
  if (ready <= 0) {
    truth.words = {Standing::down};
    return truth;
  }
  if (missed >= std::max(10 * may_miss, 0.1)) {
    truth.words = {share < 0.01 ? Standing::down : Standing::degraded};
    // Who cannot read the node calls it unknown until the gateway has said so.
    if (node().broken(SimOutage::driver) && was_well(service))
      truth.words.insert(Standing::unknown);
    return truth;
  }
  truth.well = true;
  if (missed > 0.9 * may_miss) truth.words.insert(Standing::degraded);
  double promised = 0;
  const actuate::Assignment assignment = node().assignment();
  for (const plan::Terms& one : assignment.services)
    if (one.name == wanted.name) promised = one.rate.value;
  const bool less = ready < promised * 0.999 || rate > ready;
  // After a loss the plan may have been made for less, or another one waits for a person.
  const bool maybe = std::abs(ready - promised) < 0.1 * promised || second() < lost_until_s_;
  truth.enough = !less || maybe;
  if (node().broken(SimOutage::driver)) {
    truth.words.insert(Standing::unknown);
    return truth;
  }
  if (less || unwatched() || maybe) truth.words.insert(Standing::at_risk);
  if (truth.enough && !unwatched()) truth.words.insert(Standing::serves);
  return truth;
}

// In one of the last seconds.
bool OutageSeed::was_well(std::size_t service) const {
  const std::deque<Truth>& past = truths_[service];
  const auto count = std::min<std::size_t>(past.size(), kWithinS);
  return std::ranges::any_of(past.rbegin(), past.rbegin() + static_cast<long>(count), &Truth::well);
}

// Of a gateway that has just fallen silent, the last words may stand for as long as they are fresh:
// that nobody is there, that some requests of a service that came back were late, or that all is
// well, which somebody who watches again since then may go on with.
Words OutageSeed::last_words(std::size_t service, double ready) const {
  Words words = {Standing::unknown};
  if (ready <= 0) words.insert(Standing::down);
  const std::deque<Truth>& past = truths_[service];
  for (std::size_t back = 0; back < std::min<std::size_t>(past.size(), kWithinS); ++back) {
    const Truth& then = past[past.size() - 1 - back];
    if (ready > 0 && then.words.contains(Standing::down)) words.insert(Standing::degraded);
    if (then.enough && !unwatched()) words.insert(Standing::serves);
  }
  return words;
}

// What was so in one of the last seconds. Where few of the last minute's requests were missed,
// nobody can tell at once that it is over.
Words OutageSeed::allowed(std::size_t service) const {
  Words words;
  bool well = false;
  const std::deque<Truth>& past = truths_[service];
  double missed = 0, requests = 0;
  for (std::size_t back = 0; back < past.size(); ++back) {
    const Truth& then = past[past.size() - 1 - back];
    if (back <= kWithinS) {
      words.insert(then.words.begin(), then.words.end());
      well = well || then.well;
    }
    missed += then.missed;
    requests += then.requests;
  }
  const bool bad = words.contains(Standing::down) || words.contains(Standing::degraded);
  if (bad && well) words.insert(Standing::degraded);  // some of the last seconds' were
  const double share = requests > 0 ? missed / requests : 0;
  if (share > 0.005 && share < 0.12) words.insert(Standing::degraded);
  return words;
}

void OutageSeed::check(const char* surface, std::size_t service, const ServiceVerdict& said) {
  ++result_.checks;
  const Words words = allowed(service);
  if (!words.contains(said.verdict))
    violation(fmt::format("{} calls {} {}, it is {} ({})", surface,
                          node().services()[service].wanted.name, to_string(said.verdict),
                          text_of(words), said.why));
}

// All that was asked for is counted, whatever became of it.
void OutageSeed::check_count(const Snapshot& now, std::size_t service) {
  const double rate = node().rate(service);
  if (rates_[service] != rate || second() < unheard_s_ + 8) return;
  const ServiceVerdict& is = now.services[service].is;
  if (node().wall_ms() - is.as_of_ms > 1500 || second() % 60 < 6) return;
  if (std::abs(is.asked_rps - rate) > 0.02 * rate + 1)
    violation(
        fmt::format("{:.1f} req/s of {} are counted, {:.1f} come", is.asked_rps, is.service, rate));
}

// Who is to be told was told in time, and not since then that it is over.
void OutageSeed::check_notices(std::size_t service) {
  const Words now = allowed(service);
  const bool bad = std::ranges::all_of(
      now, [](Standing one) { return one == Standing::down || one == Standing::degraded; });
  std::int64_t& since = bad_since_s_[service];
  if (!bad || second() < agent_since_s_) {
    since = -1;
    return;
  }
  if (since < 0) since = second();
  if (second() != since + 8) return;
  if (told_s_[service] < agent_since_s_)
    violation(fmt::format("nobody was told of {}", node().services()[service].wanted.name));
}

void OutageSeed::check_agent(const Snapshot& now) {
  const bool whole = second() % 5 == 0;
  const std::string metrics = whole ? api::agent_metrics(now, {}) : std::string();
  const auto document = whole ? parse_snapshot("state", snapshot_json(now)) : Result<Snapshot>(now);
  if (!document) return violation(to_string(document.error()));
  for (std::size_t s = 0; s < now.services.size(); ++s) {
    const ServiceVerdict& is = now.services[s].is;
    check("the agent", s, is);
    check("the API", s, document->services[s].is);
    ++result_.said[to_string(is.verdict)];
    if (is.since_ms > node().wall_ms()) violation("a verdict of the future");
    check_count(now, s);
    check_notices(s);
    if (!whole) continue;
    for (const Standing word : kStandings) {
      const std::string row = fmt::format(
          "partita_service_verdict{{service=\"{}\",verdict=\"{}\"}} ", is.service, to_string(word));
      const std::size_t at = metrics.find(row);
      if (at == std::string::npos) return violation("no metric " + row);
      if (metrics[at + row.size()] == '1') check("the metric", s, {.service = {}, .verdict = word});
    }
  }
  const bool good = std::ranges::none_of(now.services, &ServiceNow::at_risk);
  const bool waits = now.current && now.current->state == ChangeState::proposed;
  if (now.converged && waits && !good) violation("converged, and a change waits");
  if (node().broken(SimOutage::driver) && second() > agent_since_s_ + 15 &&
      now.node_fault.empty() && node().wall_ms() - now.node_read_ms > 15'000)
    violation("what was read of the node is old, and not called so");
}

void OutageSeed::note_forecasts(const Snapshot& now) {
  const auto minute = static_cast<std::size_t>(second() / 60);
  if (minute < result_.forecasts.size()) return;
  result_.forecasts.resize(minute + 1);
  for (const ServiceNow& one : now.services)
    if (one.forecast_rps) result_.forecasts[minute][one.name] = *one.forecast_rps;
}

void OutageSeed::look() {
  const Snapshot* now = weeks_->snapshot();
  if (now != nullptr) note_forecasts(*now);
  if (!with_outages_) return;
  if (!node().gateway().answers()) unheard_s_ = second();
  for (std::size_t s = 0; s < truths_.size(); ++s) {
    const Truth now_so = truth_of(s);
    if (!truths_[s].empty() && truths_[s].back().words != now_so.words)
      line(fmt::format("{} is {}", node().services()[s].wanted.name, text_of(now_so.words)));
    truths_[s].push_back(now_so);
    if (truths_[s].size() > 68) truths_[s].pop_front();
  }
  if (second() >= kWarmUpS) {
    const bool agent = now != nullptr && second() > agent_since_s_ + static_cast<int>(kWithinS);
    if (agent) check_agent(*now);
    AgentDoors doors = node().doors();
    const auto status = verdicts_of_node({.files = doors.files,
                                          .processes = *doors.processes,
                                          .state_dir = doors.state_dir,
                                          .now_ns = node().now_ns(),
                                          .wall_ms = node().wall_ms(),
                                          .blind = node().broken(SimOutage::driver) ? "silent" : "",
                                          .before = &before_});
    if (!status) return violation(to_string(status.error()));
    for (std::size_t s = 0; s < status->size(); ++s) check("status", s, (*status)[s]);
  }
  for (std::size_t s = 0; s < rates_.size(); ++s) rates_[s] = node().rate(s);
}

OutageResult OutageSeed::run() {
  plan_outages();
  if (!with_outages_) events_.clear();
  if (asks_) options_.world.settings.mode = Mode::approve;
  auto begun = SimWeeks::begin(options_);
  CHECK(begun.has_value());
  weeks_ = *std::move(begun);
  const std::size_t services = node().services().size();
  truths_.resize(services);
  told_s_.assign(services, -1);
  rates_.resize(services);
  bad_since_s_.assign(services, -1);
  node().log = [this](const std::string& text) { line(text); };
  weeks_->add_doors = [this](AgentDoors& doors) {
    doors.notify = [this](const LoopNotice& notice) {
      line("notice: " + notice.sentence);
      for (std::size_t s = 0; s < told_s_.size(); ++s)
        if (notice.subject == node().services()[s].wanted.name)
          told_s_[s] = notice.kind == NoticeKind::slo_risk ? second() : -1;
    };
    doors.inquiries = [this]() -> std::vector<Inquiry> {
      const Snapshot* now = weeks_->snapshot();
      const bool waits = now != nullptr && now->current && second() < kWarmUpS / 2 &&
                         now->current->state == ChangeState::proposed;
      if (!waits) return {};
      return {{{Approve{now->current->number}, "test"}, {}}};
    };
  };
  const auto at_second = [this] {
    happen();
    look();
  };
  if (with_outages_) node().at_second = at_second;
  while (second() < end_s_ && weeks_->step()) {
    end_agent();
    if (!with_outages_) look();
  }
  for (const auto& [what, times] : node().counts().events) result_.counts[what] += times;
  return result_;
}

// The same with and without outages: nothing is forgotten for an outage.
void compare_forecasts(const OutageResult& with, const OutageResult& without,
                       OutageResult& result) {
  for (std::size_t minute = kWarmUpS / 60; minute < with.forecasts.size(); ++minute) {
    if (minute >= without.forecasts.size()) return;
    for (const auto& [service, rate] : with.forecasts[minute]) {
      const auto there = without.forecasts[minute].find(service);
      if (there == without.forecasts[minute].end()) continue;
      if (std::abs(rate - there->second) <= 0.05 * there->second) continue;
      result.violations.push_back(
          fmt::format("in minute {}: {} is expected to get {:.1f} req/s, {:.1f} without outages",
                      minute, service, rate, there->second));
      return;
    }
  }
}

OutageResult run_outages(std::uint64_t seed, std::FILE* echo = nullptr) {
  OutageResult result = OutageSeed(seed, true, echo).run();
  compare_forecasts(result, OutageSeed(seed, false, nullptr).run(), result);
  return result;
}

long number_in(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atol(text);
}

TEST(Outages, EverySurfaceSaysWithinFiveSecondsWhatIsSo) {
  const long count = number_in("PARTITA_SEEDS", test_rounds(4));
  const long first = number_in("PARTITA_FIRST_SEED", 1);
  std::map<std::string, long> counts, said;
  long failed = 0, checks = 0;
  for (long seed = first; seed < first + count; ++seed) {
    const OutageResult one = run_outages(static_cast<std::uint64_t>(seed));
    for (const auto& [what, times] : one.counts) counts[what] += times;
    for (const auto& [word, times] : one.said) said[word] += times;
    checks += one.checks;
    if (one.violations.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << ": " << one.violations.front()
                  << "; see PARTITA_SEED=" << seed
                  << " tests_outages --gtest_filter=Outages.OneSeed";
  }
  if (std::getenv("PARTITA_SEEDS") != nullptr) {
    fmt::print("seeds {}, failed {}, checks {}\n", count, failed, checks);
    for (const auto& [what, times] : counts) fmt::print("  {} {}\n", times, what);
    for (const auto& [word, times] : said) fmt::print("  {} {}\n", times, word);
  }
  if (count < 4) return;
  EXPECT_GT(checks, 10'000 * count);
  for (const char* const word : {"serves", "degraded", "at_risk", "down", "unknown"})
    EXPECT_GT(said[word], 0) << word;
}

TEST(Outages, SeedsThatFoundSomething) {
  std::istringstream file(source_text("tests/outages/seeds.txt"));
  int left = test_rounds(10);
  for (std::string line; left > 0 && std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    --left;
    const OutageResult one = run_outages(std::stoull(line));
    EXPECT_TRUE(one.violations.empty()) << line << ": " << one.violations.front();
  }
}

TEST(Outages, OneSeed) {
  if (std::getenv("PARTITA_SEED") == nullptr) return;
  const auto seed = static_cast<std::uint64_t>(number_in("PARTITA_SEED", 1));
  for (const std::string& violation : run_outages(seed, stdout).violations)
    ADD_FAILURE() << violation;
}

}  // namespace
}  // namespace partita::control
