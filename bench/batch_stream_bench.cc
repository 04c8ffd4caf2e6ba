// Streams of batches on an A100, as in Section 6.7 of Villarrubia et al., JPDC 204 (2025): Table 7
// (what reversal and moves/swaps gain on two batches), Table 8 (how many moves and swaps), Table 9
// (percent beyond the bound of the areas, every batch counted once), for the paper's methods and
// Partita's. `batch_stream_bench [BATCHES]`, default 51. Every schedule of Table 9 is judged.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "hw/catalogue.h"
#include "planners/batch/stream.h"
#include "sim/batch_generator.h"
#include "verify/batch.h"

namespace partita {
namespace {

using plan::BatchProblem;
using planners::batch::OnlineScheduler;
using planners::batch::Outlook;
using planners::batch::StreamMethod;
using planners::batch::StreamOptions;

struct Configuration {
  const char* name;
  sim::Scaling scaling;
  sim::TimeRange range;
};

constexpr Configuration kConfigurations[] = {
    {"Poor Narrow ", sim::Scaling::poor, sim::TimeRange::narrow},
    {"Poor Wide   ", sim::Scaling::poor, sim::TimeRange::wide},
    {"Mixed Narrow", sim::Scaling::mixed, sim::TimeRange::narrow},
    {"Mixed Wide  ", sim::Scaling::mixed, sim::TimeRange::wide},
    {"Good Narrow ", sim::Scaling::good, sim::TimeRange::narrow},
    {"Good Wide   ", sim::Scaling::good, sim::TimeRange::wide},
};

std::vector<BatchProblem> batches_of(const Configuration& configuration, int count, double memory,
                                     int batches) {
  const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
  sim::BatchRecipe recipe = sim::batch_recipe(gpu, configuration.scaling, configuration.range);
  recipe.count = count;
  recipe.super_linear = memory;
  std::vector<BatchProblem> all;
  for (int b = 1; b <= batches; ++b) {
    all.push_back(*sim::generate_batch(recipe, {gpu}, {0}, static_cast<std::uint64_t>(b)));
    for (plan::Task& task : all.back().tasks) task.name += "-" + std::to_string(b);
  }
  return all;
}

struct Ran {
  double makespan = 0, excess = 0;          // seconds; percent beyond the bound
  double cpu_ms = 0, moves = 0, swaps = 0;  // per batch
};

Ran run(const std::vector<BatchProblem>& batches, const StreamOptions& options, bool judged) {
  RealClock clock;
  OnlineScheduler stream = *OnlineScheduler::create(batches[0], options);
  BatchProblem whole{{}, batches[0].models, batches[0].gpus};
  std::int64_t spent = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const bool last = b + 1 == batches.size();
    const std::int64_t before = clock.cpu_ns();
    CHECK(stream.submit(batches[b].tasks, 0, last ? Outlook::last : Outlook::more));
    spent += clock.cpu_ns() - before;
    if (judged) {
      whole.tasks.insert(whole.tasks.end(), batches[b].tasks.begin(), batches[b].tasks.end());
    }
  }
  if (judged) {
    for (const plan::Reason& violation : verify::verify(whole, stream.schedule())) {
      std::printf("VIOLATION %s\n", to_string(violation).c_str());
      std::exit(1);
    }
  }
  const double count = static_cast<double>(batches.size());
  const double bound = stream.least_area() / stream.columns();
  return {static_cast<double>(stream.makespan()) / 1e9,
          100 * (static_cast<double>(stream.makespan()) / bound - 1),
          static_cast<double>(spent) / 1e6 / count, static_cast<double>(stream.moves()) / count,
          static_cast<double>(stream.swaps()) / count};
}

// Tables 7 and 8: two batches at a time.
void pairs(int count, double memory, int batches) {
  std::printf(
      "\nTables 7 and 8, n = %d, p_sup = %g: gain over trivial of reversal, of moves/swaps "
      "as well, of ours (%%); moves, swaps per pair\n",
      count, memory);
  for (const Configuration& configuration : kConfigurations) {
    const auto all = batches_of(configuration, count, memory, batches);
    double gains[4] = {}, moves = 0, swaps = 0;
    for (std::size_t b = 0; b + 1 < all.size(); ++b) {
      double trivial = 0;
      for (const StreamMethod method : {StreamMethod::trivial, StreamMethod::reverse,
                                        StreamMethod::overlap, StreamMethod::best}) {
        const Ran ran = run({all[b], all[b + 1]}, {.method = method, .replanned = 0}, false);
        if (method == StreamMethod::trivial) trivial = ran.makespan;
        gains[static_cast<int>(method)] += 100 * (trivial / ran.makespan - 1);
        moves += 2 * ran.moves;
        swaps += 2 * ran.swaps;
      }
    }
    const double pairs = static_cast<double>(all.size() - 1);
    std::printf("  %s %7.2f %7.2f %7.2f   %5.2f %5.2f\n", configuration.name, gains[1] / pairs,
                gains[2] / pairs, gains[3] / pairs, moves / pairs, swaps / pairs);
  }
}

// Table 9: one stream of all batches.
void streams(int count, double memory, int batches) {
  std::printf(
      "\nTable 9, n = %d, p_sup = %g, %d batches: %% beyond the bound (CPU ms per batch): "
      "trivial, reversal, moves/swaps, ours onto fixed batches, ours\n",
      count, memory, batches);
  for (const Configuration& configuration : kConfigurations) {
    const auto all = batches_of(configuration, count, memory, batches);
    std::printf("  %s", configuration.name);
    for (const StreamMethod method : {StreamMethod::trivial, StreamMethod::reverse,
                                      StreamMethod::overlap, StreamMethod::best}) {
      StreamOptions options{.method = method};
      if (method == StreamMethod::best) {
        const Ran fixed = run(all, {.method = method, .replanned = 0}, true);
        std::printf(" %6.2f (%.3f)", fixed.excess, fixed.cpu_ms);
      }
      const Ran ran = run(all, options, true);
      std::printf(" %6.2f (%.3f)", ran.excess, ran.cpu_ms);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const int batches = argc > 1 ? std::atoi(argv[1]) : 51;
  if (batches < 2) {
    std::fprintf(stderr, "batch_stream_bench [BATCHES], at least 2\n");
    return 2;
  }
  for (const double memory : {0.0, 0.5}) {
    for (const int count : {10, 20, 30}) {
      partita::streams(count, memory, batches);
      partita::pairs(count, memory, std::min(batches, 201));
    }
  }
  return 0;
}
