// partita load: requests at a server as the services declare them, and what the simulator expects.
#include <CLI/CLI.hpp>

#include <optional>

#include "commands.h"
#include "decide/other_traffic.h"
#include "decide/reasons.h"
#include "decide/serving_inputs.h"
#include "decide/simulate.h"
#include "decide/traces.h"
#include "forms/pipeline_form.h"
#include "forms/serving_forms.h"
#include "plan/traffic.h"
#include "serve/load/load_judgement.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

// MLPerf's rule for a 99th percentile: 270,336 queries.
constexpr long kServerRequests = 270'336;
constexpr double kServerPatienceS = 10, kTokenPatienceS = 60, kLongAnswer = 8;

struct LoadFlags {
  std::string url, openai, services, plan, profiles;
  decide::OtherTraffic traffic;
  std::string duration = "60s";
  serve::LoadOptions options;
  double require = 0;
  std::string token_file;
  std::string scenario, model, latency_bound;
  double target_qps = 0;
  long min_requests = kServerRequests;
  Output output;
};

// The services with the traffic that is played, as `simulate` takes it.
Result<decide::PlayedTraffic> played_services(Context& context, const LoadFlags& flags,
                                              const sim::ServingOptions& options) {
  auto services = TRY(read_input(context.files, "--services", flags.services, forms::parse_services,
                                 files_beside(context.files, flags.services)));
  auto loaded = TRY(decide::with_traces(context.files, flags.services, std::move(services)));
  plan::ServingProblem problem;
  problem.services = forms::own_demands(loaded);
  return decide::play(context.files, std::move(problem), flags.traffic, options);
}

// The Server scenario: one model, Poisson, at the rate that is asked for.
Result<decide::PlayedTraffic> server_services(const LoadFlags& flags,
                                              const sim::ServingOptions& options) {
  if (flags.model.empty()) return bad_input("--model", "is needed with --scenario server");
  if (!(flags.target_qps > 0)) return bad_input("--target-qps", "is needed with --scenario server");
  const Seconds bound = TRY(parse_duration("--latency-bound", flags.latency_bound));
  decide::PlayedTraffic played{.problem = {}, .options = options};
  plan::Service& service = played.problem.services.emplace_back();
  service.name = service.model = flags.model;
  service.rate = Rps{flags.target_qps};
  service.slo = Millis{bound.value * 1e3};
  return played;
}

std::vector<serve::LoadService> load_services(const decide::PlayedTraffic& played) {
  std::vector<serve::LoadService> services;
  for (const plan::Service& service : played.problem.services) {
    const auto trace = std::ranges::find(played.options.traces, service.name, &sim::Trace::service);
    const bool recorded = trace != played.options.traces.end();
    services.push_back({service.name,
                        static_cast<sim::Nanos>(service.slo.value * sim::kNanosPerMilli),
                        sim::arrivals_of(service, played.options,
                                         recorded ? std::span<const double>(trace->times_s)
                                                  : std::span<const double>()),
                        service.tokens, service.models});
  }
  return services;
}

Result<std::string> token_of(Context& context, const std::string& file) {
  if (file.empty()) return std::string();
  std::string token = TRY(read_secret(context, "--token-file", file));
  const bool fine =
      !token.empty() && std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  if (!fine) return bad_input(file, "its first line is not a token");
  return token;
}

Result<serve::LoadOptions> load_options(Context& context, const LoadFlags& flags) {
  serve::LoadOptions options = flags.options;
  if (flags.url.empty() == flags.openai.empty())
    return bad_input("--url", "say one of it and --openai");
  const bool openai = !flags.openai.empty();
  auto url =
      TRY(parse_url_prefix(openai ? "--openai" : "--url", openai ? flags.openai : flags.url));
  const Seconds duration = TRY(parse_duration("--duration", flags.duration));
  const auto token = TRY(token_of(context, flags.token_file));
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  options.url = url;
  options.token = token;
  options.duration = static_cast<sim::Nanos>(duration.value * sim::kNanosPerSecond);
  if (!flags.scenario.empty()) options.min_requests = flags.min_requests;
  return options;
}

