#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>

#include "base/named_list.h"
#include "commands.h"
#include "decide/energy.h"
#include "decide/energy_picture.h"
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
  flag(command, "--telemetry", flags.question.telemetry)->required();
  flag(command, "--duration", flags.duration)->default_str(flags.duration);
  flag(command, "--interval", flags.interval)->default_str(flags.interval);
  flag(command, "--plan", flags.question.plan);
  flag(command, "--state", flags.question.state);
  flag(command, "--model", flags.question.model);
  flag(command, "--request-counts", flags.question.requests)->expected(1, 2);
  flag(command, "--batch-start", flags.batch_start);
  flag(command, "--tenant", flags.tenants);
}

void add_rules(CLI::App& command, AttributionFlags& flags) {
  one_of(flag(command, "--rule", flags.rule),
         {"auto", "model", "activity", "slice", "kepler", "equal"})
      ->default_str(flags.rule);
  one_of(flag(command, "--idle", flags.idle), {"slice", "equal", "unassigned"})
      ->default_str(flags.idle);
  within(flag(command, "--idle-w", flags.idle_w), 0, energy::kMaxBoardWatts);
  flag(command, "--longest-gap", flags.longest_gap);
  flag(command, "--compare", flags.question.compare);
  within(flag(command, "--carbon", flags.carbon), 0, 1e5);
  within(flag(command, "--price", flags.price), 0, 1e9);
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
