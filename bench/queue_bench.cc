// Planning while running against what a fixed layout would have done with hindsight and against the
// offline optimum:
// `queue_bench online|known|online8|bound|spread|timed|week|plan|soak [SEEDS] [VARIANTS] [LOAD]
// [CV]`.
// For soak SEEDS are thousands of submissions, with ten kills each; for week also the first and the
// last, as 13-24.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "hw/catalogue.h"
#include "planners/batch/live_run.h"
#include "planners/batch/scheduler.h"
#include "queue/host/testing/test_world.h"
#include "queue/store/sqlite_store.h"
#include "sim/batch_generator.h"
#include "verify/batch.h"

namespace partita {
namespace {

using planners::batch::find_scheduler;
using planners::batch::fixed_layouts;
using planners::batch::Forest;
using planners::batch::kNever;
using planners::batch::least_area;
using planners::batch::LiveOptions;
using planners::batch::LiveRun;
using planners::batch::LiveRunOptions;
using planners::batch::make_forest;
using planners::batch::Options;
using planners::batch::run_live;

constexpr double kSecond = 1e9;

struct Measured {
  double makespan = 0, response = 0;  // seconds
};

Measured measured(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  std::map<std::string, plan::Nanos> release;
  for (const plan::Task& task : problem.tasks) release[task.name] = task.release;
  Measured m;
  for (const plan::ScheduledTask& task : schedule.tasks) {
    m.response += static_cast<double>(task.end - release[task.task]) / kSecond;
    m.makespan = std::max(m.makespan, static_cast<double>(task.end) / kSecond);
  }
  m.response /= static_cast<double>(std::max<std::size_t>(1, schedule.tasks.size()));
  return m;
}

void judge(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  for (const plan::Reason& violation : verify::verify(problem, schedule)) {
    std::printf("VIOLATION %s\n", to_string(violation).c_str());
    std::exit(1);
  }
}

// In order of arrival on a fixed layout: whatever of it is free first takes the next task. The
// first one has the node `lone` before that, unless it is negative, and what is in its way of the
// layout is made afterwards. Nothing: a task fits nowhere.
std::optional<Measured> on_layout(const plan::BatchProblem& problem, const Forest& forest,
                                  const std::vector<char>& layout, int lone) {
  std::vector<int> nodes;
  std::vector<plan::Nanos> free;
  std::vector<plan::Nanos> reconfigurer(at(forest.reconfigurers()), 0);
  Measured m;
  const auto ends = [&](int t, plan::Nanos end) {
    m.makespan = std::max(m.makespan, static_cast<double>(end) / kSecond);
    m.response += static_cast<double>(end - problem.tasks[at(t)].release) / kSecond / forest.tasks;
  };
  plan::Nanos later = 0;
  if (lone >= 0) {
    const plan::Nanos end = forest.nodes[at(lone)].create + forest.time(0, lone);
    ends(0, end);
    later = end + forest.nodes[at(lone)].destroy;
  }
  for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v) {
    if (!layout[at(v)]) continue;
    plan::Nanos& next = reconfigurer[at(forest.reconfigurer_of(v))];
    nodes.push_back(v);
    if (v == lone) {
      free.push_back(later - forest.nodes[at(v)].destroy);
      continue;
    }
    if (lone >= 0 && forest.conflict(v, lone)) next = std::max(next, later);
    free.push_back(next += forest.nodes[at(v)].create);
  }
  for (int t = lone < 0 ? 0 : 1; t < forest.tasks; ++t) {
    const plan::Nanos release = problem.tasks[at(t)].release;
    std::size_t chosen = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (forest.time(t, nodes[i]) >= kNever) continue;
      const auto begin = [&](std::size_t k) { return std::max(release, free[k]); };
      // Of those free at once the larger one.
      if (chosen == nodes.size() || begin(i) < begin(chosen) ||
          (begin(i) == begin(chosen) && forest.time(t, nodes[i]) < forest.time(t, nodes[chosen])))
        chosen = i;
    }
    if (chosen == nodes.size()) return std::nullopt;
    free[chosen] = std::max(release, free[chosen]) + forest.time(t, nodes[chosen]);
    ends(t, free[chosen]);
  }
  return m;
}

