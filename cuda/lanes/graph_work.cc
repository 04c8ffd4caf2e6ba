#include "lanes/graph_work.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace partita::carry {
namespace {

using plan::GraphTask;
using plan::GraphTaskKind;

void compute(std::int64_t rounds) {
  std::uint64_t value = 1;
  for (std::int64_t i = 0; i < rounds; ++i)
    value = value * 6364136223846793005u + 1442695040888963407u;
  asm volatile("" : : "r"(value));  // the compiler must believe that somebody reads it
}

// Rounds that a core alone computes in a microsecond: the most of several tries.
double rounds_per_us(Clock& clock) {
  constexpr std::int64_t kRounds = 400'000;
  constexpr int kTries = 5;
  double most = 1;
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t begin = clock.now_ns();
    compute(kRounds);
    const auto us = static_cast<double>(clock.now_ns() - begin) / 1000;
    if (us > 0) most = std::max(most, static_cast<double>(kRounds) / us);
  }
  return most;
}

std::function<void()> copying(double bytes) {
  const auto count = static_cast<std::size_t>(bytes);
  const auto from = std::make_shared<std::vector<char>>(count, 'x');
  const auto to = std::make_shared<std::vector<char>>(count);
  return [from, to] { std::memcpy(to->data(), from->data(), from->size()); };
}

exec::Work work_of(const GraphTask& task, int units, double rounds_per_us) {
  const auto rounds = static_cast<std::int64_t>(task.work_us * rounds_per_us);
  const bool runs = rounds_per_us > 0;
  if (task.kind == GraphTaskKind::lane) {
    exec::LaneWork kernel{plan::wanted_units(task, units), task.groups, {}};
    if (runs) kernel.run = [rounds](std::int64_t) { compute(rounds); };
    return kernel;
  }
  if (!runs) return exec::CpuWork{};
  if (task.kind == GraphTaskKind::copy) return exec::CpuWork{copying(task.bytes)};
  return exec::CpuWork{[rounds] { compute(rounds); }};
}

}  // namespace

exec::TaskGraph graph_of(const plan::GraphProblem& problem, const hw::Topology& topology,
                         Clock* clock, const CodeOf& code) {
  const double speed = clock != nullptr ? rounds_per_us(*clock) : 0;
  exec::TaskGraph graph;
  for (const GraphTask& task : problem.tasks) {
    exec::Work work = work_of(task, topology.units(), speed);
    if (task.code && code)
      code(static_cast<int>(graph.tasks().size()), std::get<exec::LaneWork>(work));
    graph.add(task.name, std::move(work));
  }
  for (std::size_t task = 0; task < problem.tasks.size(); ++task)
    for (const int before : problem.tasks[task].after) graph.depend(static_cast<int>(task), before);
  return graph;
}

plan::GraphRun told(const exec::GraphRun& run, std::string driver, const hw::Topology& topology,
                    int threads) {
  plan::GraphRun out;
  out.driver = std::move(driver);
  out.topology = topology;
  out.threads = threads;
  out.waits = {run.dependencies.skipped, run.dependencies.on_device, run.dependencies.on_host};
  out.lanes = run.lanes;
  for (const exec::GraphTaskRun& task : run.tasks)
    out.tasks.push_back({task.begin_ns, task.end_ns, task.mask, task.lane, task.thread});
  return out;
}

}  // namespace partita::carry
