#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/rng.h"
#include "batch/batch_commands.h"
#include "batch/batch_inputs.h"
#include "commands.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "sim/batch_generator.h"

namespace partita::cli {
namespace {

struct BatchGenerateFlags {
  GpuFlags gpus;
  int count = 0;
  std::string scaling = "mixed", times = "wide";
  std::string shares, time_range;  // empty: as --scaling and --times say
  double super_linear = sim::BatchRecipe{}.super_linear;
  double transition = sim::BatchRecipe{}.transition_probability;
  std::string clip = "clamp", after_transition = "sub-linear", leftovers = "largest-remainder";
  std::string order = "shuffled";
  double releases = 0;   // seconds
  double deadlines = 0;  // times the shortest time; 0: none
  std::uint64_t seed = 1;
  Output output;
};

// Streams of --seed beside the generator's own.
constexpr std::uint64_t kReleaseStream = 0x72656c65617365;  // "release"
constexpr plan::Nanos kMillisecond = 1'000'000;

Result<double> parse_number(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) {
    return bad_input(flag, fmt::format("'{}' is not a number", text));
  }
  return value;
}

// "1:0.2,2:0.8".
Result<std::vector<sim::ClassShare>> parse_shares(const std::string& text) {
  std::vector<sim::ClassShare> shares;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> pair = split(part, ':');
    if (pair.size() != 2) {
      return bad_input("--shares", fmt::format("'{}' is no SIZE:SHARE such as 2:0.5", part));
    }
    const Result<double> size = parse_number("--shares", pair[0]);
    if (!size) return failed(size.error());
    const Result<double> share = parse_number("--shares", pair[1]);
    if (!share) return failed(share.error());
    if (!(*size >= 1 && *size <= hw::kMaxSlices && *size == static_cast<int>(*size))) {
      return bad_input("--shares", fmt::format("'{}' is no number of slices", pair[0]));
    }
    shares.push_back({static_cast<int>(*size), *share});
  }
  return shares;
}

// "90,100" into the recipe.
Result<sim::BatchRecipe> with_range(sim::BatchRecipe recipe, const std::string& text) {
  const std::vector<std::string> ends = split(text, ',');
  if (ends.size() != 2) {
    return bad_input("--time-range", fmt::format("'{}' is no range such as 90,100", text));
  }
  const Result<double> shortest = parse_number("--time-range", ends[0]);
  if (!shortest) return failed(shortest.error());
  const Result<double> longest = parse_number("--time-range", ends[1]);
  if (!longest) return failed(longest.error());
  recipe.shortest = {*shortest};
  recipe.longest = {*longest};
  return recipe;
}

Result<sim::BatchRecipe> recipe_of(const BatchGenerateFlags& flags, const hw::GpuModel& model) {
  const auto scaling = flags.scaling == "poor"   ? sim::Scaling::poor
                       : flags.scaling == "good" ? sim::Scaling::good
                                                 : sim::Scaling::mixed;
  const auto range = flags.times == "narrow" ? sim::TimeRange::narrow : sim::TimeRange::wide;
  sim::BatchRecipe recipe = sim::batch_recipe(model, scaling, range);
  recipe.count = flags.count;
  recipe.super_linear = flags.super_linear;
  recipe.transition_probability = flags.transition;
  recipe.clip = flags.clip == "truncate" ? sim::Clip::truncate : sim::Clip::clamp;
  recipe.transition = flags.after_transition == "none"          ? sim::Transition::none
                      : flags.after_transition == "near-linear" ? sim::Transition::near_linear
                                                                : sim::Transition::sub_linear;
  recipe.leftovers = flags.leftovers == "smallest-class" ? sim::Leftovers::smallest_class
                                                         : sim::Leftovers::largest_remainder;
  recipe.shuffle = flags.order == "shuffled";
  if (!flags.shares.empty()) {
    Result<std::vector<sim::ClassShare>> shares = parse_shares(flags.shares);
    if (!shares) return failed(shares.error());
    recipe.shares = std::move(*shares);
  }
  if (!flags.time_range.empty()) return with_range(std::move(recipe), flags.time_range);
  return recipe;
}

plan::Nanos shortest_time(const plan::Task& task) {
  plan::Nanos shortest = plan::kMaxTaskTime;
  for (const plan::SizeTimes& times : task.times) {
    for (const plan::Nanos time : times.by_gpcs) {
      if (time > 0) shortest = std::min(shortest, time);
    }
  }
  return shortest;
}

