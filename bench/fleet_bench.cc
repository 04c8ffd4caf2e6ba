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

}  // namespace
}  // namespace partita::fleet
