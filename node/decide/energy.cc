#include "decide/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fields.h"
#include "base/parse_number.h"
#include "base/unicode.h"
#include "decide/input.h"
#include "device/node_forms.h"
#include "forms/batch_forms.h"
#include "forms/serving_forms.h"
#include "profile/csv.h"
#include "hw/telemetry/dcgm.h"

namespace partita::decide {
namespace {

using energy::Tenancy;
using energy::Tenure;

constexpr std::size_t kSniffed = 4096;  // of a log, to tell whose it is

// ---- who is where

void add(const plan::ServingPlan& plan, Tenancy& tenancy) {
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& instance : gpu.instances) {
      Tenure tenure{instance};
      tenure.service = instance.service;
      tenure.gpu = gpu.index;
      tenure.percent = instance.share_percent;
      tenancy.tenures.push_back(std::move(tenure));
    }
}

void add(const plan::BatchSchedule& schedule, Seconds start, Tenancy& tenancy) {
  for (const plan::ScheduledTask& task : schedule.tasks) {
    Tenure tenure{task};
    tenure.service = task.task;
    tenure.gpu = task.gpu;
    tenure.from = start + plan::seconds(task.begin);
    tenure.to = start + plan::seconds(task.end);
    tenancy.tenures.push_back(std::move(tenure));
  }
}

// The document that `apply` writes for the workers (actuate/assignment.h): what of it says where.
Result<void> add_assignment(const Document& document, Tenancy& tenancy) {
  Fields fields(document);
  for (const Node& item : fields.list("segments")) {
    Fields segment(fields, item);
    Tenure tenure;
    tenure.device = segment.name("device");
    tenure.gpu_uuid = segment.name("gpu_uuid");
    tenure.service = segment.name("service");
    tenancy.tenures.push_back(std::move(tenure));
  }
  if (fields.error()) return failed(*fields.error());
  return {};
}

Result<Tenancy> load_tenancy(Files& files, const EnergyQuestion& question, Seconds start) {
  Tenancy tenancy;
  if (!question.plan.empty()) {
    const auto text = TRY(read_input(files, "--plan", question.plan));
    const auto document = TRY(parse_document(question.plan, text));
    const Node* kind = document.root.find("kind");
    const std::string word = kind ? kind->text : "";
    if (word == "ServingPlan") {
      const auto plan = TRY(forms::read_plan(document));
      add(plan, tenancy);
    } else if (word == "BatchSchedule") {
      const auto schedule = TRY(forms::parse_schedule(question.plan, text));
      add(schedule, question.batch_start.value_or(start), tenancy);
    } else if (word == "Assignment") {
      if (auto ok = add_assignment(document, tenancy); !ok) return failed(ok.error());
    } else {
      return bad_input(document.at(kind ? *kind : document.root),
                       "kind must be ServingPlan, BatchSchedule or Assignment");
    }
  }
  if (question.state.empty()) return tenancy;
  const auto state = TRY(
      read_input(files, "--state", question.state, device::parse_state, hw::builtin_catalogue()));
  for (const device::GpuState& gpu : state.state.gpus)
    for (const device::Instance& instance : gpu.instances)
      tenancy.places[{gpu.uuid, instance.gi_id}] = {instance.profile, instance.start};
  return tenancy;
}

std::map<std::string, energy::BoardFacts> board_facts() {
  std::map<std::string, energy::BoardFacts> facts;
  for (const hw::GpuModel& gpu : hw::builtin_catalogue().gpus)
    facts[gpu.name] = {gpu.compute_slices, gpu.memory_slices,
                       lower_case(gpu.architecture).find("ampere") != std::string::npos};
  return facts;
}

// ---- requests

// The gateway's counters of answered requests; empty where the text is none of its.
std::map<std::string, double> answered(std::string_view text) {
  constexpr std::string_view kFamily = "nv_inference_request_success{model=\"";
  std::map<std::string, double> counts;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(kFamily)) continue;
    line.remove_prefix(kFamily.size());
    const std::size_t end = line.find('"'), space = line.rfind(' ');
    if (end == line.npos || space == line.npos || space < end) continue;
    const auto value = parse_number<double>(line.substr(space + 1));
    if (value && *value >= 0) counts[std::string(line.substr(0, end))] += *value;
  }
  return counts;
}

Result<std::map<std::string, double>> load_requests(Files& files,
                                                    const std::vector<std::string>& paths,
                                                    Seconds from, Seconds to) {
  std::vector<std::map<std::string, double>> read;
  for (const std::string& path : paths) {
    auto counts = TRY(read_input(files, "--request-counts", path, parse_requests, from, to));
    read.push_back(std::move(counts));
  }
  if (read.empty()) return std::map<std::string, double>{};
  if (read.size() == 1) return read[0];
  if (read.size() > 2)
    return bad_input("--request-counts", "one file, or metrics before and after");
  for (auto& [service, count] : read[1])
    if (const auto before = read[0].find(service);
        before != read[0].end() && before->second <= count)
      count -= before->second;  // else the gateway was started anew: it counts from there
  return read[1];
}

}  // namespace

