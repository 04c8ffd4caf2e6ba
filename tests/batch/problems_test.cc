#include "problems.h"
#include "base/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/test_rounds.h"
#include "verify/batch.h"

#ifdef PARTITA_HAVE_CBC
#include <coin/Cbc_C_Interface.h>
#endif

namespace partita::batch_test {
namespace {

using plan::BatchProblem;
using plan::BatchSchedule;
using plan::Nanos;
using Op = plan::Reconfiguration::Op;

// A place where an instance can be.
struct Place {
  int gpu = 0;
  hw::PlacedProfile placed;
  const hw::MigProfile* shape = nullptr;
  Nanos create = 0, destroy = 0;
  int first_slice = 0, slices = 0;  // memory slices, counted over all GPUs
  std::vector<Nanos> times;         // per task, 0 where it does not fit

  bool meets(const Place& other) const {
    return first_slice < other.first_slice + other.slices &&
           other.first_slice < first_slice + slices;
  }
  bool covers(int slice) const { return slice >= first_slice && slice < first_slice + slices; }
};

struct World {
  std::vector<Place> places;
  int slices = 0;
};

World world_of(const BatchProblem& problem, bool all_profiles) {
  World world;
  for (int g = 0; at(g) < problem.gpus.size(); ++g) {
    const auto m = at(problem.gpus[at(g)]);
    const hw::GpuModel& model = problem.models[m];
    for (int p = 0; at(p) < model.profiles.size(); ++p) {
      const hw::MigProfile& shape = model.profiles[at(p)];
      if (!all_profiles && !shape.plain()) continue;
      for (const int start : shape.starts) {
        Place place{g, {p, start}, &shape, 0, 0, world.slices + start, shape.size, {}};
        for (const hw::ReconfigurationTime& time : model.reconfiguration) {
          if (time.gpcs != shape.gpcs) continue;
          place.create = plan::nanos(time.create);
          place.destroy = plan::nanos(time.destroy);
        }
        for (const plan::Task& task : problem.tasks)
          place.times.push_back(task.times[m][shape.gpcs]);
        world.places.push_back(place);
      }
    }
    world.slices += model.memory_slices;
  }
  return world;
}

// ---- random schedules ----

class Scribbler {
 public:
  Scribbler(Rng& rng, const BatchProblem& problem, bool all_profiles)
      : rng_(rng), problem_(problem), world_(world_of(problem, all_profiles)) {
    reconfigurer_.resize(problem.gpus.size());
  }

  BatchSchedule scribble() {
    schedule_.scheduler = "random";
    for (const int m : problem_.gpus) schedule_.gpu_models.push_back(problem_.models[at(m)].name);
    for (std::size_t t = 0; t < problem_.tasks.size(); ++t) run(t);
    plan::put_in_order(schedule_);
    return std::move(schedule_);
  }

 private:
  // Often nothing, else up to 5 s.
  Nanos idle() { return rng_.below(3) == 0 ? static_cast<Nanos>(rng_.uniform() * 5e9) : 0; }

  // Predecessors have smaller numbers.
  void run(std::size_t t) {
    const plan::Task& task = problem_.tasks[t];
    std::vector<int> fitting;
    for (int p = 0; at(p) < world_.places.size(); ++p)
      if (world_.places[at(p)].times[t] > 0) fitting.push_back(p);
    const int chosen = fitting[rng_.below(fitting.size())];
    make(chosen);
    const Place& place = world_.places[at(chosen)];
    Nanos begin = std::max(free_.at(chosen), task.release);
    for (const std::string& name : task.after) begin = std::max(begin, end_.at(name));
    begin += idle();
    const Nanos end = begin + place.times[t];
    free_[chosen] = end_[task.name] = end;
    schedule_.tasks.push_back(
        {{place.shape->name, place.placed.start}, place.gpu, task.name, begin, end});
  }

  void make(int chosen) {
    while (!free_.contains(chosen) || rng_.below(10) == 0) {
      if (const int victim = in_the_way(chosen); victim >= 0) {
        reconfigure(victim, Op::destroy, free_.at(victim));
        free_.erase(victim);
      } else if (!free_.contains(chosen)) {
        free_[chosen] = reconfigure(chosen, Op::create, 0);
      }
    }
  }

  // An instance on the same GPU because of which `chosen` cannot exist; -1 when it can.
  int in_the_way(int chosen) {
    const Place& wanted = world_.places[at(chosen)];
    hw::Layout layout = {wanted.placed};
    std::vector<int> others;
    for (const auto& [p, free] : free_) {
      if (world_.places[at(p)].gpu != wanted.gpu || p == chosen) continue;
      if (world_.places[at(p)].meets(wanted)) return p;
      layout.push_back(world_.places[at(p)].placed);
      others.push_back(p);
    }
    const hw::GpuModel& model = problem_.models[at(problem_.gpus[at(wanted.gpu)])];
    if (hw::conflicts(model, layout).empty()) return -1;
    return others[rng_.below(others.size())];
  }

