// Thermal management: epochs per second of every governor on the example of 66 blocks, with and
// without tenants; making the reduced model once.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "heat/network.h"
#include "heat/rom.h"
#include "heat/dtm/dtm_example.h"

namespace {

namespace dtm = partita::dtm;
namespace thermal = partita::thermal;
using partita::Seconds;

const thermal::ReducedModel& example_model() {
  static const thermal::ReducedModel model = [] {
    const auto network = thermal::make_network(
        thermal::one_die(dtm::example_package(), dtm::example_plan()), {64, 64, false});
    CHECK(network);
    thermal::ReduceOptions options;
    options.rates = {0.3, 10, 300};
    auto made = thermal::reduce(*network, Seconds{1e-3}, options);
    CHECK(made);
    return *std::move(made);
  }();
  return model;
}

void governed(benchmark::State& state) {
  const thermal::ReducedModel& model = example_model();
  const thermal::Floorplan plan = dtm::example_plan();
  dtm::DtmCase dtm;
  dtm.idle_watts = dtm::example_idle(plan);
  if (state.range(1) > 0) {
    dtm.tenants = {{"a", {}}, {"b", {}}};
    for (int block = 0; block < 60; ++block)
      dtm.tenants[block < 30 ? 0 : 1].blocks.push_back(block);
  }
  const dtm::HotWork work = dtm::example_workloads(plan).front();
  const double most = dtm::run_dtm(model, dtm, work, 1e9, dtm::Governing::none).max_k;
  const double cap = dtm::cap_of_own_maximum(most, 20);
  long epochs = 0;
  for (auto _ : state)
    epochs +=
        dtm::run_dtm(model, dtm, work, cap, static_cast<dtm::Governing>(state.range(0))).epochs;
  state.counters["epochs_per_s"] =
      benchmark::Counter(static_cast<double>(epochs), benchmark::Counter::kIsRate);
  state.counters["states"] = model.states();
}
BENCHMARK(governed)
    ->ArgNames({"governor", "tenants"})
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({3, 0})
    ->Args({1, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
