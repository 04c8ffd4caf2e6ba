// A service's terms on their way: what a services file says of it, drawn at random, is what every
// stop says after it: plan, assignment, gateway and its metrics, agent and its API. Readers and
// writers are the real ones; the plan is made by hand: planners take time and add nothing here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "api/metrics.h"
#include "base/parse_number.h"
#include "base/rng.h"
#include "control/loop.h"
#include "forms/serving_forms.h"
#include "profile/readers.h"
#include "serve/host/host.h"
#include "verify/judge.h"
#include "world.h"

namespace partita::actuation_tests {
namespace {

using plan::Terms;

constexpr int kFiles = 1000;
constexpr int kGpus = 8;

// ---- services at random ----

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed) {}

  std::vector<Terms> services() {
    std::vector<Terms> services(1 + below(3));
    for (std::size_t s = 0; s < services.size(); ++s) services[s].name = fmt::format("s-{}", s);
    for (Terms& one : services) fill(one, services);
    return services;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(rng_.below(bound)); }
  bool coin() { return below(2) == 0; }
  double share() { return static_cast<double>(rng_.below(1u << 30)) / (1u << 30); }
  // Short ones as people write them, and such with all their digits.
  double number(double low, double high) {
    const double value = low + share() * (high - low);
    const double rounded = std::round(value * 1000) / 1000;
    return coin() && rounded > low && rounded < high ? rounded : value;
  }

  plan::OnOff on_off() {
    const double every = number(10, 1000), seconds = number(0.5, every / 2);
    return {number(1, every / seconds), seconds, every};
  }

  plan::Arrivals arrivals() {
    switch (below(7)) {
      case 0:
        return plan::EvenArrivals{};
      case 1:
        return plan::GammaArrivals{number(0.01, 100)};
      case 2:
        return plan::BurstArrivals{on_off()};
      case 3:
        return plan::MmppArrivals{on_off()};
      case 4:
        return plan::TraceArrivals{"day 1.csv", coin() ? "" : "row x"};
      default:
        return plan::PoissonArrivals{};
    }
  }

