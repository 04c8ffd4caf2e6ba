// Is every plan found that there is? Random single services, planned and judged as `partita plan`
// does it.
//   found_bench found DRAW FIRST LAST     counts plans, refusals and internal errors; a refused
//     service is tried by brute force: equal instances of every measured point on twice the GPUs
//     that any plan needs at least, before the judge. Exit code 1 when one of them passes.
//   found_bench monotone DRAW FIRST LAST  pairs of a service and the same with a longer SLO, a
//     lower rate or percentile; exit code 1 when the latter needs more GPUs.
//   found_bench gpus DRAW FIRST LAST      the GPUs of each, to compare two builds.
// DRAW: anywhere, fast, tight (decide/random_services.h).
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>

#include "decide/serving.h"
#include "decide/testing/random_services.h"
#include "verify/driven_queue.h"

namespace partita {
namespace {

struct Found {
  std::optional<plan::ServingPlan> plan;
  bool internal = false;
  std::string why;
};

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Found planned(const plan::ServingProblem& problem) {
  const auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
  if (!made) return {{}, true, made.error().message};
  if (!made->plan) return {{}, false, plan::to_string(made->refusals.front())};
  return {**made->plan, false, {}};
}

std::string text_of(const plan::Service& service) {
  return fmt::format("{} {:g}/s {:g} ms {:g} %", service.model, service.rate.value,
                     service.slo.value, service.percentile);
}

// Equal instances on as many GPUs as the fluid rate needs, to twice those and one more, that the
// judge's own queue passes.
std::optional<std::string> by_force(const plan::ServingProblem& problem) {
  const plan::Service& service = problem.services[0];
  const auto& profile = problem.fleet[0].profiles.at(service.model);
  verify::UnitArrivals units;
  double best = 0;  // requests/s of a GPU
  const auto per_gpu = [](int gpcs) { return gpcs == 3 ? 2 : 7 / gpcs; };
  for (const profile::ProfilePoint& point : profile.points)
    if (profile::batch_time(point) <= service.slo && point.processes <= problem.max_processes)
      best = std::max(best, point.throughput.value * per_gpu(point.gpcs));
  if (best == 0) return std::nullopt;
  const int gpus = 2 * static_cast<int>(std::ceil(service.rate.value / best));
  for (const profile::ProfilePoint& point : profile.points) {
    if (profile::batch_time(point) > service.slo || point.processes > problem.max_processes)
      continue;
    const int most = gpus * per_gpu(point.gpcs);
    const int least = static_cast<int>(service.rate.value / point.throughput.value) + 1;
    for (int instances = most; instances >= least; instances -= std::max(1, (most - least) / 3)) {
      const plan::PoolMember member{
          profile::batch_curve(profile, point.gpcs, point.processes, point.batch), point.processes};
      std::vector<plan::PoolMember> members(static_cast<std::size_t>(instances), member);
      const verify::DrivenVerdict verdict = verify::drive(
          {plan::pooled_policy(std::move(members),
                               static_cast<plan::Nanos>(std::llround(service.slo.value * 1e6))),
           service.rate, service.slo, service.percentile},
          units);
      if (verdict.stable && verdict.holds)
        return fmt::format("{} x {}g b{} x{}", instances, point.gpcs, point.batch, point.processes);
    }
  }
  return std::nullopt;
}

int found(Draw draw, int first, int last) {
  int plans = 0, refused = 0, wrongly = 0, internal = 0, gpus = 0;
  double slowest = 0;
  const double start = cpu_ms();
  double forced = 0;
  for (int number = first; number < last; ++number) {
    const plan::ServingProblem problem = random_service(draw, number);
    const double before = cpu_ms();
    const Found answer = planned(problem);
    slowest = std::max(slowest, cpu_ms() - before);
    plans += answer.plan ? 1 : 0;
    gpus += answer.plan ? answer.plan->objective.gpus : 0;
    if (answer.plan) continue;
    ++(answer.internal ? internal : refused);
    const double now = cpu_ms();
    const auto force = by_force(problem);
    forced += cpu_ms() - now;
    if (answer.internal || force)
      fmt::print("{}: {}: {}; by force: {}\n", number, text_of(problem.services[0]), answer.why,
                 force.value_or("nothing"));
    wrongly += force ? 1 : 0;
    std::fflush(stdout);
  }
  fmt::print(
      "{} plans of {} GPUs, {} refused, {} of them though there is a plan, {} internal errors; "
      "{:.1f} ms of CPU time each, {:.0f} ms at most\n",
      plans, gpus, refused, wrongly, internal, (cpu_ms() - start - forced) / (last - first),
      slowest);
  return wrongly + internal > 0 ? 1 : 0;
}

int monotone(Draw draw, int first, int last) {
  int pairs = 0, more = 0;
  for (int number = first; number < last; ++number) {
    const plan::ServingProblem problem = random_service(draw, number);
    const plan::ServingProblem less = looser(problem, number);
    const Found tight = planned(problem);
    if (!tight.plan) continue;
    const Found loose = planned(less);
    ++pairs;
    if (loose.plan && loose.plan->objective.gpus <= tight.plan->objective.gpus) continue;
    ++more;
    fmt::print("{}: {} has {} GPUs, {} {}\n", number, text_of(problem.services[0]),
               tight.plan->objective.gpus, text_of(less.services[0]),
               loose.plan ? std::to_string(loose.plan->objective.gpus) : loose.why);
    std::fflush(stdout);
  }
  fmt::print("{} pairs, {} need more for less\n", pairs, more);
  return more > 0 ? 1 : 0;
}

int gpus(Draw draw, int first, int last) {
  for (int number = first; number < last; ++number) {
    const Found answer = planned(random_service(draw, number));
    fmt::print("{} {}\n", number, answer.plan ? answer.plan->objective.gpus : 0);
  }
  return 0;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "found";
  const auto draw = partita::draw_of(argc > 2 ? argv[2] : "anywhere");
  const int first = argc > 3 ? std::stoi(argv[3]) : 0;
  const int last = argc > 4 ? std::stoi(argv[4]) : 1000;
  if (draw && what == "found") return partita::found(*draw, first, last);
  if (draw && what == "monotone") return partita::monotone(*draw, first, last);
  if (draw && what == "gpus") return partita::gpus(*draw, first, last);
  fmt::print("found_bench found|monotone|gpus anywhere|fast|tight FIRST LAST\n");
  return 2;
}
