#include "heat/dtm/dtm_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/named_list.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "forms/time_panels.h"
#include "heat/rom.h"
#include "heat/dtm/dtm_example.h"

namespace partita::dtm {
namespace {

constexpr std::size_t kMostCaps = 64;
constexpr std::size_t kMostMoments = 1200;  // of a picture; more cannot be told apart
// Three rates besides the steady state hold a chip of tens of blocks within millikelvins.
const std::vector<double> kDtmRates = {0.3, 10, 300};

struct DtmSubject {
  thermal::Floorplan plan;
  thermal::Network network;
  std::vector<dtm::HotWork> workloads;
};

Result<std::vector<double>> numbers(const std::string& flag, const std::string& text, double least,
                                    double most) {
  std::vector<double> all;
  for (const std::string& word : split(text, ',')) {
    const std::optional<double> value = parse_number<double>(word);
    if (!value || !(*value >= least && *value <= most) || all.size() >= kMostCaps)
      return bad_input(flag, fmt::format("'{}' is not a list of numbers from {} to {} between "
                                         "commas",
                                         text, least, most));
    all.push_back(*value);
  }
  return all;
}

Result<DtmSubject> example(Files& files, const DtmNames& names) {
  if (!names.thermal.power.empty() || !names.thermal.materials.empty())
    return bad_input(names.thermal.power.empty() ? "--materials" : "--power",
                     "the example has its own; with --flp or --lcf it is yours");
  const auto config =
      TRY(thermal::load_thermal_config(files, names.thermal, dtm::example_package()));
  const thermal::Floorplan plan = dtm::example_plan();
  auto network =
      TRY(thermal::make_network(thermal::one_die(config, plan), {config.grid_rows, config.grid_cols,
                                                                 names.thermal.hotspot_compat}));
  DtmSubject subject{plan, std::move(network), {}};
  std::string known;
  for (dtm::HotWork& work : dtm::example_workloads(plan)) {
    known += (known.empty() ? "" : ", ") + work.name;
    if (names.work_s > 0) work.work = Seconds{names.work_s};
    if (names.workload.empty() || work.name == names.workload)
      subject.workloads.push_back(std::move(work));
  }
  if (subject.workloads.empty())
    return bad_input("--workload",
                     fmt::format("no '{}' in the example: {}", names.workload, known));
  return subject;
}

Result<DtmSubject> from_files(Files& files, const DtmNames& names) {
  if (names.thermal.power.empty())
    return bad_input("--power",
                     "a floorplan needs watts of its blocks, above idle, at the "
                     "highest clock");
  auto chip = TRY(thermal::load_thermal_chip(files, names.thermal));
  const auto power = TRY(thermal::load_thermal_power(files, names.thermal, chip.chip));
  DtmSubject subject{{}, chip.network, {}};
  for (const thermal::ChipLayer& layer : chip.chip.layers)
    if (layer.power)
      subject.plan.blocks.insert(subject.plan.blocks.end(), layer.plan.blocks.begin(),
                                 layer.plan.blocks.end());
  dtm::HotWork work;
  work.name = names.workload.empty() ? "trace" : names.workload;
  work.row = Seconds{names.row_s};
  work.memory_share = names.memory_share;
  for (const std::vector<double>& row : power.trace.rows)
    work.rows.push_back(thermal::watts_of(row, power.columns));
  work.work = Seconds{names.work_s > 0 ? names.work_s
                                       : names.row_s * static_cast<double>(work.rows.size())};
  subject.workloads.push_back(std::move(work));
  return subject;
}

Result<std::vector<dtm::HotTenant>> tenants_of(const DtmNames& names,
                                               const thermal::Floorplan& plan) {
  std::vector<dtm::HotTenant> tenants;
  for (const std::string& text : names.tenants) {
    const auto named = TRY(parse_named_list("--tenant", text, "PREFIX"));
    dtm::HotTenant tenant{named.name, {}};
    for (const std::string& prefix : named.items) {
      const std::size_t before = tenant.blocks.size();
      for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        if (plan.blocks[b].name.starts_with(prefix)) tenant.blocks.push_back(static_cast<int>(b));
      if (tenant.blocks.size() == before)
        return bad_input("--tenant", fmt::format("no block begins with '{}'", prefix));
    }
    tenants.push_back(std::move(tenant));
  }
  return tenants;
}

Result<dtm::DtmCase> case_of(const DtmNames& names, const thermal::Floorplan& plan) {
  dtm::DtmCase made;
  made.idle_watts = dtm::example_idle(plan);  // by area, more where a block's name says IO
  double sum = 0;
  for (const double watts : made.idle_watts) sum += watts;
  for (double& watts : made.idle_watts) watts *= names.idle_watts / sum;
  made.idle_clocked = names.idle_clocked;
  made.sensor_step_k = names.sensor_k;
  made.power_error = names.power_error;
  if (!names.clocks.empty()) {
    made.clocks.mhz = TRY(numbers("--clocks", names.clocks, 1, 1e5));
  }
  if (!names.volts.empty()) {
    const auto volts = numbers("--volts", names.volts, 0.1, 5);
    if (!volts || volts->size() != 2 || (*volts)[0] > (*volts)[1])
      return bad_input("--volts", "two voltages, at the lowest and at the highest clock");
    made.clocks.low_volts = (*volts)[0];
    made.clocks.high_volts = (*volts)[1];
  }
  made.tenants = TRY(tenants_of(names, plan));
  return made;
}

std::vector<dtm::Governing> governors_of(const std::string& word) {
  using enum dtm::Governing;
  if (word == "all") return {step, pid, predictive};
  return {word == "pid" ? pid : word == "predictive" ? predictive : step};
}

// A run beside that at the highest clock.
dtm::StatedDtmRun stated(const dtm::DtmCase& dtm, const dtm::DtmRun& run, const dtm::DtmRun& free) {
  dtm::StatedDtmRun said;
  said.slowdown = run.seconds / free.seconds * free.work_s / std::max(run.work_s, 1e-300);
  said.seconds = run.seconds;
  said.energy_j = run.energy_j;
  said.energy_ratio = run.energy_j / free.energy_j;
  said.over_cap_s = run.over_cap_s;
  said.worst_over_k = run.worst_over_k;
  said.max_c = run.max_k - kZeroCelsius;
  said.mean_c = run.mean_k - kZeroCelsius;
  said.finished = run.finished;
  for (std::size_t f = 0; f < run.clock_share.size(); ++f)
    if (run.clock_share[f] > 0) said.clocks.push_back({dtm.clocks.mhz[f], run.clock_share[f]});
  for (const dtm::TenantHeat& tenant : run.tenants)
    said.tenants.push_back({tenant.name, tenant.energy_j, tenant.throttle_share});
  return said;
}

double cap_of(const DtmNames& names, const thermal::ReducedModel& model, double max_k,
              double percent) {
  return names.celsius ? dtm::cap_of_own_maximum(max_k, percent)
                       : dtm::cap_of_rise(max_k, model.ambient(), percent);
}

dtm::GovernorOptions governor_options(const DtmNames& names) {
  dtm::GovernorOptions options;
  options.hysteresis_k = names.hysteresis_k;
  options.margin_k = names.margin_k;
  return options;
}

// One workload under every cap and governor, added to the study.
void add_workload(dtm::StatedDtm& study, const thermal::ReducedModel& model,
                  const dtm::DtmCase& dtm, const dtm::HotWork& work, const DtmNames& names,
                  const std::vector<double>& caps) {
  const dtm::DtmRun free = dtm::run_dtm(model, dtm, work, 1e9, dtm::Governing::none);
  study.epochs += free.epochs;
  const double lowest = dtm::settled_hottest(model, dtm, work, 0);
  study.workloads.push_back({work.name, work.memory_share, free.seconds, free.energy_j,
                             free.max_k - kZeroCelsius, lowest - kZeroCelsius});
  const dtm::GovernorOptions options = governor_options(names);
  for (const dtm::Governing governing : governors_of(names.governor))
    for (const double percent : caps) {
      const double cap = cap_of(names, model, free.max_k, percent);
      const dtm::DtmRun run = dtm::run_dtm(model, dtm, work, cap, governing, options);
      study.epochs += run.epochs;
      dtm::StatedDtmRun said = stated(dtm, run, free);
      said.workload = work.name;
      said.governor = dtm::kGoverningWords[static_cast<std::size_t>(governing)];
      said.percent = percent;
      said.cap_c = cap - kZeroCelsius;
      said.can_be_met = cap >= lowest;
      study.runs.push_back(std::move(said));
    }
}

// All that a study is made of.
struct DtmSetup {
  std::vector<dtm::HotWork> workloads;
  std::vector<double> caps;
  dtm::DtmCase dtm;
  thermal::ReducedModel model;
};

Result<DtmSetup> set_up(Files& files, const DtmNames& names) {
  const bool own = !names.thermal.flp.empty() || !names.thermal.lcf.empty();
  auto subject = TRY(own ? from_files(files, names) : example(files, names));
  const auto caps = TRY(numbers("--caps", names.caps, 0, 99));
  const auto dtm = case_of(names, subject.plan);
  if (!dtm) return failed(dtm.error());
  thermal::ReduceOptions reduced;
  reduced.rates = kDtmRates;
  const auto model = TRY(thermal::reduce(subject.network, Seconds{names.epoch_ms / 1000}, reduced));
  for (const dtm::HotWork& work : subject.workloads) TRY(dtm::check_dtm(model, *dtm, work));
  return DtmSetup{std::move(subject.workloads), caps, *dtm, model};
}

// Of the hottest block's rise: what each tenant's heat makes, and the rest.
forms::TimePanel heat_panel(const DtmSetup& setup, const dtm::DtmRun& run) {
  forms::TimePanel heat{.unit = "K of the hottest block, by whose heat", .lines = {}};
  heat.stacked = true;
  forms::TimeLine rest{"idle power and blocks of nobody", {}};
  for (const dtm::DtmMoment& moment : run.moments) {
    double all = moment.hottest_k - setup.model.ambient();
    for (const double rise : moment.rises_k) all -= rise;
    rest.values.push_back(std::max(0.0, all));
  }
  heat.lines.push_back(std::move(rest));
  for (std::size_t t = 0; t < setup.dtm.tenants.size(); ++t) {
    forms::TimeLine line{fmt::format("{}: {:.0f} % of the throttling", run.tenants[t].name,
                                     100 * run.tenants[t].throttle_share),
                         {}};
    for (const dtm::DtmMoment& moment : run.moments) line.values.push_back(moment.rises_k[t]);
    heat.lines.push_back(std::move(line));
  }
  return heat;
}

}  // namespace

Result<dtm::StatedDtm> dtm_study(Files& files, const DtmNames& names) {
  const auto setup = TRY(set_up(files, names));
  const thermal::ReducedModel& model = setup.model;
  dtm::StatedDtm study;
  study.caps_of = names.celsius ? "celsius" : "rise";
  study.ambient_c = model.ambient() - kZeroCelsius;
  study.idle_c = dtm::idle_hottest(model, setup.dtm) - kZeroCelsius;
  study.epoch_ms = names.epoch_ms;
  study.blocks = model.blocks();
  study.states = model.states();
  for (const dtm::HotWork& work : setup.workloads)
    add_workload(study, model, setup.dtm, work, names, setup.caps);
  return study;
}

Result<std::string> dtm_picture(Files& files, const DtmNames& names) {
  auto setup = TRY(set_up(files, names));
  const std::vector<dtm::Governing> governors = governors_of(names.governor);
  if (setup.workloads.size() != 1 || setup.caps.size() != 1 || governors.size() != 1)
    return bad_input("--format",
                     fmt::format("a picture shows one run; these are {} workloads, {} caps and {} "
                                 "governors (--workload, --caps and --governor name one)",
                                 setup.workloads.size(), setup.caps.size(), governors.size()));
  const dtm::HotWork& work = setup.workloads.front();
  const dtm::DtmRun free = dtm::run_dtm(setup.model, setup.dtm, work, 1e9, dtm::Governing::none);
  setup.dtm.moments = kMostMoments;
  const double cap = cap_of(names, setup.model, free.max_k, setup.caps.front());
  const dtm::DtmRun run =
      dtm::run_dtm(setup.model, setup.dtm, work, cap, governors.front(), governor_options(names));
  forms::TimePanels plot;
  plot.title = fmt::format("{} under a cap of {:.1f} C", work.name, cap - kZeroCelsius);
  plot.subtitle = fmt::format(
      "governor {}, {:.2f}x as long, {:.2f}x the energy, over the cap {:.0f} % of the time",
      names.governor, run.seconds / free.seconds, run.energy_j / free.energy_j,
      100 * run.over_cap_s / run.seconds);
  forms::TimeLine heat{"hottest block", {}}, clock{"clock", {}};
  for (const dtm::DtmMoment& moment : run.moments) {
    plot.seconds.push_back(moment.at_s);
    heat.values.push_back(moment.hottest_k - kZeroCelsius);
    clock.values.push_back(moment.mhz);
  }
  plot.panels.push_back({.unit = "C", .lines = {heat}, .levels = {{"cap", cap - kZeroCelsius}}});
  plot.panels.push_back({.unit = "MHz", .lines = {clock}, .levels = {}, .from_zero = true});
  plot.panels.push_back(heat_panel(setup, run));
  return forms::time_panels_svg(plot);
}

}  // namespace partita::dtm