// How long the last answers may take; longer than what is promised of a long one.
sim::Nanos patience_for(const plan::Service& service) {
  double seconds = kServerPatienceS;
  if (service.tokens) {
    const double out = plan::mean_of(*service.tokens).out;
    const Millis whole =
        std::max(service.slo, service.tokens->ttft + kLongAnswer * out * service.tokens->tpot);
    seconds = std::max(kTokenPatienceS, whole.value / 1e3);
  }
  return static_cast<sim::Nanos>(seconds * sim::kNanosPerSecond);
}

// The simulation of the plan under the same arrivals; nothing without a plan.
Result<std::optional<sim::ServingReport>> prediction(Context& context, const LoadFlags& flags,
                                                     const sim::ServingOptions& options) {
  using Predicted = std::optional<sim::ServingReport>;
  if (flags.plan.empty() != flags.profiles.empty())
    return bad_input(flags.plan.empty() ? "--profiles" : "--plan",
                     "a prediction needs both --plan and --profiles");
  if (flags.plan.empty()) return Predicted{};
  decide::ProblemFiles files;
  files.services = flags.services;
  files.profiles = flags.profiles;
  const auto judged = TRY(decide::load_judged_plan(context.files, flags.plan, files));
  if (!judged.verdict)
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("the plan is broken:", judged.verdict.error().violations),
                   flags.plan});
  const auto played = TRY(decide::play(context.files, judged.problem, flags.traffic, options));
  auto timed = TRY(decide::simulate(played.problem, *judged.verdict, played.options));
  return Predicted{std::move(timed.report)};
}

void add_prediction(serve::LoadReport& report, const sim::ServingReport& predicted) {
  for (serve::LoadServiceReport& one : report.services) {
    const auto same =
        std::ranges::find(predicted.services, one.terms.name, &sim::ServiceReport::name);
    if (same == predicted.services.end()) continue;
    one.predicted_p50_ms = same->p50.value;
    one.predicted_p99_ms = same->p99.value;
    one.predicted_slo_attainment = same->slo_attainment;
    if (!same->tokens) continue;
    const sim::TokenTimes& times = *same->tokens;
    one.predicted = {.ttft_ms = {times.ttft_p50.value, times.ttft_p99.value},
                     .tpot_ms = {times.tpot_p50.value, times.tpot_p99.value},
                     .tokens_per_s = times.tokens_per_s};
  }
}

// A table on a terminal that is written over once a second.
class LiveTable {
 public:
  LiveTable(Context& context, const std::vector<serve::LoadService>& services) : context_(context) {
    for (const serve::LoadService& service : services) names_.push_back(service.name);
  }
  ~LiveTable() { wipe(); }
  LiveTable(const LiveTable&) = delete;
  LiveTable& operator=(const LiveTable&) = delete;

  void show(const serve::LoadMoment& moment) {
    if (!context_.progress) return;
    Table table = headed("SERVICE|OFFERED|IN SLO|REFUSED|FAILED|p50 ms|p99 ms");
    for (std::size_t i = 0; i < names_.size(); ++i) {
      serve::LoadTally& tally = moment.services[i];
      const sim::LatencyHistogram recent = tally.take_recent();
      const auto ms = [&](double percent) {
        return fmt::format("{:.2f}",
                           static_cast<double>(recent.percentile(percent)) / sim::kNanosPerMilli);
      };
      table.add("{}|{}|{}|{}|{}|{}|{}", names_[i], tally.offered(), tally.within_slo(),
                tally.refused(), tally.failed(), ms(50), ms(99));
    }
    wipe();
    const std::string text = fmt::format("{:.0f} s\n{}", moment.seconds, to_string(table));
    lines_ = std::ranges::count(text, '\n');
    std::fputs(shown(text).c_str(), context_.err);
    std::fflush(context_.err);
  }

 private:
  void wipe() {
    if (lines_ == 0) return;
    std::fputs(fmt::format("\033[{}A\033[J", lines_).c_str(), context_.err);
    lines_ = 0;
  }

  Context& context_;
  std::vector<std::string> names_;
  long lines_ = 0;
};

Exit held(Context& context, const LoadFlags& flags, const serve::LoadReport& report) {
  Exit exit = report.server && !report.server->valid ? Exit::no : Exit::done;
  for (const std::string& why : serve::unkept(report, flags.require))
    complain(context, why), exit = Exit::no;
  return exit;
}

