#include <cmath>
#include <set>

#include "commands.h"
#include "decide/profile_files.h"
#include "forms/profile_plot.h"
#include "llm/engine/engines.h"
#include "llm/law_report.h"
#include "llm/runs.h"
#include "profile/consistency.h"
#include "profile/fit.h"
#include "profile/law.h"
#include "profile/readers.h"
#include "serve/measure/imports.h"
#include "serve/profile_measure.h"

namespace partita::cli {
namespace {

struct LawFlags {
  std::string path, kind, leave_out;
  Output output;
};

Result<Exit> run_law(Context& context, const LawFlags& flags) {
  if (flags.kind != "llm")
    return bad_input("--kind", "'" + flags.kind +
                                   "' has no law of its own here; known: llm "
                                   "(others: `partita profile law PATH --gpu GPU`)");
  const std::vector<llm::Measured> points =
      TRY(read_input(context.files, "POINTS", flags.path, llm::parse_points));
  const llm::LeftOut left_out = flags.leave_out.empty()            ? llm::LeftOut::nothing
                                : flags.leave_out == "concurrency" ? llm::LeftOut::concurrency
                                                                   : llm::LeftOut::shape;
  const Result<llm::LawReport> report = llm::law_report(points, left_out, llm::tail_errors);
  if (!report) {
    Error error = report.error();  // of the whole file
    if (error.context.empty()) error.context = flags.path;
    return failed(error);
  }
  return finish(
      context, flags.output,
      flags.output.json() ? llm::law_report_json(*report) : llm::law_report_text(*report));
}

Command add_profile_law(CLI::App& profile) {
  auto [command, flags] = adding<LawFlags>(
      profile, "law", "Learn laws from measured points, and say how well they predict");
  file_argument(*command, "POINTS", flags->path,
                "Measured points: a CSV with tokens in and out, concurrency, TTFT and TPOT")
      ->required();
  takes(*command, "--kind", needed(flags->kind, "llm: services that answer token by token"),
        "--leave-out", word_from(flags->leave_out, {"concurrency", "shape"}));
  return runs(command, flags, run_law, {"text", "json"},
              "partita profile law points.csv --kind llm --leave-out concurrency\n"
              "partita profile law points.csv --kind llm --format json -o report.json");
}

using profile::PerformanceLaw;
using profile::PerformanceLaws;
using profile::ProfilePoint;
using profile::ProfileTable;
using profile::WorkloadProfile;

struct ProfileFlags : decide::ProfileNames {
  std::string source, form;
  std::vector<std::string> told;
  int gpcs = 0, batch = 0, processes = 1;
  Output output;

