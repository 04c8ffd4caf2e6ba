#include <fmt/format.h>


#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/batch_generation.h"
#include "flags.h"
#include "forms/batch_forms.h"

namespace partita::cli {
namespace {

struct BatchGenerateFlags {
  decide::GpuNames gpus;
  decide::BatchWords words;
  Output output;
};

Result<Exit> run_batch_generate(Context& context, const BatchGenerateFlags& flags) {
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  const auto problem = TRY(decide::generate_batch(flags.words, gpus));
  return finish(context, flags.output, forms::tasks_csv(problem));
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
void add_details(CLI::App& command, decide::BatchWords& flags) {
  add_share(command, "--p-sup", flags.super_linear,
            "Share of memory-bound tasks: super-linear from one slice to two");
  add_share(command, "--transition", flags.transition,
            "Probability that a memory-bound task becomes compute-bound with a further slice");
  one_of(add_word(command, "--after-transition", flags.after_transition,
                  "How a memory-bound task scales once it is compute-bound"),
         {"sub-linear", "near-linear", "none"});
  one_of(add_word(command, "--clip", flags.clip,
                  "What to do with a scaling factor outside its range: clamp it, or draw again"),
         {"clamp", "truncate"});
  one_of(add_word(command, "--leftovers", flags.leftovers,
                  "Class of the tasks that are left when the shares are rounded"),
         {"largest-remainder", "smallest-class"});
  flag(command, "--shares", flags.shares);
  flag(command, "--time-range", flags.time_range);
  one_of(add_word(command, "--order", flags.order, "Order of the tasks in the file"),
         {"shuffled", "classes"});
  within(flag(command, "--releases", flags.releases), 0, 1e6);
  within(flag(command, "--deadlines", flags.deadlines), 1, 1e6);
}

}  // namespace

Command add_batch_generate(CLI::App& batch) {
  auto [command, flags] = adding<BatchGenerateFlags>(
      batch, "generate",
      "Make up a batch after Section 6.3 of the FAR paper: tasks that scale to a size");
  within(flag(*command, "--count", flags->words.count), 1, plan::kMaxTasks)->required();
  one_of(add_word(*command, "--scaling", flags->words.scaling,
                  "poor: half of the tasks in each of the two smallest sizes; mixed: the same "
                  "share in all; good: half in each of the two largest"),
         {"poor", "mixed", "good"});
  one_of(add_word(*command, "--times", flags->words.times,
                  "Seconds on one slice: 1 to 100 (wide) or 90 to 100 (narrow)"),
         {"wide", "narrow"});
  add_gpu_list_flags(*command, flags->gpus);
  add_seed(*command, flags->words.seed);
  add_details(*command, flags->words);
  add_output(*command, flags->output, {"csv"});
  command->footer("partita init --count 20 --scaling mixed --gpu A100-80GB --seed 7 -o tasks.csv");
  return {command, [flags](Context& context) { return run_batch_generate(context, *flags); }};
}

}  // namespace partita::cli