struct Fixed {
  Measured best_makespan, best_response;  // of the layouts, each with hindsight
  double lone_response = 1e300;           // the best where the first task has its fastest size
};
Fixed fixed(const plan::BatchProblem& actual) {
  plan::BatchProblem problem = actual;
  std::ranges::stable_sort(problem.tasks, {}, &plan::Task::release);
  const Forest forest = *make_forest(problem);
  int fastest = 0;
  for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v)
    if (forest.time(0, v) < forest.time(0, fastest)) fastest = v;
  Fixed best;
  best.best_makespan.makespan = best.best_response.response = 1e300;
  for (const std::vector<char>& layout : fixed_layouts(forest)) {
    const auto m = on_layout(problem, forest, layout, -1);
    if (!m) continue;
    if (m->makespan < best.best_makespan.makespan) best.best_makespan = *m;
    if (m->response < best.best_response.response) best.best_response = *m;
    const auto lone = on_layout(problem, forest, layout, fastest);
    if (lone) best.lone_response = std::min(best.lone_response, lone->response);
  }
  return best;
}

plan::BatchProblem batch(int count, sim::Scaling scaling, sim::TimeRange range, int gpus,
                         std::uint64_t seed) {
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
  sim::BatchRecipe recipe = sim::batch_recipe(gpu, scaling, range);
  recipe.count = count;
  return *sim::generate_batch(recipe, {gpu}, std::vector<int>(at(gpus), 0), seed);
}

// Poisson arrivals at a load: least areas that come per column and second.
void arrive(plan::BatchProblem& problem, double load, std::uint64_t seed) {
  const Forest forest = *make_forest(problem);
  double area = 0;
  for (int t = 0; t < forest.tasks; ++t) area += static_cast<double>(least_area(forest, t));
  const double gap = area / forest.columns() / forest.tasks / load;
  Rng rng = Rng(seed).split(0xa1);
  double now = 0;
  for (plan::Task& task : problem.tasks) {
    task.release = static_cast<plan::Nanos>(now);
    now += gap * rng.exponential();
  }
}