  Nanos reconfigure(int p, Op op, Nanos ready) {
    const Place& place = world_.places[at(p)];
    Nanos& reconfigurer = reconfigurer_[at(problem_.reconfigurer.number(place.gpu))];
    const Nanos begin = std::max(ready, reconfigurer) + idle();
    reconfigurer = begin + (op == Op::create ? place.create : place.destroy);
    schedule_.reconfigurations.push_back(
        {{place.shape->name, place.placed.start}, place.gpu, op, begin, reconfigurer});
    return reconfigurer;
  }

  Rng& rng_;
  const BatchProblem& problem_;
  World world_;
  BatchSchedule schedule_;
  std::map<int, Nanos> free_;  // the places that exist, and from when each is idle
  std::vector<Nanos> reconfigurer_;
  std::map<std::string, Nanos> end_;
};

// ---- the bound by trying all assignments ----

class Assignments {
 public:
  explicit Assignments(const BatchProblem& problem)
      : world_(world_of(problem, false)), tasks_(problem.tasks.size()) {
    load_.resize(world_.places.size());
  }

  Nanos least() {
    assign(0);
    return best_;
  }

 private:
  void assign(std::size_t task) {
    const Nanos longest = longest_slice();
    if (longest >= best_) return;  // more tasks make no slice shorter
    if (task == tasks_) {
      best_ = longest;
      return;
    }
    for (std::size_t p = 0; p < load_.size(); ++p) {
      const Nanos time = world_.places[p].times[task];
      if (time == 0) continue;
      load_[p] += time;
      assign(task + 1);
      load_[p] -= time;
    }
  }

  Nanos longest_slice() const {
    Nanos longest = 0;
    for (int slice = 0; slice < world_.slices; ++slice) {
      Nanos sum = 0, largest = 0;
      for (std::size_t p = 0; p < load_.size(); ++p) {
        const Place& place = world_.places[p];
        if (load_[p] == 0 || !place.covers(slice)) continue;
        sum += place.create + load_[p] + place.destroy;
        largest = std::max(largest, place.destroy);
      }
      longest = std::max(longest, sum - largest);
    }
    return longest;
  }

  World world_;
  std::size_t tasks_;
  std::vector<Nanos> load_;
  Nanos best_ = plan::kForever;
};

// ---- the optimum by trying all schedules ----

// A schedule that cannot be shortened without changing an order is given by the order of each
// reconfigurer's operations and the set of tasks of each life: everything then begins as soon as it
// can.
class Schedules {
 public:
  explicit Schedules(const BatchProblem& problem)
      : problem_(problem), world_(world_of(problem, false)) {
    State start;
    start.left = (1U << problem.tasks.size()) - 1;
    start.slice.resize(at(world_.slices));
    start.reconfigurer.resize(problem.gpus.size());
    visit(start);
  }
  Nanos best() const { return best_; }

 private:
  struct State {
    unsigned left = 0;                         // tasks, one bit each
    std::vector<std::pair<int, Nanos>> alive;  // places, and from when each is idle
    std::vector<Nanos> slice;                  // free from then on
    std::vector<Nanos> reconfigurer;           // the same
    Nanos makespan = 0;
  };

  void visit(const State& state) {
    if (state.makespan >= best_) return;
    if (state.left == 0) {
      best_ = state.makespan;
      return;
    }
    for (std::size_t i = 0; i < state.alive.size(); ++i) visit(without(state, i));
    for (int p = 0; at(p) < world_.places.size(); ++p) {
      const auto meets = [&](const auto& a) {
        return world_.places[at(a.first)].meets(world_.places[at(p)]);
      };
      if (std::ranges::none_of(state.alive, meets)) create(state, p);
    }
  }

  State without(State state, std::size_t i) const {
    const auto [p, idle] = state.alive[i];
    const Place& place = world_.places[at(p)];
    Nanos& reconfigurer = state.reconfigurer[at(problem_.reconfigurer.number(place.gpu))];
    reconfigurer = std::max(reconfigurer, idle) + place.destroy;
    std::fill_n(state.slice.begin() + place.first_slice, place.slices, reconfigurer);
    state.alive.erase(state.alive.begin() + static_cast<std::ptrdiff_t>(i));
    return state;
  }

