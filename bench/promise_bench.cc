// Is the promise kept? Random services on the published A100 profiles (decide/random_services.h),
// each planned and judged as `partita plan` does it and simulated for long behind the server that
// it is planned for, at all that the plan says it carries.
// Arguments: dispatch (pooled), first and last service, requests of one run (1,000,000), draw
// (anywhere, fast, tight), arrivals (poisson, cv2, cv4, burst, mmpp). One run is made, and ten of
// twice the length when it comes near what the percentile allows. A violation is lasting when the
// late share of those ten, less two standard errors between them, exceeds it. Prints a line for
// each; exit code 1 if there is one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "decide/serving.h"
#include "decide/testing/random_services.h"
#include "hw/catalogue.h"
#include "sim/serving.h"
#include "verify/serving.h"

namespace partita {
namespace {

constexpr int kRuns = 1;
constexpr int kMoreRuns = 10;
constexpr double kNear = 0.75;  // of the allowance
constexpr double kErrors = 2;   // standard errors

plan::Arrivals arrivals_of(const std::string& name) {
  if (name == "cv2") return plan::GammaArrivals{2};
  if (name == "cv4") return plan::GammaArrivals{4};
  if (name == "burst") return plan::BurstArrivals{{3, 5, 60}};
  if (name == "mmpp") return plan::MmppArrivals{{3, 5, 60}};
  return plan::PoissonArrivals{};
}

plan::ServingProblem problem_of(int number, Draw draw, plan::Dispatch dispatch,
                                const std::string& arrivals) {
  plan::ServingProblem problem = random_service(draw, number);
  problem.rule = plan::rule_for(dispatch);
  problem.services[0].traffic.arrivals = arrivals_of(arrivals);
  return problem;
}

struct Shape {
  std::string text;
  int processes = 0;
  double longest = 0;  // ms
  double full = 0;     // requests/s of full batches on all processes
};

Shape shape_of(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  Shape shape;
  std::map<std::string, int> counts;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    for (const plan::PlannedInstance& one : gpu.instances) {
      const hw::GpuModel& model = problem.fleet[0].gpu;
      const int gpcs =
          model.profiles[static_cast<std::size_t>(model.profile_index(one.profile))].gpcs;
      const profile::BatchCurve curve = profile::batch_curve(
          problem.fleet[0].profiles.at(problem.services[0].model), gpcs, one.processes, one.batch);
      ++counts[fmt::format("{}g/{}/{}", gpcs, one.batch, one.processes)];
      shape.processes += one.processes;
      shape.longest = std::max(shape.longest, curve.steps.back().latency.value);
      shape.full += 1e3 * one.batch * one.processes / curve.steps.back().latency.value;
    }
  }
  for (const auto& [name, count] : counts)
    shape.text += fmt::format("{}{}x{}", shape.text.empty() ? "" : " + ", count, name);
  return shape;
}

// Late shares of independent runs.
struct Late {
  std::vector<double> runs;
  double worst() const { return *std::max_element(runs.begin(), runs.end()); }
  double mean() const {
    double sum = 0;
    for (const double run : runs) sum += run;
    return sum / static_cast<double>(runs.size());
  }
  double error() const {
    double squares = 0;
    for (const double run : runs) squares += (run - mean()) * (run - mean());
    const auto n = static_cast<double>(runs.size());
    return std::sqrt(squares / (n - 1) / n);
  }
};

Late play(const plan::ServingProblem& problem, const plan::ServingPlan& plan, double requests,
          int runs, std::uint64_t seed) {
  Late late;
  sim::ServingOptions options;
  options.duration = Seconds{requests / problem.services[0].rate.value};
  options.warmup = options.duration * 0.01;
  for (int run = 0; run < runs; ++run) {
    options.seed = seed + static_cast<std::uint64_t>(run);
    const auto report = sim::simulate(problem, plan, options);
    CHECK(report.has_value());
    late.runs.push_back(1 - report->services[0].slo_attainment);
  }
  return late;
}

struct Tally {
  int planned = 0, refused = 0, near = 0, lasting = 0, over = 0;
  int far = 0;            // off by more than half a point
  int judge_passed = 0;   // lasting violations that the judge does not see
  int judge_refused = 0;  // plans that it refuses although they hold
  double planning_ms = 0;
};

// What the judge says of the plan at that load.
bool judged_in_time(const plan::ServingProblem& problem, plan::ServingPlan plan) {
  plan.services[0].rate = problem.services[0].rate;
  plan.problem_digest.clear();
  for (const plan::Reason& reason : verify::verify(problem, plan))
    if (reason.constraint == "slo" || reason.constraint == "overload") return false;
  return true;
}

void tell(const std::string& what, int number, const plan::ServingProblem& problem,
          const plan::ServingPlan& plan, const Late& late) {
  const plan::Service& service = problem.services[0];
  const Shape shape = shape_of(problem, plan);
  fmt::print(
      "{} {}: {} {:g} planned {:.1f} slo {:g} p{:g}: {}; {} processes, rho {:.3f}, "
      "slo/longest {:.2f}; late {:.5f} +- {:.5f} of {:.5f}, worst run {:.5f}\n",
      what, number, service.model, plan.services[0].rate.value, plan.services[0].planned.value,
      service.slo.value, service.percentile, shape.text, shape.processes,
      service.rate.value / shape.full, service.slo.value / shape.longest, late.mean(), late.error(),
      1 - service.percentile / 100, late.worst());
  std::fflush(stdout);
}

void test(int number, plan::ServingProblem problem, double requests, Tally& tally) {
  decide::PlanOptions options;
  options.watch.cpu_ms = [] { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, options);
  if (!made || !made->plan) {
    ++tally.refused;
    return;
  }
  ++tally.planned;
  const plan::ServingPlan& plan = **made->plan;
  tally.planning_ms += plan.stats.planning_ms + plan.stats.capacity_ms;
  problem.services[0].rate = plan.services[0].planned;
  const double allowed = 1 - problem.services[0].percentile / 100;
  Late late = play(problem, plan, requests, kRuns, 1);
  const bool passed = judged_in_time(problem, plan);
  if (late.worst() <= kNear * allowed) {
    if (passed) return;
    ++tally.judge_refused;
    tell("JUDGE REFUSES", number, problem, plan, late);
    return;
  }
  ++tally.near;
  late = play(problem, plan, 2 * requests, kMoreRuns, 101);
  const bool lasting = late.mean() - kErrors * late.error() > allowed;
  tally.lasting += lasting ? 1 : 0;
  tally.over += !lasting && late.mean() > allowed ? 1 : 0;
  tally.far += late.mean() > allowed + 0.005 ? 1 : 0;
  tally.judge_passed += lasting && passed ? 1 : 0;
  tally.judge_refused += late.mean() <= allowed && !passed ? 1 : 0;
  if (lasting || late.mean() > allowed)
    tell(lasting ? "LASTING" : "unclear", number, problem, plan, late);
  else if (!passed)
    tell("JUDGE REFUSES", number, problem, plan, late);
}

int run(plan::Dispatch dispatch, int first, int last, double requests, Draw draw,
        const std::string& arrivals) {
  Tally tally;
  for (int number = first; number < last; ++number)
    test(number, problem_of(number, draw, dispatch, arrivals), requests, tally);
  fmt::print(
      "{}, {}: {} services planned, {} refused; {} near what is allowed, {} lasting violations, {} "
      "unclear, {} off by more than half a point; of the lasting ones the judge passes {}, of "
      "those that hold it refuses {}; {:.1f} ms of planning each\n",
      to_string(dispatch), arrivals, tally.planned, tally.refused, tally.near, tally.lasting,
      tally.over, tally.far, tally.judge_passed, tally.judge_refused,
      tally.planning_ms / std::max(1, tally.planned));
  return tally.lasting > 0 ? 1 : 0;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const auto dispatch = partita::plan::parse_dispatch(argc > 1 ? argv[1] : "pooled");
  if (!dispatch) {
    fmt::print("{}\n", dispatch.error().message);
    return 2;
  }
  const int first = argc > 2 ? std::stoi(argv[2]) : 0;
  const int last = argc > 3 ? std::stoi(argv[3]) : 1000;
  const double requests = argc > 4 ? std::stod(argv[4]) : 1e6;
  const auto draw = partita::draw_of(argc > 5 ? argv[5] : "anywhere");
  if (!draw) {
    fmt::print("draws: anywhere, fast, tight\n");
    return 2;
  }
  return partita::run(*dispatch, first, last, requests, *draw, argc > 6 ? argv[6] : "poisson");
}
