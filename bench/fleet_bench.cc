// A fleet of 2,000 nodes of 8 A100-80GB with 5,000 services (docs/results/fleet.md): the first
// plan, a change of one service, a lost node, and how much of it lies in the store. Times are CPU.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "base/document.h"
#include "base/json_writer.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/testing/fleet_fixture.h"
#include "hw/catalogue.h"
#include "profile/law.h"

namespace partita::fleet {
namespace {

FleetGround ground() {
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
  const auto laws =
      profile::parse_laws("a100-80gb.json", source_text("data/profiles/a100-80gb.json"));
  FleetGround made;
  made.profiles.push_back({gpu, *profile::table_from_laws(*laws, gpu), {}, 1});
  return made;
}

// Rates between a slice and some GPUs.
std::string services(const FleetGround& ground, int count, double scale) {
  std::vector<std::string> models;
  for (const auto& [name, table] : ground.profiles[0].profiles) models.push_back(name);
  Rng rng(7);
  std::string text = "services:\n";
  for (int s = 0; s < count; ++s) {
    const std::string& model = models[rng.below(models.size())];
    const double slo = 100 + 50.0 * static_cast<double>(rng.below(5));
    double best = 0;
    for (const auto& point : ground.profiles[0].profiles.at(model).points)
      if (point.latency.value < slo / 2) best = std::max(best, point.throughput.value / point.gpcs);
    const double slices = std::exp(std::log(0.5) + rng.uniform() * std::log(60.0)) * scale;
    text += fmt::format("  - {{name: s{}, model: {}, rate_rps: {:.3f}, slo_ms: {}}}\n", s, model,
                        std::max(1.0, best * slices), slo);
  }
  return JsonWriter()
      .value(parse_document("services", text)->root)
      .take();  // as `fleet apply` does
}

struct Fleet {
  FleetView view;
  Leader leader{ground()};
  Fleet(int nodes, int count, Survive survive) {
    for (int n = 0; n < nodes; ++n) {
      NodeRecord node;
      node.node = fmt::format("node{:04}", n);
      node.rack = fmt::format("rack{}", n / 16);
      for (int g = 0; g < 8; ++g)
        node.gpus.push_back({g, fmt::format("GPU-{:04}-{}", n, g), "A100-80GB"});
      view.nodes[node.node] = node;
    }
    view.wanted.emplace();
    view.wanted->survive = survive;
    view.wanted->services = services(ground(), count, survive == Survive::none ? 1 : 0.5);
  }
  Decision decide() {
    Decision made = *leader.decide(view, "node0000");
    for (const Part& part : made.parts) view.parts[part.node] = part;
    return made;
  }
  void carry_out(const Decision& made) {
    for (const Part& part : made.parts) {
      NodeRecord& node = view.nodes.at(part.node);
      node.taken = node.ready = part.revision;
      node.carries = carried_of(rates_of(part));
      node.runs = part.plan.gpus;
    }
  }
};

double used_gpus(const Fleet& fleet) {
  double gpus = 0;
  for (const auto& [name, part] : fleet.view.parts) gpus += part.plan.objective.gpus;
  return gpus;
}

void first_plan(benchmark::State& state) {
  const auto survive = static_cast<Survive>(state.range(2));
  for (auto _ : state) {
    Fleet fleet(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), survive);
    const Decision made = fleet.decide();
    fleet.carry_out(made);
    double missing = 0, bytes = 0;
    for (const auto& one : made.services) {
      missing += !one.why.empty();
      if (!one.why.empty())
        fmt::print(stderr, "{}: {:.4g} of {:.4g}: {}\n", one.name, one.planned_rps, one.need_rps,
                   one.why);
    }
    for (const auto& [name, node] : fleet.view.nodes) bytes += double(write(node).size());
    for (const auto& [name, part] : fleet.view.parts) bytes += double(write(part).size());
    bytes += double(write(*fleet.view.wanted).size());
    state.counters["parts"] = double(made.parts.size());
    state.counters["services_missing"] = missing;
    state.counters["gpus"] = used_gpus(fleet);
    state.counters["plans"] = double(fleet.leader.plans_made());
    state.counters["store_mib"] = bytes / (1 << 20);
  }
}
BENCHMARK(first_plan)
    ->Args({200, 500, 0})
    ->Args({2000, 5000, 0})
    ->Args({2000, 5000, 1})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// One service's rate rises by a half, and falls again.
void change_of_one(benchmark::State& state) {
  Fleet fleet(2000, 5000, Survive::none);
  fleet.carry_out(fleet.decide());
  fleet.carry_out(fleet.decide());
  const std::string before = fleet.view.wanted->services;
  std::string after = before;
  const std::size_t at = after.find("\"rate_rps\":", after.find("\"name\":\"s77\"")) + 11;
  const double rate = std::stod(after.substr(at));
  after.replace(at, after.find(',', at) - at, fmt::format("{:.3f}", rate * 1.5));
  double parts = 0;
  for (auto _ : state) {
    fleet.view.wanted->services = fleet.view.wanted->services == before ? after : before;
    const Decision made = fleet.decide();
    parts += double(made.parts.size());
    fleet.carry_out(made);
  }
  state.counters["parts"] = benchmark::Counter(parts, benchmark::Counter::kAvgIterations);
}
BENCHMARK(change_of_one)->Unit(benchmark::kMillisecond)->Iterations(6);

void lost_node(benchmark::State& state) {
  Fleet fleet(2000, 5000, Survive::none);
  fleet.carry_out(fleet.decide());
  double parts = 0;
  int node = 0;
  for (auto _ : state) {
    fleet.view.nodes.erase(fmt::format("node{:04}", node++));
    const Decision made = fleet.decide();
    parts += double(made.parts.size());
    fleet.carry_out(made);
  }
  state.counters["parts"] = benchmark::Counter(parts, benchmark::Counter::kAvgIterations);
}
BENCHMARK(lost_node)->Unit(benchmark::kMillisecond)->Iterations(4);

// ---- moves where budgets of power are nearly used up

constexpr double kIdleW = 60, kSliceW = 45;  // of a GPU that is used, of a busy slice
constexpr double kOtherW = 1000;             // of a node beside its GPUs
constexpr double kSliceRps = 130;            // of the invented models
constexpr int kNodes = 12;

// What the GPUs of each node would draw without limits: requests go where they are carried.
std::map<std::string, double> demands(const TestFleet& fleet, const Rates& traffic) {
  std::map<std::string, double> watts;
  for (const auto& [name, node] : fleet.view.nodes) {
    double& all = watts[name];
    for (const plan::PlannedGpu& gpu : node.runs) all += gpu.instances.empty() ? 0 : kIdleW;
    for (const Carried& one : node.carries) {
      const double share = one.rate_rps / fleet.carried(one.service);
      all += traffic.at(one.service) * share / kSliceRps * kSliceW;
    }
  }
  return watts;
}

// Every node that carries something draws so much of what its GPUs may when one is drained; so many
// services take so much of the fleet's slices.
void moves_near_budget(benchmark::State& state) {
  const double used = static_cast<double>(state.range(0)) / 100;
  TestFleet fleet(kNodes);
  Rng rng(36);
  Rates traffic;
  for (int s = 0; s < state.range(1); ++s)
    traffic[fmt::format("s{:02}", s)] = kSliceRps * (2 + 8 * rng.uniform());
  fleet.want(traffic);
  fleet.settle();
  double looks = 0, above = 0, last = 0, highest = 0, at_end = 0, got_more = 0, parts = 0,
         short_of = 0;
  const auto look = [&] {
    fleet.view.draws = demands(fleet, traffic);
    last = 0;
    for (const NodeBudget& one : fleet.view.budgets->nodes) {
      double& draw = fleet.view.draws.at(one.node);
      const double part = draw / (one.watts - kOtherW);
      draw = std::min(draw, one.watts - kOtherW);  // its boards are limited
      ++looks, above += part > 1 + 1e-9, last = std::max(last, part);
    }
    highest = std::max(highest, last);
    for (const auto& [service, rate] : traffic)
      short_of += fleet.carried(service) < rate * (1 - 1e-6);
  };
  for (auto _ : state)
    for (int n = 0; n < kNodes; ++n) {
      const auto before = demands(fleet, traffic);
      fleet.view.power = FleetPower{.tree = {{"A", {}, 1e6, {}}}};
      fleet.view.budgets = FleetBudgets{.revision = 1};
      for (const auto& [name, draw] : before) {
        if (draw <= 0) continue;
        const double watts = kOtherW + draw / used;
        fleet.view.power->nodes.push_back({name, {"A"}, kOtherW, kOtherW, 1e4});
        fleet.view.budgets->nodes.push_back({name, watts, watts, watts, watts, 0, "A"});
      }
      look();
      fleet.view.wanted->drained = {fmt::format("n{}", n)};
      parts += fleet.settle(look);
      at_end = std::max(at_end, last);
      const auto after = demands(fleet, traffic);
      for (const NodeBudget& one : fleet.view.budgets->nodes)
        got_more += after.at(one.node) > before.at(one.node) + 1;
      fleet.view.wanted->drained.clear();
      fleet.view.budgets.reset();
      parts += fleet.settle();
    }
  double slices = 0;
  for (const auto& [service, rate] : traffic) slices += rate / kSliceRps;
  state.counters["slices_percent"] = 100 * slices / (14 * kNodes);
  state.counters["parts"] = parts;
  state.counters["above_percent"] = 100 * above / looks;
  state.counters["highest_percent"] = 100 * highest;
  state.counters["at_end_percent"] = 100 * at_end;
  state.counters["got_more"] = got_more;
  state.counters["short"] = short_of;
}
BENCHMARK(moves_near_budget)
    ->ArgsProduct({{80, 90, 95, 99}, {12, 20, 24}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace partita::fleet