  // With every set of the tasks that are left; a life without tasks helps nothing.
  void create(const State& before, int p) {
    const Place& place = world_.places[at(p)];
    for (unsigned set = before.left; set > 0; set = (set - 1) & before.left) {
      Nanos load = 0;
      bool fits = true;
      for (std::size_t t = 0; t < place.times.size(); ++t) {
        if ((set >> t & 1U) == 0) continue;
        fits = fits && place.times[t] > 0;
        load += place.times[t];
      }
      if (!fits) continue;
      State state = before;
      Nanos begin = state.reconfigurer[at(problem_.reconfigurer.number(place.gpu))];
      for (int s = 0; s < place.slices; ++s)
        begin = std::max(begin, state.slice[at(place.first_slice + s)]);
      state.reconfigurer[at(problem_.reconfigurer.number(place.gpu))] = begin + place.create;
      state.alive.emplace_back(p, begin + place.create + load);
      state.makespan = std::max(state.makespan, begin + place.create + load);
      state.left &= ~set;
      visit(state);
    }
  }

  const BatchProblem& problem_;
  World world_;
  Nanos best_ = plan::kForever;
};

}  // namespace

BatchSchedule random_schedule(Rng& rng, const BatchProblem& problem, bool all_profiles) {
  return Scribbler(rng, problem, all_profiles).scribble();
}

Nanos bound_by_brute_force(const BatchProblem& problem) { return Assignments(problem).least(); }

Nanos optimum(const BatchProblem& problem) { return Schedules(problem).best(); }

#ifdef PARTITA_HAVE_CBC
namespace {

// Columns in the order of being added, rows as they come; all in seconds.
struct IntegerProgram {
  struct Entry {
    int row = 0, column = 0;
    double value = 0;
  };
  std::vector<double> lower, upper;  // of the rows
  std::vector<char> whole;           // per column
  std::vector<double> cost;
  std::vector<Entry> entries;

  int row(double least, double most) {
    lower.push_back(least);
    upper.push_back(most);
    return static_cast<int>(lower.size()) - 1;
  }
  int column(bool integer, double price) {
    whole.push_back(integer);
    cost.push_back(price);
    return static_cast<int>(whole.size()) - 1;
  }

  std::optional<double> solve() {
    std::ranges::stable_sort(entries, {}, &Entry::column);
    std::vector<int> start, index;
    std::vector<double> value;
    for (int c = 0; at(c) < whole.size(); ++c) {
      start.push_back(static_cast<int>(index.size()));
      for (std::size_t e = index.size(); e < entries.size() && entries[e].column == c; ++e) {
        index.push_back(entries[e].row);
        value.push_back(entries[e].value);
      }
    }
    start.push_back(static_cast<int>(index.size()));
    std::vector<double> least(whole.size(), 0), most(whole.size(), 1);
    most[0] = 1e9;  // the makespan
    Cbc_Model* model = Cbc_newModel();
    Cbc_loadProblem(model, static_cast<int>(whole.size()), static_cast<int>(lower.size()),
                    start.data(), index.data(), value.data(), least.data(), most.data(),
                    cost.data(), lower.data(), upper.data());
    for (int c = 0; at(c) < whole.size(); ++c)
      if (whole[at(c)]) Cbc_setInteger(model, c);
    Cbc_setParameter(model, "log", "0");
    Cbc_setParameter(model, "sec", "10");
    Cbc_setParameter(model, "ratioGap", "0");
    Cbc_setParameter(model, "allowableGap", "1e-7");
    Cbc_solve(model);
    std::optional<double> result;
    if (Cbc_isProvenOptimal(model)) result = Cbc_getObjValue(model);
    Cbc_deleteModel(model);
    return result;
  }
};

double in_seconds(Nanos time) { return plan::seconds(time).value; }

}  // namespace

// x: task on place; y: place is used (whole at an optimum without saying so); z: per slice the one
// place that is not destroyed.
std::optional<double> bound_by_cbc(const BatchProblem& problem) {
  const World world = world_of(problem, false);
  IntegerProgram program;
  const int makespan = program.column(false, 1);
  std::vector<int> slice_row, one_row, task_row;
  for (int s = 0; s < world.slices; ++s) {
    slice_row.push_back(program.row(0, 1e30));
    one_row.push_back(program.row(0, 1));
    program.entries.push_back({slice_row.back(), makespan, 1});
  }
  for (std::size_t t = 0; t < problem.tasks.size(); ++t) task_row.push_back(program.row(1, 1));
  for (const Place& place : world.places) {
    const int used = program.column(false, 0);
    for (int s = place.first_slice; s < place.first_slice + place.slices; ++s) {
      const int kept = program.column(false, 0);
      const int keeps_used = program.row(0, 1e30);
      program.entries.push_back({keeps_used, used, 1});
      program.entries.push_back({keeps_used, kept, -1});
      program.entries.push_back({one_row[at(s)], kept, 1});
      program.entries.push_back({slice_row[at(s)], kept, in_seconds(place.destroy)});
      program.entries.push_back(
          {slice_row[at(s)], used, -in_seconds(place.create + place.destroy)});
    }
    for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
      if (place.times[t] == 0) continue;
      const int runs = program.column(true, 0);
      const int runs_used = program.row(0, 1e30);
      program.entries.push_back({runs_used, used, 1});
      program.entries.push_back({runs_used, runs, -1});
      program.entries.push_back({task_row[t], runs, 1});
      for (int s = place.first_slice; s < place.first_slice + place.slices; ++s)
        program.entries.push_back({slice_row[at(s)], runs, -in_seconds(place.times[t])});
    }
  }
  return program.solve();
}
#else
std::optional<double> bound_by_cbc(const BatchProblem&) { return std::nullopt; }
#endif