Result<std::map<std::string, double>> parse_requests(const std::string& file, std::string_view text,
                                                     Seconds from, Seconds to) {
  if (auto counts = answered(text); !counts.empty()) return counts;
  const auto csv = TRY(profile::parse_csv(file, text));
  TRY(profile::require_columns(csv, {"service", "requests"}, {"from_s", "to_s"}));
  std::map<std::string, double> counts;
  for (const profile::CsvRow& row : csv.rows) {
    const auto number = [&](const char* name, double low) {
      return profile::csv_number(csv, row, csv.column(name), {low, 1e15});
    };
    const auto count = TRY(number("requests", 0));
    double part = 1;
    if (csv.column("from_s") >= 0 && csv.column("to_s") >= 0) {
      const auto begin = TRY(number("from_s", -1e15));
      const auto end = TRY(number("to_s", -1e15));
      if (end <= begin) return bad_input(csv.at(row), "to_s must be after from_s");
      part = std::max(0.0, std::min(end, to.value) - std::max(begin, from.value)) / (end - begin);
    }
    const std::string& service = row.cells[static_cast<std::size_t>(csv.column("service"))];
    if (const std::string fault = name_fault(service); !fault.empty())
      return bad_input(csv.at(row), "service: " + fault);
    counts[service] += count * part;
  }
  return counts;
}

Result<LoadedTelemetry> load_telemetry(Files& files, const std::string& flag,
                                       const std::string& path) {
  const auto text = TRY(read_input(files, flag, path));
  LoadedTelemetry loaded;
  const std::string_view start = std::string_view(text).substr(0, kSniffed);
  if (start.find("#Entity") != start.npos) {
    loaded.log = TRY(telemetry::read_dcgm_dmon(text, path, {}));
  } else if (start.find("DCGM_FI_") != start.npos) {
    loaded.log = TRY(telemetry::read_dcgm_text(text, path, Seconds{0}));
  } else {
    loaded.log = TRY(telemetry::read_log(text, path));
    loaded.note = telemetry::torn_note(text, path);
  }
  return loaded;
}

Result<energy::EnergyModel> load_energy_model(Files& files, const std::string& flag,
                                              const std::string& path) {
  const auto text = TRY(read_input(files, flag, path));
  return energy::parse_model(path, text);
}

Result<energy::CounterTable> load_counters(Files& files, const CounterNames& names) {
  if (!names.telemetry.empty()) {
    const auto loaded = TRY(load_telemetry(files, "--telemetry", names.telemetry));
    const telemetry::Log& log = loaded.log;
    energy::LedgerOptions options;
    options.facts = board_facts();
    return energy::counters_of(names.telemetry, log, telemetry::measure(log, {}), options,
                               names.window);
  }
  energy::CounterColumns columns{{}, names.measured, names.idle_w, true};
  if (!names.components.empty()) {
    const auto text = TRY(read_input(files, "--components", names.components));
    columns.components = TRY(energy::parse_component_columns(names.components, text));
  }
  return read_input(files, "COUNTERS", names.counters, energy::parse_counters, columns);
}

Result<energy::FitOptions> fit_options(Files& files, const FitNames& names) {
  energy::FitOptions options = names.options;
  if (names.prior.empty()) return options;
  if (const auto number = parse_number<double>(names.prior)) {
    if (!(*number > 0 && *number <= 1e18))
      return bad_input("--prior", "a number for all components must be positive");
    options.prior_for_all = *number;
    return options;
  }
  const auto model = TRY(load_energy_model(files, "--prior", names.prior));
  options.prior = model.components;
  return options;
}

Result<energy::EnergyModel> fit_energy(Files& files, const CounterNames& counters,
                                       const FitNames& names) {
  const auto table = TRY(load_counters(files, counters));
  const auto options = TRY(fit_options(files, names));
  auto model = energy::fit(table, options);
  if (model) model->idle_w = counters.idle_w;
  return model;
}

Result<energy::Validation> validate_energy(Files& files, const CounterNames& counters,
                                           const FitNames& names, const std::string& model) {
  if (model.empty()) {
    const auto table = TRY(load_counters(files, counters));
    const auto options = TRY(fit_options(files, names));
    return energy::leave_one_out(table, options, counters.idle_w);
  }
  const auto known = TRY(load_energy_model(files, "--model", model));
  const auto table =
      TRY(read_input(files, "COUNTERS", counters.counters, energy::parse_counters,
                     energy::CounterColumns{known.columns, counters.measured, known.idle_w, true}));
  if (table.components.size() != known.components.size() || table.watts != known.watts)
    return bad_input(counters.counters, "lacks columns of the model, or measures something else");
  return energy::validate(known, table);
}