// Release times, uniform over the first --releases seconds in whole milliseconds, and deadlines
// --deadlines times the shortest time after them.
void add_wishes(plan::BatchProblem& problem, const BatchGenerateFlags& flags) {
  Rng random = Rng(flags.seed).split(kReleaseStream);
  for (plan::Task& task : problem.tasks) {
    if (flags.releases > 0) {
      task.release =
          static_cast<plan::Nanos>(random.uniform() * flags.releases * 1e3) * kMillisecond;
    }
    if (flags.deadlines > 0) {
      const double allowed = std::min(flags.deadlines * static_cast<double>(shortest_time(task)),
                                      static_cast<double>(plan::kMaxTaskTime - task.release));
      task.deadline = task.release + static_cast<plan::Nanos>(allowed);
    }
  }
}

Result<Exit> run_batch_generate(Context& context, const BatchGenerateFlags& flags) {
  const Result<GpuList> gpus = load_gpus(context, flags.gpus);
  if (!gpus) return failed(gpus.error());
  const Result<sim::BatchRecipe> recipe = recipe_of(flags, gpus->models.front());
  if (!recipe) return failed(recipe.error());
  Result<plan::BatchProblem> problem =
      sim::generate_batch(*recipe, gpus->models, gpus->gpus, flags.seed);
  if (!problem) {
    const Error& error = problem.error();
    return bad_input(error.context == "times" ? "--time-range" : "--" + error.context,
                     error.message);
  }
  add_wishes(*problem, flags);
  if (auto written = deliver(context, flags.output, forms::tasks_csv(*problem)); !written) {
    return failed(written.error());
  }
  return Exit::done;
}

CLI::Option* add_share(CLI::App& command, const char* name, double& value, const char* help) {
  return within(command.add_option(name, value, help), 0, 1)
      ->type_name("SHARE")
      ->default_str(fmt::format("{}", value));
}

CLI::Option* add_word(CLI::App& command, const char* name, std::string& value, const char* help) {
  return command.add_option(name, value, help)->default_str(value);
}

// What the paper leaves open, and what is not in it.
void add_details(CLI::App& command, BatchGenerateFlags& flags) {
  add_share(command, "--p-sup", flags.super_linear,
            "Share of memory-bound tasks: super-linear from one slice to two");
  add_share(command, "--transition", flags.transition,
            "Probability that a memory-bound task becomes compute-bound with a further slice");
  one_of(add_word(command, "--after-transition", flags.after_transition,
                  "How a memory-bound task scales once it is compute-bound"),
         {"sub-linear", "near-linear", "none"});
  one_of(add_word(command, "--clip", flags.clip,
                  "Scaling factors outside of their range: take its end, or draw again"),
         {"clamp", "truncate"});
  one_of(add_word(command, "--leftovers", flags.leftovers,
                  "Which class gets the tasks that the shares leave over"),
         {"largest-remainder", "smallest-class"});
  command
      .add_option("--shares", flags.shares,
                  "Shares of the tasks that run well up to a size, instead of --scaling: "
                  "1:0.2,2:0.2,7:0.6")
      ->type_name("SHARES");
  command
      .add_option("--time-range", flags.time_range,
                  "Seconds on one slice, shortest and longest, instead of --times: 90,100")
      ->type_name("RANGE");
  one_of(add_word(command, "--order", flags.order, "Order of the tasks in the file"),
         {"shuffled", "classes"});
  within(command.add_option("--releases", flags.releases,
                            "Release the tasks one by one over so many seconds"),
         0, 1e6)
      ->type_name("SECONDS");
  within(command.add_option("--deadlines", flags.deadlines,
                            "Give every task a deadline: so many times its shortest time after "
                            "its release"),
         1, 1e6)
      ->type_name("FACTOR");
}

}  // namespace

Command add_batch_generate(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "generate", "Make up a batch after Section 6.3 of the FAR paper: tasks that scale to a size");
  auto flags = std::make_shared<BatchGenerateFlags>();
  within(command->add_option("--count", flags->count, "How many tasks"), 1, plan::kMaxTasks)
      ->type_name("N")
      ->required();
  one_of(add_word(*command, "--scaling", flags->scaling,
                  "poor: half of the tasks in each of the two smallest sizes; mixed: the same "
                  "share in all; good: half in each of the two largest"),
         {"poor", "mixed", "good"});
  one_of(add_word(*command, "--times", flags->times,
                  "Seconds on one slice: 1 to 100 (wide) or 90 to 100 (narrow)"),
         {"wide", "narrow"});
  add_gpu_list_flags(*command, flags->gpus);
  add_seed(*command, flags->seed);
  add_details(*command, *flags);
  add_output(*command, flags->output, {"csv"});
  command->footer(
      "partita batch generate --count 20 --scaling mixed --gpu A100-80GB --seed 7 -o tasks.csv");
  return {command, [flags](Context& context) { return run_batch_generate(context, *flags); }};
}

}  // namespace partita::cli