// So many tasks of another seed that came before 0, as often.
std::vector<plan::Task> earlier(sim::Scaling scaling, int gpus, double load, std::uint64_t seed) {
  plan::BatchProblem before = batch(24, scaling, sim::TimeRange::wide, gpus, seed + 1'000);
  arrive(before, load, seed + 1'000);
  for (plan::Task& task : before.tasks) task.release = -task.release;
  std::ranges::reverse(before.tasks);
  return before.tasks;
}

// Lognormal with mean 1.
double factor(Rng& rng, double cv) {
  if (cv == 0) return 1;
  const double s2 = std::log1p(cv * cv);
  const double u = std::max(1e-12, rng.uniform()), v = rng.uniform();
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
  return std::exp(std::sqrt(s2) * normal - s2 / 2);
}

plan::BatchProblem off(const plan::BatchProblem& problem, double cv, std::uint64_t seed) {
  plan::BatchProblem actual = problem;
  Rng rng = Rng(seed).split(0xcf);
  for (plan::Task& task : actual.tasks) {
    const double by = factor(rng, cv);
    for (plan::SizeTimes& times : task.times) {
      for (plan::Nanos& time : times.by_gpcs)
        if (time > 0) time = std::max<plan::Nanos>(1, std::llround(static_cast<double>(time) * by));
    }
  }
  return actual;
}

constexpr const char* kScalings[] = {"poor", "mixed", "good"};

std::vector<LiveOptions> g_variants = {LiveOptions()};

// "makespan,area,scenarios,arrivals,appends,crowd,crowded makespan,area,draws,last makespan,area;
// ..." of what is to be tried, not the defaults.
void read_variants(const char* text) {
  g_variants.clear();
  for (const char* part = text; part != nullptr;) {
    LiveOptions options;
    std::sscanf(part, "%lf,%lf,%d,%d,%ld,%lf,%lf,%lf,%d,%lf,%lf", &options.aim.makespan,
                &options.aim.area, &options.scenarios, &options.arrivals, &options.appends,
                &options.crowd, &options.crowded.makespan, &options.crowded.area, &options.draws,
                &options.last.makespan, &options.last.area);
    g_variants.push_back(options);
    part = std::strchr(part, ';');
    if (part != nullptr) ++part;
  }
}

struct Sums {
  double offline = 0, bound = 0, span = 0, response = 0, lone = 0, lone_response = 0;
  int runs = 0;
  void add(const Sums& other) {
    offline += other.offline, bound += other.bound, span += other.span;
    response += other.response, lone += other.lone, runs += other.runs;
    lone_response += other.lone_response;
  }
  std::string text() const {
    char line[120];
    std::snprintf(line, sizeof line, "  %.4f %.4f %.4f %.4f %.4f %.4f", offline / runs,
                  bound / runs, span / runs, response / runs, lone / runs, lone_response / runs);
    return line;
  }
};

plan::BatchProblem first_takes(plan::BatchProblem problem, plan::Nanos only) {
  for (plan::SizeTimes& times : problem.tasks[0].times)
    for (plan::Nanos& time : times.by_gpcs)
      if (time != only) time = 0;
  return problem;
}

std::set<plan::Nanos> times_of_first(const plan::BatchProblem& problem) {
  std::set<plan::Nanos> all;
  for (const plan::Nanos time : problem.tasks[0].times[0].by_gpcs)
    if (time > 0) all.insert(time);
  return all;
}

// What comes first finds an idle GPU and nothing else, so it has the size on which it ends first.
plan::BatchProblem lone_first(const plan::BatchProblem& problem) {
  return first_takes(problem, *times_of_first(problem).begin());
}

// `known`: it has seen what came before, as a queue has that is in use.
void online(int seeds, int gpus, const std::vector<double>& loads, bool known) {
  std::printf(
      "load: makespan/offline, /bound, /best fixed; response / best fixed's; the first task on its "
      "fastest size, makespan of offline / offline's, response of the best fixed / best fixed's\n");
  for (const double load : loads) {
    std::vector<Sums> all(g_variants.size());
    for (int scaling = 0; scaling < 3; ++scaling) {
      std::vector<Sums> sums(g_variants.size());
      for (int seed = 1; seed <= seeds; ++seed) {
        const auto s = static_cast<std::uint64_t>(seed);
        plan::BatchProblem problem =
            batch(40 * gpus, static_cast<sim::Scaling>(scaling), sim::TimeRange::wide, gpus, s);
        arrive(problem, load, s);
        const Fixed f = fixed(problem);
        const auto best = planners::batch::run(*find_scheduler("best"), problem, Options());
        const auto lone =
            planners::batch::run(*find_scheduler("best"), lone_first(problem), Options());
        std::vector<Measured> measures;
        double opt = static_cast<double>(best.schedule->makespan) / kSecond;
        for (const LiveOptions& options : g_variants) {
          LiveRunOptions how{options};
          if (known) how.earlier = earlier(static_cast<sim::Scaling>(scaling), gpus, load, s);
          const LiveRun run = *run_live(problem, problem, how);
          judge(problem, run.schedule);
          measures.push_back(measured(problem, run.schedule));
          opt = std::min(opt, measures.back().makespan);
        }
        for (std::size_t v = 0; v < g_variants.size(); ++v) {
          const Measured& m = measures[v];
          sums[v].add({m.makespan / opt,
                       m.makespan * kSecond / static_cast<double>(best.schedule->lower_bound),
                       m.makespan / f.best_makespan.makespan, m.response / f.best_response.response,
                       static_cast<double>(lone.schedule->makespan) / kSecond / opt,
                       f.lone_response / f.best_response.response, 1});
        }
      }
      for (std::size_t v = 0; v < g_variants.size(); ++v) {
        std::printf("   %4.1f %-5s %zu%s\n", load, kScalings[scaling], v, sums[v].text().c_str());
        all[v].add(sums[v]);
      }
    }
    for (std::size_t v = 0; v < g_variants.size(); ++v)
      std::printf("%4.1f       %zu%s\n", load, v, all[v].text().c_str());
    std::fflush(stdout);
  }
}

double best_makespan(const plan::BatchProblem& problem) {
  const auto best = planners::batch::run(*find_scheduler("best"), problem, Options());
  return static_cast<double>(best.schedule->makespan);
}

// Below this no policy comes on average that knows the first task and what usually comes, but not
// what will: it chooses the first task's size for all futures alike, or lets it wait for the
// second, and knows everything from then on.
void bound(int seeds, const std::vector<double>& loads) {
  constexpr int kFutures = 8;
  std::printf("load: best size of the first task for %d futures, makespan / offline's\n", kFutures);
  for (const double load : loads) {
    double sum = 0;
    for (int scaling = 0; scaling < 3; ++scaling) {
      for (int seed = 1; seed <= seeds; ++seed) {
        const auto s = static_cast<std::uint64_t>(seed);
        const auto kind = static_cast<sim::Scaling>(scaling);
        const plan::Task first = batch(40, kind, sim::TimeRange::wide, 1, s).tasks[0];
        std::map<plan::Nanos, double> ratios;  // by the first task's time; 0: it waits
        for (std::uint64_t future = 1; future <= kFutures; ++future) {
          plan::BatchProblem problem = batch(40, kind, sim::TimeRange::wide, 1, 1'000 * s + future);
          problem.tasks[0] = first;
          arrive(problem, load, 1'000 * s + future);
          const double free = best_makespan(problem);
          for (const plan::Nanos time : times_of_first(problem))
            ratios[time] += std::max(1.0, best_makespan(first_takes(problem, time)) / free);
          problem.tasks[0].release = problem.tasks[1].release;
          ratios[0] += std::max(1.0, best_makespan(problem) / free);
        }
        sum += std::ranges::min(ratios | std::views::values) / kFutures;
      }
    }
    std::printf("%4.1f  %.4f\n", load, sum / (3 * seeds));
    std::fflush(stdout);
  }
}

void spread(int seeds) {
  std::printf("cv, n: makespan / best fixed layout's with hindsight (worst)\n");
  for (const double cv : {0.1, 0.3, 0.6}) {
    for (const int n : {15, 30}) {
      for (std::size_t v = 0; v < g_variants.size(); ++v) {
        double ratio = 0, worst = 0;
        for (int scaling = 0; scaling < 3; ++scaling) {
          for (int seed = 1; seed <= seeds; ++seed) {
            const auto s = static_cast<std::uint64_t>(seed);
            const plan::BatchProblem problem =
                batch(n, static_cast<sim::Scaling>(scaling), sim::TimeRange::wide, 1, s);
            const plan::BatchProblem actual = off(problem, cv, s);
            const LiveRun run = *run_live(problem, actual, {g_variants[v], cv});
            judge(actual, run.schedule);
            const double r =
                measured(actual, run.schedule).makespan / fixed(actual).best_makespan.makespan;
            ratio += r;
            worst = std::max(worst, r);
          }
        }
        std::printf("%.1f %d %zu  %.4f (%.3f)\n", cv, n, v, ratio / (3 * seeds), worst);
      }
      std::fflush(stdout);
    }
  }
}

// Batches with releases, deadlines, priorities and predecessors, each for a third of the tasks.
plan::BatchProblem timed_batch(int tasks, std::uint64_t seed) {
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A30-24GB");
  plan::BatchProblem problem{{}, {gpu}, {0}};
  Rng rng(seed);
  for (int i = 0; i < tasks; ++i) {
    plan::Task task{.name = "t" + std::to_string(i), .times = {{}}};
    const double work = 1 + 20 * rng.uniform(), scaling = rng.uniform();
    const bool large = rng.uniform() < 0.2;
    for (const int gpcs : {1, 2, 4}) {
      if (gpcs == 1 && large) continue;
      task.times[0][gpcs] = std::llround(work / (1 + scaling * (gpcs - 1)) * kSecond);
    }
    if (rng.uniform() < 0.33) task.release = std::llround(20 * rng.uniform() * kSecond);
    if (rng.uniform() < 0.33)
      task.deadline = task.release + std::llround((2 + 20 * rng.uniform()) * kSecond);
    if (rng.uniform() < 0.33) task.priority = 1 + static_cast<double>(rng.below(9));
    for (int j = 0; j < i; ++j)
      if (rng.uniform() < 0.7 / tasks) task.after.push_back("t" + std::to_string(j));
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

void timed(int seeds) {
  RealClock clock;
  for (const int n : {5, 6, 8, 10}) {
    double ms = 0, most = 0, gap = 0, worst = 0;
    int proven = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      const plan::BatchProblem problem = timed_batch(n, static_cast<std::uint64_t>(seed));
      const auto before = clock.cpu_ns();
      const auto outcome = planners::batch::run(*find_scheduler("best"), problem, Options());
      const double took = static_cast<double>(clock.cpu_ns() - before) / 1e6;
      judge(problem, *outcome.schedule);
      ms += took / seeds;
      most = std::max(most, took);
      proven += outcome.schedule->optimal ? 1 : 0;
      const double open = outcome.schedule->optimal
                              ? 0
                              : static_cast<double>(outcome.schedule->makespan) /
                                        static_cast<double>(outcome.schedule->lower_bound) -
                                    1;
      gap += open / seeds;
      worst = std::max(worst, open);
    }
    std::printf("n %d: %d of %d proven, %.1f ms (most %.0f), gap %.2f %% (worst %.1f)\n", n, proven,
                seeds, ms, most, 100 * gap, 100 * worst);
    std::fflush(stdout);
  }
}

void planning(int waiting, int gpus) {
  RealClock clock;
  plan::BatchProblem problem =
      batch(waiting + 100, sim::Scaling::mixed, sim::TimeRange::wide, gpus, 1);
  const LiveRun run = *run_live(problem, problem, {g_variants[0]},
                                [&] { return static_cast<double>(clock.cpu_ns()) / 1e6; });
  std::vector<double> ms;
  // Those with about that many waiting: the first tenth of the decisions.
  for (std::size_t i = 0; i < run.planning_ms.size() / 10; ++i) ms.push_back(run.planning_ms[i]);
  std::ranges::sort(ms);
  std::printf("%d waiting, %d GPUs: plannings %ld, p50 %.2f p99 %.2f max %.2f ms\n", waiting, gpus,
              run.plannings, ms[ms.size() / 2], ms[ms.size() * 99 / 100], ms.back());
}

// ---- a week of jobs on 40 GPUs

double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(std::max(1e-12, rng.uniform()))) *
         std::cos(2 * M_PI * rng.uniform());
}

// The shape of public traces of GPU clusters: arrivals by day and night and fewer at the weekend,
// times lognormal with a long tail, some tasks that scale and more that do not. `load`: least areas
// over what the GPUs have in that week.
plan::BatchProblem week(double load, std::uint64_t seed) {
  constexpr int kJobs = 1348, kGpus = 40;
  constexpr double kDay = 86'400;
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
  plan::BatchProblem problem{{}, {gpu}, std::vector<int>(kGpus, 0)};
  Rng rng = Rng(seed).split(0x3ee);
  for (int i = 0; i < kJobs;) {
    const double at_s = rng.uniform() * 7 * kDay;
    const double hour = std::fmod(at_s, kDay) / 3600;
    const double busy =
        (at_s > 5 * kDay ? 0.4 : 1) * (0.6 - 0.4 * std::cos((hour - 3) / 24 * 2 * M_PI));
    if (rng.uniform() > busy) continue;
    plan::Task task{.name = "j" + std::to_string(i++), .times = {{}}};
    task.release = static_cast<plan::Nanos>(at_s * kSecond);
    const double whole = std::min(2 * kDay, std::exp(std::log(1800.0) + 1.6 * normal(rng)));
    const double serial = rng.uniform() < 0.6 ? 0.3 + 0.6 * rng.uniform() : 0.1 * rng.uniform();
    const int least = rng.uniform() < 0.25 ? 3 : 1;  // memory
    for (const int gpcs : {1, 2, 3, 4, 7}) {
      if (gpcs < least) continue;
      task.times[0][gpcs] =
          static_cast<plan::Nanos>(std::max(1.0, whole * (serial + (1 - serial) / gpcs)) * kSecond);
    }
    problem.tasks.push_back(std::move(task));
  }
  const Forest forest = *make_forest(problem);
  double area = 0;
  for (int t = 0; t < forest.tasks; ++t) area += static_cast<double>(least_area(forest, t));
  const double by = load * 7 * kDay * kSecond * forest.columns() / area;
  for (plan::Task& task : problem.tasks) {
    for (plan::Nanos& time : task.times[0].by_gpcs)
      time = static_cast<plan::Nanos>(static_cast<double>(time) * by);
  }
  return problem;
}

void weeks(int first, int last, const std::vector<double>& loads, const std::vector<double>& cvs) {
  RealClock clock;
  for (const double load : loads) {
    for (int seed = first; seed <= last; ++seed) {
      for (const double cv : cvs) {
        const auto s = static_cast<std::uint64_t>(seed);
        const plan::BatchProblem problem = week(load, s);
        const plan::BatchProblem actual = off(problem, cv, s);
        const Fixed f = fixed(actual);
        for (const LiveOptions& options : g_variants) {
          const LiveRun run = *run_live(problem, actual, {options, cv},
                                        [&] { return static_cast<double>(clock.cpu_ns()) / 1e6; });
          judge(actual, run.schedule);
          const Measured m = measured(actual, run.schedule);
          std::vector<double> ms = run.planning_ms;
          std::ranges::sort(ms);
          std::printf(
              "seed %d load %.1f cv %.1f: makespan %.1f h (best fixed %.1f), turnaround %.2f h "
              "(%.2f); planning p50 %.1f p99 %.1f ms\n",
              seed, load, cv, m.makespan / 3600, f.best_makespan.makespan / 3600, m.response / 3600,
              f.best_response.response / 3600, ms[ms.size() / 2], ms[ms.size() * 99 / 100]);
          std::fflush(stdout);
        }
      }
    }
  }
}

// ---- kills and full disks

// A store that dies before and after it keeps.
class DyingStore final : public queue::QueueStore {
 public:
  DyingStore(queue::test::World& world, const std::string& path) : world_(world), path_(path) {
    reopen();
  }
  void reopen() {
    store_.reset();
    auto opened = queue::SqliteStore::open(path_);
    CHECK(opened);
    store_ = *std::move(opened);
    CHECK(store_->limit_pages(pages));
  }
  Result<queue::Loaded> load() override { return store_->load(); }
  Result<void> keep(const queue::Keep& changes) override {
    world_.may_crash();
    if (auto kept = store_->keep(changes); !kept) {
      ++refused;
      return kept;
    }
    world_.may_crash();
    return {};
  }
  Result<std::vector<queue::Run>> runs(long task) override { return store_->runs(task); }
  Result<std::optional<queue::Task>> task(long id) override { return store_->task(id); }
  Result<std::vector<queue::Task>> ended(const queue::Past& past) override {
    return store_->ended(past);
  }
  void limit(long to) {
    pages = to;
    CHECK(store_->limit_pages(to));
  }
  long refused = 0, pages = 0;

 private:
  queue::test::World& world_;
  std::string path_;
  std::unique_ptr<queue::SqliteStore> store_;
};

void soak(int submissions, int kills) {
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
  const std::string folder = "/dev/shm/partita-queue-soak";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  queue::test::World world(gpu);
  DyingStore store(world, folder + "/queue.db");
  queue::Config config = queue::test::config_on(gpu, 8);
  config.planning.window = 24;
  config.planning.appends = 0;
  config.planning.arrivals = config.planning.scenarios = 0;
  queue::test::Machine machine(world, store, config);
  Rng rng(1);
  const auto each = static_cast<std::uint64_t>(std::max(1, 12 * submissions / kills));
  machine.on_revival = [&] {
    store.reopen();
    world.until_crash = 1 + static_cast<long>(rng.below(each));
  };
  world.until_crash = 100;
  std::set<long> answered;
  long full = 0, refused = 0;
  for (int i = 0; i < submissions; ++i) {
    queue::Spec spec{.name = "t", .command = "true", .user = "anna"};
    for (const int gpcs : {1, 2, 3, 4, 7}) spec.times.push_back({gpcs, 1 + 20.0 / gpcs});
    spec.retries = 1'000;
    if (rng.below(2'000) == 0) {  // no page more than it has: full, for a while
      store.limit(1);
      ++full;
    } else if (store.pages > 0 && rng.below(20) == 0) {
      store.limit(0);
    }
    if (const auto tasks = machine.submit(spec)) {
      answered.insert(tasks->front().id);
    } else {
      ++refused;
    }
    if (rng.below(3) == 0) machine.run_until(world.now + queue::test::kSec);
  }
  store.limit(0);
  CHECK(machine.run_until(world.now + 10'000'000 * queue::test::kSec));
  long lost = 0, twice = 0, not_done = 0;
  for (const auto& [key, count] : world.started) twice += count > 1 ? 1 : 0;
  for (const auto& [task, count] : world.completed) twice += count > 1 ? 1 : 0;
  for (const long id : answered) lost += world.completed.contains(id) ? 0 : 1;
  const std::vector<queue::Task> ended = *store.ended({2L * submissions});
  for (const queue::Task& task : ended) not_done += task.state == queue::State::done ? 0 : 1;
  not_done += static_cast<long>(store.load()->tasks.size());
  std::printf(
      "%d submissions (%zu answered, %ld refused), %ld kills, disk full %ld times (%ld writes "
      "refused): %ld lost, %ld twice, %ld not done, %zu faults\n",
      submissions, answered.size(), refused, machine.crashes(), full, store.refused, lost, twice,
      not_done, world.faults.size());
  for (const std::string& fault : world.faults) std::printf("%s\n", fault.c_str());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "online";
  const std::string asked = argc > 2 ? argv[2] : "5";
  const std::size_t dash = asked.find('-');
  const int seeds = std::atoi(asked.substr(dash == std::string::npos ? 0 : dash + 1).c_str());
  const int first = dash == std::string::npos ? 1 : std::atoi(asked.c_str());
  if (argc > 3) partita::read_variants(argv[3]);
  std::vector<double> loads = {0.5, 0.9, 1.5, 4.0};
  if (what == "week") loads = {0.3, 0.7, 1.1};
  if (argc > 4) loads = {std::atof(argv[4])};
  std::vector<double> cvs = {0.0, 0.3};
  if (argc > 5) cvs = {std::atof(argv[5])};
  if (what == "online") partita::online(seeds, 1, loads, false);
  if (what == "known") partita::online(seeds, 1, loads, true);
  if (what == "online8") partita::online(seeds, 8, loads, false);
  if (what == "bound") partita::bound(seeds, loads);
  if (what == "spread") partita::spread(seeds);
  if (what == "timed") partita::timed(seeds);
  if (what == "week") partita::weeks(first, seeds, loads, cvs);
  if (what == "soak") partita::soak(1'000 * seeds, 10 * seeds);
  if (what == "plan") {
    for (const int gpus : {1, 8, 40}) partita::planning(1000, gpus);
  }
  return 0;
}
