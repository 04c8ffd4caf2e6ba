#include <fmt/format.h>


#include "base/clock.h"
#include "base/table.h"
#include "flags.h"
#include "heat/dtm/dtm_study.h"
#include "heat/thermal_flags.h"

namespace partita::cli {
namespace {

struct DtmFlags {
  dtm::DtmNames names;
  std::string caps_of = "rise";
  double idle_share = 40, memory = 10, power_error = 0;
  bool histogram = false;
  Output output;
};

// Why a cap is or is not met, in a few words.
std::string verdict_of(const dtm::StatedDtm& study, const dtm::StatedDtmRun& run) {
  if (!run.finished) return "given up";
  if (!run.can_be_met)
    return run.cap_c < study.idle_c ? "no clock can: idle is hotter" : "no clock can";
  if (run.over_cap_s <= 0) return "met";
  if (run.worst_over_k < 0.1) return "met within 0.1 K";
  return fmt::format("over {:.0f} % of the time, {:.1f} K", 100 * run.over_cap_s / run.seconds,
                     run.worst_over_k);
}

// The plateau: what no clock can meet.
std::string plateau_text(const dtm::StatedDtm& study) {
  long hopeless = 0, below_idle = 0, below_ambient = 0;
  for (const dtm::StatedDtmRun& run : study.runs) {
    hopeless += !run.can_be_met;
    below_idle += run.cap_c < study.idle_c;
    below_ambient += run.cap_c < study.ambient_c;
  }
  std::string text = fmt::format(
      "\nAround the chip it has {:.1f} C; idle power alone warms the hottest block to {:.1f} C.\n",
      study.ambient_c, study.idle_c);
  if (hopeless == 0) return text + "Every cap can be met at the lowest clock.\n";
  text += fmt::format(
      "{} of {} caps are below what the chip has at the lowest clock, so no governor meets them: "
      "it stays\nat the lowest clock, and a still lower cap costs the same (a plateau). {} of them "
      "are below idle,\n{} below the surroundings.",
      hopeless, study.runs.size(), below_idle, below_ambient);
  if (study.caps_of == "celsius")
    text +=
        " Per cent of degrees Celsius also take from the surroundings' share;\n--caps-of rise "
        "takes from what the work adds.";
  return text + "\n";
}

std::string tenants_text(const dtm::StatedDtm& study) {
  Table table{{"WORKLOAD", "GOVERNOR", "CAP", "TENANT", "JOULES", "THROTTLED BY"}, {}};
  for (const dtm::StatedDtmRun& run : study.runs)
    for (const dtm::StatedTenantHeat& tenant : run.tenants)
      table.rows.push_back({run.workload, run.governor, fmt::format("-{:g} %", run.percent),
                            tenant.name, fmt::format("{:.1f}", tenant.energy_j),
                            fmt::format("{:.1f} %", 100 * tenant.throttle_share)});
  if (table.rows.empty()) return "";
  return "\nWhose heat it was: energy of the tenants' blocks above idle, and their part in the "
         "hottest block's\nrise while work was lost to throttling:\n" +
         to_string(table);
}

std::string histogram_text(const dtm::StatedDtm& study) {
  Table table{{"WORKLOAD", "GOVERNOR", "CAP", "MHz: SHARE OF THE TIME"}, {}};
  for (const dtm::StatedDtmRun& run : study.runs) {
    std::string clocks;
    for (const dtm::StatedClockShare& clock : run.clocks)
      clocks +=
          fmt::format("{}{:g}: {:.0f} %", clocks.empty() ? "" : ", ", clock.mhz, 100 * clock.share);
    table.rows.push_back({run.workload, run.governor, fmt::format("-{:g} %", run.percent), clocks});
  }
  return "\n" + to_string(table);
}

std::string dtm_text(const dtm::StatedDtm& study, bool histogram) {
  Table works{{"WORKLOAD", "SECONDS", "JOULES", "MEMORY", "MAX C", "AT LOWEST CLOCK C"}, {}};
  for (const dtm::StatedHotWork& work : study.workloads)
    works.rows.push_back({work.name, fmt::format("{:.2f}", work.seconds),
                          fmt::format("{:.0f}", work.energy_j),
                          fmt::format("{:.0f} %", 100 * work.memory_share),
                          fmt::format("{:.1f}", work.max_c), fmt::format("{:.1f}", work.lowest_c)});
  Table runs{
      {"WORKLOAD", "GOVERNOR", "CAP", "CAP C", "SLOWER", "ENERGY", "MAX C", "MEAN C", "THE CAP IS"},
      {}};
  for (const dtm::StatedDtmRun& run : study.runs)
    runs.rows.push_back({run.workload, run.governor, fmt::format("-{:g} %", run.percent),
                         fmt::format("{:.1f}", run.cap_c), fmt::format("{:.2f}x", run.slowdown),
                         fmt::format("{:.2f}x", run.energy_ratio), fmt::format("{:.1f}", run.max_c),
                         fmt::format("{:.1f}", run.mean_c), verdict_of(study, run)});
  std::string text = "At the highest clock:\n" + to_string(works) +
                     "\nUnder caps that lie so far below each workload's own maximum:\n" +
                     to_string(runs) + plateau_text(study) + tenants_text(study);
  if (histogram) text += histogram_text(study);
  return text;
}

Result<Exit> run_thermal_dtm(Context& context, DtmFlags flags) {
  flags.names.celsius = flags.caps_of == "celsius";
  flags.names.idle_clocked = flags.idle_share / 100;
  flags.names.memory_share = flags.memory / 100;
  flags.names.power_error = flags.power_error / 100;
  if (flags.output.svg()) {
    const auto picture = TRY(dtm::dtm_picture(context.files, flags.names));
    return finish(context, flags.output, picture);
  }
  const auto study = TRY(dtm::dtm_study(context.files, flags.names));
  return finish(context, flags.output,
                flags.output.json() ? dtm::dtm_json(study) : dtm_text(study, flags.histogram));
}

void add_workload_flags(CLI::App& command, DtmFlags& flags) {
  flag(command, "--workload", flags.names.workload);
  within(flag(command, "--row-s", flags.names.row_s), 1e-6, 1e4)->default_str("0.01");
  within(flag(command, "--work-s", flags.names.work_s), 1e-3, 1e5);
  within(flag(command, "--memory-part", flags.memory), 0, 100)->default_str("10");
  within(flag(command, "--idle-watts", flags.names.idle_watts), 0, 2000)->default_str("17.4");
  within(flag(command, "--idle-clocked", flags.idle_share), 0, 100)->default_str("40");
  flag(command, "--tenant", flags.names.tenants);
}

void add_governor_flags(CLI::App& command, DtmFlags& flags) {
  one_of(flag(command, "--governor", flags.names.governor), {"step", "pid", "predictive", "all"})
      ->default_str("step");
  flag(command, "--caps", flags.names.caps)->default_str("10,20,30,40,50");
  one_of(flag(command, "--caps-of", flags.caps_of), {"rise", "celsius"})->default_str("rise");
  within(flag(command, "--epoch-ms", flags.names.epoch_ms), 0.001, 1e4)->default_str("1");
  flag(command, "--clocks", flags.names.clocks);
  flag(command, "--volts", flags.names.volts);
  within(flag(command, "--hysteresis", flags.names.hysteresis_k), 0, 50)->default_str("0.5");
  within(flag(command, "--sensor", flags.names.sensor_k), 0, 10)->default_str("0");
  within(flag(command, "--power-error", flags.power_error), -90, 500)->default_str("0");
  flag(command, "--histogram", flags.histogram);
}

}  // namespace

Command add_thermal_dtm(CLI::App& thermal) {
  auto [command, flags] = adding<DtmFlags>(
      thermal, "dtm", "What a cap on the chip's temperature costs, and whose heat throttles");
  add_thermal_flags(*command, flags->names.thermal);
  command->get_option("--power")->required(false);
  add_workload_flags(*command, *flags);
  add_governor_flags(*command, *flags);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita thermal dtm --caps-of celsius --governor all\n"
      "partita thermal dtm --workload compute --tenant a=SM0,SM1 --tenant b=SM2,SM3,SM4,SM5\n"
      "partita thermal dtm --workload compute --caps 20 --tenant a=SM0,SM1 --tenant b=SM2 "
      "--format svg -o dtm.svg\n"
      "partita thermal dtm --flp chip.flp --config chip.config --power chip.ptrace --memory 30");
  return {command, [flags](Context& context) { return run_thermal_dtm(context, *flags); }};
}

}  // namespace partita::cli
