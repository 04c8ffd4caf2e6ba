// Tables 4, 5 and 6 of FAR (Villarrubia et al., JPDC 204, 2025: one batch at a time) beside ours,
// and what Partita aims at: the distance from proven optima, the gain over FAR, CPU times.
// Synthetic batches on an A100 unless said; CPU times in ms per schedule. Every schedule is
// judged; a violation ends in exit 1. Tables 7 to 9: batch_stream_bench.
//   batch_bench [WHAT [SEEDS [N...]]]   WHAT: one of kMeasurements below; none or "all": each with
//   few seeds, some 15 s. N: numbers of tasks instead of the usual ones.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/source_text.h"
#include "hw/catalogue.h"
#include "forms/batch_forms.h"
#include "planners/batch/far.h"
#include "planners/batch/miso.h"
#include "planners/batch/physical.h"
#include "planners/batch/scheduler.h"
#include "sim/batch_generator.h"
#include "verify/batch.h"

namespace partita {
namespace {

using plan::BatchProblem;
using plan::BatchSchedule;
using plan::Nanos;
using planners::batch::MisoReading;
using sim::Scaling;
using sim::TimeRange;

struct Configuration {
  const char* name;
  Scaling scaling;
  TimeRange range;
};
constexpr Configuration kPoorWide = {"Poor Wide", Scaling::poor, TimeRange::wide};
constexpr Configuration kMixedWide = {"Mixed Wide", Scaling::mixed, TimeRange::wide};
constexpr Configuration kGoodWide = {"Good Wide", Scaling::good, TimeRange::wide};
constexpr Configuration kWide[] = {kPoorWide, kMixedWide, kGoodWide};
constexpr Configuration kAll[] = {
    {"Poor Narrow", Scaling::poor, TimeRange::narrow},   kPoorWide,
    {"Mixed Narrow", Scaling::mixed, TimeRange::narrow}, kMixedWide,
    {"Good Narrow", Scaling::good, TimeRange::narrow},   kGoodWide,
};
constexpr double kSuperLinear[] = {0, 0.5};

const hw::GpuModel& gpu_model(const char* name) { return *hw::builtin_catalogue().find(name); }

struct Cell {
  Configuration configuration;
  double super_linear;
  int tasks;
  double shrink = 1;  // task times divided by this
  int gpus = 1;
};

BatchProblem problem_of(const Cell& cell, int seed) {
  const hw::GpuModel& gpu = gpu_model("A100-80GB");
  sim::BatchRecipe recipe =
      sim::batch_recipe(gpu, cell.configuration.scaling, cell.configuration.range);
  recipe.count = cell.tasks;
  recipe.super_linear = cell.super_linear;
  recipe.shortest = Seconds{recipe.shortest.value / cell.shrink};
  recipe.longest = Seconds{recipe.longest.value / cell.shrink};
  return *sim::generate_batch(recipe, {gpu},
                              std::vector<int>(static_cast<std::size_t>(cell.gpus), 0),
                              static_cast<std::uint64_t>(seed));
}

double ms_now() {
  static RealClock clock;
  return static_cast<double>(clock.cpu_ns()) / 1e6;
}

// What the judge has seen.
struct {
  long schedules = 0, violations = 0;
} judged;

void judge(const BatchProblem& problem, const BatchSchedule& schedule) {
  ++judged.schedules;
  for (const plan::Reason& violation : verify::verify(problem, schedule)) {
    ++judged.violations;
    std::printf("VIOLATION by %s: %s\n", schedule.scheduler.c_str(), to_string(violation).c_str());
  }
}

BatchSchedule schedule_by(const std::string& name, const BatchProblem& problem) {
  const auto chosen = planners::batch::find_scheduler(name);
  CHECK(chosen);
  planners::batch::Options options;
  options.cpu_ms = ms_now;
  auto outcome = planners::batch::run(*chosen, problem, options);
  CHECK(outcome.schedule);
  judge(problem, *outcome.schedule);
  return *std::move(outcome.schedule);
}

// What `best` promises: never longer than FAR.
BatchSchedule best_beside(Nanos far, const BatchProblem& problem) {
  BatchSchedule best = schedule_by("best", problem);
  if (best.makespan > far) {
    ++judged.violations;
    std::printf("VIOLATION: best is longer than far\n");
  }
  return best;
}

double ratio(Nanos a, Nanos b) { return static_cast<double>(a) / static_cast<double>(b); }

// The paper's baseline: least areas, spread evenly.
double area(const BatchProblem& problem) {
  const auto forest = planners::batch::make_forest(problem);
  double sum = 0;
  for (int task = 0; task < forest->tasks; ++task) {
    sum += static_cast<double>(least_area(*forest, task));
  }
  return sum / forest->columns();
}

// Whether no assignment of tasks to instances has a shorter longest slice, which the schedules of
// `exact` and `best` say in words (best.cc).
bool slices_proven(const BatchSchedule& schedule) {
  const auto says = [&](const char* words) {
    return std::ranges::any_of(schedule.explanation, [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  };
  const bool proven = schedule.optimal || says("on every assignment");
  CHECK(proven || says("the shortest one may be"));
  return proven;
}

class Sample {
 public:
  void add(double value) { values_.push_back(value); }
  double mean() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return values_.empty() ? std::nan("") : sum / static_cast<double>(values_.size());
  }
  double quantile(double share) const {
    if (values_.empty()) return std::nan("");
    std::vector<double> sorted = values_;
    std::ranges::sort(sorted);
    const double last = static_cast<double>(sorted.size() - 1);
    return sorted[static_cast<std::size_t>(std::ceil(share * last))];
  }
  double most() const { return quantile(1); }

 private:
  std::vector<double> values_;
};

// Above an optimum or bound, in percent.
struct Excess {
  Sample sample;
  void add(Nanos makespan, Nanos bound) { sample.add(100 * (ratio(makespan, bound) - 1)); }
};

struct Effort {
  int seeds = 0;
  std::vector<int> tasks;
};

// Table 4: FAR, rho.
void table4(const Effort& effort) {
  constexpr double kPaper[3][6] = {{1.23, 1.08, 1.04, 1.03, 1.02, 1.02},
                                   {1.20, 1.08, 1.04, 1.03, 1.02, 1.02},
                                   {1.21, 1.07, 1.05, 1.03, 1.02, 1.01}};
  std::printf("far: makespan / area bound: paper, p_sup 0 (CPU ms), p_sup 0.5 (CPU ms)\n");
  for (std::size_t c = 0; c < std::size(kWide); ++c) {
    for (const int n : effort.tasks) {
      const bool printed = n % 5 == 0 && n >= 10 && n <= 35;
      std::printf("  %-12s n = %3d  %4.2f", kWide[c].name, n,
                  printed ? kPaper[c][n / 5 - 2] : std::nan(""));
      for (const double super_linear : kSuperLinear) {
        Sample rho, ms;
        for (int seed = 1; seed <= effort.seeds; ++seed) {
          const BatchProblem problem = problem_of({kWide[c], super_linear, n}, seed);
          const BatchSchedule far = schedule_by("far", problem);
          rho.add(static_cast<double>(far.makespan) / area(problem));
          ms.add(far.stats.scheduling_ms);
        }
        std::printf("   %6.4f (%.3f)", rho.mean(), ms.mean());
      }
      std::printf("\n");
    }
  }
}

// Table 5: others' makespans over FAR's.
void table5(const Effort& effort) {
  constexpr double kPaper[6][4] = {{1.19, 1.25, 1.24, 3.29}, {1.55, 1.29, 1.22, 3.39},
                                   {1.62, 1.39, 1.13, 2.17}, {2.03, 1.47, 1.09, 2.16},
                                   {1.83, 1.61, 1.00, 1.31}, {2.14, 1.78, 1.01, 1.28}};
  const std::vector<std::string> names = {"miso:barrier", "miso:per-slice", "fixed:7x1g",
                                          "fixed-best", "fixed:7g"};
  for (const double super_linear : kSuperLinear) {
    std::printf(
        "makespan / far's, p_sup %g: paper MISO, Fix(1..1), FixBest, Fix(7) | MISO barrier, "
        "per-slice, both without reconfiguration cost | Fix(1..1), FixBest, Fix(7) | far "
        "unrefined\n",
        super_linear);
    for (const int n : effort.tasks) {
      for (std::size_t c = 0; c < std::size(kAll); ++c) {
        std::vector<Sample> others(names.size());
        Sample free_barrier, free_per_slice, unrefined;
        for (int seed = 1; seed <= effort.seeds; ++seed) {
          const BatchProblem problem = problem_of({kAll[c], super_linear, n}, seed);
          const Nanos far = schedule_by("far", problem).makespan;
          for (std::size_t i = 0; i < names.size(); ++i) {
            others[i].add(ratio(schedule_by(names[i], problem).makespan, far));
          }
          unrefined.add(ratio(schedule_by("far:unrefined", problem).makespan, far));
          free_barrier.add(ratio(miso_ideal(problem, MisoReading::barrier), far));
          free_per_slice.add(ratio(miso_ideal(problem, MisoReading::per_slice), far));
        }
        std::printf(
            "  %-12s n = %d  %.2f %.2f %.2f %.2f | %.2f %.2f %.2f %.2f | %.2f %.2f %.2f | %.3f\n",
            kAll[c].name, n, kPaper[c][0], kPaper[c][1], kPaper[c][2], kPaper[c][3],
            others[0].mean(), others[1].mean(), free_barrier.mean(), free_per_slice.mean(),
            others[2].mean(), others[3].mean(), others[4].mean(), unrefined.mean());
      }
    }
  }
}

struct Refinement {
  double gain, moves, swaps;  // percent; per batch
};

Refinement refinement(const Cell& cell, int seeds) {
  Sample gain, moves, swaps;
  for (int seed = 1; seed <= seeds; ++seed) {
    const BatchProblem problem = problem_of(cell, seed);
    const auto forest = *planners::batch::make_forest(problem);
    const planners::batch::FarResult far = far_on(forest);
    BatchSchedule schedule = to_schedule(forest, problem, far.physical);
    schedule.scheduler = "far";
    judge(problem, schedule);
    gain.add(100 * (ratio(far.unrefined_makespan, far.makespan) - 1));
    moves.add(far.moves);
    swaps.add(far.swaps);
  }
  return {gain.mean(), moves.mean(), swaps.mean()};
}

// Table 6: what phase 3 gains, and its operations.
void table6(const Effort& effort) {
  constexpr Refinement kPaper[6][3] = {{{0.31, 0, .02}, {13.15, 0, 3.25}, {11.45, 0, 4.26}},
                                       {{0.28, .02, .01}, {14.98, 1.26, .13}, {8.76, 1.74, .15}},
                                       {{.76, .02, .06}, {13.87, 0, 3.23}, {9.04, 0, 4.31}},
                                       {{3.21, .17, .06}, {11.45, 1.14, .09}, {9.01, 1.84, .15}},
                                       {{.78, .01, .01}, {13.44, 0, 3.01}, {7.54, 0, 3.64}},
                                       {{1.34, .05, .02}, {12.56, 1.13, .08}, {9.32, 1.93, .21}}};
  std::printf("phase 3 of far: gain %%; moves, swaps per batch: paper | p_sup 0 | p_sup 0.5\n");
  for (const int n : effort.tasks) {
    for (std::size_t c = 0; c < std::size(kAll); ++c) {
      const bool printed = n == 10 || n == 20 || n == 30;
      const Refinement paper =
          printed ? kPaper[c][n / 10 - 1] : Refinement{std::nan(""), std::nan(""), std::nan("")};
      std::printf("  %-12s n = %d  %5.2f; %.2f %.2f", kAll[c].name, n, paper.gain, paper.moves,
                  paper.swaps);
      for (const double super_linear : kSuperLinear) {
        const Refinement ours = refinement({kAll[c], super_linear, n}, effort.seeds);
        std::printf(" | %5.2f; %.2f %.2f", ours.gain, ours.moves, ours.swaps);
      }
      std::printf("\n");
    }
  }
}

// `best` beside FAR.
void gain(const Effort& effort) {
  std::printf(
      "best and far: best / far mean, median, most | makespan / area bound of far, best | CPU ms "
      "of best: mean, most\n");
  for (const int n : effort.tasks) {
    for (const double super_linear : kSuperLinear) {
      for (const Configuration& configuration : kWide) {
        Sample to_far, far_rho, rho, ms;
        for (int seed = 1; seed <= effort.seeds; ++seed) {
          const BatchProblem problem = problem_of({configuration, super_linear, n}, seed);
          const double baseline = area(problem);
          const Nanos far = schedule_by("far", problem).makespan;
          const BatchSchedule best = best_beside(far, problem);
          to_far.add(ratio(best.makespan, far));
          far_rho.add(static_cast<double>(far) / baseline);
          rho.add(static_cast<double>(best.makespan) / baseline);
          ms.add(best.stats.scheduling_ms);
        }
        std::printf("  n = %3d p_sup %3g %-10s  %.4f %.4f %.4f | %.4f %.4f | %5.1f %5.1f\n", n,
                    super_linear, configuration.name, to_far.mean(), to_far.quantile(0.5),
                    to_far.most(), far_rho.mean(), rho.mean(), ms.mean(), ms.most());
        std::fflush(stdout);
      }
    }
  }
}

// How far from the optimum: `exact` states a bound that no schedule undercuts.
void optimum(const Effort& effort) {
  std::printf(
      "exact: slices proven %%, optimal %%; makespan above the bound %%: mean, 90th, 99th "
      "percentile, most; CPU ms: mean, median, most | best: above exact's bound %% where that is "
      "proven: mean, most; above exact's makespan %%: mean, most; CPU ms: mean, most | far / exact "
      "mean\n");
  for (const int n : effort.tasks) {
    for (const double super_linear : kSuperLinear) {
      for (const Configuration& configuration : kWide) {
        Sample proven, optimal, exact_ms, best_ms, far_to_exact;
        Excess exact_gap, best_gap, best_to_exact;
        for (int seed = 1; seed <= effort.seeds; ++seed) {
          const BatchProblem problem = problem_of({configuration, super_linear, n}, seed);
          const BatchSchedule exact = schedule_by("exact", problem);
          const BatchSchedule best = schedule_by("best", problem);
          proven.add(slices_proven(exact) ? 100 : 0);
          optimal.add(exact.optimal ? 100 : 0);
          exact_gap.add(exact.makespan, exact.lower_bound);
          exact_ms.add(exact.stats.scheduling_ms);
          best_ms.add(best.stats.scheduling_ms);
          best_to_exact.add(best.makespan, exact.makespan);
          if (slices_proven(exact)) best_gap.add(best.makespan, exact.lower_bound);
          far_to_exact.add(ratio(schedule_by("far", problem).makespan, exact.makespan));
        }
        const Sample& gap = exact_gap.sample;
        std::printf(
            "  n = %2d p_sup %3g %-10s  %5.1f %5.1f; %.4f %.4f %.4f %.4f; %.1f %.1f %.0f | %.4f "
            "%.4f; %.4f %.4f; %.1f %.1f | %.4f\n",
            n, super_linear, configuration.name, proven.mean(), optimal.mean(), gap.mean(),
            gap.quantile(0.9), gap.quantile(0.99), gap.most(), exact_ms.mean(),
            exact_ms.quantile(0.5), exact_ms.most(), best_gap.sample.mean(), best_gap.sample.most(),
            best_to_exact.sample.mean(), best_to_exact.sample.most(), best_ms.mean(),
            best_ms.most(), far_to_exact.mean());
        std::fflush(stdout);
      }
    }
  }
}

// Task times of 0.05 to 5 s, where creates and destroys take a good share.
void short_tasks(const Effort& effort) {
  std::printf(
      "times / 20: best / far mean, most; fixed-best / far mean | makespan / bound of far, best "
      "| creates and destroys of far, best\n");
  for (const int n : effort.tasks) {
    for (const double super_linear : kSuperLinear) {
      for (const Configuration& configuration : kWide) {
        Sample to_far, fixed_to_far, far_gap, gap, far_count, count;
        for (int seed = 1; seed <= effort.seeds; ++seed) {
          const BatchProblem problem = problem_of({configuration, super_linear, n, 20}, seed);
          const BatchSchedule far = schedule_by("far", problem);
          const BatchSchedule best = best_beside(far.makespan, problem);
          to_far.add(ratio(best.makespan, far.makespan));
          fixed_to_far.add(ratio(schedule_by("fixed-best", problem).makespan, far.makespan));
          far_gap.add(ratio(far.makespan, best.lower_bound));
          gap.add(ratio(best.makespan, best.lower_bound));
          far_count.add(static_cast<double>(far.reconfigurations.size()));
          count.add(static_cast<double>(best.reconfigurations.size()));
        }
        std::printf("  n = %3d p_sup %3g %-10s  %.4f %.4f; %.4f | %.4f %.4f | %.1f %.1f\n", n,
                    super_linear, configuration.name, to_far.mean(), to_far.most(),
                    fixed_to_far.mean(), far_gap.mean(), gap.mean(), far_count.mean(),
                    count.mean());
        std::fflush(stdout);
      }
    }
  }
}

// CPU time of FAR, from problem to schedule and of its three phases alone.
void far_speed(const Effort& effort) {
  std::printf("far, Mixed Wide: CPU ms for p_sup 0, p_sup 0.5 (its phases alone)\n");
  for (const int n : effort.tasks) {
    std::printf("  n = %4d", n);
    for (const double super_linear : kSuperLinear) {
      Sample whole, phases;
      for (int seed = 1; seed <= effort.seeds; ++seed) {
        const BatchProblem problem = problem_of({kMixedWide, super_linear, n}, seed);
        whole.add(schedule_by("far", problem).stats.scheduling_ms);
        const auto forest = *planners::batch::make_forest(problem);
        const double before = ms_now();
        const planners::batch::FarResult far = far_on(forest);
        phases.add(ms_now() - before);
      }
      std::printf("   %8.3f (%.3f)", whole.mean(), phases.mean());
    }
    std::printf("\n");
  }
}

// Many tasks on 8 GPUs.
void fleet(const Effort& effort) {
  std::printf("8 GPUs: above the bound %%, CPU ms: far, best\n");
  for (const int n : effort.tasks) {
    for (const double super_linear : kSuperLinear) {
      for (const Configuration& configuration : kWide) {
        Excess far_gap, gap;
        Sample far_ms, ms;
        for (int seed = 1; seed <= effort.seeds; ++seed) {
          const BatchProblem problem = problem_of({configuration, super_linear, n, 1, 8}, seed);
          const BatchSchedule far = schedule_by("far", problem);
          const BatchSchedule best = best_beside(far.makespan, problem);
          far_gap.add(far.makespan, best.lower_bound);
          gap.add(best.makespan, best.lower_bound);
          far_ms.add(far.stats.scheduling_ms);
          ms.add(best.stats.scheduling_ms);
        }
        std::printf("  n = %d p_sup %3g %-10s  %.4f (%.0f)   %.4f (%.0f)\n", n, super_linear,
                    configuration.name, far_gap.sample.mean(), far_ms.mean(), gap.sample.mean(),
                    ms.mean());
        std::fflush(stdout);
      }
    }
  }
}

// Eight kernels measured on an A30.
void rodinia(const Effort&) {
  const std::string name = "data/batches/rodinia-a30.csv";
  const auto problem = forms::parse_tasks(name, source_text(name), {gpu_model("A30-24GB")}, {0});
  CHECK(problem);
  std::printf("Rodinia on an A30: makespan s, bound s, CPU ms\n");
  for (const char* scheduler : {"far:unrefined", "far", "best", "exact", "miso:barrier", "miso",
                                "fixed-best", "fixed:4g"}) {
    const BatchSchedule schedule = schedule_by(scheduler, *problem);
    std::printf("  %-14s %.4f %.4f%s (%.3f)\n", scheduler, plan::seconds(schedule.makespan).value,
                plan::seconds(schedule.lower_bound).value, schedule.optimal ? ", optimal" : "",
                schedule.stats.scheduling_ms);
  }
}

struct Measurement {
  const char* name;
  void (*run)(const Effort&);
  std::vector<int> tasks;
  int few_seeds;  // of a run of all
};
const std::vector<Measurement> kMeasurements = {
    {"table4", table4, {10, 15, 20, 25, 30, 35}, 100},
    {"table5", table5, {15}, 50},
    {"table6", table6, {10, 20, 30}, 100},
    {"rodinia", rodinia, {}, 1},
    {"gain", gain, {10, 15, 20, 35, 100}, 5},
    {"optimum", optimum, {10, 15}, 5},
    {"short", short_tasks, {10, 20, 35}, 5},
    {"far-speed", far_speed, {10, 35, 100, 500, 1000}, 10},
    {"fleet", fleet, {10'000}, 1},
};

int usage() {
  std::fprintf(stderr, "batch_bench [WHAT [SEEDS [N...]]]; WHAT: all");
  for (const Measurement& measurement : kMeasurements)
    std::fprintf(stderr, " %s", measurement.name);
  std::fprintf(stderr, "\n");
  return 2;
}

int main_of(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "all" : arguments[0];
  Effort effort;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const int value = std::atoi(arguments[i].c_str());
    if (value < 1) return usage();
    if (i == 1) effort.seeds = value;
    if (i > 1) effort.tasks.push_back(value);
  }
  bool known = false;
  for (const Measurement& measurement : kMeasurements) {
    if (what != "all" && what != measurement.name) continue;
    known = true;
    Effort this_one = effort;
    if (effort.seeds == 0) this_one.seeds = measurement.few_seeds;
    if (effort.tasks.empty()) this_one.tasks = measurement.tasks;
    std::printf("\n%s, %d seeds: ", measurement.name, this_one.seeds);
    const double before = ms_now();
    measurement.run(this_one);
    std::printf("  took %.1f s\n", (ms_now() - before) / 1e3);
    std::fflush(stdout);
  }
  if (!known) return usage();
  std::printf("\n%ld schedules judged, %ld violations\n", judged.schedules, judged.violations);
  return judged.violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  return partita::main_of(std::vector<std::string>(argv + 1, argv + argc));
}
