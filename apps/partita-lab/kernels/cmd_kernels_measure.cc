// partita kernels measure: what a program's kernels take on lanes of several sizes, as `kernels
// plan` reads it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "base/child.h"
#include "base/median.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "decide/kernel_inputs.h"
#include "flags.h"
#include "kernels/kernel_commands.h"
#include "places.h"
#include "profile/kernel_profile.h"

namespace partita::cli {
namespace {

struct KernelsMeasureFlags {
  std::string program, units;
  int repeats = 3;
  std::vector<std::string> words;
  Output output;
};

struct Measured {
  std::vector<std::string> kernels;                      // of a request
  std::map<int, std::vector<std::vector<double>>> runs;  // by units: of each run, of each kernel
};

std::string remote_program() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return (fs::read_symlink("/proc/self/exe", ignored).parent_path() / "partita-remote").string();
}

// MHz of the fastest processor now; 0: this machine does not say it.
double clock_mhz(Files& files) {
  double mhz = 0;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    const auto text =
        files.read(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", i));
    if (text)
      mhz = std::max(mhz, parse_number<double>(text->substr(0, text->find('\n'))).value_or(0));
  }
  return mhz / 1e3;
}

// One run of the program on so many units.
Result<void> measure_once(Context& context, const KernelsMeasureFlags& flags, int units,
                          Measured& measured) {
  const auto folder = TRY(PrivateFolder::make());
  const std::string file = folder.path() + "/times.csv";
  std::vector<std::string> argv = {remote_program(),         "remote",         "run", "--units",
                                   fmt::format("{}", units), "--kernel-times", file,  "--"};
  for (const std::string& word : split(flags.program, ' '))
    if (!word.empty()) argv.push_back(word);
  argv.insert(argv.end(), flags.words.begin(), flags.words.end());
  auto child = TRY(Child::start({.argv = std::move(argv), .called = flags.program, .quiet = true}));
  if (const int status = child.wait(); status != 0)
    return environment_error(flags.program, fmt::format("ended with {}", status));
  const auto text = context.files.read(file);
  if (!text) return bad_input("--program", flags.program + " launched no kernel");
  const auto model = TRY(profile::parse_kernel_csv(flags.program, *text, units));
  std::vector<std::string> kernels;
  std::vector<double> times;
  for (const auto& kernel : model.kernels) {
    kernels.push_back(kernel.name);
    times.push_back(kernel.on(units));
  }
  if (measured.kernels.empty()) measured.kernels = kernels;
  if (measured.kernels != kernels)
    return bad_input("--program", flags.program + ": its requests have other kernels each time");
  measured.runs[units].push_back(std::move(times));
  return {};
}

std::string csv_of(const Measured& measured) {
  std::string text = "index,kernel,units,time_us\n";
  for (std::size_t k = 0; k < measured.kernels.size(); ++k)
    for (const auto& [units, runs] : measured.runs) {
      std::vector<double> times;
      for (const std::vector<double>& run : runs) times.push_back(run[k]);
      text += fmt::format("{},{},{},{:.3f}\n", k, measured.kernels[k], units, median(times));
    }
  return text;
}

Result<Exit> run_kernels_measure(Context& context, const KernelsMeasureFlags& flags) {
  const auto sizes = TRY(decide::parse_counts("--units", flags.units, hw::kMaxUnits));
  Measured measured;
  const double before = clock_mhz(context.files);
  for (int i = 0; i < flags.repeats; ++i)  // in turns, so that a change of clocks meets all
    for (const int units : sizes) TRY(measure_once(context, flags, units, measured));
  const double after = clock_mhz(context.files);
  note(context,
       fmt::format("{} kernels, medians of {} runs; processor {}\n", measured.kernels.size(),
                   flags.repeats,
                   before > 0 ? fmt::format("at {:.0f} MHz, at the end {:.0f}", before, after)
                              : "does not say its clock"));
  return finish(context, flags.output, csv_of(measured));
}

}  // namespace

Command add_kernels_measure(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsMeasureFlags>(
      kernels, "measure", "Measure a CUDA program's kernels on lanes of several sizes");
  flag(*command, "--program", flags->program)->required();
  flag(*command, "--units", flags->units, "Several, as in 15,30,60: the last is the whole GPU")
      ->required();
  within(flag(*command, "--repeats", flags->repeats), 1, 1000)->default_str("3");
  command->add_option("arguments", flags->words, "Further arguments of the program, behind --")
      ->type_name("WORD");
  add_output_file(*command, flags->output.file);
  command->footer("partita kernels measure --program './infer --batch 8' --units 1,2 -o infer.csv");
  return {command, [flags](Context& context) { return run_kernels_measure(context, *flags); }};
}

}  // namespace partita::cli