Result<energy::Prediction> predict_energy(Files& files, const std::string& model,
                                          const std::string& counters) {
  const auto known = TRY(load_energy_model(files, "MODEL", model));
  const auto table = TRY(read_input(files, "COUNTERS", counters, energy::parse_counters,
                                    energy::CounterColumns{known.columns, "", 0, false}));
  std::vector<std::size_t> column;  // a component that the counters lack was not used
  for (const auto& component : table.components)
    column.push_back(static_cast<std::size_t>(std::ranges::find(known.columns, component) -
                                              known.columns.begin()));
  energy::Prediction out;
  out.watts = known.watts;
  for (const energy::CounterRow& row : table.rows) {
    std::vector<double> accesses(known.components.size());
    for (std::size_t c = 0; c < column.size(); ++c) accesses[column[c]] = row.accesses[c];
    const double time = known.watts ? 1 : row.time_s.value_or(0);
    if (known.idle_w > 0 && !known.watts && !row.time_s)
      return bad_input(table.at(row), "the model leaves out idle power, so time_s is needed");
    energy::Prediction::Row one{row.name, energy::predict(known, accesses) + known.idle_w * time,
                                energy::prediction_error(known, accesses)};
    if (row.measured > 0 && table.watts == known.watts) one.measured = row.measured;
    const double seconds = known.watts ? row.time_s.value_or(0) : 1;
    if (row.instructions && seconds > 0) {
      one.epi_j = energy::energy_per_instruction(one.predicted, seconds, *row.instructions);
      if (one.measured)
        one.measured_epi_j =
            energy::energy_per_instruction(*one.measured, seconds, *row.instructions);
    }
    out.rows.push_back(std::move(one));
  }
  return out;
}

namespace {

bool tells_nothing(const telemetry::Board& board) {
  return std::ranges::all_of(board.intervals, [](const telemetry::Interval& interval) {
    return interval.source == telemetry::MeterSource::nothing;
  });
}

// What was asked for; else the best that the log allows.
energy::SplitRule rule_for(const EnergyQuestion& question, bool has_model,
                           energy::TelemetryLedger& ledger) {
  const bool lacks = has_model && !ledger.model_lacks.empty();
  if (lacks && question.rule.value_or(energy::SplitRule::model) == energy::SplitRule::model)
    ledger.notes.push_back(
        fmt::format("{}, which the model asks for: {}", ledger.model_lacks,
                    question.rule ? "it comes out too low; --rule activity needs less"
                                  : "split by activity, for which the log has what is needed"));
  if (question.rule) return *question.rule;
  return has_model && !lacks ? energy::SplitRule::model : energy::SplitRule::activity;
}

}  // namespace

Result<energy::EnergyReport> attribute_energy(Files& files, const EnergyQuestion& question) {
  const auto loaded = TRY(load_telemetry(files, "--telemetry", question.telemetry));
  auto report = TRY(attribute_energy(files, loaded.log, question));
  if (!loaded.note.empty()) report.notes.push_back(loaded.note);
  return report;
}

Result<energy::EnergyReport> attribute_energy(Files& files, const telemetry::Log& log,
                                              const EnergyQuestion& question) {
  if (log.size() < 2)
    return bad_input(question.telemetry, "energy is between samples: two are needed");
  energy::LedgerOptions options;
  options.facts = board_facts();
  if (question.idle_w) options.idle = Watts{*question.idle_w};
  if (!question.model.empty()) {
    auto model = TRY(load_energy_model(files, "--model", question.model));
    TRY(energy::check_telemetry_model(question.model, model));
    options.model = std::move(model);
  } else if (question.rule == energy::SplitRule::model) {
    return bad_input("--rule", "model needs --model");
  }
  const Seconds from = log.front().at, to = log.back().at;
  const auto tenancy = TRY(load_tenancy(files, question, from));
  auto requests = TRY(load_requests(files, question.requests, from, to));
  const std::vector<telemetry::Board> boards = telemetry::measure(log, {question.longest_gap});
  if (std::ranges::all_of(boards, tells_nothing))
    return bad_input(
        question.telemetry,
        "no board tells its power or its energy, so there are no joules to tell apart");
  energy::TelemetryLedger ledger = energy::ledger_of(log, boards, tenancy, options);
  energy::ReportOptions wanted;
  wanted.has_model = options.model.has_value();
  wanted.rule = rule_for(question, wanted.has_model, ledger);
  wanted.idle = question.idle;
  wanted.compare = question.compare;
  wanted.owners = question.owners;
  wanted.requests = std::move(requests);
  wanted.co2_g_per_kwh = question.co2_g_per_kwh;
  wanted.price_per_kwh = question.price_per_kwh;
  return energy::report_of(ledger, boards, from, to, wanted);
}

}  // namespace partita::decide