  void fill(Terms& one, const std::vector<Terms>& all) {
    one.model = fmt::format("m{}", below(3));
    one.rate = Rps{coin() ? number(1, 40'000) : number(1e-3, 1e9)};
    one.slo = Millis{coin() ? number(5, 500) : number(1e-3, 1e6)};
    if (coin()) one.percentile = coin() ? number(50, 100) : std::vector{80., 99.9, 99.99}[below(3)];
    if (coin()) one.min_replicas = 2;
    if (coin()) one.spread = true;
    for (const Terms& other : all)
      if (other.name != one.name && below(4) == 0) one.avoid.push_back(other.name);
    if (coin()) one.traffic.headroom = number(0, 10);
    one.traffic.arrivals = arrivals();
    if (coin()) one.cache = plan::CacheTerms{.memory = Mib{number(1, 16)}, .shared = coin()};
    if (one.cache && coin()) one.cache->ttl = Seconds{number(1e-3, 1e9)};
    if (below(3) > 0) return;
    for (int minute = static_cast<int>(below(300)); minute < plan::kMinutesOfDay;
         minute += 1 + static_cast<int>(below(700)))
      one.traffic.rates.push_back({minute, Rps{number(1e-3, 1e6)}});
  }

  Rng rng_;
};

// ---- as a services file ----

struct Written {
  static std::string text(const plan::OnOff& on_off) {
    return fmt::format("{{peak: {}, seconds: {}, every: {}}}", on_off.peak, on_off.seconds,
                       on_off.every);
  }
  std::string operator()(const plan::PoissonArrivals&) const { return "poisson"; }
  std::string operator()(const plan::EvenArrivals&) const { return "uniform"; }
  std::string operator()(const plan::GammaArrivals& gamma) const {
    return fmt::format("{{cv: {}}}", gamma.cv);
  }
  std::string operator()(const plan::BurstArrivals& burst) const {
    return "{burst: " + text(burst.on_off) + "}";
  }
  std::string operator()(const plan::MmppArrivals& mmpp) const {
    return "{mmpp: " + text(mmpp.on_off) + "}";
  }
  std::string operator()(const plan::TraceArrivals& trace) const {
    return trace.row.empty()
               ? fmt::format("{{trace: \"{}\"}}", trace.file)
               : fmt::format("{{trace: {{file: \"{}\", row: \"{}\"}}}}", trace.file, trace.row);
  }
};

std::string services_file(const std::vector<Terms>& services) {
  std::string text = "services:\n";
  for (const Terms& one : services) {
    text += fmt::format("  - name: {}\n    model: {}\n    rate_rps: {}\n    slo_ms: {}\n", one.name,
                        one.model, one.rate.value, one.slo.value);
    if (one.percentile != plan::kDefaultPercentile)
      text += fmt::format("    percentile: {}\n", one.percentile);
    if (one.min_replicas > 1) text += fmt::format("    min_replicas: {}\n", one.min_replicas);
    std::string apart;
    for (const std::string& other : one.avoid) apart += other + ", ";
    if (one.spread || !apart.empty())
      text += apart.empty()
                  ? "    anti_affinity: true\n"
                  : fmt::format("    anti_affinity: [{}{}]\n", apart, one.spread ? one.name : "");
    if (one.cache)
      text += fmt::format(
          "    cache: {{memory_mib: {}, shared: {}{}}}\n", one.cache->memory.value,
          one.cache->shared,
          one.cache->ttl.value > 0 ? fmt::format(", ttl_s: {}", one.cache->ttl.value) : "");
    if (one.traffic.headroom != 0) text += fmt::format("    headroom: {}\n", one.traffic.headroom);
    if (!plan::is_poisson(one.traffic.arrivals))
      text += "    arrivals: " + std::visit(Written{}, one.traffic.arrivals) + "\n";
    if (one.traffic.rates.empty()) continue;
    text += "    rates:\n";
    for (const plan::RateAt& entry : one.traffic.rates)
      text += fmt::format("      - [\"{:02}:{:02}\", {}]\n", entry.minute / 60, entry.minute % 60,
                          entry.rate.value);
  }
  return text;
}

// ---- the stops ----

// A plan with each instance on a GPU of its own, which keeps whatever is asked for.
plan::ServingPlan plan_for(const std::vector<plan::Service>& services, const plan::SloRule& rule) {
  plan::ServingPlan plan;
  plan.gpu_model = "A30-24GB";
  plan.rule = rule;
  for (const plan::Service& service : services) {
    plan::PlannedService& row = plan.services.emplace_back(plan::row_of(service, rule));
    row.planned = plan::planning_rate(service) * service.min_replicas;
    for (int r = 0; r < service.min_replicas; ++r) {
      plan::PlannedGpu& gpu = plan.gpus.emplace_back();
      gpu.index = static_cast<int>(plan.gpus.size()) - 1;
      gpu.model = plan.gpu_model;
      gpu.instances = {
          {"1g.6gb", gpu.index % 4, service.name, 1, 1, plan::planning_rate(service), Millis{0}}};
    }
  }
  plan.objective.gpus = plan.objective.gpcs = static_cast<int>(plan.gpus.size());
  return plan;
}

// What differs, in words; empty: every term is equal.
std::string difference_of(const std::vector<Terms>& are, std::vector<Terms> wanted,
                          plan::Dispatch dispatch = plan::Dispatch::pooled) {
  if (are.size() != wanted.size()) return "another number of services";
  std::string text;
  for (std::size_t s = 0; s < are.size(); ++s) {
    wanted[s].dispatch = dispatch;
    for (const plan::TermDifference& found : plan::differences(are[s], wanted[s]))
      text +=
          fmt::format("{} {}: {}, not {}; ", wanted[s].name, found.term, found.one, found.other);
    if (text.empty() && !(are[s] == wanted[s])) text = "a term that differences() does not know";
  }
  return text;
}

template <class Row>
std::vector<Terms> terms_of(const std::vector<Row>& rows) {
  return {rows.begin(), rows.end()};
}

// The value of a metric with these labels.
std::optional<double> metric(const std::string& text, const std::string& line) {
  const std::size_t found = text.find("\n" + line + " ");
  if (found == text.npos) return {};
  const std::size_t begin = found + line.size() + 2;
  return parse_number<double>(std::string_view(text).substr(begin, text.find('\n', begin) - begin));
}

// A gateway without workers.
class Gateway {
 public:
  Gateway() {
    char name[] = "/tmp/partita-terms-XXXXXX";
    directory_ = ::mkdtemp(name);
    core_ =
        *serve::Core::open(*loop_, {.link_path = directory_ + "/link"}, [](const std::string&) {});
  }
  ~Gateway() {
    core_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::string metrics(const std::vector<serve::ServedService>& services) {
    core_->serve(services);
    return core_->metrics();
  }

 private:
  std::string directory_;
  std::unique_ptr<serve::Loop> loop_ = *serve::Loop::make();
  std::unique_ptr<serve::Core> core_;
};

// What an agent shows of these services, as its API sends it.
class Agent {
 public:
  Agent() {
    std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
    for (const char* model : {"m0", "m1", "m2"})
      text += fmt::format("{},1,1,1,100,10,500\n", model);
    world_.node = "node";
    world_.settings.mode = control::Mode::observe;
    world_.catalogue = hw::builtin_catalogue();
    world_.profiles.push_back({**world_.catalogue.get("A30-24GB"),
                               *profile::parse_native_csv("profiles.csv", text),
                               {},
                               1});
  }
  // The state that the API sends, and its metrics.
  std::pair<control::Snapshot, std::string> show(const std::string& file) const {
    control::Loop loop(world_, {}, 0);
    control::Seen seen;
    seen.services_file = file;
    loop.step(1'767'571'200'000, seen);
    const auto sent = control::parse_snapshot("state", control::snapshot_json(loop.snapshot()));
    return {sent.value_or(control::Snapshot{}), api::agent_metrics(loop.snapshot(), {})};
  }

 private:
  control::World world_;
};

void expect_metrics(const std::string& text, const std::vector<Terms>& services) {
  for (const Terms& one : services) {
    const auto of = [&](const char* name) {
      return metric(text, fmt::format("{}{{service=\"{}\"}}", name, one.name));
    };
    EXPECT_EQ(of("partita_planned_rps"), one.rate.value);
    EXPECT_EQ(of("partita_slo_seconds"), one.slo.value / 1000);
    EXPECT_EQ(of("partita_slo_percentile"), one.percentile);
  }
}

// It follows no traces, which are files of their own: the whole file is refused.
void expect_agent(const Agent& agent, std::vector<Terms> services) {
  const auto traced = [](const Terms& one) {
    return std::holds_alternative<plan::TraceArrivals>(one.traffic.arrivals);
  };
  if (std::ranges::any_of(services, traced)) {
    EXPECT_TRUE(agent.show(services_file(services)).first.services.empty());
    for (Terms& one : services)
      if (traced(one)) one.traffic.arrivals = plan::PoissonArrivals{};
  }
  const auto [shown, metrics] = agent.show(services_file(services));
  EXPECT_EQ(difference_of(terms_of(shown.services), services), "");
  for (const Terms& one : services) {
    const auto of = [&](const char* name) {
      return metric(metrics, fmt::format("{}{{service=\"{}\"}}", name, one.name));
    };
    EXPECT_EQ(of("partita_service_wanted_rps"), one.rate.value);
    EXPECT_EQ(of("partita_service_slo_ms"), one.slo.value);
    EXPECT_EQ(of("partita_service_slo_percentile"), one.percentile);
  }
}

TEST(Terms, ArriveUnchangedAtEveryStop) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  World node({{&model, kGpus, true}}, 1);
  node.workers = false;
  Gateway gateway;
  const Agent agent;
  Draw draw(1);
  std::map<std::string, int> drawn;  // terms that are not what they are by default
  for (int file = 0; file < kFiles && !testing::Test::HasFailure(); ++file) {
    SCOPED_TRACE(fmt::format("file {}", file));
    const std::vector<Terms> wanted = draw.services();
    for (const Terms& one : wanted)
      for (const auto& term : plan::differences(one, Terms{})) ++drawn[term.term];
    const auto read = forms::parse_services("services.yaml", services_file(wanted));
    ASSERT_TRUE(read) << to_string(read.error()) << services_file(wanted);
    EXPECT_EQ(difference_of(*read, wanted), "");

    const plan::SloRule rule = file % 2 == 0 ? plan::SloRule{} : plan::kQueueing;
    const auto plan = forms::parse_plan("plan.json", forms::plan_json(plan_for(*read, rule)));
    ASSERT_TRUE(plan) << to_string(plan.error());
    EXPECT_EQ(difference_of(terms_of(plan->services), wanted, rule.dispatch), "");

    const auto judged = verify::judge_alone(hw::builtin_catalogue(), *plan);
    ASSERT_TRUE(judged) << plan::to_string(judged.error().violations.front());
    const auto applied =
        actuate::apply(node.doors(), actuate::wanted_of(*judged), {}, [](const auto&) {});
    ASSERT_TRUE(applied) << to_string(applied.error());
    const auto text = node.disk.read(actuate::assignment_path(node.doors().state_dir));
    ASSERT_TRUE(text);
    const auto assignment = actuate::parse_assignment("assignment.json", *text);
    ASSERT_TRUE(assignment) << to_string(assignment.error());
    EXPECT_EQ(difference_of(assignment->services, wanted, rule.dispatch), "");

    const std::vector<serve::ServedService> served = serve::served_by(*assignment);
    EXPECT_EQ(difference_of(terms_of(served), wanted, rule.dispatch), "");
    expect_metrics(gateway.metrics(served), wanted);
    expect_agent(agent, wanted);
  }
  for (const char* term : {"model", "rate_rps", "slo_ms", "percentile", "min_replicas", "spread",
                           "avoid", "headroom", "arrivals", "rates", "cache"})
    EXPECT_GT(drawn[term], kFiles / 10) << term;
}

// The journal keeps them for a rollback: what is gone back to promises what it promised.
TEST(Terms, AreBackAfterARollback) {
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A30-24GB");
  World node({{&model, kGpus, true}}, 1);
  node.workers = false;
  Draw draw(2);
  std::vector<Terms> before = draw.services();
  int checked = 0;
  for (int change = 0; change < 50; ++change) {
    const std::vector<Terms> wanted = draw.services();
    bool changed = false;  // a node that is as wanted has nothing to go back to
    for (const std::vector<Terms>& services : {before, wanted}) {
      const auto judged = verify::judge_alone(hw::builtin_catalogue(), plan_for(services, {}));
      ASSERT_TRUE(judged);
      const auto applied =
          actuate::apply(node.doors(), actuate::wanted_of(*judged), {}, [](const auto&) {});
      ASSERT_TRUE(applied) << to_string(applied.error());
      changed = !applied->change.empty();
    }
    checked += changed ? 1 : 0;
    const auto back = actuate::rollback_target(node.doors());
    ASSERT_TRUE(back) << to_string(back.error());
    if (changed) {
      ASSERT_EQ(difference_of(back->services, before), "") << change;
    }
    before = wanted;
  }
  EXPECT_GT(checked, 20);
}

}  // namespace
}  // namespace partita::actuation_tests
