// partita kernels measure: what a program's kernels take on lanes of several sizes, as `kernels
// plan` reads it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "base/child.h"
#include "base/median.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "decide/kernel_inputs.h"
#include "flags.h"
#include "kernels/kernel_commands.h"
#include "kernels/lane_drivers.h"
#include "kernels/neighbours.h"
#include "places.h"
#include "profile/kernel_profile.h"

namespace partita::cli {
namespace {

using profile::Neighbour;

struct KernelsMeasureFlags {
  std::string program, units;
  int repeats = 3;
  bool beside = false;
  std::vector<std::string> words;
  Output output;
};

// Where a program runs: on so many units, alone or with neighbours on all others.
struct Setting {
  int units = 0;
  std::optional<profile::Neighbour> beside;
  auto operator<=>(const Setting&) const = default;
};

struct Measured {
  int all = 0;  // units of the whole GPU
  struct Times {
    std::vector<double> us, gap_us;  // of each run
  };
  std::vector<std::string> kernels;                      // of a request
  std::map<Setting, std::vector<Times>> times;           // of each kernel
  std::map<int, std::vector<MemoryDisturbance>> memory;  // by units, of each run
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

// One run of the program.
Result<void> measure_once(Context& context, const KernelsMeasureFlags& flags,
                          const Setting& setting, Measured& measured) {
  const int units = setting.units;
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
  for (const auto& kernel : model.kernels) kernels.push_back(kernel.name);
  if (measured.kernels.empty()) measured.kernels = kernels;
  if (measured.kernels != kernels)
    return bad_input("--program", flags.program + ": its requests have other kernels each time");
  auto& times = measured.times[setting];
  times.resize(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    times[k].us.push_back(model.kernels[k].on(units));
    times[k].gap_us.push_back(model.kernels[k].gap_us);
  }
  return {};
}

// The same beside each kind of neighbours on the units that are left.
Result<void> measure_beside(Context& context, const KernelsMeasureFlags& flags, int units,
                            Measured& measured) {
  const int left = measured.all - units;
  for (const Neighbour kind : {Neighbour::computing, Neighbour::reading}) {
    const auto neighbours = TRY(Neighbours::start(left, kind));
    TRY(measure_once(context, flags, {units, kind}, measured));
  }
  measured.memory[units].push_back(TRY(measure_memory_disturbance(units, left)));
  return {};
}

double median_of(const std::vector<MemoryDisturbance>& runs, double MemoryDisturbance::*figure) {
  std::vector<double> all;
  for (const MemoryDisturbance& run : runs) all.push_back(run.*figure);
  return median(all);
}

// How hard a kernel presses on the memory: its part in what it has from readers, beyond what it has
// from those that compute, against theirs among themselves. Whoever waits for the memory uses it.
double presses(const Measured& measured, std::size_t k, int units) {
  const auto us = [&](std::optional<Neighbour> beside) {
    return median(measured.times.at({units, beside})[k].us);
  };
  const auto& runs = measured.memory.at(units);
  const double theirs = median_of(runs, &MemoryDisturbance::by_reading) -
                        median_of(runs, &MemoryDisturbance::by_computing);
  const double mine = (us(Neighbour::reading) - us(Neighbour::computing)) / us(std::nullopt);
  return theirs <= 0 ? 0 : std::clamp(mine / theirs, 0.0, 1.0);
}

std::string csv_of(const Measured& measured) {
  const bool beside = !measured.memory.empty();
  std::string text = "index,kernel,units,time_us,gap_us";
  text += beside ? ",beside,presses\n" : "\n";
  for (std::size_t k = 0; k < measured.kernels.size(); ++k)
    for (const auto& [setting, times] : measured.times) {
      text += fmt::format("{},{},{},{:.3f},{:.3f}", k, measured.kernels[k], setting.units,
                          median(times[k].us), median(times[k].gap_us));
      if (beside) text += fmt::format(",{},", setting.beside ? profile::word(*setting.beside) : "");
      if (setting.beside == Neighbour::reading)
        text += fmt::format("{:.3f}", presses(measured, k, setting.units));
      text += '\n';
    }
  return text;
}

// Neighbours are threads: beside a program on a GPU they would be none.
Result<void> check_no_gpu() {
  LaneDriverFlags gpu;
  gpu.driver = "green_ctx";
  if (!open_lane_driver(gpu)) return {};
  return bad_input("--beside",
                   "is for units of the CPU, and here is a GPU: measure there beside a program "
                   "on another lane (`remote serve --shape LANE-32 --shape LANE-88 "
                   "--kernel-times`), and say so in the column `beside`");
}

Result<Exit> run_kernels_measure(Context& context, const KernelsMeasureFlags& flags) {
  const auto sizes = TRY(decide::parse_counts("--units", flags.units, hw::kMaxUnits));
  if (flags.beside) TRY(check_no_gpu());
  if (flags.beside && sizes.size() < 2)
    return bad_input("--beside", "needs a number of units in --units that leaves some to others");
  Measured measured;
  measured.all = sizes.back();
  const double before = clock_mhz(context.files);
  for (int i = 0; i < flags.repeats; ++i)  // in turns, so that a change of clocks meets all
    for (const int units : sizes) {
      TRY(measure_once(context, flags, {units, {}}, measured));
      if (flags.beside && units < measured.all)
        TRY(measure_beside(context, flags, units, measured));
    }
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
  flag(*command, "--beside", flags->beside);
  command->add_option("arguments", flags->words, "Further arguments of the program, behind --")
      ->type_name("WORD");
  add_output_file(*command, flags->output.file);
  command->footer(
      "partita kernels measure --program './infer --batch 8' --units 1,2 -o infer.csv\n"
      "partita kernels measure --program ./infer --units 1,2,4 --beside -o infer.csv");
  return {command, [flags](Context& context) { return run_kernels_measure(context, *flags); }};
}

}  // namespace partita::cli
