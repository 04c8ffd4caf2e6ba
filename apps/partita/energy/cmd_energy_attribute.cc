#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>

#include "base/named_list.h"
#include "decide/energy.h"
#include "decide/energy_picture.h"
#include "commands.h"
#include "elsewhere.h"
#include "energy/live_log.h"
#include "flags.h"

namespace partita::cli {
namespace {

constexpr const char* kLive = "live";
constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

struct AttributionFlags {
  decide::EnergyQuestion question;
  std::string rule = "auto", idle = "slice", longest_gap;
  double idle_w = kUnset, batch_start = kUnset, carbon = kUnset, price = kUnset;
  std::vector<std::string> tenants;
  DeviceFlags device;  // of --telemetry live
  std::string duration = "60s", interval = "1s";
  Output output;
};

std::optional<double> given(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>{value};
}

// NAME=SERVICE,SERVICE
Result<void> add_owner(const std::string& text, std::map<std::string, std::string>& owners) {
  const auto tenant = parse_named_list("--tenant", text, "SERVICE");
  if (!tenant) return failed(tenant.error());
  for (const std::string& service : tenant->items)
    if (!owners.emplace(service, tenant->name).second)
      return bad_input("--tenant", fmt::format("service '{}' has two tenants", service));
  return {};
}

Result<decide::EnergyQuestion> question_of(const AttributionFlags& flags) {
  using energy::IdlePolicy;
  using energy::SplitRule;
  decide::EnergyQuestion question = flags.question;
  for (const SplitRule rule : {SplitRule::model, SplitRule::activity, SplitRule::slice,
                               SplitRule::kepler, SplitRule::equal})
    if (flags.rule == to_string(rule)) question.rule = rule;
  for (const IdlePolicy policy : {IdlePolicy::slice, IdlePolicy::equal, IdlePolicy::unassigned})
    if (flags.idle == to_string(policy)) question.idle = policy;
  question.idle_w = given(flags.idle_w);
  if (const auto start = given(flags.batch_start)) question.batch_start = Seconds{*start};
  question.co2_g_per_kwh = given(flags.carbon);
  question.price_per_kwh = given(flags.price);
  if (!flags.longest_gap.empty()) {
    const auto gap = parse_duration("--longest-gap", flags.longest_gap);
    if (!gap) return failed(gap.error());
    question.longest_gap = *gap;
  }
  for (const std::string& tenant : flags.tenants)
    if (auto ok = add_owner(tenant, question.owners); !ok) return failed(ok.error());
  return question;
}

Result<energy::EnergyReport> attributed(Context& context, const AttributionFlags& flags,
                                        const decide::EnergyQuestion& question) {
  if (question.telemetry != kLive) return decide::attribute_energy(context.files, question);
  const auto duration = parse_duration("--duration", flags.duration);
  if (!duration) return failed(duration.error());
  const auto interval = parse_duration("--interval", flags.interval);
  if (!interval) return failed(interval.error());
  const auto log = take_log(context, flags.device, *duration, *interval);
  if (!log) return failed(log.error());
  return decide::attribute_energy(context.files, *log, question);
}

Result<Exit> run_energy_attribute(Context& context, const AttributionFlags& flags) {
  const auto question = question_of(flags);
  if (!question) return failed(question.error());
  const auto report = attributed(context, flags, *question);
  if (!report) return failed(report.error());
  const std::string content = flags.output.format == "json"         ? energy::report_json(*report)
                              : flags.output.format == "prometheus" ? report_prometheus(*report)
                              : flags.output.format == "svg"        ? decide::energy_svg(*report)
                                                                    : report_text(*report);
  return finish(context, flags.output, content);
}

void add_inputs(CLI::App& command, AttributionFlags& flags) {
  command
      .add_option("--telemetry", flags.question.telemetry,
                  "A log of what the GPUs did, as `partita observe --record` writes it (or DCGM: "
                  "the exporter's text, rows of dcgmi dmon); live: watch this node now")
      ->type_name("FILE")
      ->required();
  command.add_option("--duration", flags.duration, "How long to watch, live")
      ->type_name("TIME")
      ->default_str(flags.duration);
  command.add_option("--interval", flags.interval, "Time between samples, live")
      ->type_name("TIME")
      ->default_str(flags.interval);
  command
      .add_option("--plan", flags.question.plan,
                  "Who is where: the Assignment of a state directory (exact), a ServingPlan, or a "
                  "BatchSchedule; without it every instance is a tenant")
      ->type_name("FILE");
  command
      .add_option("--state", flags.question.state,
                  "NodeState of `partita status --format json`: where the instances of a plan lie")
      ->type_name("FILE");
  command
      .add_option("--model", flags.question.model,
                  "EnergyModel of activity, as `partita energy fit --telemetry` makes it")
      ->type_name("FILE");
  command
      .add_option("--requests", flags.question.requests,
                  "Completed requests: a CSV service,requests[,from_s,to_s], or the gateway's "
                  "/metrics saved before and after (two files)")
      ->type_name("FILE")
      ->expected(1, 2);
  command
      .add_option("--batch-start", flags.batch_start,
                  "When a BatchSchedule began, on the log's clock; else at its first sample")
      ->type_name("SECONDS");
  command.add_option("--tenant", flags.tenants, "A tenant with several services; may be repeated")
      ->type_name("NAME=SERVICE,...");
}

void add_rules(CLI::App& command, AttributionFlags& flags) {
  one_of(command.add_option("--rule", flags.rule,
                            "What power above idle is split by: what a model expects; compute "
                            "slices x activity; slices; GR_ENGINE_ACTIVE as Kepler does; equally. "
                            "auto: model where there is one, else activity"),
         {"auto", "model", "activity", "slice", "kepler", "equal"})
      ->default_str(flags.rule);
  one_of(command.add_option("--idle", flags.idle,
                            "Who bears what a board takes without work: instances by their "
                            "compute slices, the tenants on it equally, or nobody"),
         {"slice", "equal", "unassigned"})
      ->default_str(flags.idle);
  within(command.add_option("--idle-w", flags.idle_w,
                            "Watts of a board without work; else the model's, else what the log "
                            "shows"),
         0, energy::kMaxBoardWatts)
      ->type_name("W");
  command
      .add_option("--longest-gap", flags.longest_gap,
                  "Samples further apart than this were not watched between: that energy is "
                  "nobody's. Else 10 times the usual distance")
      ->type_name("TIME");
  command.add_flag("--compare", flags.question.compare, "Show the other rules beside it");
  within(command.add_option("--carbon", flags.carbon, "Grams of CO2 per kWh"), 0, 1e5)
      ->type_name("G");
  within(command.add_option("--price", flags.price, "Money per kWh"), 0, 1e9)->type_name("MONEY");
}

}  // namespace

Command add_energy_attribute(CLI::App& energy) {
  CLI::App* command = energy.add_subcommand(
      "attribute", "Tell how many joules each tenant, service, task and request took");
  auto flags = std::make_shared<AttributionFlags>();
  add_inputs(*command, *flags);
  add_device_flags(*command, flags->device);
  add_rules(*command, *flags);
  add_output(*command, flags->output, {"text", "json", "prometheus", "svg"});
  command->footer(
      "partita energy attribute --telemetry log.jsonl --plan plan.json --carbon 380 --price 0.30\n"
      "partita energy attribute --telemetry log.jsonl --compare --format svg -o joules.svg\n"
      "partita energy attribute --telemetry live --duration 5m --plan state/assignment.json");
  return {command, [flags](Context& context) { return run_energy_attribute(context, *flags); }};
}

Command add_energy(CLI::App& app) {
  CLI::App* energy = app.add_subcommand(
      "energy", "Tell joules apart: what accesses cost, and what each tenant of a GPU took");
  energy->footer("partita energy attribute --telemetry log.jsonl --plan plan.json --compare");
  std::vector<Command> commands = add_elsewhere(*energy, "energy");
  commands.push_back(add_energy_attribute(*energy));
  return group_of(energy, std::move(commands));
}

}  // namespace partita::cli
