#include "plan/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json_writer.h"

namespace partita::plan {
namespace {

// Runs of kernels on the same units.
void write_groups(JsonWriter& out, const KernelTimes& times, const Grouping& grouping) {
  struct Group {
    std::size_t first = 0, count = 0;
    int units = 0;
  };
  std::vector<Group> groups;
  for (std::size_t k = 0; k < grouping.option.size(); ++k) {
    const int units = times.units[grouping.option[k]];
    if (k == 0 || groups.back().units != units) groups.push_back({k, 0, units});
    ++groups.back().count;
  }
  out.list(groups, "      ", [&](const Group& group) {
    out.raw("{\"first\": ").number(static_cast<long>(group.first));
    out.raw(", \"kernels\": ").number(static_cast<long>(group.count));
    out.raw(", \"units\": ").number(long{group.units}).raw("}");
  });
}

void write_lanes(JsonWriter& out, const hw::Topology& topology, const Lanes& lanes,
                 std::size_t worker) {
  std::vector<Lane> own;
  std::ranges::copy_if(lanes.all, std::back_inserter(own),
                       [&](const Lane& lane) { return lane.worker == worker; });
  out.list(own, "      ", [&](const Lane& lane) {
    out.raw("{\"units\": ").number(long{lane.units}).raw(", \"kernels\": ");
    out.number(long{lane.kernels}).raw(", \"units_per_cluster\": ");
    const std::vector<int> counts = hw::units_per_cluster(topology, lane.mask);
    out.raw(fmt::format("[{}]", fmt::join(counts, ", ")));
    out.raw(fmt::format(", \"units_per_die\": [{}]",
                        fmt::join(hw::units_per_die(topology, lane.mask), ", ")));
    out.raw(", \"mask_hex\": ").string(hw::mask_hex(lane.mask)).raw("}");
  });
}

}  // namespace

const char* to_string(Overlap overlap) { return overlap == Overlap::others ? "others" : "literal"; }

double predicted_time(const KernelProblem& problem, const KernelPlan& plan, std::size_t worker) {
  double units = 0;
  for (std::size_t w = 0; w < plan.workers.size(); ++w)
    if (w != worker || problem.overlap == Overlap::literal) units += plan.workers[w].mean_units;
  return plan.workers[worker].time * (1 + units / problem.total_units);
}

const Lane* Lanes::find(std::size_t worker, int units) const {
  for (const Lane& lane : all)
    if (lane.worker == worker && lane.units == units) return &lane;
  return nullptr;
}

std::string kernel_plan_json(const KernelProblem& problem, const PlannedKernels& planned,
                             const hw::Topology& topology) {
  const auto& [plan, lanes, digest] = planned;
  JsonWriter out;
  out.raw("{\"api_version\": \"partita/v1\", \"kind\": \"KernelPlan\",\n  \"gpu\": ")
      .string(topology.name);
  out.raw(", \"total_units\": ").number(long{problem.total_units});
  out.raw(", \"atom\": ").number(long{lanes.atom});
  out.raw(", \"max_switches\": ").number(long{problem.switches});
  out.raw(", \"overlap\": ").string(to_string(problem.overlap));
  if (!digest.empty()) out.raw(",\n  \"problem_digest\": ").string(digest);
  out.raw(",\n  \"objective\": ").number(plan.objective);
  out.raw(", \"bound\": ").number(plan.bound);
  out.raw(", \"optimal\": ").boolean(plan.optimal).raw(",\n  \"workers\": [");
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const Grouping& one = plan.workers[w];
    const KernelTimes& times = problem.workers[w].times;
    out.raw(w == 0 ? "\n    " : ",\n    ").raw("{\"name\": ").string(problem.workers[w].name);
    out.raw(", \"switches\": ").number(long{one.switches});
    out.raw(", \"mean_units\": ").number(one.mean_units);
    out.raw(", \"alone_us\": ").number(one.time);
    out.raw(", \"predicted_us\": ").number(predicted_time(problem, plan, w));
    out.raw(",\n     \"groups\": ");
    write_groups(out, times, one);
    out.raw(",\n     \"lanes\": ");
    write_lanes(out, topology, lanes, w);
    out.raw(",\n     \"units\": [");
    for (std::size_t k = 0; k < one.option.size(); ++k)
      out.raw(k == 0 ? "" : ",").number(long{times.units[one.option[k]]});
    out.raw("]}");
  }
  out.raw("]}\n");
  return out.take();
}

}  // namespace partita::plan