namespace {

Shape one_gpu(const std::string& gpu, int tasks) {
  return {.most_tasks = tasks, .most_gpus = 1, .extreme = false, .gpus = {gpu}};
}

// One task runs where creation and run are shortest; two that fill a GPU follow each other.
TEST(BatchOracles, HandValues) {
  BatchProblem problem;
  problem.models = {*hw::builtin_catalogue().find("A30-24GB")};
  problem.gpus = {0};
  plan::SizeTimes times;
  times[1] = 8 * plan::kNanosInSecond;
  times[2] = 5 * plan::kNanosInSecond;
  problem.tasks = {{.name = "a", .times = {times}}};
  EXPECT_EQ(bound_by_brute_force(problem), 5'120'000'000);
  EXPECT_EQ(optimum(problem), 5'120'000'000);
  problem.tasks.push_back({.name = "b", .times = {times}});
  EXPECT_EQ(bound_by_brute_force(problem), 5'120'000'000);
  EXPECT_EQ(optimum(problem), 5'240'000'000);  // the second create waits for the first
  plan::SizeTimes whole;
  whole[4] = 3 * plan::kNanosInSecond;
  problem.tasks.push_back({.name = "c", .times = {whole}});
  EXPECT_EQ(bound_by_brute_force(problem), 8'350'000'000);  // 4g: 0.13 + 3 + 0.1, 2g: 0.12 + 5
  EXPECT_EQ(optimum(problem), 8'470'000'000);
}

TEST(BatchOracles, BruteForceEqualsCbc) {
  Rng rng(3);
  int compared = 0;
  for (int round = 0; round < 16; ++round) {
    const bool small = round % 2 == 0;
    Shape shape = one_gpu(small ? "A30-24GB" : "A100-80GB", small ? 5 : 4);
    shape.most_gpus = round % 8 == 0 ? 2 : 1;
    const BatchProblem problem = random_batch(rng, shape);
    const auto bound = bound_by_cbc(problem);
    if (!bound) continue;
    ++compared;
    EXPECT_NEAR(*bound, plan::seconds(bound_by_brute_force(problem)).value, 1e-5) << round;
  }
  if (compared == 0) GTEST_SKIP() << "CBC is not built in";
  EXPECT_GE(compared, 12);
}

// The bound is a bound, often the optimum itself, and far below only where creates queue up.
TEST(BatchOracles, BoundIsBelowTheOptimum) {
  Rng rng(4);
  int close = 0, rounds = test_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    const bool small = round % 3 > 0;
    const BatchProblem problem =
        random_batch(rng, one_gpu(small ? "A30-24GB" : "H100-80GB-SXM5", small ? 4 : 3));
    const Nanos bound = bound_by_brute_force(problem);
    const Nanos best = optimum(problem);
    EXPECT_LE(bound, best);
    close += best - bound <= plan::kNanosInSecond ? 1 : 0;
  }
  EXPECT_GE(close, rounds * 9 / 10);
}

// Random schedules are valid in the eyes of the judge, and none is shorter than the optimum.
TEST(BatchOracles, RandomSchedulesAreValidAndNotBetterThanTheOptimum) {
  Rng rng(5);
  for (int round = 0; round < test_rounds(300); ++round) {
    const Shape shape{.most_tasks = 30, .timed = round % 2 == 0};
    const BatchProblem problem = random_batch(rng, shape);
    const BatchSchedule schedule = random_schedule(rng, problem, round % 3 == 0);
    for (const plan::Reason& reason : verify::verify(problem, schedule))
      ADD_FAILURE() << "round " << round << ": " << plan::to_string(reason);
  }
  for (int round = 0; round < 20; ++round) {
    const BatchProblem problem = random_batch(rng, one_gpu("A30-24GB", 3));
    const Nanos best = optimum(problem);
    for (int i = 0; i < 20; ++i)
      EXPECT_GE(random_schedule(rng, problem, false).makespan, best) << round;
  }
}

}  // namespace
}  // namespace partita::batch_test