  bool json() const { return output.json(); }
};

// The point of a size with the highest throughput, or null.
const ProfilePoint* best_point(const WorkloadProfile& workload, int gpcs) {
  const ProfilePoint* best = nullptr;
  for (const ProfilePoint& p : workload.points)
    if (p.gpcs == gpcs && (best == nullptr || p.throughput > best->throughput)) best = &p;
  return best;
}

bool any_predicted(const WorkloadProfile& workload) {
  return std::ranges::any_of(workload.points, &ProfilePoint::predicted);
}

std::vector<std::string> predicted_models(const ProfileTable& table) {
  std::vector<std::string> models;
  for (const auto& [model, workload] : table)
    if (any_predicted(workload)) models.push_back(model);
  return models;
}

std::string summary_text(const ProfileTable& table) {
  std::set<int> sizes;
  for (const auto& [model, workload] : table)
    for (const ProfilePoint& p : workload.points) sizes.insert(p.gpcs);
  Table text = headed("MODEL|POINTS");
  for (const int gpcs : sizes) {
    text.header.push_back(fmt::format("{}g req/s", gpcs));
    text.header.push_back("b x p");
  }
  for (const auto& [model, workload] : table) {
    std::vector<std::string> row = {model, fmt::format("{}", workload.points.size())};
    for (const int gpcs : sizes) {
      const ProfilePoint* best = best_point(workload, gpcs);
      row.push_back(best ? fmt::format("{:.1f}", best->throughput.value) : "-");
      row.push_back(best ? fmt::format("{} x {}", best->batch, best->processes) : "-");
    }
    text.rows.push_back(std::move(row));
  }
  std::string notes =
      "\nThe highest throughput on each size, with its batch size and processes; "
      "--model shows all points.\n";
  if (const auto predicted = predicted_models(table); !predicted.empty())
    notes += fmt::format("Predicted by laws, in part or whole: {}.\n", joined(predicted, ", "));
  return to_string(text) + notes;
}

// Where a point comes from.
std::string source_text(const ProfilePoint& p) {
  if (!p.predicted()) return "measured";
  return p.learned_on->empty() ? "predicted" : "predicted: law of " + *p.learned_on;
}

std::string points_text(const WorkloadProfile& workload) {
  Table text = headed("GPCs|PROCESSES|BATCH|req/s|ms|MiB");
  const bool sources = any_predicted(workload);
  if (sources) text.header.push_back("SOURCE");
  for (const ProfilePoint& p : workload.points) {
    text.add("{}|{}|{}|{:.1f}|{:.2f}|{}", p.gpcs, p.processes, p.batch, p.throughput.value,
             p.latency.value, p.memory ? fmt::format("{:.0f}", p.memory->value) : "-");
    if (sources) text.rows.back().push_back(source_text(p));
  }
  return fmt::format("{}\n\n", workload.model) + to_string(text);
}

void tell_point(Form& f, const ProfilePoint& p) {
  tell(f, "gpcs", p.gpcs, "batch", p.batch, "processes", p.processes, "throughput_rps",
       p.throughput, "latency_ms", p.latency);
  f.optional(p.memory.has_value()).told("memory_mib", p.memory);
  f.optional(p.predicted()).told("predicted", true);
  f.optional(p.predicted() && !p.learned_on->empty()).told("learned_on", p.learned_on);
}

std::string table_json(const ProfileTable& table) {
  auto next = table.begin();
  const auto tell_model = [&](Form& f, std::size_t) {
    f.told("model", next->first);
    f.rows("points", next++->second.points, tell_point, {});
  };
  return write_form(
      [&](Form& f) {
        f.document("WorkloadProfiles");
        f.rows("profiles", table.size(), tell_model, {});
      },
      Form::Style::indented);
}

Result<Exit> run_plot(Context& context, const ProfileFlags& flags) {
  const ProfileTable table = TRY(decide::load_table(context.files, flags));
  const WorkloadProfile workload = TRY(decide::chosen_profile(flags, table));
  const std::string plot = flags.output.svg() ? forms::plot_svg(workload, flags.processes)
                                              : forms::plot_text(workload, flags.processes);
  if (plot.empty())
    return bad_input("--processes", fmt::format("'{}' has no point with {} processes", flags.model,
                                                flags.processes));
  return finish(context, flags.output, plot);
}

Result<Exit> run_show(Context& context, const ProfileFlags& flags) {
  if (flags.output.format == "plot" || flags.output.svg()) {
    if (flags.model.empty()) return bad_input("--model", "a plot is of one model; say which");
    return run_plot(context, flags);
  }
  ProfileTable table = TRY(decide::load_table(context.files, flags));
  for (const std::string& doubt : profile::doubts(table)) complain(context, "warning: " + doubt);
  if (!flags.model.empty()) {
    WorkloadProfile workload = TRY(decide::chosen_profile(flags, table));
    if (!flags.json()) return finish(context, flags.output, points_text(workload));
    table = {{workload.model, workload}};
  }
  return finish(context, flags.output, flags.json() ? table_json(table) : summary_text(table));
}

Result<llm::ImportedRuns> imported_runs(Context& context, const std::string& path,
                                        llm::RunForm form, const llm::ToldOfRuns& told) {
  const std::string text = TRY(context.files.read(path));
  return llm::import_runs(form, path, text, told);
}

// Runs of an engine of a language model: a file, or all that are in a folder, of which those are
// left out that cannot be taken, and the exit says that some were.
Result<Exit> run_import_runs(Context& context, const ProfileFlags& flags, llm::RunForm form) {
  auto told = TRY(llm::parse_told(flags.told));
  if (flags.gpcs > 0 || flags.batch > 0)
    return bad_input(flags.gpcs > 0 ? "--gpcs" : "--batch",
                     "is not for runs of a language model's engine: --told COLUMN=VALUE");
  if (!flags.gpu.empty()) {
    const hw::GpuModel gpu = TRY(decide::load_gpu(context.files, flags, "--gpu", flags.gpu));
    told.configuration.system = gpu.name;
  }
  if (!flags.model.empty()) told.configuration.model = flags.model;
  std::vector<std::string> paths{flags.path};
  const bool folder = context.files.is_directory(flags.path);
  if (folder) {
    const auto names = TRY(context.files.list(flags.path));
    paths.clear();
    for (const std::string& name : llm::files_of_runs(form, names))
      paths.push_back(flags.path + "/" + name);
    if (const auto left = names.size() - paths.size(); left > 0)
      complain(context,
               fmt::format("{} of its {} files hold no run by their names", left, names.size()));
  }
  std::vector<llm::Measured> all;
  std::set<std::string> notes;
  std::size_t bad = 0;
  for (const std::string& path : paths) {
    auto imported = imported_runs(context, path, form, told);
    if (!imported) {
      if (!folder) return failed(imported.error());
      complain(context, "left out: " + to_string(imported.error()));
      ++bad;
      continue;
    }
    all.insert(all.end(), imported->measured.begin(), imported->measured.end());
    notes.insert(imported->notes.begin(), imported->notes.end());
  }
  if (all.empty()) return bad_input(flags.path, "there is no file with a run that can be taken");
  for (const std::string& note : notes) complain(context, note);
  const Exit exit = TRY(finish(context, flags.output, llm::points_csv(all)));
  if (bad == 0) return exit;
  return bad_input(flags.path, fmt::format("{} of {} files are left out", bad, paths.size()));
}

// A table of another profiler.
Result<Exit> run_import_foreign(Context& context, const ProfileFlags& flags) {
  if (const auto form = llm::run_form(flags.form)) return run_import_runs(context, flags, *form);
  if (flags.gpcs == 0)
    return bad_input("--gpcs", "the table does not say how large the instance was; say it");
  const std::string text = TRY(context.files.read(flags.path));
  const ProfileTable table = TRY(serve::import_foreign(
      *serve::foreign_form(flags.form), flags.path, text,
      {.gpcs = flags.gpcs,
       .batch = flags.batch > 0 ? std::optional(flags.batch) : std::nullopt,
       .processes = flags.processes,
       .model = flags.model.empty() ? std::nullopt : std::optional(flags.model)}));
  return finish(context, flags.output, profile::native_csv(table));
}

Result<Exit> run_import(Context& context, const ProfileFlags& flags) {
  if (!flags.form.empty()) return run_import_foreign(context, flags);
  const ProfileTable table = TRY(decide::load_table(context.files, flags));
  return finish(context, flags.output, profile::native_csv(table));
}

std::string share(double value) { return fmt::format("{:.1f} %", 100 * value); }

// How well a law predicts what it was fitted to and what it has not seen, as a row of the report.
Result<std::vector<std::string>> quality_row(const PerformanceLaw& law,
                                             const WorkloadProfile& workload,
                                             const hw::GpuModel& gpu) {
  const std::vector<double> seen = TRY(profile::errors(law, workload, gpu));
  const profile::MemoryScore memory = TRY(profile::memory_score(law, workload, gpu));
  std::vector<std::string> row = {law.model, fmt::format("{}", workload.points.size()),
                                  share(profile::quantile(seen, 0.5))};
  if (workload.points.size() < 2) {
    row.insert(row.end(), {"-", "-", "-"});
  } else {
    const std::vector<double> unseen = TRY(profile::leave_one_out(law, workload, gpu));
    for (const double q : {0.5, 0.9, 1.0}) row.push_back(share(profile::quantile(unseen, q)));
  }
  row.push_back(law.knows_memory() ? fmt::format("{} of {}", memory.right, memory.rows)
                                   : "memory unknown");
  return row;
}

// "resnet50: 2g batch 32 x 4" for every point that is faster than it can be.
Result<std::string> suspects_text(const PerformanceLaw& law, const WorkloadProfile& workload,
                                  const hw::GpuModel& gpu) {
  const std::vector<ProfilePoint> points = TRY(profile::suspects(law, workload, gpu));
  if (points.empty()) return std::string();
  std::vector<std::string> names;
  for (const ProfilePoint& p : points)
    names.push_back(fmt::format("{}g {} x {}", p.gpcs, p.batch, p.processes));
  return fmt::format("  {}: {}\n", law.model, joined(names, ", "));
}

constexpr char kFitNotes[] =
    "Relative error of the throughput: of the points fitted, and of every point under the law "
    "fitted to all others.\nRUNS RIGHT: combinations that were tried and for which the memory law "
    "says correctly whether they ran.\nMemory unknown: no row did not run and none has memory_mib, "
    "so the law takes every batch to fit.\n";

// Laws that were fitted to what other laws predicted.
std::string predicted_text(const ProfileTable& table) {
  const auto models = predicted_models(table);
  if (models.empty()) return "";
  return fmt::format("Fitted to predictions, not to measurements alone: {}.\n",
                     joined(models, ", "));
}

Result<Exit> run_fit(Context& context, const ProfileFlags& flags) {
  const std::optional<PerformanceLaws> present = TRY(decide::load_laws(context.files, flags.path));
  if (present) return bad_input("PATH " + flags.path, "the file holds laws; give measurements");
  const hw::GpuModel gpu = TRY(decide::load_gpu(context.files, flags, "--gpu", flags.gpu));
  const ProfileTable table = TRY(decide::load_table(context.files, flags));
  PerformanceLaws laws{gpu.name, flags.source, {}};
  Table report = headed("MODEL|POINTS|FIT median|LEFT OUT median|90th|worst|RUNS RIGHT");
  std::string suspicious;
  for (const auto& [model, workload] : table) {
    PerformanceLaw law = TRY(profile::fit(workload, gpu));
    std::vector<std::string> row = TRY(quality_row(law, workload, gpu));
    const std::string suspects = TRY(suspects_text(law, workload, gpu));
    laws.laws.push_back(std::move(law));
    report.rows.push_back(std::move(row));
    suspicious += suspects;
  }
  const Exit done = TRY(finish(context, flags.output, profile::laws_json(laws)));
  note(context, fmt::format("{}\n{}{}", to_string(report), kFitNotes, predicted_text(table)));
  if (!suspicious.empty())
    note(context, fmt::format("More than {} % faster than the law; perhaps a dead process was "
                              "counted (size, batch x processes):\n{}",
                              std::lround(100 * (profile::kSuspect - 1)), suspicious));
  return done;
}

// "", or where the law comes from when that is another GPU model.
std::string elsewhere_text(const ProfileFlags& flags, const ProfilePoint& point) {
  if (!point.predicted() || *point.learned_on == flags.gpu) return "";
  return fmt::format("The law was learned on {}, not on {}: measure there before you rely on it.\n",
                     *point.learned_on, flags.gpu);
}

std::string prediction_json(const ProfileFlags& flags, const ProfilePoint& point, bool fits) {
  return write_form(
      [&](Form& f) {
        f.document("Prediction");
        tell(f, "model", flags.model, "gpu_model", flags.gpu);
        tell_point(f, point);
        f.told("fits_memory", fits);
      },
      Form::Style::indented);
}

std::string prediction_text(const ProfileFlags& flags, const ProfilePoint& point) {
  return fmt::format(
      "{} on {} of {}, batch {}, {}: {:.1f} req/s in all, {:.2f} ms a batch, {}\n{}", flags.model,
      count_text(point.gpcs, "GPC"), flags.gpu, point.batch, count_text(point.processes, "process"),
      point.throughput.value, point.latency.value,
      point.memory ? fmt::format("{:.0f} MiB", point.memory->value) : "memory unknown",
      elsewhere_text(flags, point));
}

Result<Exit> run_predict(Context& context, const ProfileFlags& given) {
  const hw::GpuModel gpu = TRY(decide::load_gpu(context.files, given, "--gpu", given.gpu));
  ProfileFlags flags = given;
  flags.gpu = gpu.name;
  const Result<profile::Partition> on = profile::partition(gpu, flags.gpcs);
  if (!on) return bad_input("--gpcs", to_string(on.error()));
  const PerformanceLaws laws = TRY(decide::load_law(context.files, flags));
  const PerformanceLaw& law = laws.laws.front();
  ProfilePoint point = profile::predict(law, *on, flags.batch, flags.processes);
  point.learned_on = laws.gpu_model;
  const bool fits = profile::fits(law, *on, flags.batch, flags.processes);
  Output output = flags.output;
  if (!fits) output.file.clear();  // -o names the place of a prediction that holds
  Result<Exit> done =
      finish(context, output,
             flags.json() ? prediction_json(flags, point, fits) : prediction_text(flags, point));
  if (!done || fits) return done;
  complain(context, fmt::format("does not fit: it needs {:.0f} MiB, the instance has {:.0f}",
                                point.memory->value, on->memory.value));
  return Exit::no;
}

// A subcommand that reads PATH.
CLI::App* add_reader(CLI::App& parent, ProfileFlags& flags, const char* name, const char* summary) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command
      ->add_option("PATH", flags.path,
                   "A native CSV, a directory of ParvaGPU CSVs (one per model), or performance "
                   "laws (a .json file)")
      ->type_name("PATH")
      ->required();
  flag(*command, "--catalogue", flags.catalogue);
  return command;
}

CLI::Option* add_processes(CLI::App& command, ProfileFlags& flags) {
  return within(command, "--processes", flags.processes, 1, profile::kMaxProcesses);
}

CLI::App* add_show(CLI::App& parent, ProfileFlags& flags) {
  CLI::App* command =
      add_reader(parent, flags, "show", "Show profiles, all points of one, or a plot of it");
  takes(*command, "--model", flags.model, "--gpu", flags.gpu);
  add_processes(*command, flags);
  add_output(*command, flags.output, {"text", "json", "plot", "svg"});
  command->footer(
      "partita show data/profiles/a100-80gb.json --model resnet50\n"
      "partita show data/profiles/a100-80gb.json --model bert --format svg -o bert.svg");
  return command;
}

CLI::App* add_import(CLI::App& parent, ProfileFlags& flags) {
  CLI::App* command =
      add_reader(parent, flags, "import", "Turn profiles of any form into a native CSV");
  takes(*command, "--form",
        word_from(flags.form, {"perf-analyzer", "model-analyzer", "vllm", "sglang", "aiperf",
                               "genai-perf", "trtllm-bench"}),
        "--told", flags.told, "--gpcs", limited(flags.gpcs, 1, profile::kMaxGpcs), "--batch",
        limited(flags.batch, 1, profile::kMaxBatch));
  add_processes(*command, flags);
  takes(*command, "--model", flags.model, "--gpu", flags.gpu);
  add_output(*command, flags.output, {"csv"});
  command->footer(
      "partita profile import prof_data -o profiles.csv\n"
      "partita profile import results/ --form vllm --gpu H100-80GB-SXM5 --told tp=2 --told "
      "precision=fp8 -o points.csv");
  return command;
}

CLI::App* add_fit(CLI::App& parent, ProfileFlags& flags) {
  CLI::App* command = add_reader(
      parent, flags, "fit", "Fit performance laws to measurements, and report how well they do");
  takes(*command, "--gpu", needed(flags.gpu), "--source", flags.source);
  add_output(*command, flags.output, {"json"});
  command->footer("partita profile law prof_data --gpu A100-80GB -o laws.json");
  return command;
}

CLI::App* add_predict(CLI::App& parent, ProfileFlags& flags) {
  CLI::App* command =
      add_reader(parent, flags, "predict", "Predict throughput, latency and memory of a point");
  takes(*command, "--model", needed(flags.model), "--gpu", needed(flags.gpu), "--measured-on",
        flags.measured_on, "--gpcs", needed(limited(flags.gpcs, 1, profile::kMaxGpcs)), "--batch",
        needed(limited(flags.batch, 1, profile::kMaxBatch)));
  add_processes(*command, flags);
  add_output(*command, flags.output, {"text", "json"});
  command->footer(
      "partita profile predict data/profiles/a100-80gb.json --model resnet50 --gpu H100-80GB-SXM5 "
      "--gpcs 2 --batch 12");
  return command;
}

}  // namespace

Command add_profile(CLI::App& app) {
  CLI::App* profile = app.add_subcommand(
      "profile", "Convert, measure, fit and predict what models reach on each instance size");
  const auto below = [profile](CLI::App* (*add)(CLI::App&, ProfileFlags&),
                               Result<Exit> (*run)(Context&, const ProfileFlags&)) -> Command {
    auto flags = std::make_shared<ProfileFlags>();  // its own: CLI11 writes defaults of each
    return {add(*profile, *flags), [=](Context& context) { return run(context, *flags); }};
  };
  return group_of(profile, {below(add_show, run_show), below(add_import, run_import),
                            below(add_fit, run_fit), below(add_predict, run_predict),
                            add_profile_measure(*profile), add_profile_law(*profile)});
}

}  // namespace partita::cli