Result<serve::LoadReport> measured(Context& context, const LoadFlags& flags,
                                   const decide::PlayedTraffic& played,
                                   serve::LoadOptions options) {
  StopRequest stop;
  const std::vector<serve::LoadService> services = load_services(played);
  LiveTable table(context, services);
  options.stop = [&] { return stop.within(0); };
  options.watch = [&](const serve::LoadMoment& moment) { table.show(moment); };
  const auto outcome = TRY(serve::run_load(options, services, context.clock));
  if (flags.options.first_in_line && !outcome.first_in_line)
    complain(context, "warning: --first: the system refuses the priority (CAP_SYS_NICE)");
  std::vector<serve::PlayedService> names;
  for (const plan::Service& service : played.problem.services)
    names.push_back({service.name,
                     played.options.arrivals == sim::ArrivalKind::trace ? 0 : service.rate.value,
                     service.tokens.has_value()});
  serve::LoadReport report = serve::report_of(options, names, outcome);
  if (!flags.scenario.empty()) {
    serve::ServerScenario asked;
    asked.target_qps = flags.target_qps;
    asked.latency_bound_ms = played.problem.services.front().slo.value;
    asked.min_requests = flags.min_requests;
    asked.min_duration_s = static_cast<double>(options.duration) / sim::kNanosPerSecond;
    report.server = serve::judged_server(asked, outcome);
  }
  return report;
}

Result<Exit> run_load_command(Context& context, const LoadFlags& flags) {
  auto options = TRY(load_options(context, flags));
  sim::ServingOptions simulated;
  simulated.duration = Seconds{static_cast<double>(options.duration) / sim::kNanosPerSecond};
  simulated.seed = flags.options.seed;
  const bool server = !flags.scenario.empty();
  if (!server && flags.services.empty())
    return bad_input("--services", "is required: what is sent to the server");
  const auto played =
      TRY(server ? server_services(flags, simulated) : played_services(context, flags, simulated));
  for (const plan::Service& service : played.problem.services) {
    options.patience = std::max(options.patience, patience_for(service));
    if (!service.tokens && !flags.openai.empty())
      return bad_input("--openai", fmt::format("service {} is no language model", service.name));
  }
  const auto predicted = TRY(prediction(context, flags, simulated));
  auto report = TRY(measured(context, flags, played, options));
  if (predicted) add_prediction(report, *predicted);
  for (const std::string& doubt : serve::load_doubts(report))
    complain(context, "warning: " + doubt);
  const auto content =
      TRY(wants_document(flags.output) ? document_as(flags.output, serve::load_report_json(report))
                                       : serve::load_report_text(report));
  TRY(deliver(context, flags.output, content));
  // Answered by nobody, which is no measurement of anything.
  if (const std::string silent = serve::silence(report); !silent.empty())
    return failed({ErrorCode::environment, silent, report.url});
  return held(context, flags, report);
}

}  // namespace

Command add_load(CLI::App& app) {
  auto [command, flags] = adding<LoadFlags>(
      app, "load", "Generate load on a server, and compare latencies with the simulator");
  takes(*command, "--url", flags->url, "--openai", flags->openai, "--connections",
        within(flags->options.connections, 1, serve::kMaxLoadConnections), "--first",
        flags->options.first_in_line, "--token-file", flags->token_file, "--tls-ca",
        flags->options.tls.ca_file, "--insecure", flags->options.tls.insecure, "--services",
        flags->services, "--arrivals", flags->traffic.arrivals, "--load",
        within(flags->traffic.load, 1e-6, 1e6), "--what-if", flags->traffic.what_if, "--duration",
        preset(flags->duration), "--plan", flags->plan, "--profiles", flags->profiles, "--scenario",
        word_from(flags->scenario, {"server"}), "--model", flags->model, "--target-qps",
        limited(flags->target_qps, 1e-3, 1e7), "--latency-bound", flags->latency_bound,
        "--min-requests", within(flags->min_requests, 1, 1e9), "--seed",
        seeded(flags->options.seed), "--require", limited(flags->require, 0, 1));
  return runs(
      command, flags, run_load_command, {"text", "json", "csv"},
      "partita load --url http://127.0.0.1:8080 --services services.yaml --require 0.99\n"
      "partita load --url ... --services services.yaml --plan plan.json --profiles profiles.csv\n"
      "partita load --openai http://127.0.0.1:8000 --services services.yaml --duration 5m\n"
      "partita load --url ... --scenario server --model mlp --target-qps 3000 --latency-bound "
      "15ms");
}

}  // namespace partita::cli
